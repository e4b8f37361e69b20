"""What there is to see beside accuracies: curves over the weights, and where clips lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sysbags._common.validation import check_choice, check_integer, check_labels, seed_of
from sysbags.distances.alignment_matrix import alignment_matrix, alignment_parts
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import classical_scaling
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS, metric_predictors
from sysbags.evaluate.results import Curve, Relations

GRID_A = tuple(round(0.15 + 0.2 * k, 2) for k in range(10))  # the paper's two figures
GRID_MU = tuple(10.0 * k for k in range(11))


def curves(
    gram: CrossGram,
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None,
    *,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    grid_a: Sequence[float] = GRID_A,
    grid_mu: Sequence[float] = GRID_MU,
    classifiers: Sequence[str] = ("nearest-system",),
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> tuple[Curve, ...]:
    """Accuracies against each weight with the other fixed, as in the paper's two figures.

    There are two curves for each classifier: against `lambda_a`, then against `lambda_mu`. `gram` is that of
    one collection with itself. The grids are the paper's by default.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> [(curve.weight, len(curve.values)) for curve in curves(gram, labels, None)]
    [('lambda_a', 10), ('lambda_mu', 11)]
    """
    items, seed = len(gram.mean), seed_of(random_state)
    _, codes = check_labels(labels, items)
    units = np.arange(items) if groups is None else check_labels(groups, items, "groups")[1]
    values_a, values_mu = tuple(map(float, grid_a)), tuple(map(float, grid_mu))
    fixed_a, fixed_mu = float(lambda_a), float(lambda_mu)
    lines: list[Curve] = []
    for name in classifiers:
        check_choice(name, "classifier", DISTANCE_CLASSIFIERS)
        accuracies: dict[tuple[float, float], float] = {}
        for a in dict.fromkeys((*values_a, fixed_a)):
            family = metric_predictors(
                gram, codes, units, name, "alignment", a, random_state=seed, n_jobs=n_jobs
            )
            for mu in (*values_mu, fixed_mu) if a == fixed_a else (fixed_mu,):
                accuracies[a, mu] = float(np.mean(family(mu, 1).predict() == codes))
        against_a = tuple(accuracies[a, fixed_mu] for a in values_a)
        against_mu = tuple(accuracies[fixed_a, mu] for mu in values_mu)
        for weight, values, shares, fixed in (
            ("lambda_a", values_a, against_a, fixed_mu),
            ("lambda_mu", values_mu, against_mu, fixed_a),
        ):
            lines.append(Curve(weight=weight, classifier=name, values=values, accuracies=shares, fixed=fixed))
    return tuple(lines)


def relations(
    gram: CrossGram,
    lambda_a: float,
    lambda_mu: float,
    *,
    neighbours: int = 8,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Relations:
    """Where each clip lies: all distances, a plane, and the nearest clips with the parts of their distances.

    Of so many `neighbours` each, all others are kept where there are fewer.
    """
    seed, items = seed_of(random_state), len(gram.mean)
    distances = alignment_matrix(gram, lambda_a, lambda_mu, random_state=seed, n_jobs=n_jobs)
    others = distances + np.where(np.eye(items, dtype=bool), np.inf, 0.0)
    count = min(check_integer(neighbours, "neighbours"), items - 1)
    nearest = np.argsort(others, axis=1, kind="stable")[:, :count]
    pairs = np.column_stack([np.repeat(np.arange(items), count), nearest.ravel()])
    parts = alignment_parts(gram, pairs, lambda_a, lambda_mu, random_state=seed, n_jobs=n_jobs)
    return Relations(
        lambda_a=float(lambda_a),
        lambda_mu=float(lambda_mu),
        distances=distances,
        plane=classical_scaling(distances),
        neighbours=nearest.astype(np.int64),
        neighbour_parts=parts.reshape(items, count, 3),
    )
