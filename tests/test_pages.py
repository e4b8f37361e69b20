"""README and the pages in docs: their Python blocks run, one after the other, and print what they say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", flags=re.DOTALL | re.MULTILINE)
YOUR_OWN = {"docs/export.md", "docs/timeline.md", "docs/watch.md"}  # they read files or a camera of the user
# Blocks with these words are left out where the package is not installed.
OPTIONAL = {"from DSA import": "DSA", "theirs": "DSA", "distributed": "distributed"}


def blocks(page):
    missing = [words for words, package in OPTIONAL.items() if not importlib.util.find_spec(package)]
    found = [dedent(block) for block in BLOCK.findall((ROOT / page).read_text())]
    return [block for block in found if not any(words in block for words in missing)]


DOCS = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
PAGES = [page for page in ("README.md", *DOCS) if page not in YOUR_OWN and blocks(page)]


def test_pages_are_found():
    assert {"README.md", "docs/choose-a-metric.md", "docs/coming-from-dsa.md", "docs/means.md"} < set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_is_printed(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "".join(blocks(page))
    exec(compile(code, page, "exec"), {})
    printed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert printed == [line.split("  # ", 1)[1] for line in code.splitlines() if line.startswith("print(")]
