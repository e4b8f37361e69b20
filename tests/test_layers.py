"""Packages as a reader of the tree expects them: no package uses what another one keeps to itself."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "sysbags"


def private_names(path):
    """Where a file takes a private name from another package."""
    own_package = path.relative_to(SOURCE).parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sysbags."):
            package, *modules = node.module.split(".")[1:]
            for name in [*modules, *(alias.name for alias in node.names)]:
                if package != own_package and name.startswith("_") and not name.startswith("__"):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno} takes {name} from {package}"


def test_no_private_name_crosses_a_package():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    assert not [text for path in files for text in private_names(path)]
