"""Watching a process: false alarms, events that are found, speed and memory, as Markdown tables.

`python -m benchmarks.watching [FOLDER] [--rows rates,events,ranking,kinds,joined,windows,speed,memory,
lasting,unchanged,weather,tampering] [--seeds 20:30] [--hours 1] [--alone] [--orders 20] [--cache FOLDER]
[--page docs/watch.md]`: the videos of the seeds have so many normal hours, twice as many to learn from, and
half as many with events; with --alone no other method watches them. With a folder of real clips (one folder
per class) they are joined and watched, and sliding windows are measured on them. The rows lasting and
unchanged are of a folder of road clips, in so many orders. With `--page` the tables also replace those of the
page.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.machine import command_parser, print_table
from benchmarks.watching import windows
from benchmarks.watching.detection import (
    Watched,
    event_rows,
    joined_rows,
    kind_rows,
    ranking_rows,
    rate_rows,
    watch_seeds,
)
from benchmarks.watching.road import lasting_rows, unchanged_rows
from benchmarks.watching.running import memory_rows, speed_rows
from benchmarks.watching.weather import tampering_rows, weather_rows

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "opencv-python-headless", "stumpy", "av")
OF_SEEDS = ("rates", "events", "ranking", "kinds", "weather", "tampering")
OF_CLIPS = ("joined", "lasting", "unchanged", "windows")


def main() -> None:
    """Print the tables that are asked for."""
    parser = command_parser("python -m benchmarks.watching", __doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rows", default="rates,events,ranking,kinds,joined,windows,speed,memory")
    parser.add_argument("--seeds", default="20:30")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    seeds = range(*map(int, arguments.seeds.split(":")))

    rivals = not arguments.alone and bool({"events", "ranking"} & set(names))

    @functools.cache
    def watched() -> list[Watched]:
        return watch_seeds(seeds, arguments.hours, rivals)

    rows: dict[str, Callable[[], Iterator[str]]] = {
        "rates": lambda: rate_rows(watched()),
        "events": lambda: event_rows(watched()),
        "ranking": lambda: ranking_rows(watched()),
        "kinds": lambda: kind_rows(seeds, arguments.hours),
        "joined": lambda: joined_rows(arguments.folder),
        "lasting": lambda: lasting_rows(arguments.folder, arguments.cache, arguments.orders),
        "unchanged": lambda: unchanged_rows(arguments.folder, arguments.cache, arguments.orders),
        "weather": lambda: weather_rows(seeds),
        "tampering": lambda: tampering_rows(seeds),
        "windows": lambda: windows.rows(arguments.folder),
        "speed": speed_rows,
        "memory": memory_rows,
    }
    if unknown := set(names) - set(rows):
        parser.error(f"--rows has {', '.join(sorted(unknown))}, but it must be some of {', '.join(rows)}")
    for name in names:
        folder = ["FOLDER"] if arguments.folder and name in OF_CLIPS else []
        given = [f"--{key}={getattr(arguments, key)}" for key in ("seeds", "hours")]
        if name in ("lasting", "unchanged"):
            folder.append(f"--orders={arguments.orders}")
        given = given[:1] if name in ("weather", "tampering") else given
        given += ["--alone"] if arguments.alone else []
        sizes = given if name in OF_SEEDS else []
        command = shlex.join(["python", "-m", "benchmarks.watching", *folder, "--rows", name, *sizes])
        mark = f"python -m benchmarks.watching --rows {name}"
        print_table(rows[name](), command, PACKAGES, arguments.page, mark)


if __name__ == "__main__":
    main()
