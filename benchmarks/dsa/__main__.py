"""Problems of dynamical similarity analysis, solved by `sysbags.align_blocks` and by other tools.

`python -m benchmarks.dsa [FOLDER] [--rows transitions,observers,others,missed,certificates]
[--orders 5,10,20,40,80] [--kinds random,related,clips,simulations]
[--methods dsa-metric,fastDSA,pymanopt] [--pairs 1] [--seeds 1000:1005] [--page docs/dsa.md] [--json FILE]`:
there are so many pairs of each seed. Seeds from 1000 on are for tables; those below are for tuning the
search. FOLDER holds clips in class folders; without it there are no pairs of clips. With the defaults all
tables take about half an hour. With `--page` the tables also replace those of the page, and with `--json` the
squared distance, excess and time of each method on
each pair are written to a file.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.dsa.comparison import certificate_rows, missed_rows, other_rows, solver_rows
from benchmarks.dsa.methods import OTHERS, SOLVERS, missing
from benchmarks.dsa.pairs import KINDS
from benchmarks.machine import command_parser, print_table

PACKAGES = ("numpy", "scipy", "numba", "torch", "dsa-metric", "fastDSA", "POT", "pymanopt")
MISSED_ORDERS = (5, 10, 20)


def main() -> None:
    """Print the tables that are asked for."""
    parser = command_parser("python -m benchmarks.dsa", __doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rows", default="transitions,observers,others,missed,certificates")
    parser.add_argument("--orders", default="5,10,20,40,80")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--seeds", default="1000:1005")
    parser.add_argument("--methods", default="dsa-metric,fastDSA,pymanopt")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    names, kinds, methods = (text.split(",") for text in (arguments.rows, arguments.kinds, arguments.methods))
    orders = [int(order) for order in arguments.orders.split(",")]
    seeds = range(*map(int, arguments.seeds.split(":")))
    given = (orders, kinds, arguments.pairs, seeds, arguments.folder)
    results: list[dict[str, Any]] = []
    rows: dict[str, Callable[[], Iterator[str]]] = {
        "transitions": partial(solver_rows, *given, methods=methods, observers=False, results=results),
        "observers": partial(solver_rows, *given, methods=methods, observers=True, results=results),
        "others": partial(other_rows, *given),
        "missed": partial(
            missed_rows, [n for n in orders if n in MISSED_ORDERS], kinds, seeds, arguments.folder
        ),
        "certificates": partial(certificate_rows, *given),
    }
    families = tuple(dict.fromkeys(name.split(",")[0] for name in SOLVERS))
    for option, words, known in (
        ("--rows", names, tuple(rows)),
        ("--kinds", kinds, KINDS),
        ("--methods", methods, families),
    ):
        if unknown := set(words) - set(known):
            parser.error(
                f"{option} has {', '.join(sorted(unknown))}, but it must be some of {', '.join(known)}"
            )
    for name, method in (SOLVERS | OTHERS).items():
        if absent := missing(method.modules):
            print(f"left out: {name}, because {', '.join(absent)} cannot be imported")
    if arguments.folder is None and "clips" in kinds:
        print("left out: pairs of clips, because no folder of clips is given")
    for name in names:
        folder = ["FOLDER"] if arguments.folder else []
        options = [
            f"--{key}={getattr(arguments, key)}" for key in ("orders", "kinds", "pairs", "seeds", "methods")
        ]
        command = shlex.join(["python", "-m", "benchmarks.dsa", *folder, "--rows", name, *options])
        lines = _saving(rows[name](), results, arguments.json)
        print_table(lines, command, PACKAGES, arguments.page, f"python -m benchmarks.dsa --rows {name}")


def _saving(lines: Iterator[str], results: list[dict[str, Any]], file: Path | None) -> Iterator[str]:
    """Write the results with every line, so that an interrupted run keeps what was finished."""
    for line in lines:
        if file:
            file.write_text(json.dumps(results, indent=1) + "\n")
        yield line


if __name__ == "__main__":
    main()
