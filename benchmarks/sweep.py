"""The time of a full sweep of both weights on a folder of class folders, after the CrossGram.

`python -m benchmarks.sweep FOLDER [--write FILE]`

The grids are the paper's: ten values of lambda_a (0.15 to 1.95) by eleven of lambda_mu (0 to 100), leaving
one source out (or one clip, where no index.csv names sources).
A small set is swept first, so that compilation is not timed.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

import sysbags
from benchmarks.machine import command_parser, facts
from sysbags._common.types import Array
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import make_streams
from sysbags.datasets.folder import class_folders
from sysbags.distances.gram import CrossGram
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS, metric_predictors

LAMBDA_A = np.arange(0.15, 2.0, 0.2)
LAMBDA_MU = np.arange(0.0, 101.0, 10.0)
ORDER = 5


def sweep(gram: CrossGram, labels: list[str], groups: list[str] | None, classifier: str) -> Array:
    """Accuracies of all settings."""
    codes = np.unique(labels, return_inverse=True)[1]
    units = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    families = (
        metric_predictors(gram, codes, units, classifier, "alignment", float(a), n_jobs=-1) for a in LAMBDA_A
    )
    return np.array(
        [[np.mean(family(float(mu), 1).predict() == codes) for mu in LAMBDA_MU] for family in families]
    )


def main() -> None:
    """Print the times as Markdown, and keep them if asked to."""
    parser = command_parser("python -m benchmarks.sweep", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    say = Console(stderr=True).print
    streams, names = make_streams(classes=2, per_class=3, frames=30, bins=8)
    small = sysbags.cross_gram([sysbags.identify(stream, order=ORDER) for stream in streams])
    for classifier in DISTANCE_CLASSIFIERS:
        sweep(small, [str(name) for name in names], None, classifier)

    clips = class_folders(arguments.folder)
    started = perf_counter()
    systems = sysbags.SystemIdentifier(ORDER, n_jobs=-1).transform(
        LocalBinaryPatterns(n_jobs=-1).transform(clips.paths)
    )
    gram = sysbags.cross_gram(systems, n_jobs=-1)
    before = perf_counter() - started
    say(f"everything up to the CrossGram: {before:.0f} s")
    rows = []
    for classifier in DISTANCE_CLASSIFIERS:
        started = perf_counter()
        rates = 100 * sweep(gram, clips.labels, clips.sources, classifier)
        rows.append(
            f"| {classifier} | {perf_counter() - started:.1f} s | {rates.min():.1f} to {rates.max():.1f} % |"
        )
    words = [arguments.folder.name if word == str(arguments.folder) else word for word in sys.argv[1:]]
    settings = len(LAMBDA_A) * len(LAMBDA_MU)
    lines = [
        "# A sweep of both weights",
        "",
        f"{len(clips.paths)} clips of {arguments.folder.name}, local binary patterns, order {ORDER}; "
        f"{len(LAMBDA_A)} x {len(LAMBDA_MU)} = {settings} settings, each judged by leaving out one "
        f"{'clip' if clips.sources is None else 'source'} at a time. Everything up to the CrossGram took "
        f"{before:.0f} s.",
        "",
        *facts(shlex.join(["python", "-m", "benchmarks.sweep", *words]), ("numpy", "numba")),
        "",
        "| classifier | all settings | rates |",
        "| --- | ---: | ---: |",
        *rows,
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.write:
        arguments.write.write_text(text)


if __name__ == "__main__":
    main()
