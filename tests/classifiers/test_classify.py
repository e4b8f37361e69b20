"""Estimators: against the functions they stand for, and within scikit-learn's machinery."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline

from helpers import in_form_of, make_stream
from sysbags import (
    NearestMean,
    NearestSystem,
    SystemIdentifier,
    alignment_distance,
    frechet_mean,
    identify,
    medoid,
    pairwise_distances,
)
from sysbags.distances import METRICS
from sysbags.distances.gram import SystemStack
from sysbags.distances.pairwise import scaled_weights
from sysbags.errors import IncompatibleSystemsError, OrderError, ParameterError, StreamError

CLASSIFIERS = (NearestSystem, NearestMean)
WEIGHTS = {"lambda_a": 0.4, "lambda_mu": 2.0}
WEIGHTED = [name for name, metric in METRICS.items() if metric.weighted]


def make_member(kind, seed, share=0.9):
    """A stream of a class: its own noise on what the class has in common."""
    common = make_stream(np.random.default_rng(kind), frames=40)
    noise = np.random.default_rng([kind, seed]).dirichlet(np.ones(8), size=40)
    return share * common + (1.0 - share) * noise


def make_collection(classes=3, members=3, first=0, order=3):
    """Systems and their labels, class by class."""
    kinds = np.repeat(np.arange(classes), members)
    seeds = np.tile(np.arange(first, first + members), classes)
    systems = [identify(make_member(k, s), order=order) for k, s in zip(kinds, seeds, strict=True)]
    return systems, np.array(["calm", "fire", "wave"])[kinds]


@pytest.fixture(scope="module")
def training():
    return make_collection()


@pytest.fixture(scope="module")
def queries():
    return make_collection(members=2, first=50)


@pytest.fixture(scope="module")
def streams():
    return [make_member(kind, k) for kind in range(2) for k in range(4)], np.repeat(["calm", "fire"], 4)


# --- SystemIdentifier


def test_identifier_is_identify(streams):
    systems = SystemIdentifier(2, "bhattacharyya", stability="clip", margin=0.2).fit_transform(streams[0])
    for stream, theta in zip(streams[0], systems, strict=True):
        expected = identify(stream, 2, "bhattacharyya", stability="clip", margin=0.2)
        assert theta.kernel == "bhattacharyya"
        np.testing.assert_array_equal(theta.transition, expected.transition)
        np.testing.assert_array_equal(theta.alpha, expected.alpha)
        np.testing.assert_array_equal(theta.samples, stream)


def test_identifier_takes_arrays_lengths_and_threads(streams):
    stacked = SystemIdentifier(order=2).fit(streams[0]).transform(np.stack(streams[0]))
    threaded = SystemIdentifier(order=2, n_jobs=2).transform(streams[0])
    for first, second in zip(stacked, threaded, strict=True):
        np.testing.assert_array_equal(first.transition, second.transition)
        np.testing.assert_array_equal(first.alpha, second.alpha)
    lengths = SystemIdentifier(order="auto").transform([streams[0][0], streams[0][1][:17]])
    assert [theta.size for theta in lengths] == [40, 17]


@pytest.mark.parametrize(
    ("parameters", "spoil", "error", "sentence"),
    [
        ({}, lambda s: -s, StreamError, "stream 1: stream holds the negative entry"),
        ({}, lambda s: s[0], StreamError, "stream 1: stream has 1 dimensions"),
        ({}, lambda s: s[:3], OrderError, "stream 1: order 5 needs at least 6 frames"),
        (
            {"order": 2},
            lambda s: np.tile(s[0], (9, 1)),
            OrderError,
            "stream 1: all 9 frames have the same bag",
        ),
        ({"order": 0}, lambda s: s, ParameterError, "stream 0: order is 0, but it must be a whole number"),
        ({"order": "best"}, lambda s: s, ParameterError, "order is 'best'"),
        ({"kernel": "rbf"}, lambda s: s, ParameterError, "'rbf'"),
        (
            {"stability": "always"},
            lambda s: s,
            ParameterError,
            "stability is 'always', but it must be one of",
        ),
        ({"margin": 1.0}, lambda s: s, ParameterError, "margin is 1.0"),
        ({"n_jobs": 0}, lambda s: s, ParameterError, "n_jobs is 0"),
    ],
)
def test_identifier_names_the_stream_and_the_trouble(streams, parameters, spoil, error, sentence):
    with pytest.raises(error) as caught:
        SystemIdentifier(**parameters).fit_transform([streams[0][0], spoil(streams[0][1])])
    assert sentence in str(caught.value)


# --- NearestSystem


@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_are_the_nearest(training, queries, metric):
    systems, labels = in_form_of(metric, training[0]), training[1]
    queries = in_form_of(metric, queries[0]), queries[1]
    model = NearestSystem(2, metric=metric, **WEIGHTS).fit(systems, labels)
    expected = pairwise_distances(queries[0], systems, metric, **WEIGHTS)
    for count in (None, 1, len(systems)):
        distances, indices = model.kneighbors(queries[0], count)
        assert distances.shape == indices.shape == (len(queries[0]), count or 2)
        for row, (nearest, which) in zip(expected, zip(distances, indices, strict=True), strict=True):
            assert which.tolist() == sorted(range(len(systems)), key=row.__getitem__)[: count or 2]
            np.testing.assert_array_equal(nearest, row[which])
        np.testing.assert_array_equal(model.kneighbors(queries[0], count, return_distance=False), indices)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_neighbors", [1, 2, 5, 9])
def test_prediction_is_the_vote(training, queries, metric, n_neighbors):
    systems, queries = in_form_of(metric, training[0]), (in_form_of(metric, queries[0]), queries[1])
    labels = np.array([2, 0, 1, 1, 1, 2, 0, 2, 0])  # as good as random, so that votes are split
    model = NearestSystem(n_neighbors, metric=metric).fit(systems, labels)
    expected = []
    for row in model.kneighbors(queries[0], return_distance=False):
        votes = labels[row].tolist()
        expected.append(next(v for v in votes if votes.count(v) == max(map(votes.count, votes))))
    assert model.predict(queries[0]).tolist() == expected
    assert len(set(expected)) > 1


def test_training_systems_are_their_own_neighbours(training):
    systems, labels = training
    model = NearestSystem().fit(systems, labels)
    distances, indices = model.kneighbors(systems)
    assert indices[:, 0].tolist() == list(range(len(systems)))
    np.testing.assert_allclose(distances, 0.0, atol=1e-12)
    assert model.score(systems, labels) == 1.0


def test_training_labels(training):
    systems, labels = training
    model = NearestSystem().fit(systems, labels)
    assert model.labels_.tolist() == list(labels)
    assert model.classes_.tolist() == sorted(set(labels))
    assert not hasattr(NearestSystem(), "classes_")


# --- explain


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("model", [NearestMean(), NearestSystem(1), NearestSystem(5)], ids=repr)
def test_explanations(training, queries, metric, model):
    systems, labels = in_form_of(metric, training[0]), training[1]
    queries = in_form_of(metric, queries[0]), queries[1]
    model = clone(model).set_params(metric=metric, **WEIGHTS).fit(systems, labels)
    explanations = model.explain(queries[0])
    assert [explanation.label for explanation in explanations] == model.predict(queries[0]).tolist()
    if isinstance(model, NearestMean):
        expected = model.distances(queries[0])
    else:
        between = pairwise_distances(queries[0], systems, metric, **WEIGHTS)
        expected = np.stack(
            [between[:, np.array(labels) == label].min(axis=1) for label in model.classes_], axis=1
        )
    for explanation, row in zip(explanations, expected, strict=True):
        assert list(explanation.distances) == model.classes_.tolist()
        np.testing.assert_allclose(list(explanation.distances.values()), row, rtol=1e-9)
        if metric not in WEIGHTED:
            assert explanation.parts == {}
            continue
        names = ["transition", "observer", "mean"] if metric == "alignment" else ["covariances", "mean"]
        assert list(explanation.parts) == names
        assert min(explanation.parts.values()) >= 0.0
        assert sum(explanation.parts.values()) == pytest.approx(
            explanation.distances[explanation.label], rel=1e-14
        )
    assert model.set_params(n_jobs=2).explain(queries[0]) == explanations


@pytest.mark.parametrize("metric", ["covariance", "normalized-covariance"])
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_the_parts_of_covariances(training, queries, metric, estimator):
    """The covariances are what is left of the distance to the predicted class without its mean."""
    systems, labels = in_form_of(metric, training[0]), training[1]
    others = in_form_of(metric, queries[0])
    model = estimator(metric=metric, **WEIGHTS).fit(systems, labels)
    members = model.centers_ if estimator is NearestMean else model.systems_
    names = model.classes_ if estimator is NearestMean else model.labels_
    both = pairwise_distances(others, members, metric, **WEIGHTS)
    without = pairwise_distances(others, members, metric, lambda_a=WEIGHTS["lambda_a"])
    for k, explanation in enumerate(model.explain(others)):
        nearest = min(np.flatnonzero(names == explanation.label), key=both[k].__getitem__)
        expected = {"covariances": without[k, nearest], "mean": both[k, nearest] - without[k, nearest]}
        assert explanation.parts == pytest.approx(expected, rel=0, abs=1e-12)


def test_the_winner_by_votes_need_not_be_the_nearest(training):
    systems, _ = training
    model = NearestSystem(3).fit(systems[:4], ["a", "b", "b", "b"])
    (explanation,) = model.explain(systems[:1])
    assert explanation.label == model.predict(systems[:1])[0] == "b"
    assert min(explanation.distances, key=explanation.distances.get) == "a"
    assert sum(explanation.parts.values()) == explanation.distances["b"]


def test_explanations_of_numbered_classes(training):
    systems, _ = training
    (explanation,) = NearestMean().fit(systems[:4], [0, 0, 7, 7]).explain(systems[3:4])
    assert list(explanation.distances) == [0, 7]
    with pytest.raises(NotFittedError):
        NearestSystem().explain(systems)


# --- NearestMean


def test_means_are_frechet_means(training, queries):
    systems, labels = training
    model = NearestMean(**WEIGHTS).fit(systems, labels)
    assert model.classes_.tolist() == ["calm", "fire", "wave"]
    distances = np.empty((len(queries[0]), 3))
    for c, label in enumerate(model.classes_):
        members = [s for s, name in zip(systems, labels, strict=True) if name == label]
        centre = frechet_mean(members, **WEIGHTS).system
        np.testing.assert_array_equal(model.centers_[c].transition, centre.transition)
        np.testing.assert_array_equal(model.centers_[c].alpha, centre.alpha)
        for i, theta in enumerate(queries[0]):
            distances[i, c] = alignment_distance(theta, centre, **WEIGHTS)
    # The batch and the single alignment add the same few terms in another order.
    np.testing.assert_allclose(model.distances(queries[0]), distances, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.decision_function(queries[0]), -distances, rtol=0, atol=1e-9)
    assert model.predict(queries[0]).tolist() == model.classes_[distances.argmin(axis=1)].tolist()
    np.testing.assert_array_equal(model.compression_errors_, np.zeros(3))


@pytest.mark.parametrize("metric", ["martin", "max-singular-value"])
def test_baselines_have_medoids(training, queries, metric):
    systems, labels = training
    model = NearestMean(metric=metric).fit(systems, labels)
    for label, centre in zip(model.classes_, model.centers_, strict=True):
        members = [s for s, name in zip(systems, labels, strict=True) if name == label]
        assert centre is members[medoid(members, metric)]
    expected = pairwise_distances(queries[0], model.centers_, metric)
    np.testing.assert_array_equal(model.decision_function(queries[0]), -expected)
    assert model.score(*queries) == 1.0


@pytest.mark.parametrize("metric", METRICS)
def test_decision_of_two_classes_is_one_number(training, queries, metric):
    systems, labels = in_form_of(metric, training[0]), training[1]
    queries = in_form_of(metric, queries[0]), queries[1]
    model = NearestMean(metric=metric).fit(systems[:6], labels[:6])
    decision = model.decision_function(queries[0])
    distances = model.distances(queries[0])
    assert decision.shape == (len(queries[0]),)
    np.testing.assert_array_equal(decision, distances[:, 0] - distances[:, 1])
    assert model.predict(queries[0]).tolist() == np.where(decision > 0, "fire", "calm").tolist()
    assert decision[:2].max() < 0 < decision[2:4].min()


def test_compressed_means_rest_on_few_samples_and_say_what_was_lost(training, queries):
    systems, labels = training
    exact = NearestMean(lambda_mu=1.0).fit(systems, labels)
    assert [mean.size for mean in exact.centers_] == [120, 120, 120]
    before = exact.distances(queries[0])
    errors = []
    for size in (4, 15, 60):
        model = NearestMean(lambda_mu=1.0, compress=size).fit(systems, labels)
        assert [mean.size for mean in model.centers_] == [size] * 3
        for mean, exact_mean, error in zip(
            model.centers_, exact.centers_, model.compression_errors_, strict=True
        ):
            lost = alignment_distance(mean, exact_mean, lambda_a=0.0, lambda_mu=1.0)
            # Alignment may undo a part of the observer's error, never of the mean's.
            assert mean.compression_error["mean"] - 1e-9 <= lost
            assert lost <= mean.compression_error["observer"] + mean.compression_error["mean"] + 1e-9
            assert error == mean.compression_error["relative"] > 0
        # The distance is a metric, so no distance moves by more than what was lost.
        moved = np.abs(np.sqrt(model.distances(queries[0])) - np.sqrt(before))
        total = [m.compression_error["observer"] + m.compression_error["mean"] for m in model.centers_]
        assert np.all(moved <= np.sqrt(total) + 1e-9)
        errors.append(model.compression_errors_.max())
    assert errors[0] > errors[1] > errors[2]
    assert model.predict(queries[0]).tolist() == exact.predict(queries[0]).tolist()


def test_compression_to_all_samples_is_exact(training, queries):
    systems, labels = training
    exact, all_kept = (NearestMean(compress=size).fit(systems, labels) for size in (None, 1000))
    np.testing.assert_array_equal(all_kept.compression_errors_, np.zeros(3))
    np.testing.assert_array_equal(all_kept.distances(queries[0]), exact.distances(queries[0]))


def test_class_with_one_member_is_that_member(training, queries):
    systems, labels = training
    model = NearestMean(**WEIGHTS).fit(systems[2:6], labels[2:6])
    # Found by sweeps from the member itself: the same system up to a rotation.
    assert alignment_distance(model.centers_[0], systems[2], **WEIGHTS) < 1e-9
    model = NearestMean().fit(systems[:3], labels[:3])
    assert set(model.predict(queries[0])) == {"calm"}
    assert model.decision_function(queries[0]).shape == (len(queries[0]), 1)


# --- weights in the units of the training systems


@pytest.fixture(scope="module")
def unit_variance():
    """Training systems and queries in the unit-variance form, and their labels."""
    kinds = np.repeat(np.arange(3), 4)
    systems = [
        identify(make_member(kind, seed), 3, "linear", normal_form="unit-variance")
        for kind, seed in zip(kinds, np.tile(np.arange(4), 3), strict=True)
    ]
    training, queries = np.flatnonzero(np.arange(12) % 4 < 3), np.flatnonzero(np.arange(12) % 4 == 3)
    labels = np.array(["calm", "fire", "wave"])[kinds]
    return [systems[k] for k in training], labels[training], [systems[k] for k in queries]


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("metric", WEIGHTED)
def test_scaled_weights_are_learnt_in_fit(unit_variance, estimator, metric):
    """From the training systems, and never again from those to classify."""
    systems, labels, queries = unit_variance
    model = estimator(metric=metric, lambda_a="scale", lambda_mu="scale").fit(systems, labels)
    assert (model.lambda_a, model.lambda_mu) == ("scale", "scale")
    [learnt] = map(tuple, model.weights_.tolist())
    assert learnt == scaled_weights(SystemStack.of(systems), metric)
    twin = estimator(metric=metric, lambda_a=learnt[0], lambda_mu=learnt[1]).fit(systems, labels)
    assert twin.weights_.tolist() == [list(learnt)]
    assert model.explain(queries) == twin.explain(queries)
    single = [model.explain([query])[0] for query in queries]
    for together, alone in zip(model.explain(queries), single, strict=True):
        np.testing.assert_allclose(
            list(together.distances.values()), list(alone.distances.values()), rtol=1e-9, atol=1e-12
        )
    assert model.weights_.tolist() == [list(learnt)]
    assert model.fit(systems[:4], labels[:4]).weights_[0, 1] != learnt[1] or metric == "alignment"


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("metric", WEIGHTED)
def test_the_unit_of_streams_changes_no_prediction(unit_variance, estimator, metric):
    systems, labels, queries = unit_variance
    model = estimator(metric=metric, lambda_a="scale", lambda_mu="scale").fit(systems, labels)
    larger, others = (
        [identify(8.0 * s.samples, 3, "linear", normal_form="unit-variance") for s in collection]
        for collection in (systems, queries)
    )
    other = clone(model).fit(larger, labels)
    power = {"alignment": 2, "covariance": 4, "normalized-covariance": 0}[metric]
    for first, second in zip(model.explain(queries), other.explain(others), strict=True):
        assert first.label == second.label
        expected = 8.0**power * np.array(list(first.distances.values()))
        # Round-off of norms that are as large as the distances between classes.
        np.testing.assert_allclose(
            list(second.distances.values()), expected, rtol=0, atol=1e-8 * expected.max()
        )


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_weights_that_are_no_numbers(training, unit_variance, estimator):
    systems, labels, _ = unit_variance
    with pytest.raises(ParameterError, match="lambda_mu is 'auto', but it must be a number that is 0 or"):
        estimator(lambda_mu="auto").fit(systems, labels)
    # Metrics without weights ignore them.
    model = estimator(metric="martin", lambda_a="scale").fit(*training)
    assert model.weights_.tolist() == [[0.0, 0.0]]
    assert model.score(*training) == 1.0


def test_a_grid_search_may_try_scaled_weights(streams):
    model = Pipeline(
        [("identify", SystemIdentifier(2, normal_form="unit-variance")), ("classify", NearestMean())]
    )
    grid = {
        "classify__metric": WEIGHTED,
        "classify__lambda_a": ["scale"],
        "classify__lambda_mu": ["scale", 0.0],
    }
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(*streams)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_score_ == 1.0


# --- both


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("metric", METRICS)
def test_same_bits_for_any_number_of_threads(training, queries, estimator, metric):
    training, queries = ((in_form_of(metric, data[0]), data[1]) for data in (training, queries))
    single, threaded = (estimator(metric=metric, n_jobs=jobs).fit(*training) for jobs in (1, 2))
    method = "kneighbors" if estimator is NearestSystem else "decision_function"
    for first, second in zip(
        getattr(single, method)(queries[0]), getattr(threaded, method)(queries[0]), strict=True
    ):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("labels", [[3, 1, 2], [True, False, True], ["b", "a", "c"], [2.0, 1.0, 3.0]])
def test_labels_keep_their_kind(training, estimator, labels):
    systems = training[0][::3]
    predicted = estimator().fit(systems, labels).predict(systems)
    assert predicted.dtype == np.asarray(labels).dtype
    if len(set(labels)) == 3:
        assert predicted.tolist() == labels


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("method", ["predict", "kneighbors", "decision_function", "distances"])
def test_unfitted(training, estimator, method):
    if hasattr(estimator, method):
        with pytest.raises(NotFittedError):
            getattr(estimator(), method)(training[0])


@pytest.mark.parametrize("estimator", [SystemIdentifier, *CLASSIFIERS])
def test_parameters_and_clones(estimator):
    model = estimator()
    parameters = model.get_params()
    assert {"n_jobs"} < set(parameters)
    changed = {"n_jobs": 2, **({"order": 7} if estimator is SystemIdentifier else {"lambda_a": 3.0})}
    model.set_params(**changed)
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == {**parameters, **changed}
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(colour="red")


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_clone_is_unfitted_and_refitting_forgets(training, queries, estimator):
    systems, labels = training
    model = estimator().fit(systems, labels)
    with pytest.raises(NotFittedError):
        clone(model).predict(systems)
    again = model.fit(systems[:6], labels[:6])
    assert again is model
    assert model.classes_.tolist() == ["calm", "fire"]
    assert set(model.predict(queries[0])) <= {"calm", "fire"}


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_nothing_is_modified(training, queries, estimator):
    systems, labels = list(training[0]), training[1].copy()
    arrays = [(s.transition.copy(), s.samples.copy(), s.alpha.copy(), s.beta.copy()) for s in systems]
    model = estimator(lambda_mu=1.0)
    before = model.get_params()
    model.fit(systems, labels).predict(queries[0])
    assert model.get_params() == before
    assert all(system is original for system, original in zip(systems, training[0], strict=True))
    np.testing.assert_array_equal(labels, training[1])
    for theta, copies in zip(systems, arrays, strict=True):
        for array, copy in zip(
            (theta.transition, theta.samples, theta.alpha, theta.beta), copies, strict=True
        ):
            np.testing.assert_array_equal(array, copy)
    labels[:] = "calm"
    systems.clear()
    assert set(model.predict(queries[0])) == {"calm", "fire", "wave"}


def test_streams_are_not_modified(streams):
    copies = [stream.copy() for stream in streams[0]]
    make_pipeline(SystemIdentifier(order=2), NearestMean()).fit(*streams).predict(streams[0])
    for stream, copy in zip(streams[0], copies, strict=True):
        np.testing.assert_array_equal(stream, copy)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("as_array", [False, True])
def test_pipeline_from_streams_to_labels(streams, estimator, as_array):
    bags, labels = streams
    bags = np.stack(bags) if as_array else bags
    model = make_pipeline(SystemIdentifier(order=2), estimator())
    new = [make_member(kind, 90 + kind) for kind in (0, 1, 0)]
    assert model.fit(bags, labels).predict(new).tolist() == ["calm", "fire", "calm"]
    assert model.score(bags, labels) == 1.0
    assert cross_val_score(model, bags, labels, cv=2).tolist() == [1.0, 1.0]
    with pytest.raises(NotFittedError):
        clone(model).predict(new)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_grid_search_over_orders_and_weights(streams, estimator):
    model = Pipeline([("identify", SystemIdentifier()), ("classify", estimator())])
    grid = {
        "identify__order": [1, 2],
        "classify__lambda_a": [0.0, 0.25],
        "classify__lambda_mu": [0.0, 5.0],
    }
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(*streams)
    assert len(search.cv_results_["params"]) == 8
    assert search.best_score_ == 1.0
    assert (
        search.best_estimator_["classify"].get_params().items()
        >= {
            name.removeprefix("classify__"): value
            for name, value in search.best_params_.items()
            if name.startswith("classify__")
        }.items()
    )
    assert search.predict([make_member(1, 90)]).tolist() == ["fire"]


def test_grid_search_over_systems(training):
    search = GridSearchCV(
        NearestSystem(), {"n_neighbors": [1, 2], "metric": ["alignment", "martin"]}, cv=3, error_score="raise"
    )
    assert search.fit(*training).best_score_ == 1.0


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"metric": "cosine"}, "metric is 'cosine', but it must be one of 'alignment', 'covariance'"),
        ({"lambda_a": -0.5}, "lambda_a is -0.5, but it must be a finite number that is 0 or more"),
        ({"lambda_mu": np.inf}, "lambda_mu is inf, but it must be a finite number"),
        ({"random_state": "yes"}, "random_state is 'yes', but it must be"),
        ({"n_jobs": 0}, "n_jobs is 0, but it must be a number of threads"),
    ],
)
def test_bad_parameters(training, estimator, parameters, sentence):
    with pytest.raises(ParameterError) as caught:
        estimator(**parameters).fit(*training).predict(training[0])
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (NearestSystem(0), "n_neighbors is 0, but it must be a whole number of at least 1"),
        (NearestSystem(2.5), "n_neighbors is 2.5"),
        (NearestSystem(10), "n_neighbors is 10, but there are only 9 training systems"),
        (NearestMean(compress=0), "compress is 0, but it must be a whole number of at least 1"),
        (NearestMean(compress="few"), "compress is 'few'"),
        (NearestMean(compress=2), "an observer of order 3 needs at least 3 samples"),
    ],
)
def test_bad_parameters_of_one(training, model, sentence):
    with pytest.raises(ParameterError) as caught:
        model.fit(*training)
    assert sentence in str(caught.value)


def test_bad_counts_of_neighbours_after_fitting(training):
    model = NearestSystem(2).fit(*training)
    for count, sentence in ((0, "whole number"), (10, "only 9 training systems")):
        with pytest.raises(ParameterError, match=sentence):
            model.kneighbors(training[0], count)
        with pytest.raises(ParameterError, match=sentence):
            model.set_params(n_neighbors=count).predict(training[0])


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    "labels",
    [["a"] * 8, [["a"]] * 9, "a", None, [["a"], ["b", "c"]], [None, *"aaaabbbb"], [np.nan, *range(8)]],
    ids=["short", "2-D", "one string", "none at all", "ragged", "None", "NaN"],
)
def test_bad_labels(training, estimator, labels):
    with pytest.raises(ParameterError, match="labels"):
        estimator().fit(training[0], labels)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_bad_systems(training, streams, estimator):
    systems, labels = training
    with pytest.raises(ParameterError, match="it must be a System"):
        estimator().fit(streams[0], streams[1])
    with pytest.raises(ParameterError, match="empty"):
        estimator().fit([], [])
    with pytest.raises(ParameterError, match="single System"):
        estimator().fit(systems[0], ["a"])
    fitted = estimator().fit(systems, labels)
    with pytest.raises(ParameterError, match="it must be a System"):
        fitted.predict(streams[0])
    with pytest.raises(IncompatibleSystemsError, match="the same kernel"):
        fitted.predict([identify(streams[0][0], order=2, kernel="linear")])
    with pytest.raises(IncompatibleSystemsError, match="the same bag length"):
        fitted.predict([identify(make_stream(np.random.default_rng(0), bins=5), order=2)])
