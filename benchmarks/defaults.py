"""Accuracies with default weights, without any selection: `python -m benchmarks.defaults DATA [--cache DIR]`.

DATA holds the folders traffic, gait-speed and wild-scenes and the file sounds/esc10.npz, as for
`benchmarks.results`; generated clips of `benchmarks.dynamics` are added. Local binary patterns, or mel
spectra for sounds; systems of order 5 in the unit-variance form; the weights are "scale", the ridge is 0.1.
Official test sets, persons, folds or sources are left out, one at a time.

The row "processes" is an experiment: the squared 2-Wasserstein distance between the stationary Gaussian
processes that two systems generate, per frame. It is the integral over frequencies of the distance between
Gaussians whose covariances are the spectral densities ``C (I - A e^-iw)^-1 (I - A A') (I - A e^-iw)^-* C'``
(Gray, Neuhoff and Shields 1975), so that it depends on the covariance of the noise, `I - A A'`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import sysbags
from benchmarks.dynamics import own_streams
from benchmarks.machine import command_parser, facts
from benchmarks.results import CENTRAL_FRAMES, mel_streams
from sysbags._common.cache import Cache
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.bags import LocalBinaryPatterns
from sysbags.bags.streams import clip_streams, good
from sysbags.classifiers.scores import Predictor, half_mean
from sysbags.classifiers.scores.neighbors import Neighbors
from sysbags.classifiers.scores.ridge import Ridge, euclidean_part
from sysbags.datasets import class_folders
from sysbags.distances.gram import CrossGram, mean_term
from sysbags.distances.pairwise import distance_matrix, scaled_weights
from sysbags.distances.truncation import to_unit_variance
from sysbags.evaluate.cross_validation import metric_predictors
from sysbags.systems.identification import descending_orders, identify_first

ORDER = 5
FREQUENCIES = 32
SEED = 101
METRICS = ("normalized-covariance", "covariance", "alignment")
Labelled = tuple[list[Array], IntArray, IntArray]


def sets(data: Path, cache: Cache) -> Iterator[tuple[str, Labelled]]:
    """Streams, class codes and groups of each set."""

    def clips(name: str, start: int = 0) -> tuple[list[Array], IntArray, list[str]]:
        folder = class_folders(data / name)
        bag = LocalBinaryPatterns(frames={"start": start})
        streams = [good(stream) for stream in clip_streams([bag], folder.paths, cache, n_jobs=-1)[0]]
        groups = folder.sources
        if groups is None:  # each clip is in the test set of one trial
            trials = folder.trials
            groups = [next(t for t in trials if trials[t][k] == "test") for k in range(len(streams))]
        return streams, _codes(folder.labels), groups

    streams, codes, groups = clips("traffic", 1)
    yield "traffic", (streams, codes, _codes(groups))
    streams, codes, groups = clips("gait-speed")
    starts = [max(0, (len(stream) - CENTRAL_FRAMES) // 2) for stream in streams]
    central = [stream[s : s + CENTRAL_FRAMES] for stream, s in zip(streams, starts, strict=True)]
    yield "gait-speed", (central, codes, _codes(groups))
    sounds, labels, folds = mel_streams(data / "sounds/esc10.npz")
    yield "esc-10", (sounds, _codes(labels), _codes(folds))
    streams, codes, groups = clips("wild-scenes")
    yield "wild-scenes", (streams, codes, _codes(groups))
    yield "dynamics", own_streams(SEED)


def _codes(labels: list[str] | Array) -> IntArray:
    return np.unique(labels, return_inverse=True)[1]


def process_matrix(gram: CrossGram) -> Array:
    """Squared Wasserstein distances between the Gaussian processes of systems, without their means."""
    A, items, n = gram.rows.transition, len(gram.mean), gram.observer.shape[2]
    values, vectors = np.linalg.eigh(np.eye(n) - A @ A.transpose(0, 2, 1))
    noise = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    fidelity = np.zeros((items, items))
    for frequency in (np.arange(FREQUENCIES) + 0.5) * np.pi / FREQUENCIES:
        factors = np.linalg.solve(np.eye(n) - A * np.exp(-1j * frequency), noise.astype(complex))
        for i in range(items):
            products = factors[i].conj().T @ gram.observer[i, i:] @ factors[i:]
            fidelity[i, i:] += np.linalg.svd(products, compute_uv=False).sum(axis=1) / FREQUENCIES
    fidelity = np.triu(fidelity) + np.triu(fidelity, 1).T
    norms = np.diag(fidelity)
    return np.maximum(norms[:, None] + norms - 2.0 * fidelity, 0.0)


def accuracies(streams: list[Array], codes: IntArray, groups: IntArray) -> dict[str, list[float]]:
    """1-NN, nearest mean and kernel ridge for each distance, in per cent."""
    systems = run(lambda s: identify_first(s, descending_orders([ORDER])), streams, -1, "systems")
    paper = sysbags.cross_gram(systems, n_jobs=-1)
    _, gram = to_unit_variance(systems, paper)
    means = mean_term(gram)
    rows: dict[str, list[float]] = {}
    class_size = len(codes) / (int(codes.max()) + 1)

    def add(name: str, squared: Array, mean: Predictor | None) -> None:
        ridge = sysbags.KernelRidgeClassifier().ridge
        repaired = euclidean_part(squared)
        predictors: list[Predictor | None] = [
            Neighbors(squared, codes, groups),
            mean,
            Ridge(repaired, codes, groups, ridge * half_mean(repaired), class_size),
        ]
        rows[name] = [np.nan if p is None else 100.0 * np.mean(p.predict() == codes) for p in predictors]

    for metric in METRICS:
        squared = distance_matrix(gram, metric, lambda_a="scale", lambda_mu="scale", n_jobs=-1)
        a, mu = scaled_weights(gram.rows, metric)
        family = metric_predictors(gram, codes, groups, "nearest-mean", metric, a, n_jobs=-1)
        add(f"{metric}, scale", squared, family(mu, 1))
    add("processes", process_matrix(gram) + means, None)
    family = metric_predictors(paper, codes, groups, "nearest-mean", "alignment", 0.25, n_jobs=-1)
    add("alignment, the paper's 0.25 and 0", distance_matrix(paper, n_jobs=-1), family(0.0, 1))
    add("means alone", means, None)
    return rows


def main() -> None:
    """Print the table as Markdown."""
    parser = command_parser("python -m benchmarks.defaults", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".sysbags-cache"))
    arguments = parser.parse_args()
    results = {name: accuracies(*labelled) for name, labelled in sets(arguments.data, Cache(arguments.cache))}
    words = ["DATA" if word == str(arguments.data) else word for word in sys.argv[1:]]
    command = shlex.join(["python", "-m", "benchmarks.defaults", *words[:1]])
    print("\n".join(facts(command, ("numpy", "numba", "av"))), end="\n\n")
    print(f"| distance | {' | '.join(results)} |")
    print(f"| --- | {' | '.join(['---:'] * len(results))} |")
    for name in next(iter(results.values())):
        cells = (
            " / ".join("-" if np.isnan(v) else f"{v:.1f}" for v in rows[name]) for rows in results.values()
        )
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
