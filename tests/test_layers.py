"""Packages as a reader of the tree expects them: no package uses what another one keeps to itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sysbags"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_no_private_name_crosses_a_package(path):
    own_package = path.relative_to(SOURCE).parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sysbags."):
            package, *modules = node.module.split(".")[1:]
            if package != own_package:
                names = [*modules, *(alias.name for alias in node.names)]
                private = [name for name in names if name.startswith("_") and not name.startswith("__")]
                assert not private, f"line {node.lineno} takes {private} from {package}"
