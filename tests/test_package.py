"""The package as a stranger meets it: import, public names, README, and the documents that name functions."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sysbags
from conftest import SLOW

ROOT = Path(__file__).parents[1]
# Examples that take longer than a few seconds, in a smaller form.
SMALL = {
    "attractors": ["--per-kind", "3"],
    "lorenz_coordinates": ["--repeats", "2", "--steps", "300"],
    "recurrent_networks": ["--per-task", "2", "--iterations", "10"],
}
HEAVY = ("numba", "sklearn", "scipy", "matplotlib", "joblib", "rich", "av", "cv2", "torch", "typer", "jinja2")


def test_import_is_light():
    code = f"import sys, sysbags; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_evaluation_loads_no_comparators():
    code = """
import sys, sysbags
streams, labels = sysbags.datasets.make_streams(classes=2, per_class=3, frames=12, bins=8)
settings = sysbags.evaluate.Settings(order=2, lambda_a=0.25, lambda_mu=0.0)
sysbags.evaluate.evaluate(streams, labels, methods=["nearest-system"], settings=settings)
research = ("sysbags.comparators", "sysbags.reproduce", "sysbags.dsa")
print([name for name in sys.modules if name.startswith(research)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["[]"]), done.stderr


@pytest.mark.parametrize("name", sysbags.__all__)
def test_public_names_resolve(name):
    obj = getattr(sysbags, name)
    assert obj.__doc__
    assert name in dir(sysbags)


def test_public_names_are_where_they_say():
    for name, home in sysbags._MODULES.items():
        module = importlib.import_module(home)
        assert getattr(sysbags, name) is getattr(module, name)


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'sysbags' has no attribute 'aligns'"):
        _ = sysbags.aligns


@pytest.mark.parametrize("example", sorted(path.stem for path in (ROOT / "examples").glob("*.py")))
def test_examples_draw_their_picture(example, tmp_path, capsys):
    module = importlib.import_module(example)
    picture = tmp_path / "picture.png"
    assert not module.main([*SMALL.get(example, []), str(picture)])
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out
    assert (ROOT / "docs" / "images" / f"{example}.png").exists()


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page):
    path = ROOT / page
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text())
    for link in links:
        # Pages of the gallery are made from scripts.
        script = re.sub(r"^gallery/(.*)\.rst$", r"../examples/\1.py", link)
        script = re.sub(r"^tutorials/(.*)\.rst$", r"../tutorials/\1.py", script)
        if not link.startswith("http"):
            assert (path.parent / script).exists(), link


def test_equations_name_only_what_exists():
    text = (ROOT / "docs" / "equations.md").read_text()
    names = re.findall(r"`(sysbags\.[A-Za-z_.]+)`", text)
    assert len(names) > 30
    for name in names:
        _resolve(name)


def test_equations_cover_the_labels():
    text = (ROOT / "docs" / "equations.md").read_text()
    for label in LABELS.split():
        assert f"`{label}`" in text, label


def test_errata_name_only_tests_that_exist():
    rows = re.findall(r"^\| (?!in the paper|---).*\|$", (ROOT / "docs" / "errata.md").read_text(), flags=re.M)
    assert len(rows) > 25
    for row in rows:
        tests = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
        assert tests or "no test" in row, row
        for file, test in tests:
            files = list((ROOT / "tests").rglob(file))
            assert any(f"def {test}(" in path.read_text() for path in files), f"{file}::{test}"


@pytest.mark.parametrize("word", ["centroid", "kernel machine", "NCC", "told apart", "a folder a class"])
def test_the_glossary_is_kept(word):
    """One concept has one name: nearest mean, kernel ridge, cross-validated accuracy."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        assert word not in path.read_text(), path.name


def test_contributing_names_only_what_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = re.findall(r"`((?:src/sysbags/|tests/)?[a-z_]+/[a-z_/]+\.py)`", text)
    assert len(files) > 15
    for file in files:
        assert (ROOT / file).exists() or (ROOT / "src" / "sysbags" / file).exists(), file
    for name, file in re.findall(r"`([A-Za-z_]+)`[^`]{0,40} in\s+`([a-z_/]+\.py)`", text):
        home = next(folder for folder in (ROOT, ROOT / "src" / "sysbags") if (folder / file).exists())
        assert re.search(rf"\b{name}\b", (home / file).read_text()), f"{name} in {file}"


def test_slow_tests_exist():
    for entry in SLOW:
        file, _, name = entry.partition("::")
        assert (ROOT / file).exists(), entry
        assert not name or f"def {name}(" in (ROOT / file).read_text(), entry


def test_source_labels_are_mapped():
    """Every equation that a docstring names is in the table."""
    text = (ROOT / "docs" / "equations.md").read_text()
    for source in (ROOT / "src" / "sysbags").rglob("*.py"):
        for label in re.findall(r"\beq:\w+", source.read_text()):
            assert f"`{label}`" in text, f"{label} in {source.name}"


def _resolve(name):
    """The object of a dotted name: a module, what is in it, or an attribute or field of that."""
    parts = name.split(".")
    obj, remaining = sysbags, parts[1:]
    while remaining:
        try:
            obj = importlib.import_module(f"{obj.__name__}.{remaining[0]}")
        except (ImportError, AttributeError):
            break
        remaining = remaining[1:]
    for part in remaining:
        fields = getattr(obj, "__dataclass_fields__", {})
        if not hasattr(obj, part) and part in fields:
            return fields[part]
        obj = getattr(obj, part)
    return obj


LABELS = """eq:LDS eq:chi eq:KLDS eq:KLDS_rewritten alg:llama eq:frobDist eq:tau eq:P_tran eq:sym eq:tau_smpl
eq:equi_class eq:d_o eq:rho_max eq:qprod eq:c_s_cond alg:alpaca eq:jacobi_eq eq:polynom thm:accu eq:klds_avg
eq:fopt eq:tropt1 eq:Y_avg eq:a_alpha eq:b_beta eq:tropt3 eq:tropt4 eq:beta_avg eq:a_avg eq:K_evd eq:trpr
eq:TILDE_svd eq:projected_alpha alg:vicuna"""
