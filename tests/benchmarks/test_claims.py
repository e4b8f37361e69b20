"""The checker of the figures in README.md and docs/: it finds them, and it can fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.claims import Claim, ClaimError, Command, Noise, check, read_claims, tables

from benchmarks import claims

COMMANDS, CLAIMS = read_claims()
PAGE = """# Page

It is **86.5 %** right,
where others reach 64.8 %.

## Speed

| work | faster | share |
| --- | ---: | ---: |
| **a** | 1,200 | 50 / 60 % |
| a, b | 3.0 | 7 / 8 % |

## Other
"""
OUTPUT = "| work | right | faster | share |\n| --- | --- | --- | --- |\n| a | 86.5 | 900 | 50 / 60 |\n"
OUTPUT += "| a, b (5 ms) | 64.8 | 2.9 | 7 / 8 |\n"
NOISES = {"decided": Noise("seeds"), "speed": Noise("processors", factor=2.0)}
SENTENCE = {
    "text": "**{} %** right, where others reach {} %",
    "figures": [["a", "right"], ["a, b", "right"]],
    "noise": "decided",
}
TABLE = {"section": ["## Speed"], "keys": 1, "columns": {"faster": "speed", "share": "decided"}}


def states(tmp_path, entry, output=OUTPUT, page=PAGE, **command):
    """Check a single claim whose command prints a text."""
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "print.py").write_text(f"print({output!r})")
    run = command.pop("run", f"python '{tmp_path / 'print.py'}'")
    commands = {"print": Command(run, command.pop("minutes", 1.0), **command)}
    rows = check(commands, [Claim("page.md", "print", entry, NOISES)], root=tmp_path)
    return [row[-1] for row in rows]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page}: {claim.title}")
def test_each_figure_is_on_its_page(claim):
    for line in claim.lines():
        assert 0 < len(line.committed) == len(line.sources) == len(line.noises)


def test_each_table_with_a_command_is_claimed():
    """Pages mark the tables that commands fill in."""
    claimed = {(claim.page, title) for claim in CLAIMS for title in claim.entry.get("section", ())}
    for page in (claims.ROOT / "docs").glob("*.md"):
        for mark in re.findall(r"^<!-- python .* -->$", page.read_text(), flags=re.M):
            assert (f"docs/{page.name}", mark) in claimed


def test_commands_exist_and_are_used():
    assert {claim.command for claim in CLAIMS} == set(COMMANDS)
    for command in COMMANDS.values():
        module = command.run.split()[2].replace(".", "/")
        assert any((claims.ROOT / f"{module}{end}").exists() for end in (".py", "/__main__.py")), command.run


def test_pages_that_quote_the_same_figure_agree():
    """Two claims with the same row, column and place of what a command prints have the same figure."""
    quoted = {}
    for claim in CLAIMS:
        for line in claim.lines():
            for figure, source in zip(line.committed, line.sources, strict=True):
                first = quoted.setdefault((claim.command, claim.entry.get("number"), *source), figure)
                assert figure == first, (claim.page, source)


def test_the_page_on_certificates_quotes_the_table_of_bounds():
    quoted, whole = (
        tables(text.partition(mark)[2])[0]
        for text, mark in [
            ((claims.ROOT / "docs/certificates.md").read_text(), "## How tight"),
            (
                (claims.ROOT / "docs/dsa.md").read_text(),
                "<!-- python -m benchmarks.dsa --rows certificates -->",
            ),
        ]
    )
    for row in quoted.rows:
        assert row == row[:3] + [whole.cell(row[:3], column) for column in quoted.header[3:]]


def test_what_is_as_committed_is_ok(tmp_path):
    assert states(tmp_path, SENTENCE) == ["ok"]
    assert states(tmp_path, TABLE) == ["ok", "ok"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("| 900 |", "| 590 |", ["moved", "ok"]),  # slower by more than a factor of 2
        ("| 900 |", "| 2,500 |", ["moved", "ok"]),
        ("50 / 60", "50 / 61", ["moved", "ok"]),
        ("50 / 60", "50.4 / 60.4", ["ok", "ok"]),  # the page has fewer digits
    ],
)
def test_a_figure_that_has_moved_is_found(tmp_path, old, new, expected):
    assert states(tmp_path, TABLE, OUTPUT.replace(old, new)) == expected


def test_what_is_gone_counts_as_moved(tmp_path):
    assert states(tmp_path, SENTENCE, page=PAGE.replace("others", "they"))[0].startswith(
        "moved: page.md has 0"
    )
    assert states(tmp_path, TABLE, page=PAGE.replace("## Speed", "## Time"))[0].startswith(
        "moved: page.md has 0"
    )
    assert states(tmp_path, TABLE, OUTPUT.replace("| a, b", "| c"))[1].startswith(
        "moved: the command prints no"
    )
    assert states(tmp_path, {**TABLE, "rows": "nothing"})[0].startswith("moved: page.md has no such row")
    failing = states(tmp_path, TABLE, run="python -c 'raise SystemExit(\"no way\")'")
    assert "failed: no way" in failing[0]


def test_what_cannot_be_measured_here_is_said(tmp_path):
    assert states(tmp_path, TABLE, data=("traffic",)) == ["not checked: needs traffic in DATA"]
    assert states(tmp_path, TABLE, packages=("no_such_package",))[0].startswith(
        "not checked: needs no_such_package"
    )
    (state,) = states(tmp_path, TABLE, minutes=90.0)
    assert state.startswith("not checked: takes 90 processor minutes; LONG=1, or run `python")


def test_wall_time_is_not_measured_on_a_busy_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "_processor_share", lambda: 0.4)
    assert states(tmp_path, TABLE) == ["ok", "ok"]
    assert states(tmp_path, TABLE, wall=True)[0].startswith("not checked: measures wall time")
    monkeypatch.setattr(claims, "_processor_share", lambda: 1.0)
    assert states(tmp_path, TABLE, wall=True) == ["ok", "ok"]


def test_data_are_given_by_their_folder(tmp_path):
    (tmp_path / "traffic").mkdir()
    command = Command(
        "python -c 'import sys; print(sys.argv[1:])' DATA DATA/traffic CACHE", 1.0, ("traffic",)
    )
    assert not command.obstacle(tmp_path, long=False)
    assert command.output(tmp_path, Path("cache")) == f"{[str(tmp_path), f'{tmp_path}/traffic', 'cache']}\n"


def test_the_exit_code_says_whether_a_figure_has_moved(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "print.py").write_text("import sys; print(open(sys.argv[1]).read())")
    measured = tmp_path / "measured.md"
    file = tmp_path / "claims.toml"
    file.write_text(
        f"""
        [noise.decided]
        why = "seeds"
        [command.print]
        run = "python {tmp_path}/print.py {measured}"
        minutes = 1
        [[claim]]
        page = "{tmp_path}/page.md"
        text = "**{{}} %** right"
        figures = [["a", "right"]]
        command = "print"
        noise = "decided"
        """
    )
    monkeypatch.setattr(claims, "read_claims", lambda: read_claims(file))
    measured.write_text(OUTPUT)
    assert claims.main([]) == 0
    measured.write_text(OUTPUT.replace("86.5", "86.2"))
    assert claims.main([]) == 1
    assert "0 ok, 1 moved, 0 not checked" in capsys.readouterr().out


def test_noise():
    assert Noise("").allows("86.5", "86.5")
    assert not Noise("").allows("86.5", "86.4")
    assert Noise("", within=0.2).allows("86.5", "86.4")
    assert Noise("").allows("2.0e-01", "0.204")
    assert Noise("", factor=2.0).allows("2,473", "1,300")
    assert not Noise("", factor=2.0).allows("2,473", "1,200")
    assert not Noise("", factor=2.0).allows("100", "0")


def test_tables_of_a_page():
    first, second = tables(f"{PAGE}\ntext | with a bar\n{OUTPUT}")
    assert first.header == ["work", "faster", "share"]
    assert first.cell(["a"], "share") == "50 / 60 %"
    assert first.cell(["a,"], "share") == "7 / 8 %"
    assert first.cell(["c"], "share") is None
    assert second.cell(["a, b"], "right") == "64.8"


def test_a_text_must_have_as_many_figures_as_its_list():
    with pytest.raises(ClaimError, match="2 figures, its list 1"):
        Claim("x", "y", {**SENTENCE, "figures": [["a", "right"]]}, NOISES)._sentence(PAGE)
