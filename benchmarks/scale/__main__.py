"""Thousands of systems, each kind of work against what it replaces: tables as Markdown.

`python -m benchmarks.scale [FOLDER] [--rows search,distances,...] [--systems 10000] [--page docs/scale.md]`:
the search is among so many systems, and the large library has so many; leave-one-out and memory are of
half as many, distances of a tenth, the small library has a hundredth. With a folder of
real clips (one folder per class) search and distances are measured on parts of them, too. With `--page` the
tables also replace those of the page.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.machine import command_parser, print_table
from benchmarks.scale.libraries import adding_rows, file_rows, leave_one_out_rows, memory_rows
from benchmarks.scale.matrices import cluster_rows, distance_rows
from benchmarks.scale.search import search_rows

PACKAGES = ("numpy", "scipy", "numba", "distributed")


def main() -> None:
    """Print the tables that are asked for."""
    parser = command_parser("python -m benchmarks.scale", __doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rows", default="search,distances,leave-one-out,files,adding,cluster,memory")
    parser.add_argument("--systems", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    count, half = arguments.systems, max(2, arguments.systems // 2)
    rows: dict[str, Callable[[], Iterator[str]]] = {
        "search": lambda: search_rows(count, arguments.queries, arguments.folder),
        "distances": lambda: distance_rows(count // 10, arguments.folder),
        "leave-one-out": lambda: leave_one_out_rows(half),
        "files": lambda: file_rows(arguments.folder),
        "adding": lambda: adding_rows(count),
        "cluster": lambda: cluster_rows(count),
        "memory": lambda: memory_rows(half),
    }
    names = arguments.rows.split(",")
    if unknown := set(names) - set(rows):
        parser.error(f"--rows has {', '.join(sorted(unknown))}, but it must be some of {', '.join(rows)}")
    folder = [] if arguments.folder is None else ["FOLDER"]
    for name in names:
        sizes = ["--systems", str(count)] if count != parser.get_default("systems") else []
        command = shlex.join(["python", "-m", "benchmarks.scale", *folder, "--rows", name, *sizes])
        mark = f"python -m benchmarks.scale --rows {name}"
        print_table(rows[name](), command, PACKAGES, arguments.page, mark)


if __name__ == "__main__":
    main()
