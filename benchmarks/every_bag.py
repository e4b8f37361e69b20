"""Take all clips of a folder of class folders through every kind of bag; each must give a stream.

`python -m benchmarks.every_bag FOLDER [--bag NAME ...]`

Exits with 1 if any clip gives no stream, or one whose rows are no histograms.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.machine import command_parser
from sysbags._common.parallel import run
from sysbags.bags import DeepActivations, LocalBinaryPatterns, OpticalFlow, VisualWords
from sysbags.bags.base import BagTransformer
from sysbags.datasets.folder import class_folders
from sysbags.errors import SysbagsError

# The slow ones look at some of the frames, at half the size.
FEW = {"stride": 10, "max_frames": 12, "size": 120}
BAGS: dict[str, BagTransformer] = {
    "lbp": LocalBinaryPatterns(),
    "lbp, three radii, uniform": LocalBinaryPatterns(points=(8, 12, 16), radius=(1, 2, 3), method="uniform"),
    "surf": VisualWords(100, "surf", frames=FEW, n_jobs=-1),
    "sift": VisualWords(100, "sift", frames=FEW, n_jobs=-1),
    "sift, dense and soft": VisualWords(
        100, "sift", sampling="grid", assignment="soft", frames=FEW, n_jobs=-1
    ),
    "flow": OpticalFlow(frames={"size": 120, "max_frames": 50}),
    "deep": DeepActivations(frames={"stride": 6, "max_frames": 10}),
}


def stream_or_sentence(bag: BagTransformer, path: Path) -> str | int:
    """Length of the stream of a clip, or what is wrong."""
    try:
        stream = bag.stream(path)
    except SysbagsError as error:
        return str(error)
    fine = (
        stream.ndim == 2 and len(stream) and stream.min() >= 0 and np.abs(stream.sum(axis=1) - 1).max() < 1e-9
    )
    return len(stream) if fine else f"{path}: rows are no histograms"


def main() -> int:
    """Print how many streams each bag gave, and in what time."""
    parser = command_parser("python -m benchmarks.every_bag", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bag", nargs="+", choices=BAGS, default=list(BAGS), metavar="NAME")
    arguments = parser.parse_args()
    paths = class_folders(arguments.folder).paths
    table, failures = Table("bag", "streams", "bags", "seconds"), []
    for name in arguments.bag:
        started = perf_counter()
        bag = BAGS[name].fit(paths)
        outcomes = run(partial(stream_or_sentence, bag), paths, -1, name)
        lengths = [length for length in outcomes if isinstance(length, int)]
        failures += [f"{name}: {sentence}" for sentence in outcomes if isinstance(sentence, str)]
        seconds = f"{perf_counter() - started:.0f}"
        table.add_row(name, f"{len(lengths)} of {len(paths)}", f"{sum(lengths):,}", seconds)
    console = Console(width=140)
    console.print(table)
    for failure in failures:
        console.print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
