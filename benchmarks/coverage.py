"""How often prediction sets hold the class of clips from new sources: `python -m benchmarks.coverage [DATA]`.

`StreamClassifier` learns from some sources and predicts clips of others. It is calibrated by sources, and
once more as if each clip were a source of its own. Sets of 80, 90 and 95 % are compared with how often they
hold the true class; each new source counts once. Beside each share is its standard error over the splits.

* generated: recordings of `make_streams`, each with a deviation of its own from its class, are cut into
  clips. One clip of each of 4 x 8 recordings, or one to six of each of 4 x 5 or 4 x 10, are learnt from;
  4 x 20 other recordings are new.
* wild-scenes, if its folder is in DATA: local binary patterns; half of the sources are learnt from, the other
  half is new, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import sysbags
from benchmarks.machine import command_parser, print_table
from sysbags._common.cache import Cache
from sysbags._common.types import Array, IntArray
from sysbags.bags import LocalBinaryPatterns
from sysbags.bags.streams import clip_streams, good
from sysbags.classifiers.scores.folds import balanced_folds
from sysbags.datasets import class_folders, make_streams
from sysbags.statistics.rates import coverage

CLASSES, FRAMES, NOISE, NEW = 4, 60, 2.0, 20
RECORDINGS = ((8, 1), (5, 6), (10, 6))  # of each class, and clips of each at most
LEVELS = (0.8, 0.9, 0.95)
COMMAND, PAGE = "python -m benchmarks.coverage", Path(__file__).parents[1] / "docs" / "read-predictions.md"
Split = tuple[list[Array], IntArray, IntArray, npt.NDArray[np.bool_]]  # streams, classes, sources, is new


def generated(recordings: int, parts: int, runs: int) -> Iterator[Split]:
    """Clips of generated recordings."""
    for run in range(runs):
        rng = np.random.default_rng(run)
        per_class = recordings + NEW
        streams, codes = make_streams(CLASSES, per_class, parts * FRAMES, noise=NOISE, random_state=rng)
        sizes = rng.integers(1, parts + 1, len(streams))
        clips = [
            part for one, size in zip(streams, sizes, strict=True) for part in np.split(one, parts)[:size]
        ]
        new = np.arange(len(streams)) % per_class >= recordings
        sources = np.repeat(np.arange(len(streams)), sizes)
        yield clips, codes[sources], sources, new[sources]


def halves(data: Path, cache: Cache, runs: int) -> Iterator[Split]:
    """Halves of the sources of wild-scenes."""
    folder = class_folders(data / "wild-scenes")
    streams = [good(one) for one in clip_streams([LocalBinaryPatterns()], folder.paths, cache, n_jobs=-1)[0]]
    if folder.sources is None:
        raise SystemExit(f"{data}/wild-scenes/index.csv must name the sources")
    codes, sources = (np.unique(names, return_inverse=True)[1] for names in (folder.labels, folder.sources))
    for run in range(runs):
        folds = balanced_folds(codes, sources, run, 2)
        for fold in range(2):
            yield streams, codes, sources, np.asarray(folds == fold)


def covered(split: Split, by_source: bool) -> list[float]:
    """Return coverage in per cent and average size of sets of each level, then the accuracy in per cent."""
    streams, codes, sources, new = split
    known = np.flatnonzero(~new)
    model = sysbags.StreamClassifier().fit(
        [streams[k] for k in known], codes[known], sources[known] if by_source else None
    )
    fresh = np.flatnonzero(new)
    clips = [streams[k] for k in fresh]
    p_values = np.zeros((len(fresh), int(codes.max()) + 1))
    p_values[:, model.classes_] = model.p_values(clips)
    row: list[float] = []
    for level in LEVELS:
        rates = coverage(p_values, codes[fresh], sources[fresh], round(1.0 - level, 12))
        row += [100.0 * rates["sources"], rates["size"]]
    return [*row, 100.0 * float(np.mean(model.predict(clips) == codes[fresh]))]


def rows(data: Path | None, cache: Cache, runs: int) -> Iterator[str]:
    """Lines of the table."""
    levels = " | ".join(f"{100 * level:.0f} % | classes of {100 * level:.0f} %" for level in LEVELS)
    yield f"| clips | groups | {levels} | accuracy, % |"
    yield f"| --- | --- |{' ---: |' * (2 * len(LEVELS) + 1)}"
    sets = {
        f"generated, {CLASSES * count} sources, 1 {'clip' if parts == 1 else f'to {parts} clips'} each": list(
            generated(count, parts, runs)
        )
        for count, parts in RECORDINGS
    }
    if data is not None:
        sets["wild-scenes, half of 121 sources"] = list(halves(data, cache, runs))
    for name, splits in sets.items():
        for by_source in (False, True):
            if not by_source and all(len(set(split[2])) == len(split[2]) for split in splits):
                continue  # the same: each clip has a source of its own
            found = np.array([covered(split, by_source) for split in splits])
            means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
            cells = [f"{means[k]:.1f} ± {errors[k]:.1f}" for k in range(0, 2 * len(LEVELS), 2)]
            sizes = [f"{means[k]:.2f}" for k in range(1, 2 * len(LEVELS), 2)]
            pairs = " | ".join(f"{a} | {b}" for a, b in zip(cells, sizes, strict=True))
            yield f"| {name} | {'sources' if by_source else 'none'} | {pairs} | {means[-1]:.1f} |"


def main() -> None:
    """Print the table as Markdown."""
    parser = command_parser(COMMAND, __doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--cache", type=Path, default=Path(".sysbags-cache"))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    arguments = parser.parse_args()
    lines = rows(arguments.data, Cache(arguments.cache), arguments.runs)
    page = PAGE if arguments.write else None
    print_table(lines, f"{COMMAND} DATA", ("numpy", "av"), page, COMMAND)


if __name__ == "__main__":
    main()
