"""The parts of an evaluation: methods with their rates, curves over the weights, where clips lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels, check_weight
from sysbags._numba.alignment import align_many
from sysbags.distances.alignment import pad
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import alignment_matrix
from sysbags.distances.scaling import classical_scaling
from sysbags.distances.starts import start_tables
from sysbags.evaluate.candidates import Candidate, Means, by_codebook_fold, neighbours
from sysbags.evaluate.distances import to_items
from sysbags.means.frechet import mean_gram, mean_of_gram
from sysbags.report.results import Curve, Method, Relations
from sysbags.report.statistics import mcnemar, rate
from sysbags.systems.system import System

__all__ = ["by_alignment", "class_parts", "curves", "method", "pair_parts", "relations"]

GRID_A = tuple(round(0.15 + 0.2 * k, 2) for k in range(10))  # the paper's two figures
GRID_MU = tuple(10.0 * k for k in range(11))
CURVE_CLASSIFIERS = ("1-NN", "nearest mean")
PAIRS_A_CHUNK = 256


def method(
    name: str,
    classifier: str,
    kind: str,
    predictions: Sequence[str] | npt.NDArray[Any],
    labels: Sequence[str] | npt.NDArray[Any],
    groups: IntArray | None,
    main_right: npt.NDArray[np.bool_] | None = None,
    seconds: float = 0.0,
    settings: Mapping[str, Any] | None = None,
) -> Method:
    """Judge predictions: their rate with its interval, and McNemar's test against the main method.

    Parameters
    ----------
    name, classifier, kind : str
        See `Method`.
    predictions, labels : (K,) sequence of str
    groups : (K,) array of int, optional
        Items that were left out together; errors within a group are alike, which widens the interval.
    main_right : (K,) array of bool, optional
        Where the main method was right; without it there is no test.
    seconds : float, default=0.0
    settings : mapping, optional

    Returns
    -------
    Method

    Examples
    --------
    >>> found = method("LBP-TOP", "1-NN", "comparator", list("aabb"), list("aaab"), None)
    >>> found.rate.right, found.rate.total, found.p_value
    (3, 4, None)
    """
    right = np.asarray(predictions) == np.asarray(labels)
    return Method(
        name,
        classifier,
        kind,
        tuple(str(prediction) for prediction in predictions),
        rate(right, groups),
        None if main_right is None else mcnemar(main_right, right),
        seconds,
        dict(settings or {}),
    )


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
    classifiers: Sequence[str] = ("1-NN",),
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> tuple[Curve, ...]:
    """Accuracies against each weight with the other fixed, as in the paper's two figures.

    Parameters
    ----------
    gram : CrossGram or sequence of three CrossGram
        Of one collection with itself; or of the same clips by three codebooks, each learnt without a third.
    labels : (K,) array_like
    groups : (K,) array_like or None
        What is left out at once, see `leave_one_out`.
    codebook_folds : (K,) array of int, optional
        For three codebooks, see `sysbags.evaluate.candidates.by_codebook_fold`.
    lambda_a, lambda_mu : float, default=0.25, 0.0
        Where the other weight is fixed.
    grid_a, grid_mu : sequence of float
        By default the paper's: 0.15 to 1.95 by 0.2, and 0 to 100 by 10.
    classifiers : sequence of {"1-NN", "nearest mean"}
    random_state : int, Generator or None, default=0
    n_jobs : int, optional

    Returns
    -------
    tuple of Curve
        Two for each classifier: against `lambda_a`, then against `lambda_mu`.

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
    kept = np.arange(items) if groups is None else check_labels(groups, items, "groups")[1]
    values_a, values_mu = tuple(map(float, grid_a)), tuple(map(float, grid_mu))
    found: list[Curve] = []
    for name in classifiers:
        check_choice(name, "classifier", CURVE_CLASSIFIERS)
        table = {}
        for a in dict.fromkeys((*values_a, float(lambda_a))):
            weighted = [by_alignment(one, codes, kept, name, a, seed, n_jobs) for one in grams]
            for mu in (*values_mu, float(lambda_mu)) if a == lambda_a else (float(lambda_mu),):
                candidates = [at(mu) for at in weighted]
                judge = (
                    candidates[0]
                    if codebook_folds is None
                    else by_codebook_fold(candidates, codebook_folds, kept)
                )
                table[a, mu] = float(np.mean(judge(None) == codes))
        against_a = tuple(table[a, float(lambda_mu)] for a in values_a)
        against_mu = tuple(table[float(lambda_a), mu] for mu in values_mu)
        found.append(Curve("lambda_a", name, values_a, against_a, float(lambda_mu)))
        found.append(Curve("lambda_mu", name, values_mu, against_mu, float(lambda_a)))
    return tuple(found)


def by_alignment(
    gram: CrossGram,
    codes: IntArray,
    groups: IntArray,
    classifier: str,
    lambda_a: float,
    seed: int,
    n_jobs: int | None = None,
) -> Callable[..., Candidate]:
    """Return "1-NN" or "nearest mean" as a function of `lambda_mu` and a number of neighbours."""
    if classifier == "nearest mean":
        means = Means(gram, codes, groups, lambda_a, random_state=seed, n_jobs=n_jobs)
        return lambda mu, count=1: means.at(mu)
    distances = to_items(gram, groups, "alignment", lambda_a, seed, n_jobs)
    return lambda mu, count=1: neighbours(distances.at(mu), codes, groups, count)


def relations(
    systems: Sequence[System],
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
    """Say where each clip lies: all distances, a plane, the nearest clips and means, with their parts.

    Parameters
    ----------
    systems : sequence of System
        The K clips'.
    gram : CrossGram
        Theirs with themselves.
    codes, groups : (K,) array of int
        Class, from 0, and group of each.
    lambda_a, lambda_mu : float
    neighbours : int, default=8
        How many of the nearest clips to keep; all others where there are fewer.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional

    Returns
    -------
    Relations

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, codes = make_streams(classes=2, per_class=3, frames=30, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> found = relations(systems, sysbags.cross_gram(systems), codes, np.arange(6), 0.25, 1.0, neighbours=2)
    >>> found.plane.shape, found.neighbours.shape, found.class_parts.shape
    ((6, 2), (6, 2), (6, 2, 3))
    >>> near = found.distances[0, found.neighbours[0]]
    >>> bool(np.allclose(found.neighbour_parts[0].sum(axis=1), near))
    True
    """
    seed, items = seed_of(random_state), len(systems)
    distances = alignment_matrix(gram, lambda_a, lambda_mu, random_state=seed, n_jobs=n_jobs)
    others = distances + np.where(np.eye(items, dtype=bool), np.inf, 0.0)
    count = min(check_integer(neighbours, "neighbours"), items - 1)
    nearest = np.argsort(others, axis=1, kind="stable")[:, :count]
    pairs = np.column_stack([np.repeat(np.arange(items), count), nearest.ravel()])
    parts = pair_parts(gram, pairs, lambda_a, lambda_mu, seed, n_jobs)
    return Relations(
        float(lambda_a),
        float(lambda_mu),
        distances,
        classical_scaling(distances),
        nearest.astype(np.int64),
        parts.reshape(items, count, 3),
        class_parts(gram, codes, groups, lambda_a, lambda_mu, seed, n_jobs),
    )


def pair_parts(
    gram: CrossGram, pairs: IntArray, lambda_a: float, lambda_mu: float, seed: int, n_jobs: int | None = None
) -> Array:
    """Split the alignment distances of some pairs (row, column) into transition, observer and mean.

    The rotations are those of `alignment_matrix`, so that the parts sum to its distances.

    Returns
    -------
    (count, 3) array
    """
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    if gram.symmetric:
        pairs = np.sort(pairs, axis=1)  # as alignment_matrix has them; the parts are the same both ways
    rows, columns = gram.rows, gram.columns
    n = max(rows.transition.shape[1], columns.transition.shape[1])
    first, second = pad(rows.transition, n, n), pad(columns.transition, n, n)
    observer = pad(gram.observer, n, n)
    traces = np.einsum("kii->k", rows.observer_gram), np.einsum("kii->k", columns.observer_gram)
    sizes = np.maximum(rows.orders[pairs[:, 0]], columns.orders[pairs[:, 1]])
    parts = np.empty((len(pairs), 3))
    chunks = [
        (alike[k : k + PAIRS_A_CHUNK], int(size))
        for size in np.unique(sizes)
        for alike in [np.flatnonzero(sizes == size)]
        for k in range(0, len(alike), PAIRS_A_CHUNK)
    ]

    def fill(chunk: tuple[IntArray, int]) -> None:
        some, size = chunk
        i, j = np.ascontiguousarray(pairs[some].T)
        blocks, Q = observer[i, j], np.empty((len(some), size, size))
        tables = start_tables(size, None, seed)
        align_many(first, second, blocks, pairs[some], weight, *tables, np.empty(len(some)), Q)
        turned = np.einsum("kba,kbc,kcd->kad", Q, second[j, :size, :size], Q, optimize=True)
        parts[some, 0] = weight * ((first[i, :size, :size] - turned) ** 2).sum(axis=(1, 2))
        overlap = np.einsum("kab,kba->k", blocks[:, :size, :size], Q)
        parts[some, 1] = traces[0][i] + traces[1][j] - 2.0 * overlap
        parts[some, 2] = weight_mu * (rows.mean_norm[i] + columns.mean_norm[j] - 2.0 * gram.mean[i, j])

    if chunks:
        run(fill, chunks, n_jobs, "parts of distances")
    return np.maximum(parts, 0.0)


def class_parts(
    gram: CrossGram,
    codes: IntArray,
    groups: IntArray,
    lambda_a: float,
    lambda_mu: float,
    seed: int,
    n_jobs: int | None = None,
) -> Array:
    """Split the distance of each item to each class's Frechet mean, which is made without its group.

    Returns
    -------
    (K, C, 3) array
        NaN where nobody is left.
    """
    parts = np.full((len(codes), codes.max() + 1, 3), np.nan)
    # Where a group has no members in a class, all its items share the mean of the whole class.
    within = [[None, *np.unique(groups[codes == c]).tolist()] for c in range(codes.max() + 1)]

    def fill(task: tuple[int, int | None]) -> None:
        c, group = task
        members = np.flatnonzero((codes == c) & (groups != group))
        tested = np.flatnonzero(~np.isin(groups, within[c][1:]) if group is None else groups == group)
        if members.size and tested.size:
            mean = mean_of_gram(gram.subset(members), lambda_a, random_state=seed)
            blocks = mean_gram(gram.subset(members, tested), [np.arange(len(members))], [mean])
            pairs = np.column_stack([np.zeros_like(tested), np.arange(len(tested))])
            parts[tested, c] = pair_parts(blocks, pairs, lambda_a, lambda_mu, seed)

    run(fill, [(c, group) for c, there in enumerate(within) for group in there], n_jobs, "class means")
    return parts
