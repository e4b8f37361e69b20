"""The strongest simple rivals: a network's channels on frames alone, averaged over time.

`python -m benchmarks.rivals FOLDER [--cache DIR] [--main FILE]` evaluates them by the protocol of `sysbags
evaluate`, one source left out at a time. The first rows are averages of the bags of the deep run of
`benchmarks.results`, so that network and frames are the same; bags are divided by their sum, activations
are not. FILE is the JSON document that `sysbags evaluate FOLDER ... --json` printed for that run: with it
McNemar's test is made against its main method.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.machine import facts
from sysbags._common.cache import Cache
from sysbags._common.types import Array
from sysbags.bags import DeepActivations
from sysbags.comparators import PooledActivations
from sysbags.datasets.folder import ClipFolder, class_folders
from sysbags.errors import FileError
from sysbags.evaluate.comparators import COMPARATORS
from sysbags.evaluate.features import ClipFeatures
from sysbags.evaluate.splits import describe, protocol_groups
from sysbags.evaluate.vector_predictors import vector_predictor
from sysbags.report.statistics import mcnemar, rate

CLASSIFIERS = ("logistic regression", "linear SVM", "nearest mean")
SIZE, FRAMES = 256, {"stride": 12, "max_frames": 21}  # of the deep run


def descriptions(features: ClipFeatures) -> Iterator[tuple[str, str, Array]]:
    """Name of each rival, metric of its nearest mean, and one vector per clip."""
    bags = DeepActivations(size=SIZE, keep_aspect=True, frames=FRAMES)
    averages = [stream.mean(axis=0) for stream in features.good_streams(bags)[0]]
    yield "averaged bags, the same frames", "chi2", np.array(averages)
    pooled = PooledActivations(streams=["spatial"], size=SIZE, frames=FRAMES)
    yield "averaged activations, the same frames as squares", "cosine", features.vectors(pooled)[0]
    usual = PooledActivations(streams=["spatial"], frames=COMPARATORS["PooledActivations"])
    yield "averaged activations, frames of `--compare`", "cosine", features.vectors(usual)[0]


def main_predictions(path: Path, folder: Path, clips: ClipFolder) -> tuple[str, npt.NDArray[Any]]:
    """Name and predictions of the main method of an evaluation of the same clips."""
    document = json.loads(path.read_text())
    names = [clip.relative_to(folder).as_posix() for clip in clips.paths]
    if [clip["name"] for clip in document["clips"]] != names:
        raise FileError(f"{path} is not an evaluation of the clips in {folder}")
    method = next(method for method in document["methods"] if method["main"])
    title = f"{method['name']}, {method['classifier']}: {100 * method['share']:.1f} %"
    return title, np.array(method["predictions"])


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".sysbags-cache"))
    parser.add_argument("--main", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    clips = class_folders(arguments.folder)
    if clips.sources is None:
        raise SystemExit(f"{arguments.folder} has no index.csv, but sources are left out")
    codes = np.unique(clips.labels, return_inverse=True)[1]
    sources = np.unique(clips.sources, return_inverse=True)[1]
    groups = protocol_groups(codes, "by-source", sources)
    against = None
    if arguments.main is not None:
        title, against = main_predictions(arguments.main, arguments.folder, clips)
        print(f"McNemar's p is against {title}.\n")
    command = f"python -m benchmarks.rivals {arguments.folder.name}"
    command += "" if arguments.main is None else f" --main {arguments.main.name}"
    print(f"{len(codes)} clips; {describe('by-source', groups)}.\n")
    print("\n".join(facts(command, ("numpy", "scikit-learn", "av", "onnxruntime"))), end="\n\n")
    print("| network on frames alone | classifier | accuracy | 95 % interval | McNemar p |")
    print("| --- | --- | ---: | ---: | ---: |", flush=True)
    features = ClipFeatures(clips.paths, None, Cache(arguments.cache), n_jobs=-1)
    for name, metric, points in descriptions(features):
        for classifier in CLASSIFIERS:
            predicted = vector_predictor(points, codes, groups, classifier, metric, n_jobs=-1).predict()
            right = predicted == codes
            accuracy = rate(right, sources)
            p = "not run" if against is None else f"{mcnemar(against == clips.labels, right):.3f}"
            interval = f"{100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}"
            cells = (name, classifier, f"{100 * accuracy.share:.1f} %", interval, p)
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
