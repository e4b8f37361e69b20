"""Rates on wild-scenes, a folder of class folders with `index.csv`: each source is left out in turn.

`python -m benchmarks.wild_scenes FOLDER [--bag lbp deep] [--write FILE]`

A clip is compared with no clip of its own source, and no mean that it is compared with was made from one.
The weights are fixed beforehand. For the paper's `lambda_a = 0.25` all three weights of the mean are shown,
so that nobody has to trust a choice. "averages" is what is left without dynamics: the mean histogram of a
clip, compared by the cosine. A second table shows what the number of clips does to the nearest
neighbour: each clip is compared with those of a random share of the other sources only.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

import sysbags
from benchmarks.machine import facts
from sysbags._types import Array
from sysbags.bags import DeepActivations, LocalBinaryPatterns
from sysbags.bags._base import Bags
from sysbags.datasets.folder import ClipFolder, class_folders
from sysbags.evaluate import CLASSIFIERS, leave_one_out
from sysbags.gram import CrossGram
from sysbags.pairwise import distance_matrix

ORDER = 5
LAMBDA_A = 0.25
LAMBDA_MU = (0.0, 10.0, 100.0)
SHARES = (0.25, 0.5, 0.75, 1.0)
DRAWS = 20
HEADER = ("bag", "distance", "1-NN", "nearest mean")
BAGS: dict[str, Callable[[], Bags]] = {
    "lbp": lambda: LocalBinaryPatterns(n_jobs=-1),
    "deep": lambda: DeepActivations(frames={"stride": 6, "max_frames": 42}),
}


def rates(name: str, clips: ClipFolder) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The rows of one bag in both tables."""
    say = Console(stderr=True).print
    started = perf_counter()
    streams = BAGS[name]().transform(clips.paths)
    say(
        f"{name}: {sum(map(len, streams)):,} bags of {len(streams)} clips in {perf_counter() - started:.0f} s"
    )
    started = perf_counter()
    systems = sysbags.SystemIdentifier(order=ORDER, n_jobs=-1).transform(streams)
    gram = sysbags.cross_gram(systems, n_jobs=-1)
    say(f"{name}: systems and kernel in {perf_counter() - started:.0f} s")

    def row(title: str, metric: str, lambda_mu: float = 0.0) -> tuple[str, ...]:
        cells = []
        for classifier in reversed(CLASSIFIERS):
            found = leave_one_out(
                gram,
                clips.labels,
                groups=clips.sources,
                classifier=classifier,
                metric=metric,
                lambda_a=LAMBDA_A,
                lambda_mu=lambda_mu,
                n_jobs=-1,
            )
            cells.append(f"{100 * found.accuracy:.1f} %")
        return name, title, *cells

    started = perf_counter()
    lines = [row(f"alignment, lambda_mu = {mu:g}", "alignment", mu) for mu in LAMBDA_MU]
    lines += [row("Martin", "martin"), row("maximum singular value", "max-singular-value")]
    averages = np.array([stream.mean(axis=0) for stream in streams])
    lines.append(
        (name, "averages, cosine", *(f"{100 * rate:.1f} %" for rate in of_averages(averages, clips)))
    )
    shares = [(name, *row) for row in by_share(gram, clips)]
    say(f"{name}: all rates in {perf_counter() - started:.0f} s")
    return lines, shares


def by_share(gram: CrossGram, clips: ClipFolder) -> list[tuple[str, ...]]:
    """Rates of the nearest neighbour among the clips of a share of the other sources, for each distance."""
    labels, sources = np.array(clips.labels), np.unique(np.array(clips.sources), return_inverse=True)[1]
    distances = {
        "alignment, lambda_mu = 10": distance_matrix(gram, lambda_a=LAMBDA_A, lambda_mu=10.0, n_jobs=-1),
        "Martin": distance_matrix(gram, "martin", n_jobs=-1),
        "maximum singular value": distance_matrix(gram, "max-singular-value", n_jobs=-1),
    }
    rows = []
    for title, between in distances.items():
        rng, cells = np.random.default_rng(0), []
        for share in SHARES:
            right = []
            for _ in range(DRAWS if share < 1 else 1):
                kept = rng.random((len(labels), sources.max() + 1)) < share
                allowed = kept[:, sources] & (sources[:, None] != sources)
                nearest = np.where(allowed, between, np.inf).argmin(axis=1)
                right.append(np.mean(labels[nearest] == labels))
            cells.append(f"{100 * np.mean(right):.1f} %")
        rows.append((title, *cells))
    return rows


def of_averages(averages: Array, clips: ClipFolder) -> tuple[float, float]:
    """Shares of clips that the nearest clip and the nearest class centre get right, by the cosine."""
    points = averages / np.linalg.norm(averages, axis=1, keepdims=True)
    labels, sources = np.array(clips.labels), np.array(clips.sources)
    classes = np.unique(labels)
    right = np.zeros(2)
    for source in np.unique(sources):
        tested, kept = sources == source, sources != source
        likeness = points[tested] @ points[kept].T
        right[0] += np.sum(labels[kept][likeness.argmax(axis=1)] == labels[tested])
        usable = [c for c in classes if np.any(kept & (labels == c))]
        centres = np.array([points[kept & (labels == c)].mean(axis=0) for c in usable])
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        right[1] += np.sum(np.array(usable)[(points[tested] @ centres.T).argmax(axis=1)] == labels[tested])
    return float(right[0] / len(labels)), float(right[1] / len(labels))


def main() -> None:
    """Print the table as Markdown, and keep it if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wild_scenes", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bag", nargs="+", choices=BAGS, default=list(BAGS))
    parser.add_argument("--write", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    clips = class_folders(arguments.folder)
    if clips.sources is None:
        parser.error(f"{arguments.folder} has no index.csv with the column source")
    tables = [rates(name, clips) for name in arguments.bag]
    rows, shares = ([row for table in tables for row in table[k]] for k in (0, 1))
    words = ["wild-scenes" if word == str(arguments.folder) else word for word in sys.argv[1:]]
    command = shlex.join(["python", "-m", "benchmarks.wild_scenes", *words])
    lines = [
        "# Rates on wild-scenes",
        "",
        f"{len(clips.paths)} clips of {len(set(clips.sources))} sources in {len(set(clips.labels))} classes, "
        f"each source left out in turn. Order {ORDER}, chi-squared kernel, lambda_a = {LAMBDA_A}.",
        "",
        *facts(command, ("numpy", "numba", "av", "torch")),
        "",
        f"| {' | '.join(HEADER)} |",
        "| --- | --- | ---: | ---: |",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        f"1-NN by the share of the other sources that a clip is compared with (mean of {DRAWS} draws):",
        "",
        f"| bag | distance | {' | '.join(f'{share:.0%}' for share in SHARES)} |",
        f"| --- | --- | {' | '.join(['---:'] * len(SHARES))} |",
        *(f"| {' | '.join(row)} |" for row in shares),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.write:
        arguments.write.write_text(text)


if __name__ == "__main__":
    main()
