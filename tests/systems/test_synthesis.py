"""The frames of a clip in the order of a path."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import sysbags
from helpers import orthogonal
from sysbags.errors import ParameterError, StreamError
from sysbags.systems import synthesis
from sysbags.systems.synthesis import cheapest_path, frame_order

TIME = np.arange(90)[:, None]
RNG = np.random.default_rng(0)
SMOOTH = 2.0 + np.cos(0.21 * TIME + 0.5 * np.pi * np.arange(4)) + 0.1 * RNG.random((90, 4))
THETA = sysbags.identify(SMOOTH / SMOOTH.sum(axis=1, keepdims=True), order=2)
PICTURES = np.column_stack([np.cos(0.21 * TIME), np.sin(0.21 * TIME)])
PATH = THETA.simulate(200)[0]


@pytest.mark.parametrize("seed", range(5))
def test_cheapest_path_against_all_paths(seed):
    rng = np.random.default_rng(seed)
    costs, jumps = rng.random((5, 4)), 2.0 * rng.random((4, 4))

    def cost(path):
        return costs[np.arange(5), path].sum() + jumps[path[:-1], path[1:]].sum()

    every = [np.array(path) for path in product(range(4), repeat=5)]
    np.testing.assert_array_equal(cheapest_path(costs, jumps), min(every, key=cost))


def test_one_step():
    np.testing.assert_array_equal(cheapest_path(np.array([[2.0, 1.0]]), np.zeros((2, 2))), [1])


def test_the_clip_along_its_own_path_is_the_clip():
    np.testing.assert_array_equal(frame_order(THETA, THETA.states, PICTURES), np.arange(90))


def test_steps_of_a_smooth_clip_are_short():
    """Nearly all steps go to the next frame, or to one that looks like it."""
    order = frame_order(THETA, PATH, PICTURES)
    assert order.shape == (200,)
    following = np.minimum(order[:-1] + 1, 89)
    gaps = np.linalg.norm(PICTURES[order[1:]] - PICTURES[following], axis=1)
    assert (gaps <= 2.0 * 0.21).mean() > 0.95  # two steps of the clip
    assert np.ptp(order) > 20  # it does not stand still


def test_smoothness():
    nearest = frame_order(THETA, PATH, PICTURES, smoothness=0.0)
    variance = np.cov(THETA.states.T, bias=True)
    difference = PATH[:, None] - THETA.states
    distances = np.einsum("tni,ij,tnj->tn", difference, np.linalg.inv(variance), difference)
    np.testing.assert_array_equal(nearest, distances.argmin(axis=1))
    jumps = [(np.diff(frame_order(THETA, PATH, PICTURES, weight)) != 1).sum() for weight in (0.0, 3.0, 1e6)]
    assert jumps[0] > jumps[1] > jumps[2]
    # At any price the clip goes on, except where a jump of a period is as smooth.
    assert jumps[2] <= 200 // 29


def test_the_order_does_not_depend_on_the_coordinates():
    Q = orthogonal(2, np.random.default_rng(3))
    np.testing.assert_array_equal(
        frame_order(THETA.rotate(Q), PATH @ Q, PICTURES), frame_order(THETA, PATH, PICTURES)
    )


def test_pictures_that_are_all_the_same():
    order = frame_order(THETA, PATH, np.ones((90, 3)))
    np.testing.assert_array_equal(order, frame_order(THETA, PATH, PICTURES, smoothness=0.0))


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ((THETA, PATH[:, :1], PICTURES), ParameterError, "path has shape (200, 1), but it must be (T, 2)"),
        ((THETA, PATH, PICTURES[:80]), ParameterError, "pictures has shape (80, 2), but it must be (90, q)"),
        ((THETA, PATH, PICTURES, -1.0), ParameterError, "smoothness is -1.0"),
        ((THETA.compress(20), PATH, PICTURES), ParameterError, "no state for each of its samples"),
    ],
)
def test_bad_input(arguments, error, sentence):
    with pytest.raises(error) as caught:
        frame_order(*arguments)
    assert sentence in str(caught.value)


def test_too_many_frames(monkeypatch):
    monkeypatch.setattr(synthesis, "MAX_FRAMES", 80)
    with pytest.raises(StreamError, match="has 90 frames, but at most 80 can be put in another order"):
        frame_order(THETA, PATH, PICTURES)
