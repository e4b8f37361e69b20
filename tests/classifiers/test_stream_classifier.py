"""The classifier of streams against slow twins that refit without each fold; streams of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.classifiers import streams as stream_module
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.committee import (
    COMBINATIONS,
    MEMBERS,
    RIDGES,
    WIDTHS,
    Member,
    _subset_of_regressors,
    better_predictions,
    candidates,
    choose_committee,
    committee_scores,
    fit_committee,
    held_out_scores,
    penalised_inverse,
)
from sysbags.classifiers.scores.folds import balanced_folds
from sysbags.classifiers.scores.moments import TERMS, Moments, course, lag_grid, moments
from sysbags.classifiers.scores.ridge import bordered, gaussian_distances, targets
from sysbags.classifiers.streams import class_weights, items_to_keep
from sysbags.datasets import make_streams
from sysbags.errors import SysbagsError

STREAMS, LABELS = make_streams(classes=3, per_class=6, frames=40, bins=8)
NAMES = np.array(["waves", "fire", "rain"])[LABELS]


@pytest.fixture(scope="module")
def model():
    return sysbags.StreamClassifier(size=40).fit(STREAMS, NAMES)


def problem(seed, items=24, classes=3, folds=5):
    """Terms of points of the plane, four of them, with classes, folds and weights."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((4, items, 2))
    terms = np.square(points[:, :, None] - points[:, None]).sum(axis=3)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, items - classes)])
    return terms, codes, rng.permutation(items) % folds, rng.uniform(0.5, 2.0, items)


def slow_scores(squared, codes, weights, penalty, training, new):
    """The definition: the linear equations of the training items alone."""
    matrix = bordered(squared[np.ix_(training, training)], penalty / weights[training])
    wanted = targets(codes, codes.max() + 1)[training]
    solved = np.linalg.solve(matrix, np.vstack([wanted, np.zeros(wanted.shape[1])]))
    return solved[-1] - 0.5 * squared[np.ix_(new, training)] @ solved[:-1]


@given(st.integers(0, 10**6), st.integers(3, 6), st.sampled_from([0.0, 0.7]), st.floats(0.05, 5.0))
@settings(max_examples=25, deadline=None)
def test_held_out_scores_are_those_of_fits_without_the_folds(seed, folds, width, penalty):
    terms, codes, fold_of, weights = problem(seed, folds=folds)
    order = np.argsort(fold_of, kind="stable")
    terms, codes, fold_of, weights = (
        terms[:, order[:, None], order],
        codes[order],
        fold_of[order],
        weights[order],
    )
    squared = gaussian_distances(terms[0], width)
    wanted = targets(codes, codes.max() + 1)
    found = held_out_scores(penalised_inverse(squared, penalty / weights), wanted, np.bincount(fold_of))
    for other in [*range(folds), None]:
        for fold in range(folds):
            training = np.flatnonzero((fold_of != fold) & (fold_of != other))
            new = np.flatnonzero(fold_of == fold)
            expected = slow_scores(squared, codes, weights, penalty, training, new)
            row = folds if other is None else other
            # Inverses of matrices of condition 1e4 at most.
            np.testing.assert_allclose(found[row, new], expected, rtol=0, atol=1e-8)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_fold_is_predicted_without_its_labels(seed):
    """Honest selection: whatever the labels of a fold are, its nested predictions are the same."""
    terms, codes, folds, weights = problem(seed)
    changed = codes.copy()
    inside = folds == 2
    changed[inside] = np.random.default_rng(seed).integers(0, 3, inside.sum())
    changed[~inside][:3] = codes[~inside][:3]
    options = {"combined": COMBINATIONS[:3]}
    first, second = (choose_committee(terms, each, folds, weights, **options)[0] for each in (codes, changed))
    if codes.max() == changed.max():
        np.testing.assert_array_equal(first.predictions[inside], second.predictions[inside])


def test_the_best_candidates_vote():
    terms, codes, folds, weights = problem(1)
    choice, averages = choose_committee(terms, codes, folds, weights)
    rated = []
    for term_weights, width in candidates(terms, 1, COMBINATIONS):
        squared = Member(term_weights, width, 0.0).squared(terms)
        for ridge in RIDGES:
            scores = np.empty((len(codes), 3))
            for fold in range(5):
                training, new = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
                penalty = ridge * half_mean(squared)
                scores[new] = slow_scores(squared, codes, weights, penalty, training, new)
            error = np.square(scores - targets(codes, 3)).mean(axis=1).sum()
            rated.append((-np.mean(scores.argmax(axis=1) == codes), error, len(rated), scores))
    best = sorted(rated, key=lambda one: one[:3])[:MEMBERS]
    np.testing.assert_allclose(choice.scores, np.mean([one[3] for one in best], axis=0), rtol=0, atol=1e-8)
    assert choice.tried == len(rated) == len(COMBINATIONS) * len(WIDTHS) * len(RIDGES)
    assert len(choice.members) == MEMBERS
    assert averages.tried == len(WIDTHS) * len(RIDGES)
    assert all(member.is_of_averages for member in averages.members)


def test_two_folds_choose_nothing():
    terms, codes, folds, weights = problem(2, folds=2)
    choice, _ = choose_committee(terms, codes, folds, weights)
    assert len(choice.members) == len(COMBINATIONS)
    assert {member.ridge for member in choice.members} == {0.1}


def test_the_subset_of_regressors_of_all_items_is_ridge():
    terms, codes, _, weights = problem(3)
    wanted, penalty = targets(codes, 3), 0.3 * half_mean(terms[0])
    expected = penalised_inverse(terms[0], penalty / weights) @ wanted
    found = _subset_of_regressors(terms[0], terms[0], penalty, wanted, weights)
    # Points of the plane have a kernel of rank 2: coefficients are not unique, and functions are compared,
    # but for a constant that intercepts take up.
    first, second = (terms[0] @ coefficients for coefficients in (found, expected))
    np.testing.assert_allclose(first - first[0], second - second[0], rtol=0, atol=1e-5)


def test_a_committee_that_keeps_few_items_learns_from_all():
    terms, codes, _, weights = problem(4, items=60)
    members = [Member(np.array([1.0, 0.0, 0.0, 0.0]), 0.0, 0.1)]
    full = fit_committee(members, terms, np.arange(60), codes, weights)
    kept = np.arange(0, 60, 2)
    few = fit_committee(members, terms[:, :, kept], kept, codes, weights)
    assert few.coefficients.shape == (1, 30, 3)
    np.testing.assert_allclose(few.coefficients.sum(axis=1), 0.0, atol=1e-9)
    one, two = committee_scores(members, full, terms), committee_scores(members, few, terms[:, :, kept])
    # Half of the points span the plane, too; the penalties differ by their variances.
    ratio = half_mean(terms[0][::2, ::2]) / half_mean(terms[0])
    same = fit_committee([members[0]._replace(ridge=0.1 * ratio)], terms, np.arange(60), codes, weights)
    np.testing.assert_allclose(committee_scores(members, same, terms), two, rtol=0, atol=1e-5)
    assert abs(one - two).max() < 0.1


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_moments_are_those_of_the_definition(seed, frames, coordinates):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((frames, 5))
    directions = np.linalg.qr(rng.standard_normal((5, coordinates)))[0]
    lags = np.array([0, 1, 4])
    found = moments(features @ directions, lags, features.mean(axis=0))
    path = features @ directions
    centred = path - path.mean(axis=0)
    expected = np.zeros((3, coordinates, coordinates))
    for k, lag in enumerate(lags):
        for t in range(frames - lag):
            expected[k] += np.outer(centred[t], centred[t + lag]) / (frames - lag)
    np.testing.assert_allclose(found.norms[0], np.linalg.norm(expected), rtol=1e-9, atol=1e-12)
    restored = found.norms[0] * found.covariances[0].astype(float)
    np.testing.assert_allclose(restored, expected.ravel(), rtol=0, atol=1e-3 * found.norms[0])  # float16
    np.testing.assert_allclose(found.averages[0], features.mean(axis=0), rtol=1e-6, atol=1e-6)
    every = np.repeat(path, 8, axis=0).reshape(8, frames, coordinates).mean(axis=1)  # frames cut into eighths
    np.testing.assert_allclose(found.course[0], every.ravel(), rtol=1e-5, atol=1e-5)


def test_the_course_averages_to_the_average():
    path = np.random.default_rng(0).standard_normal((13, 2))
    np.testing.assert_allclose(course(path).mean(axis=0), path.mean(axis=0), atol=1e-12)


def test_squared_distances_are_those_of_the_moments(monkeypatch):
    rng = np.random.default_rng(0)
    found = Moments.stack([moments(rng.standard_normal((n, 3)), np.array([0, 2])) for n in (5, 9, 1, 20)])
    squared = found.squared(found)
    raw = found.norms[:, None] * found.covariances.astype(float)
    for term, rows in zip(squared, (found.averages, found.course, raw, found.covariances), strict=True):
        rows = rows.astype(float)
        np.testing.assert_allclose(term, np.square(rows[:, None] - rows).sum(axis=2), rtol=0, atol=1e-9)
    monkeypatch.setattr("sysbags.classifiers.scores.moments.BLOCK", 3)
    np.testing.assert_allclose(found.squared(found, n_jobs=2), squared, rtol=0, atol=1e-12)


def test_lags_are_a_geometric_grid():
    assert lag_grid(214).tolist() == [0, 1, 2, 4, 8, 16, 32]
    assert lag_grid(4).tolist() == [0, 1]
    assert lag_grid(1).tolist() == [0]


def test_of_noise_the_accuracy_is_that_of_chance():
    """Also with the choice between all candidates and averages: the larger of two is too optimistic."""
    rng, folds, found = np.random.default_rng(0), np.arange(40) % 5, []
    for _ in range(64):
        points = rng.standard_normal((4, 40, 6))
        terms = np.square(points[:, :, None] - points[:, None]).sum(axis=3)
        codes = rng.integers(0, 2, 40)
        pair = choose_committee(terms, codes, folds, np.ones(40))
        predictions = *(one.predictions for one in pair), better_predictions(*pair, folds)
        first, second, nested = (float(np.mean(one == codes)) for one in predictions)
        found.append((nested, max(first, second)))
    (nested, larger), errors = np.mean(found, axis=0), np.std(found, axis=0) / 8
    assert abs(nested - 0.5) < 2 * errors[0]
    assert larger - 0.5 > 3 * errors[1]


def test_averages_alone_never_win_against_what_is_saved(model):
    codes = np.unique(model.labels_, return_inverse=True)[1]
    folds = balanced_folds(codes, np.arange(len(codes)), 0)
    pair = choose_committee(model._terms(model.moments_), codes, folds, class_weights(codes))
    right = [int((one.predictions == codes).sum()) for one in pair]
    np.testing.assert_array_equal(
        model.term_weights_, [member.weights for member in pair[right[1] > right[0]].members]
    )
    rng = np.random.default_rng(0)  # averages tell all, and time is noise
    streams = [rng.dirichlet(5 * np.ones(6) + 20 * np.eye(6)[k % 2], size=12) for k in range(24)]
    found = sysbags.StreamClassifier(size=30).fit(streams, np.arange(24) % 2)
    assert found.accuracy_ >= found.averages_accuracy_ == 1.0


def test_the_order_of_clips_does_not_matter(model):
    order = np.random.default_rng(1).permutation(len(STREAMS))
    other = sysbags.StreamClassifier(size=40).fit([STREAMS[k] for k in order], NAMES[order])
    new = [stream[5:] for stream in STREAMS]
    np.testing.assert_array_equal(model.decision_function(new), other.decision_function(new))
    assert model.accuracy_ == other.accuracy_
    np.testing.assert_array_equal(
        model.classes_[model.estimate_[1][np.argsort(model.estimate_[0])]][order],
        other.classes_[other.estimate_[1][np.argsort(other.estimate_[0])]],
    )
    backwards = model.decision_function(new[::-1])[::-1]
    # Products of matrices of other shapes are rounded otherwise.
    np.testing.assert_allclose(backwards, model.decision_function(new), rtol=0, atol=1e-9)


def test_threads_do_not_matter(model):
    other = sysbags.StreamClassifier(size=40, n_jobs=2).fit(STREAMS, NAMES)
    np.testing.assert_array_equal(model.decision_function(STREAMS), other.decision_function(STREAMS))


def test_where_landmarks_span_all_frames_terms_are_exact():
    """The averages of features have the distances that the kernel says."""
    streams = [stream[:6] for stream in STREAMS[::3]]
    found = sysbags.StreamClassifier(size=1000).fit(streams, NAMES[::3])
    terms = found._new_terms(streams)
    kept = [streams[k] for k in np.argsort([found._new_terms([s])[0, 0].argmin() for s in streams])]
    means = np.array([[sysbags.kernels.kernel_matrix(a, b).mean() for b in kept] for a in streams])
    own = np.array([sysbags.kernels.kernel_matrix(a).mean() for a in streams])
    other = np.array([sysbags.kernels.kernel_matrix(b).mean() for b in kept])
    # Averages are kept in float32, and what is left of the kernel's trace is below 1e-9.
    np.testing.assert_allclose(terms[0], own[:, None] + other - 2 * means, rtol=0, atol=1e-6)


def test_confidence_and_explanations(model):
    chances = model.predict_proba(STREAMS[:4])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(STREAMS[:4])).all()
    sets = model.predict_set(STREAMS[:4], alpha=0.2)
    assert all(set(one) <= set(model.classes_) for one in sets)
    for k, one in enumerate(model.explain(STREAMS[:4])):
        assert one.label == model.predict(STREAMS[:4])[k]
        assert set(one.parts) <= set(TERMS)
        assert sum(one.parts.values()) == pytest.approx(one.distances[one.label], rel=1e-9)
        assert one.probabilities == dict(zip(model.classes_, chances[k], strict=True))
    np.testing.assert_allclose(model.shares_.sum(), 1.0)


def test_clips_of_several_bags_and_other_kernels():
    pairs = [(stream, np.square(stream)) for stream in STREAMS]
    found = sysbags.StreamClassifier(("chi2", "linear"), size=20).fit(pairs, LABELS)
    assert found.predict(pairs).shape == (18,)
    names = [name for one in found.explain(pairs[:2]) for name in one.parts]
    assert all(name.startswith(("bag 0 ", "bag 1 ")) for name in names)
    with pytest.raises(SysbagsError, match="a clip has 1 streams, but there must be 2"):
        found.predict(STREAMS)
    with pytest.raises(SysbagsError, match="the same number of streams"):
        found.predict([pairs[0], STREAMS[1]])


@pytest.mark.parametrize(
    "labels", [LABELS, NAMES, LABELS > 0, LABELS - 1.0], ids=["int", "str", "bool", "float"]
)
def test_labels_of_any_kind(labels):
    found = sysbags.StreamClassifier(size=10).fit(STREAMS, labels)
    assert set(found.predict(STREAMS).tolist()) <= set(labels.tolist())
    assert found.decision_function(STREAMS).shape == ((18,) if len(set(labels.tolist())) == 2 else (18, 3))


def test_short_and_still_clips():
    """A clip of one frame, a clip shorter than a lag, and clips that never change."""
    streams = [stream[: 20 + k] for k, stream in enumerate(STREAMS)]
    streams[0], streams[1] = np.repeat(STREAMS[0][:1], 25, axis=0), STREAMS[1][:16]
    found = sysbags.StreamClassifier(size=20).fit(streams, NAMES)
    assert found.lags_.tolist() == [0, 1, 2, 4]
    odd = [STREAMS[0][:1], STREAMS[1][:3], np.repeat(STREAMS[0][:1], 9, axis=0)]
    assert np.isfinite(found.decision_function(odd)).all()
    assert np.isfinite(found.predict_proba(odd)).all()
    still = [np.repeat(stream[:1], 5, axis=0) for stream in STREAMS]
    assert sysbags.StreamClassifier(size=20).fit(still, NAMES).predict(still).shape == (18,)
    single = sysbags.StreamClassifier(size=20).fit([stream[:1] for stream in STREAMS], NAMES)
    assert single.lags_.tolist() == [0]


def test_few_clips():
    """One class of one clip; one group; two groups."""
    found = sysbags.StreamClassifier(size=10).fit(STREAMS[:13], LABELS[:13])
    assert set(found.predict(STREAMS).tolist()) <= {0, 1, 2}
    one = sysbags.StreamClassifier(size=10).fit(STREAMS, LABELS, np.zeros(18))
    assert one.estimate_ is None
    assert one.accuracy_ is None
    assert one.predict(STREAMS).shape == (18,)
    with pytest.raises(SysbagsError, match="predict_proba needs scores of items left out"):
        one.predict_proba(STREAMS)
    two = sysbags.StreamClassifier(size=10).fit(STREAMS, LABELS, np.arange(18) % 2)
    assert two.accuracy_ is not None
    pair = sysbags.StreamClassifier(size=10).fit([STREAMS[0], STREAMS[-1]], ["a", "b"])
    assert pair.predict([STREAMS[0]]) == ["a"]


def test_groups_are_not_divided():
    codes, groups = LABELS, np.arange(18) // 2
    folds = balanced_folds(codes, groups, 0)
    assert all(len(set(folds[groups == group])) == 1 for group in groups)
    assert balanced_folds(codes, np.zeros(18), 0) is None
    assert (
        len(np.unique(balanced_folds(np.arange(6) // 2, np.arange(6), 0))) == 6
    )  # too few for stratified folds


def test_of_many_clips_a_part_is_kept(monkeypatch):
    monkeypatch.setattr(stream_module, "items_to_keep", lambda codes, seed: items_to_keep(codes, seed, 12))
    found = sysbags.StreamClassifier(size=20).fit(STREAMS, NAMES)
    assert len(found.labels_) == found.estimate_.shape[1] == 12
    assert set(found.labels_) == set(NAMES)
    assert found.score(STREAMS, NAMES) > 0.8
    codes = np.repeat([0, 1, 2], [90, 9, 1])
    kept = items_to_keep(codes, 0, 20)
    assert np.bincount(codes[kept]).tolist() == [17, 2, 1]  # in proportion, and one at least
    assert (np.diff(kept) > 0).all()


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ([STREAMS[0], np.full((4, 8), np.nan)], r"streams\[1\] holds nan"),
        ([STREAMS[0], np.empty((0, 8))], r"streams\[1\] is empty"),
        ([STREAMS[0], STREAMS[1][:, :4] * 2], r"streams\[1\]"),
        ("clips", "streams must be a sequence"),
        ([], "streams must be a sequence"),
    ],
)
def test_mistakes(streams, message):
    with pytest.raises(SysbagsError, match=message):
        sysbags.StreamClassifier().fit(streams, ["a", "b"][: len(streams)])


def test_one_class_and_other_bins(model):
    with pytest.raises(SysbagsError, match="all clips have the class a, but there must be at least two"):
        sysbags.StreamClassifier().fit(STREAMS[:3], ["a"] * 3)
    with pytest.raises(SysbagsError, match="different numbers of bins"):
        model.predict([STREAMS[0][:, :4] / STREAMS[0][:, :4].sum(axis=1, keepdims=True)])


def test_time_and_channels_exchanged_in_streams_of_different_lengths(model):
    """A list of (channels, time) arrays: the rows agree, and the columns do not."""
    rng = np.random.default_rng(0)
    classifier = sysbags.StreamClassifier(kernel="linear")
    lists = [rng.normal(size=(3, length)) for length in (100, 101, 100, 102)]
    with pytest.raises(SysbagsError, match=r"101 and not 100; if their rows are channels .*stream\.T"):
        classifier.fit(lists, [0, 1, 0, 1])
    fitted = classifier.fit([stream.T for stream in lists], [0, 1, 0, 1])
    with pytest.raises(SysbagsError, match="100 and not 3; if their rows are channels"):
        fitted.predict(lists[:1])
    with pytest.raises(SysbagsError, match=r"4 and not 3$"):
        fitted.predict([rng.normal(size=(100, 4))])


def test_it_is_saved_and_loaded(model, tmp_path):
    sysbags.save(tmp_path / "model", model)
    loaded = sysbags.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(STREAMS), model.decision_function(STREAMS))
    np.testing.assert_array_equal(loaded.predict_proba(STREAMS), model.predict_proba(STREAMS))
    assert loaded.accuracy_ == model.accuracy_


def test_weights_of_classes_are_balanced():
    weights = class_weights(np.array([0, 0, 0, 1]))
    assert weights.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2.0])


@pytest.mark.parametrize("kind", ["shuffled", "still", "standardised"])
@pytest.mark.parametrize("seed", range(3))
def test_ties_are_not_broken_by_the_labels_of_clips_that_are_held_out(kind, seed):
    """Clips that differ in nothing but noise: round-off must not tell the classes."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(12), size=40)
    labels = rng.permutation(np.arange(30) % 3)
    kernel = "chi2"
    if kind == "shuffled":  # averages over time are the same
        streams = [rows[rng.permutation(40)] for _ in labels]
    elif kind == "still":
        streams = [np.repeat(rows[:1], 5, axis=0) for _ in labels]
    else:
        kernel, noise = "linear", rng.standard_normal((30, 40, 3))
        streams = list((noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True))
    found = sysbags.StreamClassifier(kernel).fit(streams, labels)
    # The estimates are of 30 clips at a third: 0.63 is more than three standard errors above.
    assert found.averages_accuracy_ <= 1 / 3 + 0.01  # one class for all
    assert found.accuracy_ < 0.6
    assert (found.predict(streams) == found.classes_[found.predict_proba(streams).argmax(axis=1)]).all()


def test_combinations_are_checked():
    for bad in (["averages"], [["avg"]]):
        with pytest.raises(SysbagsError, match="combinations"):
            sysbags.StreamClassifier(combinations=bad).fit(STREAMS, LABELS)
