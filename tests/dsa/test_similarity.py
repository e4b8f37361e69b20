"""`DSA` from data to scores: dsa-metric's scores, forms of data, symmetry, inputs, kernels, bad input."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from signals import oscillation, random_system
from sysbags.datasets import make_streams
from sysbags.dsa import DSA, fit_dmd
from sysbags.dsa.scores import angular_distance
from sysbags.errors import DistanceWarning, OrderError, ParameterError, SysbagsError

METHODS = ("angular", "euclidean", "wasserstein")
SAME = 1e-6  # see test_scores.py


def four_systems():
    """Return a series, another one, three trials, and trials of different lengths."""
    return [
        oscillation([0.2, 0.9], 1),
        oscillation([0.2, 1.2], 2),
        oscillation([0.5, 2.0], 3, trials=3, length=60),
        [oscillation([0.3, 1.0], 4, length=length) for length in (60, 45, 80)],
    ]


# Upper triangles that dsa-metric 2.0.2 computes for `four_systems`, with its default number of iterations. It
# works in single precision, and its rotations are not always the best ones.
TWO_DELAYS, THREE_DELAYS = {"n_delays": 2, "rank": 4}, {"n_delays": 3, "delay_interval": 2, "rank": 6}
REFERENCES = [
    ("wasserstein", TWO_DELAYS, [0.05261, 0.55802, 0.01208, 0.30188, 0.02149, 0.45213]),
    ("wasserstein", THREE_DELAYS, [0.0668, 0.4403, 0.10156, 0.22982, 0.05129, 0.37587]),
    ("wasserstein", {}, [0.04603, 0.57868, 0.0093, 0.32213, 0.02317, 0.4719]),
    ("angular", TWO_DELAYS, [0.24928, 0.79091, 0.13128, 0.59344, 0.15661, 0.72066]),
    ("angular", THREE_DELAYS, [0.29436, 0.78715, 0.31157, 0.58277, 0.21696, 0.67288]),
    ("angular", {}, [0.21783, 0.79854, 0.09927, 0.60322, 0.15181, 0.71793]),
    ("euclidean", TWO_DELAYS, [0.24863, 0.77046, 0.13118, 0.58477, 0.15645, 0.70516]),
]


@pytest.mark.parametrize(("method", "options", "reference"), REFERENCES)
def test_the_scores_of_dsa_metric(method, options, reference):
    dsa = DSA(four_systems(), score_method=method, **options)
    scores = dsa.fit_score()[np.triu_indices(4, 1)]
    difference = np.array(reference) - scores
    if method == "wasserstein":  # no search: the difference is single precision
        assert np.abs(difference).max() < 1e-4
    else:
        assert difference.min() > -1e-4  # never worse
        assert difference.max() < 0.01  # and the same, but for the steps that dsa-metric did not make
        assert np.median(difference) < 1e-3
    assert (dsa.certificates_[np.triu_indices(4, 1)] <= np.array(reference) + 1e-4).all()


@pytest.mark.parametrize("method", METHODS)
def test_dsa_metric_itself_agrees(method):
    peer = pytest.importorskip("DSA")
    import torch

    torch.manual_seed(0)
    x, y = oscillation([0.3], 1), oscillation([0.8], 2)
    options = {"n_delays": 2, "rank": 2, "score_method": method}
    expected = peer.DSA(x.copy(), y.copy(), iters=800, **options).fit_score()
    # Two states have one angle, whose minimum dsa-metric finds; it computes in single precision.
    assert DSA(x, y, **options).fit_score() == pytest.approx(expected, abs=1e-3)


def test_unequal_ranks_as_in_dsa_metric():
    """Eigenvalues of unequal numbers are two uniform distributions; the number is from dsa-metric 2.0.2."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((50, 3)).cumsum(axis=0) for _ in range(2))
    assert DSA(x, y, n_delays=2, rank=(3, 4)).fit_score() == pytest.approx(0.15716161, abs=1e-5)


def test_inputs_alone_as_in_dsa_metric():
    pytest.importorskip("DSA")
    from DSA.simdist_controllability import ControllabilitySimilarityTransformDist

    B1, B2 = np.random.default_rng(0).standard_normal((2, 4, 3))
    expected = ControllabilitySimilarityTransformDist.compare_B(B1, B2, "angular")
    score = angular_distance(np.eye(4), np.eye(4), (B1, B2), weights=(0.0, 1.0)).score
    assert score == pytest.approx(expected, abs=SAME)


def test_data_in_all_its_forms():
    x, y, trials, ragged = four_systems()
    dsa = DSA(x, y, rank=4, score_method="angular")
    number = dsa.fit_score()
    assert type(number) is float
    assert number == dsa.scores_
    expected = angular_distance(fit_dmd(x).transition, fit_dmd(y).transition).score
    assert number == pytest.approx(expected, abs=SAME)
    assert 0.0 <= dsa.certificates_ <= number
    options = {"rank": 4, "score_method": "angular"}
    assert DSA([x, y], trials, **options).fit_score().shape == (2,)
    assert DSA(x, [y, trials, ragged], **options).fit_score().shape == (3,)
    assert DSA([x], [y], **options).fit_score().shape == (1, 1)
    block = DSA([x, y], [trials, ragged], **options).fit_score()
    square = DSA([x, y, trials, ragged], **options).fit_score()
    assert np.array_equal(block, square[:2, 2:])
    assert DSA(x, [ragged], **options).fit_score()[0] == square[0, 3]
    assert DSA([x, list(trials)], **options).fit_score()[0, 1] == square[0, 2]


@pytest.mark.parametrize("method", METHODS)
def test_zero_symmetry_and_threads_to_the_bit(method):
    systems = four_systems()
    options = {"n_delays": 2, "rank": 5, "score_method": method}
    dsa = DSA(systems, **options)
    scores = dsa.fit_score()
    assert (np.diag(scores) == 0.0).all()
    assert np.array_equal(scores, scores.T)
    assert (scores[~np.eye(4, dtype=bool)] > 0.0).all()
    assert np.array_equal(dsa.certificates_, dsa.certificates_.T)
    assert (dsa.certificates_ <= scores).all()
    assert DSA(systems[0], systems[0].copy(), **options).fit_score() == 0.0
    assert np.array_equal(DSA(systems, copy.deepcopy(systems), **options).fit_score(), scores)
    assert np.array_equal(DSA(systems[1:], systems[0], **options).fit_score(), scores[0, 1:])
    assert np.array_equal(DSA(systems, n_jobs=2, **options).fit_score(), scores)


def test_the_input_is_untouched():
    systems = four_systems()
    before = copy.deepcopy(systems)
    for system in systems[:3]:
        system.flags.writeable = False
    DSA(systems, n_delays=2, rank="auto").fit_score()
    DSA(systems[:3], systems[3:], score_method="euclidean").fit_score()
    assert all(np.array_equal(a, b) for a, b in zip(systems[:3], before[:3], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(systems[3], before[3], strict=True))


def test_coordinates_play_no_part():
    """An invertible change of sensors leaves the whitened states as they are, but for a rotation."""
    x = oscillation([0.3, 1.0], 0)
    mixed = x @ np.random.default_rng(0).standard_normal((4, 6))
    for method in METHODS:
        # The search ends at a slope of 1e-7, which leaves more in directions of little curvature.
        assert DSA(x, mixed, score_method=method).fit_score() == pytest.approx(0.0, abs=1e-4)


def test_dynamics_and_not_geometry():
    """Streams of one class are nearer to each other than to those of the same bags at another speed."""
    streams, labels = make_streams(classes=2, per_class=4, frames=200, bins=8, noise=0.2)
    scores = DSA(streams, n_delays=3, rank=5).fit_score()
    same = labels[:, None] == labels[None, :]
    assert scores[same].max() < scores[~same].min()


def test_fitted_systems_are_scored_again():
    dsa = DSA(four_systems(), rank=3).fit_dmds()
    wasserstein = dsa.score()
    dsa.score_method = "angular"
    assert not np.allclose(dsa.score(), wasserstein)
    assert [modes.rank for modes in dsa.models_[0]] == [3] * 4
    assert dsa.n_delays_ == [1] * 4


def test_unequal_ranks_and_settings_for_each_system():
    x, y, z = four_systems()[:3]
    dsa = DSA([x, y, z], n_delays=[1, 2, 3], rank=[2, 3, 4], score_method="angular")
    with pytest.warns(DistanceWarning, match="are from 2 to 4, and unequal ranks are padded") as caught:
        scores = dsa.fit_score()
    assert len(caught) == 1  # and not one for each pair
    models = [fit_dmd(s, n_delays=d, rank=r) for s, d, r in ((x, 1, 2), (y, 2, 3), (z, 3, 4))]
    expected = angular_distance(models[0].transition, models[2].transition).score
    assert scores[0, 2] == pytest.approx(expected, abs=SAME)
    with pytest.warns(DistanceWarning):
        pair = DSA([x, y], z, n_delays=([1, 2], 3), rank=([2, 3], 4), score_method="angular").fit_score()
    assert np.array_equal(pair, scores[:2, 2])
    with pytest.warns(DistanceWarning, match="are from 2 to 3"):
        assert DSA(x, x, rank=(2, 3), score_method="angular").fit_score() > 0.0
    with warnings.catch_warnings(action="error"):  # nothing is padded
        assert DSA(x, x, rank=(2, 3)).fit_score() > 0.0
        DSA([x, y], rank=3, score_method="angular").fit_score()


def test_automatic_delays_and_rank_are_common_to_all_systems():
    time = np.arange(300)
    series = [(np.cos(a * time) + np.cos(b * time))[:, None] for a, b in ((0.2, 0.9), (0.3, 1.4))]
    series.append(np.cos(0.5 * time)[:, None])
    dsa = DSA(series, n_delays="auto").fit_dmds()
    assert dsa.n_delays_ == [4, 4, 4]
    dsa = DSA([oscillation([0.3], 0, channels=12), oscillation([0.3, 1.0], 1, channels=12)], rank="auto")
    dsa.fit_score()
    assert [modes.rank for modes in dsa.models_[0]] == [4, 4]


def test_one_rotation_acts_on_transitions_and_inputs():
    _, _, x, u = random_system(3, seed=0, inputs=2)
    mixed = x @ np.random.default_rng(1).standard_normal((3, 3))
    _, _, other, v = random_system(3, seed=5, inputs=2)
    for method in ("angular", "euclidean"):
        dsa = DSA([x, mixed, other], X_control=[u, u, v], score_method=method)
        scores = dsa.fit_score()
        assert scores[0, 1] == pytest.approx(0.0, abs=SAME)
        assert scores[0, 2] > 0.1
        assert np.array_equal(scores, scores.T)
        assert (dsa.certificates_ <= scores).all()
    states = DSA(x, other, X_control=u, Y_control=v, compare="state", score_method="angular").fit_score()
    first, second = fit_dmd(x, control=u), fit_dmd(other, control=v)
    assert states == pytest.approx(angular_distance(first.transition, second.transition).score, abs=SAME)
    inputs = DSA(x, other, X_control=u, Y_control=v, compare="control", score_method="angular").fit_score()
    B1, B2 = (modes.control / np.linalg.norm(modes.control) for modes in (first, second))
    assert inputs == pytest.approx(np.arccos(np.linalg.svd(B1 @ B2.T, compute_uv=False).sum()), abs=SAME)
    heavy, light = (
        DSA(x, other, X_control=u, Y_control=v, control_weight=w, score_method="angular").fit_score()
        for w in (1e6, 1e-12)
    )
    assert heavy == pytest.approx(inputs, abs=1e-2)
    assert light == pytest.approx(states, abs=1e-4)
    assert DSA(x, mixed, X_control=u, Y_control=u, compare="state").fit_score() == pytest.approx(
        0.0, abs=SAME
    )


def test_inputs_that_were_ignored_look_like_other_dynamics():
    """The same system under strong, correlated inputs and without: only the fit with inputs sees it."""
    A, B, x, u = random_system(2, seed=7, inputs=1, length=400)
    slow = np.cumsum(u, axis=0) * 0.2
    y = np.empty_like(x)
    y[0] = x[0]
    for t in range(len(y) - 1):
        y[t + 1] = A @ y[t] + B @ slow[t]
    unaware = DSA(x, y).fit_score()
    aware = DSA(x, y, X_control=u, Y_control=slow, compare="state").fit_score()
    assert aware == pytest.approx(0.0, abs=1e-8)
    assert unaware > 1e-3


def test_kernels_have_one_rank_for_all():
    streams, _ = make_streams(classes=2, per_class=2, frames=60, bins=8)
    dsa = DSA(streams, kernel="chi2", n_delays=2, score_method="angular")
    scores = dsa.fit_score()
    assert len({modes.rank for modes in dsa.models_[0]}) == 1
    assert np.array_equal(scores, scores.T)
    trials = DSA([streams[:2], streams[2:]], kernel="chi2", rank=4).fit_score()
    assert trials.shape == (2, 2)


x = np.random.default_rng(0).standard_normal((20, 2))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((x,), {}, "X is one system, but without Y it must be a list"),
        (([],), {}, "X is an empty list"),
        ((x, []), {}, "Y is an empty list"),
        (([x, x[0, 0]],), {}, r"X\[1\] has shape \(\), but it must be an array \(time,\)"),
        (([x, [[1.0, 2.0], [3.0]]],), {}, r"X\[1\]\[0\] is a list of numbers"),
        ((x.tolist(),), {}, r"X\[0\] is a list of numbers, .*: pass X as a numpy array"),
        (
            ([x, x],),
            {"X_control": [[1.0] * 20] * 2, "compare": "state"},
            r"X_control\[0\] is a list of numbers",
        ),
        (([x, None],), {}, r"X\[1\] "),
        (("clip.mp4", x), {}, "X holds .* must hold real numbers"),
        (([x, 0.0 * x],), {}, r"X\[1\] is 0 everywhere"),
        (([x, 0.0 * x],), {"rank": "auto"}, r"X\[1\] is 0 everywhere"),
        (([x, 0.0 * x],), {"n_delays": "auto"}, r"X\[1\] is 0 everywhere"),
        (([x, x],), {"score_method": "cosine"}, "score_method is 'cosine', but it must be one of 'angular'"),
        (([x, x],), {"n_delays": 30}, r"trial 0 of X\[0\] has 20 time points, but n_delays=30"),
        (([x, x],), {"n_delays": "many"}, "n_delays is 'many'"),
        (([x, x],), {"rank": 3}, r"rank 3 is above the rank .* of X\[0\], which is 2"),
        (([x, x],), {"rank": [1, 2, 2]}, "rank has 3 values, but there are 2 systems in X"),
        ((x, x), {"rank": [1, 2, 2]}, "rank has 3 values, but it must be a pair"),
        (([x, x],), {"n_jobs": 0}, "n_jobs is 0"),
        (
            ([x, x],),
            {"X_control": x, "compare": "state"},
            "X_control is one array, but it must be a list with the inputs of each of the 2 systems",
        ),
        (([x, x, x],), {"X_control": [x, x]}, "X_control is a list of 2, but .* each of the 3 systems"),
        (([x, x],), {"X_control": [x, x]}, 'with X_control use score_method="angular" or "euclidean"'),
        (([x, x],), {"compare": "joint"}, "compare is 'joint', but there are no inputs"),
        (([x, x],), {"compare": "all"}, "compare is 'all'"),
        (
            ([x, 2 * x],),
            {"X_control": [x[:, 0]] * 2, "compare": "control", "score_method": "angular"},
            "at least two inputs are needed",
        ),
        (([x, x],), {"iters": 100}, "no argument 'iters': the search ends when it has converged; see starts"),
        (([x, x],), {"lr": 0.01}, "no argument 'lr'"),
        (([x, x],), {"device": "cpu"}, "no argument 'device': everything runs on the processor"),
        (([x, x],), {"verbose": True}, "no argument 'verbose'"),
        (
            ([x, x],),
            {"dmd_config": {"rank": 5}},
            "no argument 'dmd_config': give what is in it to DSA itself",
        ),
        (([x, x],), {"n_delay": 2}, "no argument 'n_delay': its arguments are X, Y, .* n_delays, .* n_jobs$"),
        ((x, x), {"X_control": x, "compare": "state"}, "Y has 0 inputs and X has 2"),
        ((x, x), {"X_control": x[1:], "Y_control": x, "compare": "state"}, "the trials of X_control have 19"),
        (([x, x],), {"Y_control": x, "compare": "state"}, "there is Y_control without Y"),
        (([x, x],), {"control_weight": -1}, "control_weight is -1"),
        (([x, 2 * x],), {"random_state": "a", "score_method": "angular"}, "random_state is 'a'"),
    ],
)
def test_bad_input_is_one_clear_sentence(arguments, options, message):
    with pytest.raises(SysbagsError, match=message):
        DSA(*arguments, **options).fit_score()


def test_inputs_are_counted_at_each_score():
    dsa = DSA([x, 2 * x], X_control=[x[:, 0], x[:, 1]], score_method="angular").fit_dmds()
    dsa.compare = "control"
    with pytest.raises(ParameterError, match="at least two inputs are needed"):
        dsa.score()


@pytest.mark.parametrize("method", METHODS)
def test_squared_scores(method):
    """The squares are those of the scores that were computed, whatever is assigned later."""
    systems = four_systems()
    dsa = DSA(systems, rank=3, score_method=method)
    scores = dsa.fit_score()
    dsa.score_method = "euclidean" if method == "wasserstein" else "wasserstein"
    assert np.array_equal(dsa.squared_scores_, scores if method == "wasserstein" else scores**2)
    pair = DSA(*systems[:2], rank=3, score_method=method)
    pair.fit_score()
    assert pair.squared_scores_ == dsa.squared_scores_[0, 1]


def test_one_dimension_is_one_channel_of_a_system():
    series = [np.cos(speed * np.arange(80)) for speed in (0.3, 0.5, 0.9)]
    columns = [a[:, None] for a in series]
    expected = DSA(columns, n_delays=2).fit_score()
    assert np.array_equal(DSA(series, n_delays=2).fit_score(), expected)
    assert DSA(series[0], series[1], n_delays=2).fit_score() == expected[0, 1]
    assert DSA(series[0].tolist(), tuple(series[1]), n_delays=2).fit_score() == expected[0, 1]
    trials = [[a[:30], a[30:]] for a in series]
    assert np.array_equal(
        DSA(trials, n_delays=2).fit_score(),
        DSA([[a[:30, None], a[30:, None]] for a in series], n_delays=2).fit_score(),
    )
    options = {"n_delays": 2, "score_method": "angular"}
    assert np.array_equal(
        DSA(series, X_control=series[::-1], **options).fit_score(),
        DSA(columns, X_control=columns[::-1], **options).fit_score(),
    )


def test_repr_has_the_systems_and_what_is_not_a_default():
    assert repr(DSA([x, x])) == "DSA(2 systems)"
    assert repr(DSA([x, x], x, rank=2, n_delays=1)) == "DSA(2 systems against 1 system, rank=2)"
    driven = DSA(x, [x], X_control=x, Y_control=[x], compare="state", lamb=0.1)
    assert repr(driven) == "DSA(1 system against 1 system, with inputs, lamb=0.1, compare='state')"
    assert len(repr(DSA([x] * 500, rank=[2] * 500, n_delays=np.ones(500, int)))) < 150


def test_results_before_the_fit():
    dsa = DSA([x, x])
    for name in ("models_", "n_delays_", "scores_", "certificates_", "squared_scores_"):
        with pytest.raises(NotFittedError, match=f"{name} is not known yet: call fit_score"):
            getattr(dsa, name)
        assert not hasattr(dsa, name)
    with pytest.raises(NotFittedError, match="call fit_score, or fit_dmds and then score"):
        dsa.score()
    with pytest.raises(AttributeError, match="DSA has no attribute 'certificate_'"):
        _ = dsa.certificate_


def test_a_rank_that_one_system_does_not_have():
    with pytest.raises(OrderError, match=r"X\[1\], which is 1"):
        DSA([x, np.ones((20, 2))], rank=2).fit_score()
