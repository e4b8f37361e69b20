"""What there is to see beside accuracies: curves over the weights, and where clips lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels, seed_of
from sysbags.classifiers.scores import Predictor
from sysbags.distances.alignment_matrix import alignment_matrix, alignment_parts
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import classical_scaling
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS, metric_predictors
from sysbags.evaluate.results import Curve, Relations
from sysbags.evaluate.selection import CodebookFolds
from sysbags.means.frechet import mean_gram, mean_of_gram

GRID_A = tuple(round(0.15 + 0.2 * k, 2) for k in range(10))  # the paper's two figures
GRID_MU = tuple(10.0 * k for k in range(11))


def curves(
    gram: CrossGram | Sequence[CrossGram],
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None,
    *,
    codebook_folds: IntArray | None = None,
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
    one collection with itself, or there is one for each of several codebooks, with their `codebook_folds`
    (see `sysbags.evaluate.selection.CodebookFolds`). The grids are the paper's by default.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> [(curve.weight, len(curve.values)) for curve in curves(gram, labels, None)]
    [('lambda_a', 10), ('lambda_mu', 11)]
    """
    grams, seed = [gram] if isinstance(gram, CrossGram) else list(gram), seed_of(random_state)
    items = len(grams[0].mean)
    _, codes = check_labels(labels, items)
    units = np.arange(items) if groups is None else check_labels(groups, items, "groups")[1]
    values_a, values_mu = tuple(map(float, grid_a)), tuple(map(float, grid_mu))
    fixed_a, fixed_mu = float(lambda_a), float(lambda_mu)
    lines: list[Curve] = []
    for name in classifiers:
        check_choice(name, "classifier", DISTANCE_CLASSIFIERS)
        accuracies: dict[tuple[float, float], float] = {}
        for a in dict.fromkeys((*values_a, fixed_a)):
            families = [
                metric_predictors(
                    fold_gram, codes, units, name, "alignment", a, random_state=seed, n_jobs=n_jobs
                )
                for fold_gram in grams
            ]
            for mu in (*values_mu, fixed_mu) if a == fixed_a else (fixed_mu,):
                predictors: list[Predictor] = [family(mu, 1) for family in families]
                predictor = predictors[0]
                if codebook_folds is not None:
                    predictor = CodebookFolds(predictors, codebook_folds, units)
                accuracies[a, mu] = float(np.mean(predictor.predict() == codes))
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
    codes: IntArray,
    groups: IntArray,
    lambda_a: float,
    lambda_mu: float,
    *,
    neighbours: int = 8,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Relations:
    """Where each clip lies: all distances, a plane, the nearest clips and class means, with their parts.

    `codes` are the classes, from 0. Of so many `neighbours` each, all others are kept where there are fewer.
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
        class_parts=class_parts(gram, codes, groups, lambda_a, lambda_mu, seed, n_jobs),
    )


def class_parts(
    gram: CrossGram,
    codes: IntArray,
    groups: IntArray,
    lambda_a: float,
    lambda_mu: float,
    seed: int,
    n_jobs: int | None = None,
) -> Array:
    """Split the distance of each clip to each class's Frechet mean, which is computed without its group.

    The parts are a (K, C, 3) array, NaN where no clip is left.
    """
    parts = np.full((len(codes), codes.max() + 1, 3), np.nan)
    # Clips of a group without clips in a class share the mean of the whole class.
    within = [[None, *np.unique(groups[codes == c]).tolist()] for c in range(codes.max() + 1)]

    def fill(task: tuple[int, int | None]) -> None:
        c, group = task
        members = np.flatnonzero((codes == c) & (groups != group))
        tested = np.flatnonzero(~np.isin(groups, within[c][1:]) if group is None else groups == group)
        if members.size and tested.size:
            mean = mean_of_gram(gram.subset(members), lambda_a, random_state=seed)
            blocks = mean_gram(gram.subset(members, tested), [np.arange(len(members))], [mean])
            pairs = np.column_stack([np.zeros_like(tested), np.arange(len(tested))])
            parts[tested, c] = alignment_parts(blocks, pairs, lambda_a, lambda_mu, random_state=seed)

    run(
        fill,
        [(c, group) for c, class_groups in enumerate(within) for group in class_groups],
        n_jobs,
        "class means",
    )
    return parts
