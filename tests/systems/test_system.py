"""`System` and the checks at the doors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags._common.validation import check_choice, check_integer, check_share, check_stream, check_weight
from sysbags.errors import IncompatibleSystemsError, ParameterError, StreamError
from sysbags.systems.collection import check_same_space, check_systems
from sysbags.systems.system import System

BAGS = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.1, 0.9], [0.6, 0.2, 0.2]])


def gaussian(first, second):
    """A user's own kernel."""
    return np.exp(-((first[:, None] - second[None]) ** 2).sum(axis=2))


def slow_kernel(kernel, a, b):
    """One kernel value from the definition."""
    if callable(kernel):
        return float(kernel(a[None], b[None])[0, 0])
    if kernel == "chi2":
        return np.exp(-0.5 * sum((x - y) ** 2 / (x + y) for x, y in zip(a, b, strict=True) if x + y > 0))
    if kernel == "bhattacharyya":
        return sum(np.sqrt(x * y) for x, y in zip(a, b, strict=True))
    if kernel == "intersection":
        return sum(min(x, y) for x, y in zip(a, b, strict=True))
    return sum(x * y for x, y in zip(a, b, strict=True))


def make(order=2, size=4, bins=3, kernel="chi2", seed=0):
    rng = np.random.default_rng(seed)
    return System(
        transition=rng.uniform(-0.4, 0.4, (order, order)),
        samples=rng.dirichlet(np.ones(bins), size),
        alpha=rng.standard_normal((size, order)),
        beta=np.full(size, 1 / size),
        kernel=kernel,
        states=rng.standard_normal((7, order)),
    )


def orthogonal(order, seed, determinant=1):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((order, order)))[0]
    Q[:, 0] *= determinant * np.sign(np.linalg.det(Q))
    return Q


def test_sizes_and_repr():
    theta = make(order=2, size=4, bins=3)
    assert (theta.order, theta.size, theta.bag_length) == (2, 4, 3)
    assert repr(theta) == "System(order=2, size=4, bag_length=3, kernel='chi2')"
    assert repr(make(kernel=gaussian)).endswith("kernel=gaussian)")


def test_arrays_are_read_only_copies():
    transition, alpha, beta, samples = np.eye(2) * 0.5, np.ones((4, 2)), np.ones(4), BAGS.copy()
    theta = System(transition, samples, alpha, beta)
    for array in (transition, alpha, beta, samples):
        array[:] = 7.0
    assert theta.transition[0, 0] == 0.5
    assert theta.alpha[0, 0] == 1.0
    np.testing.assert_array_equal(theta.samples, BAGS)
    for array in (theta.transition, theta.alpha, theta.beta, theta.samples, theta.observer_gram):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_a_read_only_view_of_writable_memory_is_copied():
    samples = BAGS.copy()
    view = samples.view()
    view.setflags(write=False)
    theta = System(np.eye(1) * 0.5, view, np.ones((4, 1)), np.ones(4))
    samples[0] = [0.0, 0.0, 1.0]
    np.testing.assert_array_equal(theta.samples, BAGS)


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya", "intersection", "linear", gaussian])
def test_norms_equal_the_double_sum(kernel):
    theta = make(order=3, size=6, bins=5, kernel=kernel)
    k = np.array([[slow_kernel(kernel, a, b) for b in theta.samples] for a in theta.samples])
    # Sums of some dozen products of numbers of order 1: round-off alone.
    np.testing.assert_allclose(theta.observer_gram, theta.alpha.T @ k @ theta.alpha, rtol=0, atol=1e-13)
    assert theta.mean_norm == pytest.approx(theta.beta @ k @ theta.beta, abs=1e-14)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([1, -1]))
def test_rotation_is_a_right_action(order, seed, determinant):
    theta = make(order=order, size=6, seed=seed)
    Q1, Q2 = orthogonal(order, seed + 1, determinant), orthogonal(order, seed + 2)
    twice, once = theta.rotate(Q1).rotate(Q2), theta.rotate(Q1 @ Q2)
    for name in ("transition", "alpha", "states", "beta", "samples"):
        np.testing.assert_allclose(getattr(twice, name), getattr(once, name), rtol=0, atol=1e-13)


def test_rotation_moves_what_lives_in_the_state_space():
    theta = make(order=3, size=6)
    Q = orthogonal(3, 5, -1)
    before = theta.observer_gram
    turned = theta.rotate(Q)
    np.testing.assert_allclose(turned.transition, Q.T @ theta.transition @ Q, rtol=0, atol=1e-15)
    np.testing.assert_allclose(turned.alpha, theta.alpha @ Q, rtol=0, atol=1e-15)
    np.testing.assert_allclose(turned.states, theta.states @ Q, rtol=0, atol=1e-15)
    # The norm carried over from the first system equals the one that the second works out afresh.
    fresh = System(turned.transition, turned.samples, turned.alpha, turned.beta)
    np.testing.assert_allclose(turned.observer_gram, fresh.observer_gram, rtol=0, atol=1e-13)
    np.testing.assert_allclose(turned.observer_gram, Q.T @ before @ Q, rtol=0, atol=1e-13)
    assert turned.mean_norm == theta.mean_norm


def test_pickle_keeps_everything():
    theta = make()
    copy = pickle.loads(pickle.dumps(theta))
    np.testing.assert_array_equal(copy.samples, theta.samples)
    np.testing.assert_array_equal(copy.observer_gram, theta.observer_gram)


def test_check_stream_leaves_the_input_and_copies_only_if_it_must():
    array = BAGS.copy()
    assert check_stream(array) is array
    fortran = np.asfortranarray(BAGS)
    checked = check_stream(fortran)
    assert checked.flags.c_contiguous
    np.testing.assert_array_equal(checked, BAGS)
    assert check_stream(BAGS.astype(np.float32)).dtype == np.float64
    np.testing.assert_array_equal(check_stream([[1, 0], [0, 1]]), np.eye(2))
    assert check_stream([[-1.0, 7.0]], "linear").shape == (1, 2)
    assert check_stream([[-1.0, 7.0]], gaussian).shape == (1, 2)


NAN, NEGATIVE, HEAVY, BLANK = BAGS.copy(), BAGS.copy(), BAGS.copy(), BAGS.copy()
NAN[2, 1], NEGATIVE[1, 2], BLANK[3] = np.nan, -0.25, 0.0
HEAVY[1] *= 2


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (NAN, "holds nan at row 2, column 1, but every entry must be finite"),
        (np.full((2, 3), np.inf), "holds inf at row 0, column 0"),
        (NEGATIVE, "negative entry -0.25 at row 1, column 2"),
        (HEAVY, "row 1 of stream sums to 2, but each histogram must sum to 1: divide each row"),
        (BLANK, "row 3 of stream sums to 0, but each histogram must sum to 1: this frame has an empty bag"),
        (BAGS * (1 + 1e-5), "row 0 of stream sums to 1.00001"),
        (BAGS[0], "has 1 dimensions, but it must have 2"),
        (BAGS[None], "has 3 dimensions, but it must have 2"),
        (0.5, "has 0 dimensions"),
        (np.empty((0, 3)), "is empty"),
        (np.empty((3, 0)), "is empty"),
        ([[0.5, 0.5], [1.0]], "is ragged"),
        ([["a", "b"]], "holds <U1 entries, but it must hold real numbers"),
        ("clip.mp4", "must hold real numbers"),
        (BAGS + 0j, "complex128"),
        (np.array([[object(), 1.0]]), "objects that are not numbers"),
        (None, "it must have 2"),
    ],
)
def test_bad_streams(stream, sentence):
    with pytest.raises(StreamError) as caught:
        check_stream(stream)
    assert sentence in str(caught.value)


GOOD = {"transition": np.eye(2) * 0.5, "samples": BAGS, "alpha": np.ones((4, 2)), "beta": np.ones(4)}


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"transition": np.ones((2, 3))}, ParameterError, "must be a square (n, n) matrix"),
        ({"transition": np.ones(2)}, ParameterError, "transition has shape (2,)"),
        ({"transition": np.empty((0, 0))}, ParameterError, "transition is empty"),
        ({"transition": [[np.nan, 0], [0, 0]]}, ParameterError, "transition holds nan at index (0, 0)"),
        ({"samples": NAN}, StreamError, "samples holds nan"),
        ({"samples": HEAVY}, StreamError, "row 1 of samples sums to 2"),
        ({"alpha": np.ones((3, 2))}, ParameterError, "alpha has shape (3, 2), but it must be (4, 2)"),
        ({"alpha": np.full((4, 2), np.inf)}, ParameterError, "alpha holds inf"),
        ({"beta": np.ones((4, 1))}, ParameterError, "beta has shape (4, 1), but it must be (4,)"),
        ({"beta": ["x"] * 4}, ParameterError, "must hold real numbers"),
        ({"kernel": "gaussian"}, ParameterError, "'chi2', 'bhattacharyya', 'intersection', 'linear'"),
        ({"kernel": 3}, ParameterError, "kernel is 3"),
        ({"states": np.ones((4, 3))}, ParameterError, "states has shape (4, 3), but it must be (T, 2)"),
        ({"eigenvalues": np.ones((2, 2))}, ParameterError, "eigenvalues has shape (2, 2)"),
        ({"residual": -1.0}, ParameterError, "residual is -1.0"),
    ],
)
def test_bad_systems(change, error, sentence):
    with pytest.raises(error) as caught:
        System(**{**GOOD, **change})
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("rotation", "sentence"),
    [
        (np.eye(3), "rotation has shape (3, 3), but it must be (2, 2)"),
        (np.eye(2) * 1.1, "rotation is not orthogonal: Q'Q differs from the identity by 0.21"),
        ([[1.0, 0.0], [1.0, 0.0]], "not orthogonal"),
        ([[np.nan, 0.0], [0.0, 1.0]], "rotation holds nan"),
        ("Q", "must hold real numbers"),
        ([[1.0], [0.0, 1.0]], "rotation is ragged"),
    ],
)
def test_bad_rotations(rotation, sentence):
    with pytest.raises(ParameterError) as caught:
        System(**GOOD).rotate(rotation)
    assert sentence in str(caught.value)


def other_gaussian(first, second):
    return gaussian(first, second)


@pytest.mark.parametrize(
    ("systems", "error", "sentence"),
    [
        ([], ParameterError, "systems is empty"),
        (make(), ParameterError, "is a single System, but it must be a sequence"),
        ("abc", ParameterError, "is of type str"),
        (3, ParameterError, "is of type int"),
        ([make(), BAGS], ParameterError, "systems[1] is of type ndarray, but it must be a System"),
        (
            [make(), make(kernel="linear")],
            IncompatibleSystemsError,
            "systems[0] has the kernel 'chi2' and systems[1] 'linear'",
        ),
        ([make(kernel=gaussian), make(kernel=other_gaussian)], IncompatibleSystemsError, "other_gaussian"),
        ([make(), make(), make(bins=5)], IncompatibleSystemsError, "length 3 and systems[2] of 5"),
    ],
)
def test_bad_collections(systems, error, sentence):
    with pytest.raises(error) as caught:
        check_systems(systems)
    assert sentence in str(caught.value)


def test_collections_of_one_space_pass():
    systems = (make(), make(order=3, size=9, seed=1))
    assert check_systems(systems) == list(systems)
    assert check_systems(iter(systems)) == list(systems)
    check_same_space([make()], [make(size=9)])
    check_systems([make(kernel=gaussian), make(kernel=gaussian)])


@pytest.mark.parametrize("second", [make(kernel="intersection"), make(bins=4)])
def test_two_spaces_are_refused(second):
    with pytest.raises(IncompatibleSystemsError, match=r"the first collection has .* and the second"):
        check_same_space([make()], [second])


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "1", None, True, 1j])
def test_bad_weights(value):
    with pytest.raises(
        ParameterError, match=r"lambda_a is .*, but it must be a finite number that is 0 or more"
    ):
        check_weight(value, "lambda_a")


@pytest.mark.parametrize("value", [0, 1.5, "3", None, True, np.nan])
def test_bad_integers(value):
    with pytest.raises(ParameterError, match=r"size is .*, but it must be a whole number of at least 1"):
        check_integer(value, "size")


@pytest.mark.parametrize("value", [0.0, 1.1, -0.1, "a", np.nan])
def test_bad_shares(value):
    with pytest.raises(ParameterError, match=r"variance is .*, but it must be a number in \(0, 1\]"):
        check_share(value, "variance", low="(", high="]")


@pytest.mark.parametrize("value", ["Martin", None, 3, ["martin"]])
def test_bad_choices(value):
    with pytest.raises(ParameterError, match=r"metric is .*, but it must be one of 'martin', 'alignment'"):
        check_choice(value, "metric", ("martin", "alignment"))


def test_good_numbers_pass():
    assert check_weight(np.float32(0.5), "w") == 0.5
    assert check_weight(0, "w") == 0.0
    assert check_integer(np.int64(3), "k") == 3
    assert check_share(1, "s", low="(", high="]") == 1.0
    assert check_share(0.0, "s", low="[", high=")") == 0.0
    assert check_choice("a", "c", ("a", "b")) == "a"
