"""A committee of kernel ridge classifiers, whose distances, widths and ridges are chosen by cross-validation.

The terms of a squared distance are combined, turned into Gaussians or not, and penalised in several ways.
Each candidate is a kernel ridge classifier; its scores without a fold, and without two folds, need a single
inverse. The best candidates vote with their average score. The accuracy of the choice is estimated by nested
cross-validation: each fold is predicted by a committee that was chosen without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.linalg

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.moments import TERMS
from sysbags.classifiers.scores.ridge import (
    bordered,
    centred_kernel,
    gaussian_distances,
    ridge_scores,
    targets,
)

# Averages first: of equals the first is taken.
COMBINATIONS = (
    ("averages",),
    ("averages", "normalized covariances"),
    ("averages", "covariances"),
    ("normalized covariances",),
    ("covariances",),
    ("course",),
    ("course", "normalized covariances"),
    ("course", "covariances"),
)
AVERAGES = (("averages",),)
WIDTHS = (0.0, 1.0, 0.3)  # of the Gaussian, relative to the variance; 0 is none
RIDGES = (1.0, 0.3, 0.1, 0.03)  # relative to the variance
USUAL_RIDGE = 0.1
MEMBERS = 10
MOST_ITEMS = 1000  # that settings are chosen by, and that new clips are compared with
DIGITS = 9  # of held-out scores, which are about 1
JITTER = 1e-10  # of the largest diagonal entry


class Member(NamedTuple):
    """A kernel ridge classifier: weights of the terms of squared distances, width of the Gaussian, ridge."""

    weights: Array  # (T,)
    width: float
    ridge: float

    @property
    def is_of_averages(self) -> bool:
        """Whether nothing but averages over time is compared."""
        return not self.weights.reshape(-1, len(TERMS))[:, 1:].any()

    def squared(self, terms: Array) -> Array:
        """Return its squared distances, from the terms of pairs of items, (T, K, L)."""
        total = np.tensordot(self.weights, terms, axes=1)
        return gaussian_distances(total, self.width) if self.width > 0.0 else np.asarray(total)


class _Tried(NamedTuple):
    """A candidate: its scores without the own fold, and by what it is ranked.

    There is one row per fold that is left out, and a last one for none.
    """

    member: Member
    scores: Array  # (K, C)
    found: IntArray  # (F + 1, K), the classes that are predicted
    right: IntArray  # (F + 1, F), rightly predicted items of each fold
    errors: Array  # (F + 1, F)


class Choice(NamedTuple):
    """The members of a committee, and what they predict for items that they have not seen.

    Attributes
    ----------
    members : list of Member
    scores : (K, C) array
        The committee's scores without the fold of each item.
    predictions : (K,) array of int
        By committees that were chosen without the fold of each item.
    right : (F,) array of int
        How many items outside each fold are predicted rightly by committees that have seen neither the fold
        nor that of the item. Of two folds it is by committees that have seen the fold.
    tried : int
        The number of candidates.
    """

    members: list[Member]
    scores: Array
    predictions: IntArray
    right: IntArray
    tried: int


def candidates(terms: Array, bags: int, combined: Sequence[Sequence[str]]) -> Iterator[tuple[Array, float]]:
    """Yield weights of terms, (T,), and a width, for all combinations and all or some of the bags.

    The terms, (T, K, K), are those of `Moments.squared`, bag by bag. Each is divided by its variance, and so
    is their sum.
    """
    variances = [half_mean(term) or 1.0 for term in terms]
    known: set[tuple[int, ...]] = set()
    for size in sorted({bags, bags - 1, 1} - {0}, reverse=True):
        for some in combinations(range(bags), size):
            for names in combined:
                places = tuple(bag * len(TERMS) + TERMS.index(name) for bag in some for name in names)
                if places in known:
                    continue
                known.add(places)
                weights = np.zeros(len(terms))
                weights[list(places)] = [1.0 / variances[k] for k in places]
                weights /= half_mean(np.tensordot(weights, terms, axes=1)) or 1.0
                yield from ((weights, width) for width in WIDTHS)


def choose_committee(
    terms: Array,
    codes: IntArray,
    folds: IntArray,
    sample_weights: Array,
    *,
    bags: int = 1,
    combined: Sequence[Sequence[str]] = COMBINATIONS,
    n_jobs: int | None = None,
) -> tuple[Choice, Choice]:
    """Choose the candidates with the best accuracy on folds that are held out; of equals the smallest error.

    Return the choice among all candidates, and that among those of averages alone.

    Parameters
    ----------
    terms : (T, K, K) array
        Squared distances between all items, see `candidates`.
    codes : (K,) array of int
        The class of each item.
    folds : (K,) array of int
        From 0 on; there must be two at least.
    sample_weights : (K,) array
    bags : int, default=1
    combined : sequence of sequences of str
        The names of the terms that are added; averages alone are always tried, too.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    """
    order = np.argsort(folds, kind="stable")  # the items of a fold one after the other
    terms, codes, sample_weights = terms[:, order[:, None], order], codes[order], sample_weights[order]
    sizes = np.bincount(folds)
    count, nested = len(sizes), len(sizes) > 2
    wanted = targets(codes, int(codes.max()) + 1)
    owners = np.repeat(np.arange(count), sizes)
    outside = np.array([owners != fold for fold in [*(range(count) if nested else ()), count]])
    starts, every_item = np.cumsum(sizes) - sizes, np.arange(len(codes))
    settings: list[tuple[Array, float]] = list(candidates(terms, bags, (*AVERAGES, *combined)))
    ridges: Sequence[float] = RIDGES
    most = MEMBERS
    if not nested:  # nothing is left without both of two folds, so nothing is chosen
        settings, ridges = [one for one in settings if one[1] == 0.0], (USUAL_RIDGE,)
        most = len(settings)

    def tried(setting: tuple[Array, float]) -> list[_Tried]:
        squared = Member(*setting, 0.0).squared(terms)
        unit = half_mean(squared) or 1.0  # where all distances are 0, any penalty gives the same
        found = []
        for ridge in ridges:
            inverse = penalised_inverse(squared, ridge * unit / sample_weights)
            # Ties stay ties: round-off of a score contains the label of its own item.
            scores = np.round(held_out_scores(inverse, wanted, sizes, pairs=nested), DIGITS)
            labels = scores.argmax(axis=2)
            right = np.add.reduceat(((labels == codes) & outside).astype(np.int64), starts, axis=1)
            errors = np.add.reduceat(np.square(scores - wanted).mean(axis=2) * outside, starts, axis=1)
            found.append(_Tried(Member(*setting, ridge), scores[-1], labels, right, errors))
        return found

    every = [one for some in run(tried, settings, n_jobs, "settings") for one in some]
    back = np.argsort(order)

    def voted(some: list[_Tried]) -> Choice:
        found, right, errors = (np.array(part) for part in list(zip(*some, strict=True))[2:])
        ranks = _ranked(right.sum(axis=2), errors.sum(axis=2), most)
        voting = np.array([np.mean([some[k].scores for k in row], axis=0) for row in ranks])
        predictions = voting.argmax(axis=2)[owners if nested else 0, every_item]
        elsewhere = []
        for fold in range(count):
            labels = predictions
            if nested:  # the vote of members that are chosen without the own fold of each item, too
                others = [part[:, fold].sum(axis=1)[:, None] - part[:, fold] for part in (right, errors)]
                votes = np.zeros_like(wanted)
                for members in _ranked(others[0], others[1], most)[owners].T:
                    votes[every_item, found[members, fold, every_item]] += 1
                labels = votes.argmax(axis=1)
            elsewhere.append((labels == codes)[owners != fold].sum())
        chosen = [some[k].member for k in ranks[-1]]
        return Choice(chosen, voting[-1][back], predictions[back], np.array(elsewhere), len(some))

    return voted(every), voted([one for one in every if one.member.is_of_averages])


def _ranked(right: Array, errors: Array, most: int) -> IntArray:
    """Return the best of M candidates, for each column of (M, F) arrays."""
    return np.asarray(np.lexsort((errors.T, -right.T))[:, :most])


def better_predictions(choice: Choice, averages: Choice, folds: IntArray) -> IntArray:
    """Return for each fold what the choice predicts, or averages alone if they are better without the fold.

    The accuracy is that of one procedure: the larger of two accuracies would be optimistic.
    """
    return np.where((averages.right > choice.right)[folds], averages.predictions, choice.predictions)


def usual_members(terms: Array, bags: int, combined: Sequence[Sequence[str]]) -> list[Member]:
    """Return a committee where nothing can be chosen: all combinations, linear, with a ridge of 0.1."""
    linear = [weights for weights, width in candidates(terms, bags, combined) if width == 0.0]
    return [Member(weights, 0.0, USUAL_RIDGE) for weights in linear]


def penalised_inverse(squared: Array, penalties: Array) -> Array:
    """Return R, (K, K), the block of the inverse of `bordered(squared, penalties)` that belongs to the items.

    ``R Y`` are the coefficients of kernel ridge regression.
    """
    kernel = centred_kernel(squared)
    kernel[np.diag_indices_from(kernel)] += penalties
    factor, info = scipy.linalg.lapack.dpotrf(kernel, lower=1, clean=1, overwrite_a=1)
    if info:  # the distances are not Euclidean, but for round-off
        return np.asarray(np.linalg.inv(bordered(squared, penalties))[:-1, :-1])
    lower = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    lower[np.diag_indices_from(lower)] *= 0.5
    inverse = lower + lower.T
    sums = inverse.sum(axis=1)
    return np.asarray(scipy.linalg.blas.dger(-1.0 / sums.sum(), sums, sums, a=inverse, overwrite_a=1))


def held_out_scores(inverse: Array, wanted: Array, sizes: IntArray, *, pairs: bool = True) -> Array:
    """Return the scores of all items without their fold, and without another one.

    What the items S would be predicted by all others is ``Y_S - (R_SS)^-1 (R Y)_S``, with R of
    `penalised_inverse`; two folds that are left out together give the scores of each without the other.

    Parameters
    ----------
    inverse : (K, K) array
        R, with the items of each fold one after the other.
    wanted : (K, C) array
        Y.
    sizes : (F,) array of int
        The number of items of each fold, at least 1.
    pairs : bool, default=True
        Whether two folds are left out, too; there must then be more than two.

    Returns
    -------
    (F + 1, K, C) array
        Row f has scores without fold f and the own fold; the last row those without the own fold. With
        `pairs` False there is the last row only, (1, K, C).
    """
    count, size = len(sizes), int(sizes.max())
    inside = np.arange(size) < sizes[:, None]
    places = np.flatnonzero(inside)  # smaller folds are filled up with items that are tied to no other
    padded, padded_right = np.eye(count * size), np.zeros((count * size, wanted.shape[1]))
    padded[np.ix_(places, places)], padded_right[places] = inverse, inverse @ wanted
    blocks = padded.reshape(count, size, count, size).swapaxes(1, 2)  # of two folds
    right, every = padded_right.reshape(count, size, -1), np.arange(count)
    own = blocks[every, every]
    solved = np.linalg.solve(own, right)
    alone = wanted - solved[inside]
    if not pairs:
        return np.asarray(alone[None])
    # Of two folds the first is eliminated.
    first, second = np.tril_indices(count, -1)
    across = blocks[second, first]
    ahead = np.linalg.inv(own)[first] @ blocks[first, second]
    found = np.zeros((count, count, size, wanted.shape[1]))  # what is left out, and what is predicted
    found[first, second] = np.linalg.solve(
        own[second] - across @ ahead, right[second] - across @ solved[first]
    )
    found[second, first] = solved[first] - ahead @ found[first, second]
    scores = wanted - found[:, inside]
    owners = np.repeat(every, sizes)
    scores[owners, np.arange(len(wanted))] = alone
    return np.concatenate([scores, alone[None]])


class CommitteeFit(NamedTuple):
    """What the members of a committee have learnt: coefficients (M, L, C) and intercepts (M, C)."""

    coefficients: Array
    intercepts: Array


def fit_committee(
    members: Sequence[Member],
    terms: Array,
    kept: IntArray,
    codes: IntArray,
    sample_weights: Array,
    *,
    n_jobs: int | None = None,
) -> CommitteeFit:
    """Fit each member to K items; new items are compared with those L that are kept.

    Where all are kept, in their order, this is kernel ridge regression. Otherwise the functions that are
    fitted by least squares are those of the kept items only (the subset of regressors).

    Parameters
    ----------
    terms : (T, K, L) array
        Squared distances of all items to those that are kept.
    """
    wanted = targets(codes, int(codes.max()) + 1)

    def fitted(member: Member) -> tuple[Array, Array]:
        squared = member.squared(terms)
        between = squared[kept]
        penalty = member.ridge * (half_mean(between) or 1.0)
        if len(kept) == len(codes):
            found = penalised_inverse(squared, penalty / sample_weights) @ wanted
        else:
            found = _subset_of_regressors(squared, between, penalty, wanted, sample_weights)
        residuals = wanted - ridge_scores(squared, found, np.zeros(wanted.shape[1]))
        return found, np.average(residuals, axis=0, weights=sample_weights)

    coefficients, intercepts = zip(*run(fitted, members, n_jobs, "classifiers"), strict=True)
    return CommitteeFit(np.array(coefficients), np.array(intercepts))


def committee_scores(members: Sequence[Member], fit: CommitteeFit, terms: Array) -> Array:
    """Return the scores of new items, (K, C), from the terms of their distances to those kept, (T, K, L)."""
    scores = [
        ridge_scores(member.squared(terms), coefficients, intercepts)
        for member, coefficients, intercepts in zip(members, *fit, strict=True)
    ]
    return np.asarray(np.mean(scores, axis=0))


def _subset_of_regressors(
    squared: Array, between: Array, penalty: float, wanted: Array, sample_weights: Array
) -> Array:
    """Return coefficients, (L, C), of sum 0 that minimise the penalised weighted squared error."""
    features = -0.5 * squared
    features -= features.mean(axis=1, keepdims=True)
    features -= np.average(features, axis=0, weights=sample_weights)
    matrix = features.T @ (sample_weights[:, None] * features) + penalty * centred_kernel(between)
    matrix[np.diag_indices_from(matrix)] += JITTER * np.diag(matrix).max()
    right = features.T @ (sample_weights[:, None] * wanted)
    found = scipy.linalg.solve(matrix, right, assume_a="pos")
    return np.asarray(found - found.mean(axis=0))
