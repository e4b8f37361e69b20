"""All benchmarks as one table: `python -m benchmarks [--write FILE] [--only NAME ...]`."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import alignment, baselines, chi2, collection, startup, video
from benchmarks.machine import command_parser, facts
from benchmarks.problems import KINDS, SIZES

Row = tuple[str, str, float | None, float]

PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "pymanopt",
    "scikit-image",
    "av",
)
HEADER = ("work", "against", "ratio", "target", "met?")


def alignment_rows() -> list[Row]:
    """The rows of `benchmarks.alignment`, without a ratio where the peer is not installed."""
    peer = alignment.PEER
    if importlib.util.find_spec(peer) is None:
        return [(f"align, n={n}", f"{peer}: not installed", None, alignment.TARGETS[n]) for n in SIZES]
    lines: list[Row] = []
    for n, kind in product(SIZES, KINDS):
        with threadpool_limits(limits=1):
            line = alignment.compare(n, kind)
        work = f"align, n={n}, {kind}"
        lines.append(
            (work, f"{peer} (objective better on {line.better:.0%} of pairs)", line.ratio, line.target)
        )
        lines.append((f"{work}: share of pairs no worse", peer, line.no_worse, 1.0))
    return lines


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "chi2": lambda: list(chi2.rows()),
    "baselines": lambda: list(baselines.rows()),
    "alignment": alignment_rows,
    "collection": lambda: list(collection.rows()),
    "startup": lambda: list(startup.rows()),
    "video": lambda: list(video.rows()),
}


def cells(row: Row) -> tuple[str, ...]:
    """A row as text; a target of 0 is none."""
    work, against, ratio, target = row
    measured = "" if ratio is None else f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.0f}"
    met = "" if ratio is None or not target else "yes" if ratio >= target else "no"
    return work, against, measured, f"{target:,g}" if target else "", met


def markdown(rows: list[Row], command: str) -> str:
    """The results with all that is needed to judge and repeat them."""
    lines = [
        "# Benchmarks",
        "",
        "Ratios measured in one run; larger is better. Unless said otherwise on one core.",
        "",
        *facts(command, PACKAGES),
        "",
        f"| {' | '.join(HEADER)} |",
        f"| {' | '.join(['---'] * 2 + ['---:'] * 2 + ['---'])} |",
        *(f"| {' | '.join(cells(row))} |" for row in rows),
    ]
    if any(against == chi2.LIMIT for _, against, _, _ in rows):
        lines += ["", chi2.NOTE]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the benchmarks, print the table and keep it if asked to."""
    parser = command_parser("python -m benchmarks", __doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the table as Markdown")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=BENCHMARKS,
        default=list(BENCHMARKS),
        metavar="NAME",
        help=f"some of {', '.join(BENCHMARKS)}",
    )
    arguments = parser.parse_args()
    console = Console(width=140)
    rows: list[Row] = []
    for name in arguments.only:
        console.print(f"running {name} ...", style="dim")
        rows += BENCHMARKS[name]()
    table = Table(*HEADER)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    if arguments.write:
        command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
        arguments.write.write_text(markdown(rows, command))


if __name__ == "__main__":
    main()
