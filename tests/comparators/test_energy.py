import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

from clips import moving_frames
from sysbags.comparators import SpatiotemporalEnergy
from sysbags.comparators.energy import (
    CHANNELS,
    NORMALS,
    answers,
    derivatives,
    energies,
    noise_energy,
    steering,
)
from sysbags.errors import ParameterError, VideoError

TAPS = 13  # of the default filters
ORDERS = sorted((3 - j - k, j, k) for k in range(4) for j in range(4 - k))  # in x, y, t
MOVING = [name for name in CHANNELS if " at " in name]


def moved(u, v, frames=15, height=24, width=28, seed=0):
    """A random texture that moves by (u, v) pixels a frame: waves of 5 to 12 pixels, each shifted exactly."""
    rng = np.random.default_rng(seed)
    t, y, x = np.mgrid[:frames, :height, :width]
    clip = np.zeros(t.shape)
    for _ in range(30):
        angle, pitch, phase = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 1.2), rng.uniform(0, 2 * np.pi)
        clip += np.cos(pitch * (np.cos(angle) * (x - u * t) + np.sin(angle) * (y - v * t)) + phase)
    return np.clip(128 + 12 * clip, 0, 255).round().astype(np.uint8)


def shares(clip, **options):
    return dict(zip(CHANNELS, SpatiotemporalEnergy(**options).vector(clip), strict=True))


def velocity(name):
    direction, speed = name.split(" at ")
    u, v = ("right" in direction) - ("left" in direction), ("down" in direction) - ("up" in direction)
    return float(speed) * np.array([u, v]) / np.hypot(u, v)


# Filters


def test_filters_against_directional_derivatives_of_a_gaussian():
    """In the direction d the third derivative is (3s - s^3) G / sigma^3 with s = d'p / sigma.

    The taps differ from this in that the second derivative is made to sum to 0, for which 7e-5 of the
    Gaussian is added to it.
    """
    sigma, rng = 1.0, np.random.default_rng(0)
    clip = rng.integers(0, 256, (10, 11, 12)).astype(np.uint8)
    t, y, x = np.mgrid[-4:5, -4:5, -4:5]
    gauss = np.exp(-(x**2 + y**2 + t**2) / 2 / sigma**2)
    gauss /= gauss.sum()
    responses = np.stack(list(answers(clip, sigma)))
    assert responses.shape == (2, 10, 3, 4)
    first = None
    for filter_, (normal, weights) in enumerate(zip(np.repeat(NORMALS, 4, axis=0), steering(), strict=True)):
        # The direction can be read off the pure derivatives: their weights are its cubes.
        d = np.cbrt([weights[ORDERS.index(pure)] for pure in [(3, 0, 0), (0, 3, 0), (0, 0, 3)]])
        assert abs(d @ normal) < 1e-12
        assert abs(d @ d - 1) < 1e-12
        if filter_ % 4:
            assert abs(abs(d @ first) - abs(np.cos(np.pi / 4 * (filter_ % 4)))) < 1e-12
        else:
            first = d
        s = (d[0] * x + d[1] * y + d[2] * t) / sigma
        kernel = (3 * s - s**3) * gauss / sigma**3
        want = np.array(
            [
                [[(clip[k : k + 9, r : r + 9, c : c + 9] * kernel).sum() for c in range(4)] for r in range(3)]
                for k in range(2)
            ]
        )
        have = np.einsum("a,karc->krc", weights, responses)
        np.testing.assert_allclose(have, want, rtol=0, atol=2e-5 * 255 * np.abs(kernel).sum())


def test_answers_are_sums_over_space_and_time():
    """The ten separable filters one by one, without a window that goes round."""
    clip = np.random.default_rng(1).integers(0, 256, (13, 10, 11)).astype(np.uint8)
    g = derivatives(1.0)
    for begin, responses in enumerate(answers(clip, 1.0)):
        for a, (i, j, k) in enumerate(ORDERS):
            kernel = g[k][:, None, None] * g[j][None, :, None] * g[i][None, None, :]
            for r in range(2):
                for c in range(3):
                    want = (clip[begin : begin + 9, r : r + 9, c : c + 9] * kernel).sum()
                    assert abs(responses[a, r, c] - want) < 1e-5 * 255  # float32


def test_a_still_picture_does_not_change():
    picture = np.random.default_rng(0).integers(0, 256, (16, 16)).astype(np.uint8)
    (responses,) = answers([picture] * TAPS, 1.5)
    for a, (_, _, k) in enumerate(ORDERS):
        assert (np.abs(responses[a]).max() > 0.1) == (k == 0)


def test_derivatives_of_polynomials():
    """Filtered by the derivative of order k, (-x)^k gives k!; a Gaussian cut off at 4 sigma, 2 % less."""
    kernels, x = derivatives(1.5), np.arange(-6, 7)
    for order, factorial in enumerate((1, 1, 2, 6)):
        assert kernels[order] @ (-x) ** order == pytest.approx(factorial, rel=0.02)
        np.testing.assert_allclose(kernels[order][::-1], (-1) ** order * kernels[order], atol=1e-15)
    np.testing.assert_allclose(kernels.sum(axis=1), [1, 0, 0, 0], atol=1e-15)


# Energies


def test_energies_pixel_by_pixel():
    responses = np.random.default_rng(0).normal(size=(10, 50)) * np.linspace(0, 3, 50)
    planes = ((steering() @ responses) ** 2).reshape(27, 4, 50).sum(axis=1)
    want = np.vstack([planes, np.full(50, 2.5)]) / (planes.sum(axis=0) + 2.5)
    np.testing.assert_allclose(energies(responses, 2.5), want.mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize("wave", [(0.9, 0.3, -0.4), (0.0, 0.8, 0.8), (0.2, -0.5, 1.0), (1.0, 0.0, 0.0)])
def test_a_single_wave(wave):
    """Its share in the plane of normal n is (1 - (n'w)^2)^3, but for what sampling does to the filters."""
    t, y, x = np.mgrid[:14, :20, :20]
    clip = 128 + 120 * np.cos(wave[0] * x + wave[1] * y + wave[2] * t)
    fields = answers(clip.round().astype(np.uint8), 1.5)
    vector = np.mean([energies(field.reshape(10, -1), 1e-6) for field in fields], axis=0)  # without noise
    want = (1 - (NORMALS @ wave / np.linalg.norm(wave)) ** 2) ** 3
    np.testing.assert_allclose(vector[:-1], want / want.sum(), atol=2e-3)


@pytest.mark.parametrize("name", MOVING)
def test_what_moves_is_in_its_channel(name):
    energies = shares(moved(*velocity(name)))
    assert max(energies, key=energies.get) == name


def test_what_does_not_move_and_what_only_flickers():
    energies = shares(moved(0, 0))
    assert max(energies, key=energies.get) == "static"
    noise = np.random.default_rng(0).integers(0, 256, (16, 20, 1)).repeat(22, axis=2).astype(np.uint8)
    energies = shares(noise)  # nothing changes along a row
    assert max(energies, key=energies.get) == "horizontal flicker"
    energies = shares(noise.transpose(0, 2, 1))
    assert max(energies, key=energies.get) == "vertical flicker"


def turned(change):
    """Where each channel goes when velocities are changed."""
    places = []
    for name in CHANNELS:
        if name in MOVING:
            target = change(velocity(name))
            places.append(
                next(k for k, n in enumerate(CHANNELS) if n in MOVING and np.allclose(velocity(n), target))
            )
        else:
            places.append(CHANNELS.index(name))
    return places


def test_time_turned_round_and_mirrors():
    clip = moved(0.8, -0.4)
    vector = SpatiotemporalEnergy().vector(clip)
    for other, change in [
        (clip[::-1], lambda v: -v),
        (clip[:, :, ::-1], lambda v: v * (-1, 1)),
        (clip[:, ::-1], lambda v: v * (1, -1)),
    ]:
        places = turned(change)
        assert places != list(range(28))
        # float32 sums in another order
        np.testing.assert_allclose(SpatiotemporalEnergy().vector(other), vector[places], rtol=1e-4)
        assert np.abs(vector[places] - vector).max() > 0.01


def test_shares_sum_to_one():
    for clip in (moving_frames(14), np.random.default_rng(0).integers(0, 256, (13, 15, 14)).astype(np.uint8)):
        vector = SpatiotemporalEnergy().vector(clip)
        assert vector.shape == (28,)
        assert vector.min() >= 0.0
        assert vector.sum() == pytest.approx(1.0, abs=1e-12)
    field = next(answers(moving_frames(14), 1.5)).reshape(10, -1)
    assert energies(field, 5.0).sum() == pytest.approx(1.0, abs=1e-5)  # before any correction, in float32


def test_where_there_is_nothing():
    vector = SpatiotemporalEnergy().vector(np.full((13, 14, 15), 9, np.uint8))
    np.testing.assert_allclose(vector, np.eye(28)[27], atol=1e-9)  # float32, squared


def test_the_constant_is_what_noise_has():
    """Measured: the mean energy of all planes in such noise; 60,000 pixels, not independent: 3 %."""
    clip = (128 + np.random.default_rng(0).normal(0, 10, (20, 90, 90))).round().astype(np.uint8)
    total = [((steering() @ field.reshape(10, -1)) ** 2).sum(axis=0) for field in answers(clip, 1.5)]
    assert np.mean(total) == pytest.approx(10**2 * noise_energy(1.5), rel=0.03)


# Manners


def test_a_transformer():
    method = SpatiotemporalEnergy(n_jobs=2, frames={"size": (20, 24), "stride": 2})
    clips = [moving_frames(30, seed=seed) for seed in range(3)]
    vectors = method.fit_transform(clips)
    assert vectors.shape == (3, 28)
    np.testing.assert_array_equal(clone(method).set_params(n_jobs=None).transform(clips), vectors)


def test_memory_does_not_grow_with_the_video():
    def peak(count):
        tracemalloc.start()
        try:
            for _ in answers((np.full((100, 100), k % 256, np.uint8) for k in range(count)), 0.5):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(6)  # what is imported on the way
    assert peak(100) < peak(10) + 50_000  # bytes: five frames


@pytest.mark.parametrize(
    ("clip", "sentence"),
    [
        (
            moving_frames(12),
            r"^video 1: the video has only 12 of the 13 frames that oriented energies with",
        ),
        (moving_frames(13, 20, 12), r"^video 1: .* has frames of 12 x 20 pixels, .* at least 13 x 13$"),
    ],
)
def test_videos_that_are_too_small(clip, sentence):
    with pytest.raises(VideoError, match=sentence):
        SpatiotemporalEnergy().transform([moving_frames(13), clip])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sigma": 0.4}, r"^sigma is 0\.4, but it must be at least 0\.5 and at most 50$"),
        ({"sigma": "wide"}, r"^sigma is 'wide', but"),
        ({"frames": ["stride"]}, r"^frames is .* for reading: start,"),
    ],
)
def test_senseless_options(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        SpatiotemporalEnergy(**options).vector(moving_frames(13))
