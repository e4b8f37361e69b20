"""Predictors against twins that refit everything from the bare items for every item and group left out."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import gram_in_form_of, in_form_of, make_stream, vote
from sysbags import (
    NearestMean,
    alignment_distance,
    cross_gram,
    frechet_mean,
    identify,
    medoid,
    pairwise_distances,
)
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.centers import (
    Centers,
    ClassCenters,
    average_centers,
    center_scores,
    frechet_centers,
    medoid_centers,
)
from sysbags.classifiers.scores.neighbors import Neighbors, neighbor_scores
from sysbags.classifiers.scores.ridge import Ridge, fit_ridge, log_shares, ridge_scores
from sysbags.distances import METRICS
from sysbags.distances.pairwise import distance_matrix
from sysbags.errors import ParameterError
from sysbags.evaluate.cross_validation import metric_predictors
from sysbags.evaluate.selection import CodebookFolds, TabulatedPredictor
from sysbags.means.frechet import covariance_mean

CODES = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
GROUPS = np.array([7, 7, 1, 2, 1, 3, 3, 4, 5, 5, 5])  # 1 straddles two classes, 5 is a whole class
LEFT_OUT = [None, 1, 2, 3, 4, 5, 7]
WEIGHTS = {"lambda_a": 0.4, "lambda_mu": 2.0}
# Both take the same steps from the same start; the twin evaluates the kernel of the mean's many samples anew.
TOLERANCE = 1e-7


def member(kind, seed, share=0.5):
    """A stream of a class that overlaps with others."""
    common = make_stream(np.random.default_rng(kind), frames=30)
    return share * common + (1 - share) * make_stream(np.random.default_rng([kind, seed]), frames=30)


@pytest.fixture(scope="module")
def systems():
    return [identify(member(code, k), order=3) for k, code in enumerate(CODES)]


@pytest.fixture(scope="module")
def gram(systems):
    return cross_gram(systems)


def allowed(item, group, code=None):
    """Who may have a part in the prediction of an item."""
    return [
        j for j in range(len(CODES)) if GROUPS[j] not in (GROUPS[item], group) and code in (None, CODES[j])
    ]


def judged(group):
    return [i for i in range(len(CODES)) if GROUPS[i] != group]


def slow_vote(distances, codes, count):
    """The definition: most votes among the nearest, then the nearest."""
    nearest = [codes[j] for j in np.argsort(distances, kind="stable")[:count]]
    votes = Counter(nearest)
    return next((code for code in nearest if votes[code] == max(votes.values())), -1)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_neighbors", [1, 2, 3, 30])
def test_neighbours_are_those_among_the_remaining_systems(systems, gram, metric, n_neighbors):
    systems, gram = in_form_of(metric, systems), gram_in_form_of(metric, gram)
    family = metric_predictors(gram, CODES, GROUPS, "nearest-system", metric, WEIGHTS["lambda_a"])
    predictor = family(WEIGHTS["lambda_mu"], n_neighbors)
    between = np.array([pairwise_distances([system], systems, metric, **WEIGHTS)[0] for system in systems])
    for group in LEFT_OUT:
        predicted = predictor.predict(group)
        for i in judged(group):
            indices = allowed(i, group)
            assert predicted[i] == slow_vote(between[i, indices], CODES[indices], n_neighbors)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 12))
def test_neighbours_of_any_table(seed, items, n_neighbors):
    """Few different distances, so that there are ties, and infinite ones."""
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, 4, size=items), rng.integers(0, 5, size=items)
    distances = rng.choice([0.0, 1.0, 2.0, 3.0, np.inf], size=(items, items))
    predictor = Neighbors(distances, codes, groups, n_neighbors)
    rows = rng.permutation(items)[: 1 + items // 2]
    partial = Neighbors(distances[rows], codes, groups, n_neighbors, rows=rows)
    finite = np.minimum(distances, np.finfo(float).max / (2 * items))
    for group in [None, *np.unique(groups)]:
        predicted, near = predictor.predict(group), predictor.distances(group)
        for i in np.flatnonzero(groups != group):
            indices = np.flatnonzero((groups != groups[i]) & (groups != group))
            assert predicted[i] == slow_vote(distances[i, indices], codes[indices], n_neighbors)
            assert near[i].tolist() == [
                min((finite[i, j] for j in indices if codes[j] == c), default=np.inf)
                for c in range(near.shape[1])
            ]
        np.testing.assert_array_equal(partial.predict(group)[rows], predicted[rows])
        np.testing.assert_array_equal(partial.distances(group), near[rows])
        assert (np.delete(partial.predict(group), rows) == -1).all()


@pytest.mark.parametrize("n_neighbors", [1, 3, 6])
def test_neighbours_vote_as_everywhere(n_neighbors):
    rng = np.random.default_rng(n_neighbors)
    codes, distances = rng.integers(0, 3, size=20), rng.random((20, 20))
    masked = distances + np.diag(np.full(20, np.inf))
    expected = vote(masked, codes, 3, n_neighbors)
    predictor = Neighbors(distances, codes, np.arange(20), n_neighbors)
    np.testing.assert_array_equal(predictor.predict(), expected)
    votes = predictor.deciding()
    assert (votes is None) == (n_neighbors == 1)
    ranked = (predictor.distances(),) if votes is None else (predictor.distances(), -votes)
    # The class with most votes, of equals the nearest.
    np.testing.assert_array_equal(np.lexsort(ranked, axis=1)[:, 0], expected)


def slow_medoid(systems, indices, metric, weights, known):
    """The medoid of some systems, from the bare systems, once for each selection of them."""
    if tuple(indices) not in known:
        members = [systems[j] for j in indices]
        known[tuple(indices)] = members[medoid(members, metric, **weights)] if members else None
    return known[tuple(indices)]


def slow_mean_distance(systems, item, indices, weights, known):
    """Distance of an item to the mean of others, from the bare systems, once for each selection of them."""
    if not indices:
        return np.inf
    if tuple(indices) not in known:
        known[tuple(indices)] = frechet_mean([systems[j] for j in indices], **weights).system
    return alignment_distance(known[tuple(indices)], systems[item], **weights)


@pytest.mark.parametrize("metric", ["alignment", "martin", "max-singular-value"])
def test_medoids_are_those_of_the_remaining_systems(systems, gram, metric):
    weights = WEIGHTS if metric == "alignment" else {}
    centers = medoid_centers(distance_matrix(gram, metric, **weights), CODES, GROUPS)
    predictor, known = Centers((centers, (1.0, 0.0), 1.0)), {}
    for group in LEFT_OUT:
        predicted = predictor.predict(group)
        for i in judged(group):
            centres = [slow_medoid(systems, allowed(i, group, c), metric, weights, known) for c in range(3)]
            present = [c for c in range(3) if centres[c] is not None]
            distances = pairwise_distances([systems[i]], [centres[c] for c in present], metric, **weights)
            assert predicted[i] == present[distances.argmin()]


@pytest.fixture(scope="module")
def mean_distances(systems):
    """Distances to means made from the bare systems, for every item and every group left out."""
    tables, known = {}, {}
    for group in LEFT_OUT:
        tables[group] = np.full((len(CODES), 3), np.nan)
        for i in judged(group):
            for c in range(3):
                indices = allowed(i, group, c)
                tables[group][i, c] = slow_mean_distance(systems, i, indices, WEIGHTS, known)
    return tables


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_means_are_those_of_the_remaining_systems(gram, mean_distances, n_jobs):
    centers = frechet_centers(gram, CODES, GROUPS, WEIGHTS["lambda_a"], n_jobs=n_jobs)
    predictor = Centers((centers, (1.0, WEIGHTS["lambda_mu"]), 1.0))
    wrong = 0
    for group in LEFT_OUT:
        rows, expected = judged(group), mean_distances[group]
        distances, predicted = predictor.distances(group), predictor.predict(group)
        np.testing.assert_allclose(distances[rows], expected[rows], atol=TOLERANCE)
        np.testing.assert_array_equal(
            distances, centers.distances(group) @ np.array([1.0, WEIGHTS["lambda_mu"]])
        )
        np.testing.assert_array_equal(predicted[rows], expected[rows].argmin(axis=1))
        wrong += int((predicted[rows] != CODES[rows]).sum())
    assert wrong > 0  # the classes overlap: it matters who is left out


@pytest.fixture(scope="module")
def unit_systems():
    return [identify(member(code, k), order=3, normal_form="unit-variance") for k, code in enumerate(CODES)]


@pytest.mark.parametrize("lambda_a", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("metric", ["covariance", "normalized-covariance"])
def test_averages_are_those_of_the_remaining_systems(unit_systems, metric, lambda_a):
    """The twin makes the mean of covariances as a system, from the bare systems that are left."""
    weights = {"lambda_a": lambda_a, "lambda_mu": 3.0}
    normalized_by = lambda_a if metric == "normalized-covariance" else None
    family = metric_predictors(cross_gram(unit_systems), CODES, GROUPS, "nearest-mean", metric, lambda_a)
    predictor, known, wrong = family(weights["lambda_mu"], 1), {}, 0
    for group in LEFT_OUT:
        distances, predicted = predictor.distances(group), predictor.predict(group)
        for i in judged(group):
            for c in range(3):
                indices = tuple(allowed(i, group, c))
                if not indices:
                    assert distances[i, c] == np.inf
                    continue
                if indices not in known:
                    members = [unit_systems[j] for j in indices]
                    known[indices] = covariance_mean(members, normalized_by=normalized_by)
                [[expected]] = pairwise_distances([unit_systems[i]], [known[indices]], metric, **weights)
                # A difference of sums of size 2, or of squared variances, which are far smaller.
                assert distances[i, c] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            left = allowed(i, group)
            wrong += predicted[i] != CODES[i]
            if group in (None, 1):
                model = NearestMean(metric=metric, **weights)
                model.fit([unit_systems[j] for j in left], CODES[left])
                assert predicted[i] == model.predict([unit_systems[i]])[0]
    assert wrong > 0


def unit_points(rng, items):
    points = rng.normal(size=(items, 3)) + np.array([1.0, 0.0, 0.0])  # their averages are not close to 0
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.booleans())
def test_averages_of_any_points(seed, items, normalized):
    """The centers of points are their averages; those of points on a sphere are brought back to it."""
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, 3, size=items), rng.integers(0, 4, size=items)
    first = unit_points(rng, items) if normalized else rng.normal(size=(items, 3))
    second = rng.normal(size=(items, 2))
    tables = [((points[:, None] - points) ** 2).sum(axis=2) for points in (first, second)]
    centers = average_centers(*tables, codes, groups, normalized=normalized)
    for group in [None, *np.unique(groups)]:
        table = centers.distances(group)
        for i in np.flatnonzero(groups != group):
            for c in range(codes.max() + 1):
                left = (codes == c) & (groups != groups[i]) & (groups != group)
                if not left.any():
                    assert table[i, c].tolist() == [np.inf, 0.0]
                    continue
                center = first[left].mean(axis=0)
                length = np.linalg.norm(center) if normalized else 1.0
                expected = [
                    ((first[i] - center / length) ** 2).sum(),
                    ((second[i] - second[left].mean(axis=0)) ** 2).sum(),
                ]
                # Distances are of size 1 to 10; dividing by a short length magnifies round-off.
                np.testing.assert_allclose(table[i, c], expected, rtol=1e-12, atol=1e-13 / length**2)


class Recorder:
    """Makes centers that are plain averages of numbers, and keeps what was made and measured."""

    def __init__(self, numbers):
        self.numbers, self.made, self.measured = numbers, [], []

    def __call__(self, members):
        self.made.append(tuple(members))
        center = self.numbers[members].mean()

        def measure(items):
            self.measured += [(tuple(members), item) for item in items]
            return (self.numbers[items, None] - center) ** 2

        return measure


def needed_subsets(codes, groups, left_out):
    """The members of each class without each item's own group and a further one: what must be known."""
    return {
        tuple(np.flatnonzero((codes == c) & (groups != own) & (groups != left_out)))
        for own in np.unique(groups)
        for c in np.unique(codes)
    } - {()}


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 14), st.permutations(range(6)))
def test_centers_are_made_when_they_are_asked_for_and_once(seed, items, order):
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, 3, size=items), 2 * rng.integers(0, 5, size=items)
    numbers = rng.normal(size=items)
    asked = [group for group in [None, *np.unique(groups)] if group is not None or order[0] % 2]
    asked = [asked[k] for k in order if k < len(asked)]
    recorder, needed = Recorder(numbers), set()
    centers = ClassCenters(codes, groups, recorder)
    assert recorder.made == []
    for group in asked:
        table = centers.distances(group)
        needed |= needed_subsets(codes, groups, group)
        assert set(recorder.made) == needed
        for i in np.flatnonzero(groups != group):
            for c in range(codes.max() + 1):
                left = (codes == c) & (groups != groups[i]) & (groups != group)
                expected = (numbers[i] - numbers[left].mean()) ** 2 if left.any() else np.inf
                # Squares of arrays and of numbers may differ in the last digit.
                assert table[i, c, 0] == pytest.approx(expected, rel=1e-14)
    # Different groups may leave the same members of a class: then their center is the same.
    assert len(recorder.made) == len(set(recorder.made))
    assert len(recorder.measured) == len(set(recorder.measured))
    counts = len(recorder.made), len(recorder.measured)
    for group in asked:
        centers.distances(group)
    assert (len(recorder.made), len(recorder.measured)) == counts


def test_threads_that_ask_at_once_make_nothing_twice():
    codes, groups = np.repeat([0, 1, 2], 6), np.arange(18) % 9
    expected, recorder = Recorder(np.arange(18.0)), Recorder(np.arange(18.0))
    alone, shared = ClassCenters(codes, groups, expected), ClassCenters(codes, groups, recorder, n_jobs=3)
    asked = [None, *range(9)] * 3
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(shared.distances, asked))
    for group, table in zip(asked, tables, strict=True):
        np.testing.assert_array_equal(table, alone.distances(group))
    assert sorted(recorder.made) == sorted(expected.made)
    assert len(set(recorder.made)) == len(recorder.made)


@pytest.mark.parametrize("metric", ["martin", "max-singular-value"])
@pytest.mark.parametrize("classifier", ["nearest-mean", "nearest-system"])
def test_metrics_without_weights_ignore_them(gram, metric, classifier):
    families = [metric_predictors(gram, CODES, GROUPS, classifier, metric, a) for a in (0.0, 5.0)]
    first, second = (family(mu, 1) for family, mu in zip(families, (0.0, 7.0), strict=True))
    for group in LEFT_OUT:
        np.testing.assert_array_equal(first.distances(group), second.distances(group))
        np.testing.assert_array_equal(first.predict(group), second.predict(group))


def test_order_of_the_questions_does_not_matter(gram):
    """Means are computed when they are needed: for groups first, or for None first."""
    first, second = (frechet_centers(gram, CODES, GROUPS, 0.4) for _ in range(2))
    asked = [first.distances(group) for group in LEFT_OUT]
    again = [second.distances(group) for group in LEFT_OUT[::-1]][::-1]
    for table, expected in zip(asked, again, strict=True):
        np.testing.assert_array_equal(table, expected)


def test_one_pass_serves_every_weight_of_the_mean(gram, monkeypatch):
    family = metric_predictors(gram, CODES, GROUPS, "nearest-mean", "alignment", 0.4)
    family(0.0, 1).predict()
    monkeypatch.setattr("sysbags.classifiers.scores.centers.mean_of_gram", None)
    appearance = family(1e9, 1).predict()
    norms = gram.rows.mean_norm
    for i in range(len(CODES)):
        distances = []
        for c in range(3):
            indices = allowed(i, None, c)
            share = np.full(len(indices), 1 / max(len(indices), 1))
            to_mean = (
                norms[i]
                - 2 * gram.mean[i, indices] @ share
                + share @ gram.mean[np.ix_(indices, indices)] @ share
            )
            distances.append(to_mean if indices else np.inf)
        assert appearance[i] == np.argmin(distances)


def test_systems_of_different_orders():
    """Where the group alone has the largest order, the mean without it lives in a smaller space."""
    mixed = [identify(member(CODES[k], k), order=n) for k, n in enumerate([4, 4, 3, 3, 3, 2, 2, 3, 4, 3, 3])]
    centers, known = frechet_centers(cross_gram(mixed), CODES, GROUPS, 0.4), {}
    for group in LEFT_OUT:
        distances = centers.distances(group)[:, :, 0]
        for i in judged(group):
            expected = [
                slow_mean_distance(mixed, i, allowed(i, group, c), {"lambda_a": 0.4}, known) for c in range(3)
            ]
            np.testing.assert_allclose(distances[i], expected, atol=TOLERANCE)


def changed(systems, rows):
    """The same systems but for some that are replaced by others."""
    return [
        identify(make_stream(np.random.default_rng(500 + i), frames=30), order=3) if i in rows else system
        for i, system in enumerate(systems)
    ]


def everything(systems, codes):
    """One predictor of each kind, and the Frechet means of the last two."""
    gram = cross_gram(systems)
    between = distance_matrix(gram, **WEIGHTS)
    means = frechet_centers(gram, codes, GROUPS, WEIGHTS["lambda_a"])
    return means, [
        Neighbors(between, codes, GROUPS),
        Neighbors(between, codes, GROUPS, 3),
        Centers((medoid_centers(between, codes, GROUPS), (1.0, 0.0), 1.0)),
        Centers((means, (1.0, 0.0), 1.0)),
        Centers((means, (1.0, 2.0), 1.0)),
    ]


def assert_same_distances(new, old):
    """Equal but for the order of sums; a class that went with the group is infinitely far away."""
    classes = new.shape[1]
    np.testing.assert_allclose(new, old[:, :classes], rtol=1e-12)
    assert np.isinf(old[:, classes:, 0]).all()


@pytest.mark.parametrize("group", LEFT_OUT[1:])
def test_a_group_left_out_has_no_say(systems, group):
    """Whatever the clips of a group are and whatever they are called, the others are judged as before."""
    rows, others = np.flatnonzero(group == GROUPS), judged(group)
    codes = CODES.copy()
    codes[rows] = (codes[rows] + 1) % 3
    means, predictors = everything(systems, CODES)
    new_means, new_predictors = everything(changed(systems, rows), codes)
    for old, new in zip(predictors, new_predictors, strict=True):
        np.testing.assert_array_equal(new.predict(group)[others], old.predict(group)[others])
    assert_same_distances(new_means.distances(group)[others], means.distances(group)[others])


@pytest.mark.parametrize("group", [1, 5, 7])
def test_the_own_group_has_no_say(systems, group):
    """An item's prediction does not depend on its companions: neither on their data nor on their classes."""
    item, *companions = np.flatnonzero(group == GROUPS)
    codes = CODES.copy()
    codes[[item, *companions]] = (codes[[item, *companions]] + 1) % 3
    means, predictors = everything(systems, CODES)
    new_means, new_predictors = everything(changed(systems, companions), codes)
    for left_out in LEFT_OUT:
        if left_out != group:
            for old, new in zip(predictors, new_predictors, strict=True):
                assert new.predict(left_out)[item] == old.predict(left_out)[item]
            assert_same_distances(new_means.distances(left_out)[[item]], means.distances(left_out)[[item]])


def test_an_own_mean_would_show(systems, gram):
    """A mean in which the item had a part would be nearer to it by far more than the tolerances here."""
    distances = frechet_centers(gram, CODES, GROUPS, 0.4).distances()[:, :, 0]
    for i in range(len(CODES)):
        members = [systems[j] for j in np.flatnonzero(CODES[i] == CODES)]
        leaked = alignment_distance(frechet_mean(members, 0.4).system, systems[i], 0.4)
        assert leaked < distances[i, CODES[i]] - 0.01


def test_nobody_left_is_never_predicted(gram):
    between = distance_matrix(gram)
    codes, groups = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])
    small = gram.subset(range(4))
    for predictor in (
        Neighbors(between[:4, :4], codes, groups),
        Neighbors(between[:4, :4], codes, groups, 5),
        Centers((medoid_centers(between[:4, :4], codes, groups), (1.0, 0.0), 1.0)),
        Centers((frechet_centers(small, codes, groups, 0.25), (1.0, 0.0), 1.0)),
    ):
        assert predictor.predict()[:2].tolist() == [1, 1]
        assert predictor.predict(0)[2:].tolist() == [1, 1]
        assert predictor.predict(2)[:3].tolist() == [1, 1, 0]
    two_groups = np.array([0, 0, 1, 1])
    for predictor in (
        Neighbors(between[:4, :4], codes, two_groups),
        Centers((frechet_centers(small, codes, two_groups, 0.25), (1.0, 0.0), 1.0)),
    ):
        assert predictor.predict(1)[:2].tolist() == [-1, -1]
        assert np.isinf(predictor.distances(1)[:2]).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_kernel_ridge_of_two_groups(seed):
    """Without one of two groups nothing is left to predict the other by."""
    points = np.random.default_rng(seed).normal(size=(8, 3))
    between = ((points[:, None] - points) ** 2).sum(axis=2)
    for groups in (np.arange(8) % 2, np.arange(8) // 4, np.array([0, 1, 1, 1, 1, 1, 1, 1])):
        predictor = Ridge(between, np.repeat([0, 1], 4), groups)
        assert set(predictor.predict()) <= {0, 1}
        for group in (0, 1):
            assert (predictor.predict(group)[groups != group] == -1).all()


def test_infinite_distances_lead_back_to_nobody():
    """Baselines may give infinity between others; still nothing comes from the own group."""
    far, codes = np.full((4, 4), np.inf), np.array([0, 0, 1, 1])
    for predictor in (
        Neighbors(far, codes, np.arange(4)),
        Centers((medoid_centers(far, codes, np.arange(4)), (1.0, 0.0), 1.0)),
    ):
        assert set(predictor.predict()) <= {0, 1}
    assert Neighbors(far, codes, np.array([0, 0, 1, 1])).predict().tolist() == [1, 1, 0, 0]


class Recorded:
    """A predictor that always says the same and keeps what it was asked."""

    def __init__(self, code, calls):
        self.code, self.calls = code, calls

    def predict(self, excluding=None):
        self.calls.append((self.code, excluding))
        return np.full(6, self.code)


def test_folds_are_predicted_by_what_was_learnt_without_them():
    folds, groups = np.array([0, 0, 1, 1, 2, 2]), np.array([4, 4, 5, 6, 7, 8])
    calls = []
    predictor = CodebookFolds([Recorded(k, calls) for k in range(3)], folds, groups)
    assert predictor.predict().tolist() == folds.tolist()
    calls.clear()
    for group, fold in [(4, 0), (5, 1), (6, 1), (7, 2), (8, 2)]:
        assert predictor.predict(group).tolist() == [fold] * 6
    assert calls == [(0, 4), (1, 5), (1, 6), (2, 7), (2, 8)]  # no other codebook is even looked at


def test_tabulated_predictions_are_the_same(gram):
    """Asked once for every group; later the predictor itself is no longer needed."""
    predictors = [
        family(2.0, count)
        for count, classifier in ((1, "nearest-mean"), (1, "nearest-system"), (3, "nearest-system"))
        for family in [metric_predictors(gram, CODES, GROUPS, classifier, "alignment", 0.4)]
    ]
    for predictor in predictors:
        table = TabulatedPredictor(predictor, GROUPS)
        for group in LEFT_OUT:
            np.testing.assert_array_equal(table.predict(group), predictor.predict(group))
    calls = []
    table = TabulatedPredictor(Recorded(1, calls), np.array([4, 4, 5, 6, 7, 8]))
    assert sorted(calls, key=str) == [(1, 4), (1, 5), (1, 6), (1, 7), (1, 8), (1, None)]
    calls.clear()
    table.predict()
    table.predict(7)
    assert calls == []


def left_out(rng, items):
    """Points, their squared distances, classes and groups; and every pair of a group and one more."""
    codes, groups = rng.integers(0, 3, size=items), rng.integers(0, 5, size=items)
    points = rng.normal(size=(items, 3)) + codes[:, None]
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    pairs = [(own, more) for own in np.unique(groups) for more in [None, *np.unique(groups)] if own != more]
    return points, squared, codes, groups, pairs


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 16), st.integers(1, 3), st.floats(0.1, 5.0), st.booleans())
def test_leaving_out_a_group_is_fitting_without_it(seed, items, n_neighbors, penalty, equal_classes):
    """What is evaluated is what estimators compute from the items that are left, for every core."""
    points, squared, codes, groups, pairs = left_out(np.random.default_rng(seed), items)
    classes, size = int(codes.max()) + 1, items / 3 if equal_classes else None
    neighbors = Neighbors(squared, codes, groups, n_neighbors)
    centers = Centers((average_centers(squared, 0.0 * squared, codes, groups), (1.0, 0.0), 1.0))
    ridge = Ridge(squared, codes, groups, penalty, size)
    for own, more in pairs:
        test, train = groups == own, (groups != own) & (groups != more)
        present = np.unique(codes[train])
        if not train.any():
            continue
        expected = neighbor_scores(squared[np.ix_(test, train)], codes[train], classes, n_neighbors)
        np.testing.assert_array_equal(neighbors.predict(more)[test], expected.codes)
        np.testing.assert_array_equal(neighbors.scores(more)[test], expected.scores)
        means = np.stack([points[train & (codes == c)].mean(axis=0) for c in present])
        expected = center_scores(((points[test, None] - means) ** 2).sum(axis=2))
        # A difference of means of squared distances, which are of size 1 to 30.
        np.testing.assert_allclose(centers.scores(more)[test][:, present], expected.scores, atol=1e-12)
        weights = np.ones(train.sum())
        if equal_classes:
            weights = size / np.bincount(codes[train])[codes[train]]
        rest = squared[np.ix_(train, train)]
        fit = fit_ridge(rest, codes[train], classes, penalty / (half_mean(rest) or 1.0), weights)
        expected = ridge_scores(squared[np.ix_(test, train)], fit.coefficients, fit.intercepts)
        # Scores are of size 1; the smallest penalty magnifies the round-off of distances of size 30.
        np.testing.assert_allclose(
            ridge.scores(more)[test][:, present], log_shares(expected[:, present]), atol=1e-9
        )
        assert np.isneginf(np.delete(ridge.scores(more)[test], present, axis=1)).all()


def test_mistakes(systems, gram):
    for call, sentence in [
        (lambda: Neighbors(np.zeros((11, 11)), CODES, GROUPS, 0), "n_neighbors is 0, but it must be"),
        (lambda: Neighbors(np.zeros((3, 3)), CODES, GROUPS), "distances has shape (3, 3)"),
        (lambda: Neighbors(np.full((11, 11), np.nan), CODES, GROUPS), "distances holds NaN"),
        (lambda: medoid_centers(np.zeros((3, 11)), CODES, GROUPS), "distances has shape (3, 11)"),
        (lambda: frechet_centers(gram, CODES, GROUPS, -1.0), "lambda_a is -1.0, but it must be"),
        (
            lambda: metric_predictors(gram, CODES, GROUPS, "nearest-mean", "alignment", 1.0)(np.nan, 1),
            "lambda_mu is nan, but it must be",
        ),
        (
            lambda: frechet_centers(gram.subset([0, 1], [2, 3]), CODES, GROUPS, 1.0),
            "one collection with itself",
        ),
        (
            lambda: metric_predictors(gram, CODES, GROUPS, "NCC", "alignment", 1.0),
            "classifier is 'NCC', but it must be one of 'nearest-system'",
        ),
        (
            lambda: metric_predictors(gram, CODES, GROUPS, "nearest-system", "euclidean", 1.0),
            "metric is 'euclidean', but it must be one of 'alignment'",
        ),
        (
            lambda: average_centers(np.zeros((3, 11)), np.zeros((11, 11)), CODES, GROUPS),
            "distances has shape (3, 11)",
        ),
        (lambda: CodebookFolds([], CODES, GROUPS), "there are 0 predictors"),
        (lambda: CodebookFolds([None] * 3, CODES, GROUPS), "group 1 is in two codebook folds"),
    ]:
        with pytest.raises(ParameterError) as caught:
            call()
        assert sentence in str(caught.value)
