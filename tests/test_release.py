"""What a release must agree on: one version everywhere, and files that say what is true of the build."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import sysbags

ROOT = Path(__file__).parents[1]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_there_is_one_version():
    """Written in one file, from which the build takes it; the other two are for people."""
    assert version("sysbags") == sysbags.__version__
    assert f"\nversion: {sysbags.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert newest
    assert newest[1] == sysbags.__version__


def test_the_source_distribution_has_what_the_tests_read():
    for name in BUILD["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]:
        assert (ROOT / name).exists(), name


def test_pythons_are_those_that_were_run():
    """SUPPORT.md names the versions with which a release is tried; the classifiers are no others."""
    classifiers = BUILD["project"]["classifiers"]
    claimed = [match[1] for text in classifiers if (match := re.fullmatch(r".*Python :: (3\.\d+)", text))]
    row = re.search(r"^\| Python \| (.+) \|$", (ROOT / "SUPPORT.md").read_text(), flags=re.M)
    assert row
    assert re.findall(r"3\.\d+", row[1]) == claimed
    assert BUILD["project"]["requires-python"] == f">={claimed[0]}"


@pytest.mark.parametrize("extra", BUILD["project"]["optional-dependencies"])
def test_extras_are_explained(extra):
    assert f"\n| `{extra}` |" in (ROOT / "docs" / "installation.md").read_text()


@pytest.mark.parametrize("check", BUILD["tool"]["repo-review"]["ignore"])
def test_checks_that_are_left_out_are_answered(check):
    assert re.search(rf"^\| .*`{check}`", (ROOT / "docs" / "releasing.md").read_text(), flags=re.M)
