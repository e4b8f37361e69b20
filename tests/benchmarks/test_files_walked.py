"""The counter of files and changes of file, on a package of three files."""

from __future__ import annotations

import sys

from benchmarks.files_walked import walk

FILES = {
    "__init__": "",
    "first": "from walked.second import numbers, double\n"
    "def work():\n    return [double(k) for k in numbers()]",
    "second": "from walked.third import add\n"
    "def double(k):\n    return add(k, k)\n"
    "def numbers():\n    yield 1\n    yield 2\n"
    "double(3)",  # while it is imported: not counted
    "third": "def add(a, b):\n    return sum(map(check, (a, b)))\ndef check(k):\n    return k",
}


def test_pairs_of_functions_in_different_files_are_counted_once_and_imports_are_not(tmp_path, monkeypatch):
    folder = tmp_path / "walked"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    results = []

    def work():
        from walked.first import work

        results.append(work())

    try:
        found = walk(work, f"{folder}/")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "walked"]:
            del sys.modules[name]
    assert results == [[2, 4]]
    assert found.files == {"first.py", "second.py", "third.py"}
    calls = {(caller.split(":")[1].split(".")[0], called) for caller, called in found.changes}
    assert calls == {
        ("work", "second.py:double"),
        ("work", "second.py:numbers"),
        ("double", "third.py:add"),
    }
