from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.datasets import make_streams
from sysbags.datasets.streams import _walk
from sysbags.errors import ParameterError
from sysbags.evaluate import leave_one_out


@given(
    classes=st.integers(1, 5),
    per_class=st.integers(1, 3),
    frames=st.integers(1, 12),
    bins=st.integers(2, 9),
    noise=st.floats(0.0, 3.0),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_streams_are_histograms(classes, per_class, frames, bins, noise, seed):
    streams, labels = make_streams(classes, per_class, frames, bins, noise, seed)
    assert len(streams) == len(labels) == classes * per_class
    assert np.array_equal(np.bincount(labels), np.full(classes, per_class))
    for stream in streams:
        assert stream.shape == (frames, bins)
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, atol=1e-12)


def test_seeds():
    first, second, other = (make_streams(2, 2, 10, random_state=seed)[0] for seed in (4, 4, 5))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    generated, _ = make_streams(2, 2, 10, random_state=np.random.default_rng(4))
    assert np.array_equal(generated[0], first[0])


def test_states_follow_their_transition_and_keep_their_variance():
    angles, damping = np.array([0.3, 1.7]), np.array([0.9, 0.98])
    states = _walk(angles, damping, 40_000, np.random.default_rng(0))
    # With a damping of 0.98 about 400 of 40,000 frames are independent: a spread of 7 % of a variance.
    np.testing.assert_allclose(states.var(axis=0), 1.0, atol=0.25)
    A = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0].T
    eigenvalues = np.linalg.eigvals(A)
    np.testing.assert_allclose(np.sort(np.abs(eigenvalues)), np.repeat(damping, 2), atol=0.01)
    np.testing.assert_allclose(np.sort(np.abs(np.angle(eigenvalues))), np.repeat(angles, 2), atol=0.01)


def test_a_pair_of_classes_differs_in_dynamics_alone():
    """Without noise in observer and mean, long averages of the two agree, and their speeds do not."""
    streams, _ = make_streams(classes=4, per_class=1, frames=20_000, bins=16, noise=0.0, random_state=0)
    averages = [stream.mean(axis=0) for stream in streams]
    inside = np.abs(averages[0] - averages[1]).sum()
    across = np.abs(averages[0] - averages[2]).sum()
    assert inside < 0.1 * across
    steps = [np.abs(np.diff(stream, axis=0)).sum(axis=1).mean() for stream in streams]
    assert steps[1] > 1.5 * steps[0]
    assert steps[3] > 1.5 * steps[2]


def test_the_task_is_neither_trivial_nor_hopeless():
    streams, labels = make_streams()
    systems = sysbags.SystemIdentifier(order=5).fit_transform(streams)
    accuracy = leave_one_out(sysbags.cross_gram(systems), labels, classifier="nearest-system").accuracy
    assert 0.5 < accuracy < 1.0  # chance is 1/6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"classes": 0}, "classes"),
        ({"per_class": 1.5}, "per_class"),
        ({"frames": 0}, "frames"),
        ({"bins": 1}, "bins"),
        ({"noise": -1.0}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"random_state": -1}, "random_state is -1, but it must be"),
        ({"random_state": "seed"}, "random_state is 'seed', but it must be"),
    ],
)
def test_bad_input(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make_streams(**options)
