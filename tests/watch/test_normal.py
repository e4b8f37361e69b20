"""Scores of windows against `sysbags.align` and against scores computed afresh."""

from dataclasses import replace

import numpy as np
import pytest

import sysbags
from sysbags.datasets import make_streams
from sysbags.distances.certificates import transition_spectra
from sysbags.kernels.functions import kernel_matrix
from sysbags.watch import Windows, window_systems
from sysbags.watch.normal import (
    ALIGNED,
    NEAREST,
    PARTS,
    SCORES,
    STATES,
    TINY,
    Scorer,
    fit_motion,
    fit_normal,
    innovation_parts,
    spectrum_scores,
    squared_norms,
)

OPTIONS = {"length": 40, "step": 10, "order": 3, "kernel": "bhattacharyya"}  # its embedding loses nothing


@pytest.fixture(scope="module")
def stream():
    return make_streams(classes=1, per_class=1, frames=700, bins=16, random_state=1)[0][0]


@pytest.fixture(scope="module")
def windows(stream):
    return window_systems(stream, **OPTIONS)


@pytest.fixture(scope="module")
def process(windows):
    return fit_normal(windows[:48:4])


def scores_of(process, windows):
    scorer = Scorer(process)
    return np.array([scorer.score(window) for window in windows])


def aligned(process, first, second):
    """The alignment of the systems of two windows, by the kernel itself."""
    lambda_a, lambda_mu = process.weights
    return sysbags.align(first.system, second.system, lambda_a=lambda_a, lambda_mu=lambda_mu)


def parts_of(process, first, second):
    return np.array([aligned(process, first, second).parts[part] for part in PARTS])


def test_weights_make_the_parts_equal(process, windows):
    chosen = windows[:48:4]
    parts = [
        [sysbags.align(a.system, b.system, lambda_a=1.0, lambda_mu=1.0).parts[part] for part in PARTS]
        for i, a in enumerate(chosen)
        for b in chosen[i + 1 :]
    ]
    transition, observer, mean = np.mean(parts, axis=0)
    # Distances are differences of squared norms of size 1; a rotation is found to the square root of 1e-16.
    np.testing.assert_allclose(process.weights, [observer / transition, observer / mean], rtol=1e-5)


def test_distances_against_alignments_of_the_systems(process, windows):
    later = windows[50:60]
    scores = np.exp(scores_of(process, later)[:, :6]) - TINY
    for k, window in enumerate(later):
        alignments = [aligned(process, normal, window) for normal in windows[:48:4]]
        # Those that may be nearest, then the nearest among them.
        alignments = sorted(alignments, key=lambda a: a.lower_bound)[:ALIGNED]
        nearest = sorted(alignments, key=lambda a: a.distance)[:NEAREST]
        expected = [np.mean([alignment.parts[part] for alignment in nearest]) for part in PARTS]
        np.testing.assert_allclose(scores[k, :3], expected, rtol=1e-5, atol=1e-7)
        if k < 4:  # no window before it that shares no row
            assert np.isnan(scores[k, 3:]).all()
        else:
            expected = parts_of(process, later[k - 4], window)
            np.testing.assert_allclose(scores[k, 3:], expected, rtol=1e-5, atol=1e-7)


def test_innovation_and_spectra_of_the_square_roots(process, windows):
    # The feature map of this kernel, in plain words.
    scores = scores_of(process, windows[50:53])
    chosen = np.sqrt([window.rows for window in windows[:48:4]])
    motion = fit_motion(chosen, np.ones(chosen.shape[:2]), STATES)
    for k, window in enumerate(windows[50:53]):
        features = np.sqrt(window.rows)
        expected = [
            *innovation_parts(motion, features, np.ones(40)),
            *spectrum_scores(motion, features),
        ]
        np.testing.assert_allclose(scores[k, 6:], np.log(expected), rtol=1e-9, atol=1e-9)


def test_features_are_computed_once(windows, process, monkeypatch):
    consecutive = windows[50:60]
    scorer, counts = Scorer(process), []
    features = process.embedding.features
    monkeypatch.setattr(
        process.embedding, "features", lambda rows: counts.append(len(rows)) or features(rows)
    )
    for window in consecutive:
        scorer.score(window)
        np.testing.assert_allclose(scorer.features, features(window.rows), rtol=1e-12, atol=1e-14)
        assert scorer.rows is window.rows
    assert counts == [40] + [10] * 9


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya"])
def test_scores_do_not_depend_on_the_windows_before(stream, kernel):
    windows = window_systems(stream, **(OPTIONS | {"kernel": kernel}))
    process = fit_normal(windows[:40:4])
    later = windows[45:55]
    together = scores_of(process, later)
    for k, window in enumerate(later):
        alone = scores_of(process, [window])[0]
        # All but the distance to a window before. Products of other shapes are rounded in another way.
        np.testing.assert_allclose(np.delete(together[k], [3, 4, 5]), np.delete(alone, [3, 4, 5]), atol=1e-6)
        assert np.isnan(alone[3:6]).all()


def test_chunks_and_reset(stream, process, windows):
    expected = scores_of(process, windows[:12])
    live, found = Windows(**OPTIONS), []
    scorer = Scorer(process)
    for row in stream[:150]:
        found += [scorer.score(window) for window in live.update(row[None])]
    np.testing.assert_array_equal(found, expected)
    scorer.reset()
    np.testing.assert_array_equal([scorer.score(window) for window in windows[:12]], expected)
    # Row numbers begin again after a gap: without a reset, features would be those of other rows.
    scorer.reset()
    live.reset()
    again = [scorer.score(window) for window in live.update(stream[300:400])]
    np.testing.assert_allclose(again, scores_of(process, windows[30:37]), atol=1e-6)


def test_windows_without_a_system_are_left_out(stream, process):
    still = np.repeat(stream[150:151], 90, axis=0)
    windows = window_systems(np.concatenate([stream[:150], still, stream[150:350]]), **OPTIONS)
    moving = [window for window in windows if window.system is not None]
    assert len(moving) < len(windows)
    scores = scores_of(process, moving)
    for window, row in zip(moving, scores, strict=True):
        alone = scores_of(process, [window])[0]
        np.testing.assert_allclose(np.delete(row, [3, 4, 5]), np.delete(alone, [3, 4, 5]), atol=1e-6)
    # The window before may lie before the still stretch.
    first = next(k for k, window in enumerate(moving) if window.start >= 160)
    before = max((w for w in moving if w.stop <= moving[first].start), key=lambda w: w.stop)
    expected = parts_of(process, before, moving[first])
    np.testing.assert_allclose(np.exp(scores[first, 3:6]) - TINY, expected, rtol=1e-5, atol=1e-7)


def test_a_window_can_be_replaced(process, windows):
    scorer = Scorer(process)
    scorer.score(windows[50])
    norms = squared_norms(scorer.rows, "bhattacharyya")
    replaced = process.replaced(3, scorer.embedded, scorer.features, norms)
    chosen = windows[:48:4]
    chosen[3] = windows[50]
    expected = fit_normal(chosen)
    for one, other in (
        (replaced.observers, expected.observers),
        (replaced.features, expected.features),
        (replaced.norms, expected.norms),
        (replaced.spectra, transition_spectra(expected.stack.transition)),
        (replaced.stack.transition, expected.stack.transition),
        (replaced.stack.observer_gram, expected.stack.observer_gram),
        (replaced.stack.mean_norm, expected.stack.mean_norm),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    assert replaced.motion is process.motion
    # Levels stay comparable: they keep their axes.
    motion = expected.motion._replace(axes=process.motion.axes)
    for one, other in zip(replaced.moved().motion, motion, strict=True):
        np.testing.assert_allclose(np.abs(one), np.abs(other), rtol=1e-7, atol=1e-7)  # up to signs of states
    np.testing.assert_array_equal(process.observers[3], fit_normal(windows[:48:4]).observers[3])


def test_names_of_scores():
    assert len(SCORES) == len(set(SCORES)) == 11


def plain(first, second):
    return (first @ second.T + 1.0) ** 2


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya", "intersection", "linear", plain])
def test_squared_norms_are_the_diagonal_of_the_kernel(stream, kernel):
    norms = squared_norms(stream[:30], kernel)
    np.testing.assert_allclose(norms, np.diag(kernel_matrix(stream[:30], kernel=kernel)), rtol=1e-12)


def test_windows_to_learn_from_may_lack_a_system(process, windows):
    failed = replace(windows[1], system=None, failure="still")
    again = fit_normal([failed, *windows[:48:4], failed])
    np.testing.assert_array_equal(again.observers, process.observers)
