"""Pages that are made: public names, commands, and the files beside the docs, such as the changelog."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main
from sphinx.application import Sphinx

from sysbags.cli import app as program

PACKAGES = {
    "sysbags": "Systems, distances, means, classifiers and model files",
    "sysbags.bags": "Bags: from frames to histograms",
    "sysbags.evaluate": "Cross-validated accuracies, and the training of models",
    "sysbags.watch": "Windows, phases and events of long videos",
    "sysbags.library": "Libraries of clips, search and embeddings",
    "sysbags.dsa": "Dynamical similarity analysis",
    "sysbags.statistics": "Tests and intervals from matrices of distances",
    "sysbags.classifiers": "Classifiers",
    "sysbags.means": "Means and medoids",
    "sysbags.kernels": "Kernels between histograms",
    "sysbags.comparators": "Other people's methods",
    "sysbags.datasets": "Generated data, and folders of clips",
    "sysbags.video": "Frames of videos",
    "sysbags.storage": "Model files",
    "sysbags.errors": "Errors and warnings",
}
FILES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SUPPORT.md": "support.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
MADE = {"api", "commands"}
EVERYWHERE = {"install_completion", "show_completion", "help"}


def api_page() -> Iterator[str]:
    """Return the lines of the page with every public name; names of `sysbags` itself are listed once."""
    yield from _heading("API reference", "=")
    yield from ["Every public name; its page has an example. Distances are squared.", ""]
    listed: set[str] = set()
    for package, title in PACKAGES.items():
        module = import_module(package)
        names = {name: getattr(module, name) for name in module.__all__ if name not in listed}
        if package == "sysbags":
            listed.update(name for name, obj in names.items() if not inspect.ismodule(obj))
        documented = [name for name, obj in names.items() if inspect.isclass(obj) or inspect.isroutine(obj)]
        yield from _heading(title, "-")
        yield from [f".. currentmodule:: {package}", "", ".. autosummary::", "   :toctree: api"]
        yield from [
            "   :nosignatures:",
            "",
            *(f"   {name}" for name in sorted(documented, key=str.lower)),
            "",
        ]
        for name, value in names.items():
            if name not in documented and not inspect.ismodule(value):
                entries = value if isinstance(value, (tuple, list, dict, frozenset)) else [value]
                yield from [f"``{package}.{name}``: {', '.join(f'``{entry}``' for entry in entries)}", ""]


def command_page() -> Iterator[str]:
    """Return the lines of the page with all commands, arguments and options."""
    yield from _heading("Commands", "=")
    yield from [
        "``sysbags COMMAND --help`` prints the same as this page, which is made from the program.",
        "",
    ]
    for path, command in _commands(typer.main.get_command(program), "sysbags"):
        yield from _heading(path, "-" if path.count(" ") < 2 else "~")
        context = command.make_context(path, [], resilient_parsing=True)
        usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
        yield from [".. code-block:: text", "", f"   {usage}", ""]
        yield from _help(command.help or "")
        panels: dict[str, list[str]] = {}
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and parameter.name not in EVERYWHERE:
                usual = f"{parameter.param_type_name.title()}s"
                entries = panels.setdefault(getattr(parameter, "rich_help_panel", None) or usual, [])
                name = re.sub(r" <list\[\w+\]>", "", record[0])  # Typer's type of what can be repeated
                entries += [f"``{name}``", f"   {_escaped(' '.join(record[1].split()))}", ""]
        for panel, entries in panels.items():
            yield from [f".. rubric:: {_escaped(panel)}", "", *entries]


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Return each command with its name, those of groups after the group."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


def _help(text: str) -> Iterator[str]:
    """Return the paragraphs of a help text; that with the example is shown as code."""
    for paragraph in text.split("\n\n"):
        words = " ".join(paragraph.split())
        if words.startswith("Example: "):
            steps = words.removeprefix("Example: ").split(", then ")
            yield from [".. code-block:: console", "", *(f"   $ {step}" for step in steps), ""]
        else:
            yield from [_escaped(words), ""]


def _heading(title: str, mark: str) -> list[str]:
    return [title, mark * len(title), ""]


def _escaped(text: str) -> str:
    """Return text in which no character is markup, but for backquotes, which mark code."""
    for character in "\\*|_":
        text = text.replace(character, f"\\{character}")
    return text.replace("`", "``")


def file_page(text: str) -> str:
    """Return the text of a file beside the docs with links that hold inside them."""

    def inside(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2]
        page = FILES.get(target) or (target.removeprefix("docs/") if "docs/" in target else f"../{target}")
        return f"]({page}{anchor or ''})"

    return re.sub(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)", inside, text)


def write_pages(app: Sphinx, config: Any) -> None:
    """Write the pages that have changed, before Sphinx looks which pages there are."""
    docs = Path(app.srcdir)
    pages = {"api.rst": "\n".join(api_page()), "commands.rst": "\n".join(command_page())}
    for file, page in FILES.items():
        if file != "README.md":
            pages[page] = file_page((docs.parent / file).read_text())
    for name, text in pages.items():
        path = docs / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def public_homes() -> dict[str, str]:
    """Return the public names, each with the first package that has it."""
    homes: dict[str, str] = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                homes.setdefault(name, package)
    return homes


def link_to_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links be the titles of pages instead of names of files, and public names lead to their pages."""
    if name in MADE:
        return
    text = source[0]
    for file, page in FILES.items():
        text = text.replace(f"](../{file}", f"]({page}")
    text = re.sub(r"\[[\w-]+\.md\](\([\w-]+\.md(?:#[\w-]+)?\))", r"[]\1", text)
    homes = public_homes()

    def linked(code: re.Match[str]) -> str:
        package, _, last = code[1].rpartition(".")
        is_public = package in PACKAGES and last in import_module(package).__all__
        return f"{{py:obj}}`{homes.get(last, package)}.{last}`" if is_public else code[0]

    source[0] = re.sub(r"(?<!`)`(sysbags(?:\.\w+)+)`(?!`)", linked, text)


def import_names(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Begin an example with the imports of the names that its module has, as a reader needs them."""
    first = next((k for k, line in enumerate(lines) if line.lstrip().startswith(">>>")), None)
    module = sys.modules.get(getattr(obj, "__module__", ""))
    if first is None or module is None:
        return
    examples = doctest.DocTestParser().get_examples("\n".join(lines))
    nodes = list(ast.walk(ast.parse("".join(example.source for example in examples))))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    made = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            made.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made.add(node.name)
    homes, indent = public_homes(), lines[first][: -len(lines[first].lstrip())]
    added = []
    for word in sorted(used - made):
        value = getattr(module, word, None)
        if inspect.ismodule(value):
            added.append(f"import {value.__name__} as {word}".removesuffix(f" as {value.__name__}"))
        elif value is not None and not hasattr(builtins, word):
            home = homes.get(word) or getattr(value, "__module__", module.__name__)
            added.append(f"from {home} import {word}")
    lines[first:first] = [f"{indent}>>> {line}" for line in added]


def skip_inherited(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class inherits from other packages, such as scikit-learn."""
    function = getattr(obj, "fget", None) or getattr(obj, "func", None) or inspect.unwrap(obj)
    home = getattr(function, "__module__", None) or "sysbags"
    return None if home.startswith("sysbags") else True


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the pages."""
    app.connect("config-inited", write_pages)
    app.connect("source-read", link_to_pages)
    app.connect("autodoc-process-docstring", import_names, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", skip_inherited)
    return {"parallel_read_safe": True}
