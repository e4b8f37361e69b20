from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from clips import moving_frames, write_clip
from helpers import orthogonal
from sysbags import cross_gram, frechet_mean, identify, pairwise_distances
from sysbags.comparators import LinearSystem
from sysbags.comparators.linear_system import pixel_system
from sysbags.errors import OrderError, ParameterError, VideoError
from sysbags.video import frames


def texture(transition, pixels, count, rng, noise=0.0):
    """Frames of a linear dynamic system that is driven by white noise, with some noise of the camera."""
    n = len(transition)
    C = np.linalg.qr(rng.standard_normal((pixels, n)))[0]
    x, rows = np.zeros(n), []
    for _ in range(100 + count):
        x = transition @ x + rng.standard_normal(n)
        rows.append(C @ x)
    return np.array(rows[100:]) + 5.0 + noise * rng.standard_normal((count, pixels))


def eigenvalues(matrix):
    return np.sort_complex(np.linalg.eigvals(matrix))


def test_a_linear_texture_is_recovered():
    rng = np.random.default_rng(0)
    turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    A = np.zeros((3, 3))
    A[:2, :2], A[2, 2] = 0.9 * turn, 0.6
    Q = orthogonal(3, rng)
    theta = pixel_system(texture(Q @ A @ Q.T, 40, 1500, rng), order=3)
    # 1500 steps: each eigenvalue is known to about sqrt((1 - |l|^2) / 1500), 0.01 to 0.02.
    np.testing.assert_allclose(eigenvalues(theta.transition), eigenvalues(A), atol=0.06)


def test_swings_of_whole_periods_are_recovered_but_for_the_margin():
    angles = 2 * np.pi * np.array([2, 5]) / 60
    waves = 2 * np.pi * np.outer([1, 3], np.arange(20)) / 20
    rows = sum(np.cos(a * np.arange(60)[:, None] - wave) for a, wave in zip(angles, waves, strict=True))
    eigenvalues = np.linalg.eigvals(pixel_system(rows, order=4).transition)
    np.testing.assert_allclose(np.sort(np.angle(eigenvalues)), np.sort([*angles, *-angles]), atol=1e-3)
    np.testing.assert_allclose(np.abs(eigenvalues), 0.999, atol=2e-3)  # 1 but for the margin of stability


def test_the_observer_holds_the_singular_vectors_and_the_mean_is_the_mean_frame():
    rows = texture(0.5 * np.eye(4), 30, 25, np.random.default_rng(1), noise=0.1)
    theta = pixel_system(rows, order=3)
    C, mean = theta.samples.T @ theta.alpha, theta.samples.T @ theta.beta
    _, _, Vt = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(C @ C.T, Vt[:3].T @ Vt[:3], atol=1e-10)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(theta.states, (rows - mean) @ C, atol=1e-10)
    np.testing.assert_allclose(theta.observer_gram, np.eye(3), atol=1e-12)


def test_few_samples_carry_what_all_frames_did():
    rng = np.random.default_rng(2)
    rows = [texture(s * orthogonal(3, rng), 30, 25, rng, noise=0.1) for s in (0.5, 0.8, 0.9)]
    few, all_ = [pixel_system(r, 3) for r in rows], [identify(r, 3, "linear") for r in rows]
    assert [theta.size for theta in few] == [4] * 3
    for metric in ("alignment", "martin", "max-singular-value"):
        weights = {"lambda_mu": 2.0} if metric == "alignment" else {}
        expected = pairwise_distances(all_, metric=metric, **weights)
        # Martin's logarithms and a search for rotations: the last digits are lost.
        np.testing.assert_allclose(pairwise_distances(few, metric=metric, **weights), expected, atol=1e-7)
    np.testing.assert_allclose(cross_gram(few).mean, cross_gram(all_).mean, rtol=1e-12)
    objectives = [frechet_mean(systems, lambda_mu=1.0).objective for systems in (few, all_)]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)


def test_a_video_is_scaled_to_a_square_of_pixels_from_0_to_1(tmp_path):
    path = write_clip(tmp_path / "clip.mkv", moving_frames(20, 40, 56))
    rows = np.array([frame.ravel() for frame in frames(path, size=(12, 12))]) / 255.0
    theta, expected = LinearSystem(3, size=12).system(path), pixel_system(rows, 3)
    np.testing.assert_array_equal(theta.samples, expected.samples)
    np.testing.assert_array_equal(theta.transition, expected.transition)
    assert theta.kernel == "linear"


def test_clips_of_any_shape_can_be_compared_and_textures_tell():
    videos = [moving_frames(30, *shape, seed=s) for s, shape in [(0, (40, 56)), (0, (40, 56)), (5, (48, 48))]]
    videos[1] = videos[1][3:]
    distances = pairwise_distances(LinearSystem(3, size=16).transform(videos))
    assert distances[0, 1] < 0.1 * distances[0, 2]


def test_the_result_depends_on_the_video_alone():
    videos = [moving_frames(12, 24, 24, seed=s) for s in range(4)]
    single, threaded = (LinearSystem(3, size=12, n_jobs=jobs).fit_transform(videos) for jobs in (1, 3))
    separate = LinearSystem(3, size=12).system(videos[2])
    for first, second in [*zip(single, threaded, strict=True), (single[2], separate)]:
        np.testing.assert_array_equal(first.transition, second.transition)
        np.testing.assert_array_equal(first.samples, second.samples)


def test_options_for_reading_are_used():
    video = moving_frames(20, 24, 24)
    theta = LinearSystem(2, size=12, frames={"stride": 2}).system(video)
    np.testing.assert_array_equal(theta.samples, LinearSystem(2, size=12).system(video[::2]).samples)


def test_it_names_itself_and_can_be_cloned():
    comparator = LinearSystem(4, size=20)
    assert clone(comparator).get_params() == comparator.get_params()
    assert (comparator.title, comparator.requires_fit) == ("LDS on pixels", False)


def test_a_clip_without_such_an_order_is_named(tmp_path):
    moving, still = moving_frames(12, 24, 24), np.full((12, 24, 24), 7, np.uint8)
    with pytest.raises(OrderError, match=r"^video 1: all 12 frames have the same bag \(a still clip\)"):
        LinearSystem(3).transform([moving, still])
    with pytest.raises(
        OrderError, match=r"^video 0: order 10 needs at least 11 frames, but the stream has 5"
    ):
        LinearSystem().transform([moving[:5]])
    with pytest.raises(VideoError, match=r"^video 1: .*missing\.mp4 does not exist"):
        LinearSystem(3).transform([moving, tmp_path / "missing.mp4"])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"order": 0}, "order is 0, but it must be a whole number of at least 1"),
        ({"order": "auto"}, "order is 'auto', but it must be a whole number"),
        ({"size": 0}, "size is 0, but it must be a whole number"),
        ({"frames": {"colour": "rgb"}}, "frames is .* but it must be a mapping of options for reading"),
        ({"n_jobs": 0}, "n_jobs is 0, but it must be"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        LinearSystem(**{"order": 2, **parameters}).fit_transform([moving_frames(6, 24, 24)])
    with pytest.raises(ParameterError, match="put a single one in a list"):
        LinearSystem().transform("clip.mp4")
