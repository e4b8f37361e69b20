"""Leave-one-out against loops that leave one out by hand."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import gram_in_form_of, in_form_of, make_stream, vote
from sysbags import NearestMean, alignment_distance, cross_gram, frechet_mean, identify, pairwise_distances
from sysbags.classifiers.scores.centers import average_centers
from sysbags.datasets import make_streams
from sysbags.distances import METRICS
from sysbags.errors import ParameterError, SysbagsError
from sysbags.evaluate import LeaveOneOut, leave_one_out
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS
from sysbags.systems.system import System

# A mean stops when its objective falls by less than 1e-9 of the members' size. The objective is second order
# in the mean's error, the distance to an item that is no member first order: sqrt(1e-9) times a few.
MEAN_TOLERANCE = 1e-4
SIZES = (5, 4, 3, 1)
LABELS = np.repeat(list("abcd"), SIZES)
WRONG = 8  # a member of "b" that is labelled "a", so that not all predictions are right
LABELS[WRONG] = "a"


def make_member(kind, seed, share=0.9):
    """A stream of a class: its own noise on what the class has in common."""
    common = make_stream(np.random.default_rng(kind), frames=40)
    noise = np.random.default_rng([kind, seed]).dirichlet(np.ones(8), size=40)
    return share * common + (1.0 - share) * noise


@pytest.fixture(scope="module")
def systems():
    return [identify(make_member(kind, k), order=3) for kind, size in enumerate(SIZES) for k in range(size)]


@pytest.fixture(scope="module")
def gram(systems):
    return cross_gram(systems)


def others(item, label=None):
    """Indices of all items but one, of one class."""
    return [j for j in range(len(LABELS)) if j != item and label in (None, LABELS[j])]


def slow_neighbours(distances, item, count):
    """Label by the definition: most votes among the nearest, then the nearest."""
    nearest = sorted(others(item), key=lambda j: distances[item, j])[:count]
    votes = Counter(LABELS[j] for j in nearest)
    return next(LABELS[j] for j in nearest if votes[LABELS[j]] == max(votes.values()))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_neighbors", [1, 3, 4])
def test_nearest_system_is_the_loop(systems, gram, metric, n_neighbors):
    weights = {"lambda_a": 0.4, "lambda_mu": 2.0}
    systems, gram = in_form_of(metric, systems), gram_in_form_of(metric, gram)
    result = leave_one_out(
        gram, LABELS, classifier="nearest-system", metric=metric, n_neighbors=n_neighbors, **weights
    )
    distances = pairwise_distances(systems, metric=metric, **weights)
    assert result.predictions.tolist() == [
        slow_neighbours(distances, i, n_neighbors) for i in range(len(LABELS))
    ]
    for i in range(len(LABELS)):
        for c, label in enumerate(result.classes):
            nearest = min((distances[i, j] for j in others(i, label)), default=np.inf)
            # The two sum the same terms in another order.
            assert result.distances[i, c] == pytest.approx(nearest, rel=1e-13)
    assert result.predictions[WRONG] == "b"


@pytest.mark.parametrize(("lambda_a", "lambda_mu"), [(0.25, 0.0), (1.0, 10.0)])
def test_nearest_mean_is_the_loop_with_means_from_scratch(systems, gram, lambda_a, lambda_mu):
    weights = {"lambda_a": lambda_a, "lambda_mu": lambda_mu}
    result = leave_one_out(gram, LABELS, **weights)
    expected = np.full(result.distances.shape, np.inf)
    for i, theta in enumerate(systems):
        for c, label in enumerate(result.classes):
            members = [systems[j] for j in others(i, label)]
            if members:
                expected[i, c] = alignment_distance(frechet_mean(members, **weights).system, theta, **weights)
    np.testing.assert_allclose(result.distances, expected, rtol=0, atol=MEAN_TOLERANCE)
    assert result.predictions.tolist() == result.classes[expected.argmin(axis=1)].tolist()
    assert result.predictions[WRONG] == "b"


@pytest.mark.parametrize("metric", ["covariance", "normalized-covariance"])
def test_means_of_covariances_are_the_estimators(metric):
    """NearestMean is fitted anew without each item."""
    weights = {"metric": metric, "lambda_a": 0.8, "lambda_mu": 2.0}
    streams = [make_member(kind, k) for kind, size in enumerate(SIZES) for k in range(size)]
    systems = [identify(stream, order=3, normal_form="unit-variance") for stream in streams]
    result = leave_one_out(cross_gram(systems), LABELS, **weights)
    for i, theta in enumerate(systems):
        model = NearestMean(**weights).fit([systems[j] for j in others(i)], LABELS[others(i)])
        [explanation] = model.explain([theta])
        assert result.predictions[i] == explanation.label
        expected = [explanation.distances.get(label, np.inf) for label in result.classes]
        # A difference of numbers of size 1; without norms, of squared variances, which are far smaller.
        np.testing.assert_allclose(result.distances[i], expected, rtol=1e-9, atol=1e-12)
    assert result.predictions[WRONG] == "b"


@pytest.mark.parametrize("lambda_mu", [0.0, 10.0])
def test_an_item_has_no_say_in_its_own_centre(systems, gram, lambda_mu):
    """The centre is worked out once without the item; the distance to it must hold whatever the item is."""
    item = 1
    centre = frechet_mean([systems[j] for j in others(item, "a")], lambda_mu=lambda_mu).system
    for stream in (make_member(0, 1), make_member(0, 77, share=0.7), make_member(9, 3)):
        changed = list(systems)
        changed[item] = identify(stream, order=3)
        result = leave_one_out(cross_gram(changed), LABELS, lambda_mu=lambda_mu)
        distance = alignment_distance(centre, changed[item], lambda_mu=lambda_mu)
        assert result.distances[item, 0] == pytest.approx(distance, abs=MEAN_TOLERANCE)
    # A mean of all would show: the item pulls it nearer by far more than the tolerance.
    leaked = frechet_mean([*(changed[j] for j in others(item, "a")), changed[item]], lambda_mu=lambda_mu)
    assert alignment_distance(leaked.system, changed[item], lambda_mu=lambda_mu) < distance - 0.01


@pytest.mark.parametrize("metric", ["martin", "max-singular-value"])
def test_baselines_use_the_medoid_without_the_item(systems, gram, metric):
    result = leave_one_out(gram, LABELS, metric=metric)
    distances = pairwise_distances(systems, metric=metric)
    centres = set()
    for i in range(len(LABELS)):
        for c, label in enumerate(result.classes):
            members = others(i, label)
            if not members:
                assert result.distances[i, c] == np.inf
                continue
            totals = [sum(distances[j, k] for k in members if k != j) for j in members]
            # Of two members each is a medoid; their sums differ by round-off alone.
            medoids = [j for j, total in zip(members, totals, strict=True) if total <= min(totals) + 1e-12]
            assert result.distances[i, c] in distances[i, medoids]
            centres.update((label, j) for j in medoids)
    assert len(centres) > len(result.classes)  # leaving an item out does move a medoid
    assert result.predictions.tolist() == result.classes[result.distances.argmin(axis=1)].tolist()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("classifier", DISTANCE_CLASSIFIERS)
def test_item_alone_in_its_class(gram, classifier, metric):
    gram = gram_in_form_of(metric, gram)
    result = leave_one_out(gram, LABELS, classifier=classifier, metric=metric)
    assert result.distances[-1, 3] == np.inf
    assert np.isfinite(result.distances).sum() == result.distances.size - 1
    assert result.predictions[-1] != "d"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("classifier", DISTANCE_CLASSIFIERS)
def test_same_bits_for_any_number_of_threads(gram, classifier, metric):
    gram = gram_in_form_of(metric, gram)
    first, second, third = (
        leave_one_out(gram, LABELS, classifier=classifier, metric=metric, lambda_mu=1.0, n_jobs=jobs)
        for jobs in (1, 2, 3)
    )
    for more in (second, third):
        np.testing.assert_array_equal(first.distances, more.distances)
        np.testing.assert_array_equal(first.predictions, more.predictions)


def test_generator_is_a_seed(gram):
    first, second = (leave_one_out(gram, LABELS, random_state=np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first.distances, second.distances)


def test_order_of_items_and_names_of_classes_do_not_matter(systems, gram):
    result = leave_one_out(gram, LABELS, lambda_mu=1.0)
    turn = np.random.default_rng(0).permutation(len(LABELS))
    names = np.array([{"a": 30, "b": -2, "c": 7, "d": 100}[label] for label in LABELS])
    again = leave_one_out(gram.subset(turn), names[turn], lambda_mu=1.0)
    assert again.classes.tolist() == [-2, 7, 30, 100]
    columns = [1, 2, 0, 3]  # b, c, a, d
    np.testing.assert_allclose(again.distances, result.distances[turn][:, columns], atol=MEAN_TOLERANCE)
    assert again.accuracy == result.accuracy


def unit_system(factor, bins):
    """A system of order len(bins) whose observers are unit vectors."""
    order = len(bins)
    return System(factor * np.eye(order), np.eye(7)[bins], np.eye(order), np.full(order, 1 / order), "linear")


def test_systems_of_different_orders():
    """A mean has the largest order of its own members, whatever the orders in other classes.

    With one zero more the opposite transitions of class "a" could come nearer to each other.
    """
    mixed = [unit_system(0.9, [0, 1]), unit_system(-0.9, [2, 3])]
    mixed += [unit_system(0.5, [4, 5, 6]), unit_system(0.4, [4, 5, 6])]
    labels = ["a", "a", "b", "b"]
    result = leave_one_out(cross_gram(mixed), labels, lambda_a=5.0)
    expected = [
        [
            frechet_mean([s for j, s in enumerate(mixed) if labels[j] == label and j != i], lambda_a=5.0)
            for label in "ab"
        ]
        for i in range(4)
    ]
    distances = [
        [alignment_distance(m.system, mixed[i], lambda_a=5.0) for m in expected[i]] for i in range(4)
    ]
    np.testing.assert_allclose(result.distances, distances, atol=MEAN_TOLERANCE)


def test_infinite_distances_do_not_lead_back_to_the_item():
    """Observers that share nothing are infinitely far apart for Martin; still no item may vote for itself."""
    gram = cross_gram([unit_system(0.5, [0, 1]), unit_system(0.5, [2, 3]), unit_system(0.5, [4, 5])])
    for classifier in DISTANCE_CLASSIFIERS:
        result = leave_one_out(gram, ["a", "b", "c"], classifier=classifier, metric="martin")
        assert not np.any(result.predictions == result.labels)


def test_accuracy_and_confusion():
    labels, predictions = np.array(["a", "a", "b", "c", "c", "c"]), np.array(["a", "c", "b", "c", "a", "a"])
    result = LeaveOneOut(
        classes=np.array(["a", "b", "c"]), labels=labels, predictions=predictions, distances=np.zeros((6, 3))
    )
    assert result.accuracy == 3 / 6
    np.testing.assert_array_equal(result.confusion, [[1, 0, 1], [0, 1, 0], [2, 0, 1]])


@pytest.mark.parametrize("classifier", DISTANCE_CLASSIFIERS)
def test_confusion_counts_every_item(gram, classifier):
    result = leave_one_out(gram, LABELS, classifier=classifier)
    expected = [
        [np.sum((result.labels == t) & (result.predictions == p)) for p in result.classes]
        for t in result.classes
    ]
    np.testing.assert_array_equal(result.confusion, expected)
    np.testing.assert_array_equal(result.labels, LABELS)
    assert result.accuracy == pytest.approx(np.trace(result.confusion) / len(LABELS), abs=1e-15)
    assert 0 < result.accuracy < 1


def test_ties_of_votes_go_to_the_nearer_class():
    codes = np.array([0, 1, 2, 1, 0, 2])
    distances = np.array(
        [
            [5.0, 1.0, 9.0, 2.0, 4.0, 8.0],  # ranks 1, 1, 0, 0, 2, 2
            [1.0, 2.0, 9.0, 3.0, 4.0, 8.0],  # ranks 0, 1, 1, 0, 2, 2
            [9.0, 8.0, 0.0, 7.0, 6.0, 5.0],  # ranks 2, 2, 0, 1, 1, 0
        ]
    )
    assert vote(distances, codes, 3, 1).tolist() == [1, 0, 2]
    assert vote(distances, codes, 3, 2).tolist() == [1, 0, 2]
    assert vote(distances, codes, 3, 4).tolist() == [1, 0, 2]
    assert vote(distances, codes, 3, 3).tolist() == [1, 1, 2]
    assert vote(distances, codes, 3, 6).tolist() == [1, 0, 2]


@given(st.integers(0, 10_000), st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_votes_are_counted(seed, neighbours):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, size=9)
    distances = rng.permutation(27).reshape(3, 9).astype(float)
    for row, winner in zip(distances, vote(distances, codes, 3, neighbours), strict=True):
        nearest = codes[np.argsort(row)][:neighbours].tolist()
        most = max(map(nearest.count, range(3)))
        assert winner == next(code for code in nearest if nearest.count(code) == most)


def test_nothing_is_modified(gram):
    arrays = (gram.observer, gram.mean, gram.rows.transition, gram.rows.observer_gram, gram.rows.mean_norm)
    before = [array.copy() for array in arrays]
    labels = LABELS.copy()
    for classifier in DISTANCE_CLASSIFIERS:
        for metric in METRICS:
            leave_one_out(gram_in_form_of(metric, gram), labels, classifier=classifier, metric=metric)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"classifier": "nearest"},
            "classifier is 'nearest', but it must be one of 'nearest-system', 'nearest-mean'",
        ),
        ({"metric": "euclidean"}, "metric is 'euclidean', but it must be one of 'alignment', 'covariance'"),
        ({"lambda_a": -1}, "lambda_a is -1, but it must be a finite number that is 0 or more"),
        ({"lambda_mu": np.nan}, "lambda_mu is nan, but it must be a finite number"),
        (
            {"classifier": "nearest-system", "n_neighbors": 0},
            "n_neighbors is 0, but it must be a whole number",
        ),
        ({"classifier": "nearest-system", "n_neighbors": 1.5}, "n_neighbors is 1.5, but it must be a whole"),
        ({"random_state": -3}, "random_state is -3, but it must be"),
        ({"n_jobs": 0}, "n_jobs is 0, but it must be a number of threads"),
    ],
)
def test_bad_options(gram, options, sentence):
    with pytest.raises(ParameterError) as caught:
        leave_one_out(gram, LABELS, **options)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "labels",
    [
        LABELS[:-1],
        LABELS[:, None],
        "a",
        [["a"], ["b", "c"]],
        [None, *LABELS[1:]],
        [1, *LABELS[1:-1], None],
        [np.nan, *range(len(LABELS) - 1)],
    ],
    ids=["short", "2-D", "one string", "ragged", "None", "mixed", "NaN"],
)
def test_bad_labels(gram, labels):
    with pytest.raises(SysbagsError, match="labels"):
        leave_one_out(gram, labels)


def test_gram_of_two_collections(systems):
    with pytest.raises(ParameterError, match="one collection with itself"):
        leave_one_out(cross_gram(systems[:3], systems[:3]), ["a", "a", "b"])


def test_needs_a_cross_gram():
    with pytest.raises(ParameterError, match="gram is of type list, but it must be a CrossGram"):
        leave_one_out([1, 2], ["a", "b"])


@pytest.mark.parametrize("classifier", DISTANCE_CLASSIFIERS)
def test_blocks_on_disk_are_read_in_parts(tmp_path, classifier):
    streams, labels = make_streams(classes=8, per_class=20, frames=20, bins=8)
    gram = cross_gram([identify(stream, order=6) for stream in streams])
    np.save(tmp_path / "observer.npy", gram.observer)
    on_disk = replace(gram, observer=np.load(tmp_path / "observer.npy", mmap_mode="r"))
    expected = leave_one_out(gram, labels, classifier=classifier)
    tracemalloc.start()
    found = leave_one_out(on_disk, labels, classifier=classifier)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found.distances, expected.distances)
    # Some (K, K) matrices, and the blocks of one class; a copy of all blocks would be more.
    assert peak < 0.8 * gram.observer.nbytes


def test_memory_does_not_grow_with_the_pairs_of_groups():
    """A class of G groups has G^2 / 2 subsets without two of them, of which leave-one-out needs none."""
    points = np.random.default_rng(0).normal(size=(1000, 1))
    codes = np.arange(1000) % 2
    tracemalloc.start()
    centers = average_centers((points - points.T) ** 2, np.zeros((1000, 1000)), codes, np.arange(1000))
    table = centers.distances()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6  # eight (K, K) matrices are 64 MB; 250,000 subsets of 1000 items would be 4 GB
    means = np.array([points[codes == c].mean() for c in range(2)])
    # For the other class nothing is left out. The distances are sums over 500 items of size 1 to 10.
    np.testing.assert_allclose(table[codes == 0, 1, 0], (points[codes == 0, 0] - means[1]) ** 2, atol=1e-11)
