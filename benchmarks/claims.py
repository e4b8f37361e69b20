"""Are the figures in README.md and docs/ still true?

`python -m benchmarks.claims [--data DATA] [--long] [--only WORD ...]`, or `make results DATA=...`, runs the
commands of benchmarks/claims.toml and prints what the pages say beside what was measured. It ends with
exit code 1 if a figure has moved by more than its noise, or is no longer on its page.

DATA holds wild-scenes/, traffic/, gait-speed/ and sounds/esc10.npz. Claims whose data or packages are
missing are listed as not checked, and so are commands that take longer than ten processor minutes, unless
--long is given. The figures themselves are not in claims.toml: they are read from the page, so that there is
only one place to correct.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import command_parser

__all__ = [
    "CLAIMS",
    "Claim",
    "Command",
    "Line",
    "Markdown",
    "Noise",
    "check",
    "main",
    "read_claims",
    "tables",
]

ROOT = Path(__file__).parents[1]
CLAIMS = Path(__file__).with_suffix(".toml")
LONG_MINUTES = 10.0
Source = tuple[tuple[str, ...], str, int]  # the label of a row, the column, the place in the cell
Row = tuple[str, str, str, str, str, str]
FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?"


class ClaimError(Exception):
    """A page has not what claims.toml says, or a command does not print it."""


@dataclass(frozen=True)
class Noise:
    """How far a figure may move: by an amount, or by a factor, beyond the digits that the page shows."""

    why: str
    within: float = 0.0
    factor: float = 1.0

    def allows(self, committed: str, measured: str) -> bool:
        """Whether the two differ by noise."""
        first, second = (float(text.replace(",", "")) for text in (committed, measured))
        mantissa, _, exponent = committed.partition("e")
        digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
        rounding = 0.5 * 10.0**-digits * (1.0 + 1e-9)
        if abs(first - second) <= self.within + rounding:
            return True
        return min(first, second) > 0.0 and abs(math.log(second / first)) <= math.log(self.factor)

    def __str__(self) -> str:
        if self.factor > 1.0:
            return f"factor {self.factor:g}"
        return f"± {self.within:g}" if self.within else "as printed"


@dataclass(frozen=True)
class Command:
    """A benchmark that prints Markdown tables, what it needs, and how many processor minutes it takes."""

    run: str
    minutes: float
    data: Sequence[str] = ()
    packages: Sequence[str] = ()
    wall: bool = False  # whether it measures the wall's time, which other programs lengthen

    def obstacle(self, data: Path | None, long: bool) -> str:
        """Why it is not run here, in words; empty if it is."""
        if missing := [name for name in self.data if data is None or not (data / name).exists()]:
            return f"needs {', '.join(missing)} in DATA"
        if missing := [name for name in self.packages if importlib.util.find_spec(name) is None]:
            return f"needs {', '.join(missing)}: pip install '.[bench]'"
        if self.minutes > LONG_MINUTES and not long:
            return f"takes {self.minutes:g} processor minutes; LONG=1, or run `{self.run}`"
        if self.wall and _processor_share() < 0.9:
            return f"measures wall time, and other programs run on this machine; run `{self.run}`"
        return ""

    def output(self, data: Path | None, cache: Path) -> str:
        """Run it, and return what it prints."""
        words = {"python": sys.executable, "CACHE": str(cache), "DATA": str(data)}
        arguments = [words.get(word, word.replace("DATA/", f"{data}/")) for word in shlex.split(self.run)]
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise ClaimError(f"`{self.run}` failed: {(done.stderr.splitlines() or ['no message'])[-1]}")
        return done.stdout


@dataclass(frozen=True)
class Markdown:
    """A table of Markdown: the cells of its header and of its rows, without emphasis."""

    header: list[str]
    rows: list[list[str]]

    def cell(self, label: Sequence[str], column: str) -> str | None:
        """The cell of the row with this label; if there is none, of the only one that begins with it."""
        if column not in self.header:
            return None
        found = [row for row in self.rows if row[: len(label)] == list(label)] or [
            row
            for row in self.rows
            if all(cell.startswith(text) for cell, text in zip(row, label, strict=False))
        ]
        return found[0][self.header.index(column)] if len(found) == 1 else None


def tables(text: str) -> list[Markdown]:
    r"""All tables of a text.

    >>> tables("| a | b |\n| --- | ---: |\n| **x** | 1 |")
    [Markdown(header=['a', 'b'], rows=[['x', '1']])]
    """
    found: list[Markdown] = []
    previous: list[str] | None = None
    for line in text.splitlines():
        if not re.fullmatch(r"\|.*\|\s*", line):
            previous = None
            continue
        cells = [cell.strip().replace("*", "").replace("`", "") for cell in line.strip()[1:-1].split(" | ")]
        if previous is not None and all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            found.append(Markdown(previous, []))
        elif previous is not None and found:
            found[-1].rows.append(cells)
        previous = cells
    return found


@dataclass(frozen=True)
class Line:
    """One line of the output: figures of a page, and where each is in what the command prints."""

    name: str
    committed: tuple[str, ...]
    sources: tuple[Source, ...]
    noises: tuple[Noise, ...]

    def measured(self, printed: Sequence[Markdown]) -> tuple[str, ...]:
        """Return the same figures in the tables that a command printed."""
        figures = []
        for label, column, place in self.sources:
            cells = [cell for table in printed if (cell := table.cell(label, column)) is not None]
            found = re.findall(FIGURE, cells[0]) if cells else []
            if place > len(found):
                raise ClaimError(f"the command prints no figure {place} for {' | '.join(label)}, {column}")
            figures.append(found[place - 1])
        return tuple(figures)

    def moved(self, measured: Sequence[str]) -> bool:
        """Whether a figure has moved by more than its noise."""
        pairs = zip(self.noises, self.committed, measured, strict=True)
        return not all(noise.allows(old, new) for noise, old, new in pairs)


@dataclass(frozen=True)
class Claim:
    """Figures on a page, either in a sentence or in a table, and the command that measures them."""

    page: str
    command: str
    entry: dict[str, Any]
    noises: dict[str, Noise]

    @property
    def title(self) -> str:
        """Where it is on the page, in words."""
        if "text" not in self.entry:
            return str((self.entry.get("section") or ["its beginning"])[-1])
        words = self.entry.get("name", self.entry["text"])
        return " ".join(re.sub(r"[|*`]", "", words).replace("{}", "...").split())

    def lines(self, root: Path = ROOT) -> list[Line]:
        """Find the figures on the page."""
        text = (root / self.page).read_text()
        for title in self.entry.get("section", ()):
            text = _section(text, title, self.page)
        return [self._sentence(text)] if "text" in self.entry else list(self._table(text))

    def printed(self, output: str) -> list[Markdown]:
        """Return the tables of the output that are meant: all, or the one with a number."""
        found = tables(output)
        number = self.entry.get("number")
        return found if number is None else found[number - 1 : number]

    def _sentence(self, text: str) -> Line:
        """Match a text in which {} stands for a figure; a space matches line breaks, too."""
        words = self.entry["text"]
        pattern = re.escape(words).replace(r"\{\}", f"({FIGURE})").replace(r"\{_\}", FIGURE)
        pattern = pattern.replace(r"\ ", r"\s+")
        found = re.findall(pattern, text)
        if len(found) != 1:
            raise ClaimError(f"{self.page} has {len(found)} times, and not once: {words}")
        figures = (found[0],) if isinstance(found[0], str) else found[0]
        sources = tuple(
            (tuple(label.split(" | ")), column, place[0] if place else 1)
            for label, column, *place in self.entry["figures"]
        )
        if len(sources) != len(figures):
            raise ClaimError(f"the text has {len(figures)} figures, its list {len(sources)}: {words}")
        noises = (self.noises[self.entry["noise"]],) * len(figures)
        return Line(self.title, figures, sources, noises)

    def _table(self, text: str) -> Iterator[Line]:
        """Take the rows whose labels match; columns without noise are not compared."""
        found, place = tables(text), self.entry.get("table", 1)
        if len(found) < place:
            raise ClaimError(f"{self.page} has no table {place} after {self.title}")
        table = found[place - 1]
        keys, rows = self.entry["keys"], re.compile(self.entry.get("rows", ""))
        columns = self.entry.get("columns", dict.fromkeys(table.header[keys:], self.entry.get("noise")))
        if missing := set(columns) - set(table.header):
            raise ClaimError(f"{self.page} has no column {', '.join(missing)} after {self.title}")
        count = 0
        for row in table.rows:
            label = tuple(row[:keys])
            if not rows.search(" | ".join(label)):
                continue
            cells = [
                (figure, (label, column, place), self.noises[noise])
                for column, noise in columns.items()
                for place, figure in enumerate(re.findall(FIGURE, row[table.header.index(column)]), start=1)
            ]
            if cells:
                count += 1
                yield Line(", ".join(label), *(tuple(part) for part in zip(*cells, strict=True)))
        if not count:
            raise ClaimError(f"{self.page} has no such row after {self.title}: {rows.pattern}")


def _section(text: str, title: str, page: str) -> str:
    """Return what follows a heading, up to the next of its level, or a comment, up to the comment "end"."""
    parts = re.split(rf"^{re.escape(title)}$", text, flags=re.M)
    if len(parts) != 2:
        raise ClaimError(f"{page} has {len(parts) - 1} times, and not once, the line: {title}")
    level = len(title) - len(title.lstrip("#")) or 6
    end = "<!-- end -->" if title.startswith("<!--") else rf"^#{{1,{level}}} "
    return re.split(end, parts[1], maxsplit=1, flags=re.M)[0]


def read_claims(file: Path = CLAIMS) -> tuple[dict[str, Command], list[Claim]]:
    """Read the commands and claims of a file."""
    read = tomllib.loads(file.read_text())
    commands = {name: Command(**entry) for name, entry in read["command"].items()}
    noises = {name: Noise(**entry) for name, entry in read["noise"].items()}
    claims = [
        Claim(page, entry["command"], entry, noises)
        for entry in read["claim"]
        for page in ([entry["page"]] if isinstance(entry["page"], str) else entry["page"])
    ]
    return commands, claims


def check(
    commands: dict[str, Command],
    claims: Sequence[Claim],
    data: Path | None = None,
    long: bool = False,
    root: Path = ROOT,
) -> Iterator[Row]:
    """Compare all claims: what, page, committed, measured, allowed, and "ok", "moved" or "not checked"."""
    with tempfile.TemporaryDirectory() as cache:

        @functools.cache
        def output(name: str) -> str | ClaimError:
            started, spent = time.perf_counter(), _processor_seconds()
            try:
                return commands[name].output(data, Path(cache))
            except ClaimError as error:
                return error
            finally:
                wall, processor = time.perf_counter() - started, _processor_seconds() - spent
                print(f"{name}: {wall:.0f} s, {processor / 60:.1f} processor minutes", file=sys.stderr)

        for claim in claims:
            try:
                lines = claim.lines(root)
            except ClaimError as error:
                yield claim.title, claim.page, "", "", "", f"moved: {error}"
                continue
            if obstacle := commands[claim.command].obstacle(data, long):
                rows = "" if len(lines) == 1 else f"{len(lines)} rows after "
                yield f"{rows}{claim.title}", claim.page, "", "", "", f"not checked: {obstacle}"
                continue
            text = output(claim.command)
            for line in lines:
                yield _checked(line, claim, text)


def _checked(line: Line, claim: Claim, text: str | ClaimError) -> Row:
    """Compare one line with what its command printed."""
    allowed = ", ".join(dict.fromkeys(map(str, line.noises)))
    committed = " ".join(line.committed)
    try:
        if isinstance(text, ClaimError):
            raise text
        measured = line.measured(claim.printed(text))
    except ClaimError as error:
        return line.name, claim.page, committed, "", allowed, f"moved: {error}"
    state = "moved" if line.moved(measured) else "ok"
    return line.name, claim.page, committed, " ".join(measured), allowed, state


def _processor_share(seconds: float = 0.5) -> float:
    """The share of a processor that this process gets when it wants a whole one."""
    started, spent = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        pass
    return (time.process_time() - spent) / (time.perf_counter() - started)


def _processor_seconds() -> float:
    """What all commands so far have used."""
    times = os.times()
    return times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code is 1 if anything has moved."""
    parser = command_parser("python -m benchmarks.claims", __doc__)
    parser.add_argument("--data", type=Path, help="the folder of real data")
    parser.add_argument("--long", action="store_true", help="run what takes longer than ten minutes, too")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="commands or pages whose name has a word")
    given = parser.parse_args(arguments)
    commands, claims = read_claims()
    if given.only:
        claims = [c for c in claims if any(word in f"{c.command} {c.page}" for word in given.only)]
    started = time.perf_counter()
    print("| claim | page | committed | measured | allowed | |\n| --- | --- | ---: | ---: | --- | --- |")
    rows = []
    for row in check(commands, claims, given.data and given.data.resolve(), given.long):
        rows.append(row)
        print(f"| {' | '.join(cell.replace(' | ', ' / ') for cell in row)} |", flush=True)
    states = [row[-1].partition(":")[0] for row in rows]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("ok", "moved", "not checked"))
    print(f"\n{counts}; {(time.perf_counter() - started) / 60:.0f} minutes.")
    return int("moved" in states)


if __name__ == "__main__":
    sys.exit(main())
