"""Weights of classes in kernel ridge: what cross-validation says, and what is true of new clips.

`python -m benchmarks.class_weights` simulates clips as points: a class has a mean, each source a deviation
from it and each clip a further one. Classes have 2 to 14 clips, as in a set of real clips. Three ways to
treat classes of different sizes are compared, by leaving out one source at a time and by new clips of new
sources:

* equal items: the plain sum of squares;
* equal classes: `KernelRidgeClassifier` with ``class_weight="balanced"``;
* divided scores: the plain sum of squares, the score of each class less its average and divided by the number
  of its training clips. A clip that is left out makes its own class smaller, and so favours it.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.utils.class_weight import compute_sample_weight

from benchmarks.machine import facts
from sysbags._common.types import Array, IntArray
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.ridge import targets
from sysbags.evaluate.vector_predictors import between_vectors

SIZES = (2, 5, 7, 4, 9, 5, 9, 11, 8, 11, 7, 14, 8, 5, 5, 5, 7, 6, 5)
MOST_IN_SOURCE = 4
SPREAD = {"source": 0.8, "clip": 0.6}
RUNS, NEW = 10, 5
WAYS = ("equal items", "equal classes", "divided scores")


def predict(way: str, ridge: float, points: Array, codes: IntArray, new: Array) -> IntArray:
    """Class codes of new points, by ridge regression on the others."""
    weights = compute_sample_weight("balanced", codes) if way == "equal classes" else None
    penalty = ridge * half_mean(between_vectors(points, points, "euclidean"))
    wanted = targets(codes, len(SIZES))
    scores = Ridge(penalty).fit(points, wanted, weights).predict(new)
    counts = np.bincount(codes, minlength=len(SIZES))
    if way == "divided scores":
        scores = (scores - wanted.mean(axis=0)) / np.maximum(counts, 1)
    return np.asarray(np.where(counts > 0, scores, -np.inf).argmax(axis=1))


def simulate(
    rng: np.random.Generator, means: Array, sizes: IntArray, most: int
) -> tuple[Array, IntArray, IntArray]:
    """Points, their classes and their sources."""
    codes = np.repeat(np.arange(len(sizes)), sizes)
    sources: list[int] = []
    for size in sizes:
        own: list[int] = []
        while len(own) < size:
            source = (sources + own)[-1] + 1 if sources or own else 0
            own += [source] * min(int(rng.integers(1, most + 1)), int(size) - len(own))
        sources += own
    groups = np.array(sources)
    deviations = rng.normal(scale=SPREAD["source"], size=(groups.max() + 1, means.shape[1]))[groups]
    points = means[codes] + deviations + rng.normal(scale=SPREAD["clip"], size=deviations.shape)
    return points, codes, groups


def main() -> None:
    """Print the table as Markdown."""
    print("\n".join(facts("python -m benchmarks.class_weights", ("numpy", "scikit-learn"))), end="\n\n")
    print("Accuracy in per cent: one source left out at a time / new clips.\n")
    print(f"| distance of class means | dimension | ridge | {' | '.join(WAYS)} |")
    print(f"| ---: | ---: | ---: |{' ---: |' * len(WAYS)}")
    for distance in (0.0, 6.0, 9.6):
        for dimension in (50, 384):
            for ridge in (0.1, 1.0):
                rates = np.zeros((len(WAYS), 2))
                for run in range(RUNS):
                    rng = np.random.default_rng(run)
                    means = rng.normal(scale=distance / np.sqrt(dimension), size=(len(SIZES), dimension))
                    points, codes, groups = simulate(rng, means, np.array(SIZES), MOST_IN_SOURCE)
                    new, new_codes, _ = simulate(rng, means, NEW * np.array(SIZES), 1)
                    for k, way in enumerate(WAYS):
                        predicted = np.empty(len(codes), dtype=np.int64)
                        for group in np.unique(groups):
                            out = groups == group
                            predicted[out] = predict(way, ridge, points[~out], codes[~out], points[out])
                        outside = predict(way, ridge, points, codes, new)
                        rates[k] += [np.mean(predicted == codes), np.mean(outside == new_codes)]
                cells = " | ".join(f"{100 * a / RUNS:.1f} / {100 * b / RUNS:.1f}" for a, b in rates)
                print(f"| {distance} | {dimension} | {ridge} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
