"""States in fixed coordinates against plain loops, and closed forms."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.watch.normal import KERNEL, fit_motion, innovation_parts, spectrum_scores


def windows_of(seed=0, count=12, length=40, dimensions=7, angle=0.5):
    """Windows of features: a noisy rotation, mixed into more dimensions, with noise and an offset."""
    rng = np.random.default_rng(seed)
    rows = count * length
    state, factor = np.zeros(rows, dtype=complex), 0.97 * np.exp(1j * angle)
    drive = rng.standard_normal((rows, 2)) @ np.array([1.0, 1j])
    for t in range(1, rows):
        state[t] = factor * state[t - 1] + 0.3 * drive[t]
    mixing = rng.standard_normal((2, dimensions))
    features = np.column_stack([state.real, state.imag]) @ mixing
    features += 0.3 * rng.standard_normal((rows, dimensions)) + rng.standard_normal(dimensions)
    return features.reshape(count, length, dimensions)


def norms_of(windows, lost=0.2):
    """Squared norms of bags of which the features hold all but a constant."""
    return (windows**2).sum(axis=-1) + lost


def slow_innovation_parts(motion, features, norms):
    """The same by the divergences of single bags, least squares and projections one by one."""
    states = np.array([motion.basis.T @ (z - motion.center) for z in features])
    A, Q, r = motion.transition, motion.noise, len(motion.transition)
    # The prior: r more pairs of states, which the normal transition predicts with the normal spread.
    before = np.vstack([states[:-1], np.sqrt(r) * np.eye(r)])
    after = np.vstack([states[1:], np.sqrt(r) * A.T])
    own = scipy.linalg.lstsq(before, after)[0].T
    spread = r * Q
    for first, second in pairwise(states):
        spread = spread + np.outer(second - own @ first, second - own @ first)
    spread = spread / len(before)
    inverse = scipy.linalg.inv(Q)
    divergences = [
        (own @ x - A @ x) @ inverse @ (own @ x - A @ x)
        + np.trace(inverse @ spread)
        - r
        + np.log(scipy.linalg.det(Q) / scipy.linalg.det(spread))
        for x in before
    ]
    span = scipy.linalg.orth(motion.basis)
    outside = []
    for z, norm in zip(features, norms, strict=True):
        centred = z - motion.center
        outside.append(np.sum((centred - span @ (span.T @ centred)) ** 2) + norm - z @ z)
    ratio = np.mean(outside) / motion.outside
    return np.mean(divergences), ratio - 1.0 - np.log(ratio), np.sum(states.mean(axis=0) ** 2)


def slow_spectra(states):
    """Logarithms of the spectra by the definition of Fourier's transform."""
    length, r = states.shape
    taper = [0.5 - 0.5 * np.cos(2.0 * np.pi * t / (length - 1)) for t in range(length)]
    frequencies = range(1, length // 2 + 1)
    power = np.zeros((len(frequencies), r))
    for row, k in enumerate(frequencies):
        waves = np.exp(-2j * np.pi * k * np.arange(length) / length)
        for i in range(r):
            power[row, i] = abs(np.sum(waves * taper * (states[:, i] - states[:, i].mean()))) ** 2 / length
    padded = np.vstack([np.zeros((1, r)), power, np.zeros((1, r))])
    smooth = KERNEL[0] * padded[:-2] + KERNEL[1] * padded[1:-1] + KERNEL[2] * padded[2:]
    total = power.sum(axis=1)
    return np.log(total / total.sum()), np.log(smooth)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    order=st.integers(1, 7),
    length=st.integers(3, 40),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
)
def test_innovation_against_its_slow_twin(seed, order, length, scale):
    windows = windows_of(seed)
    motion = fit_motion(windows, norms_of(windows), order)
    other = scale * windows_of(seed + 1, count=1, angle=0.9)[0, :length]
    norms = norms_of(other, 0.7)
    parts = innovation_parts(motion, other, norms)
    # Sums of at most 50 terms, of which the largest is the part: the rest is round-off and conditioning.
    np.testing.assert_allclose(parts, slow_innovation_parts(motion, other, norms), rtol=1e-8, atol=1e-8)
    assert (parts >= 0.0).all()


def test_innovation_of_bags_at_the_normal_mean():
    windows = windows_of()
    motion = fit_motion(windows, norms_of(windows), 3)
    still = np.tile(motion.center, (40, 1))
    norms = np.full(40, still[0] @ still[0] + motion.outside)
    # No state moves: the prior alone is left, with weight 3 of 39 + 3. Nothing else is unusual.
    q = 3.0 / 42.0
    expected = [3.0 * (q - 1.0 - np.log(q)), 0.0, 0.0]
    np.testing.assert_allclose(innovation_parts(motion, still, norms), expected, atol=1e-10)


def test_a_change_is_in_its_own_part():
    windows = windows_of(count=40)
    motion = fit_motion(windows, norms_of(windows), 2)
    typical = np.median([innovation_parts(motion, z, norms_of(z)) for z in windows], axis=0)
    backwards = windows[0][::-1]  # the same bags, so the same mean and observer
    first = innovation_parts(motion, windows[0], norms_of(windows[0]))
    parts = innovation_parts(motion, backwards, norms_of(backwards))
    assert parts[0] > 10.0 * typical[0]
    np.testing.assert_allclose(parts[1:], first[1:], rtol=1e-9)
    lost = innovation_parts(motion, windows[0], norms_of(windows[0], 3.0))
    assert lost[1] > 10.0 * typical[1]
    np.testing.assert_array_equal(lost[[0, 2]], first[[0, 2]])
    moved = windows[0] + 5.0 * motion.span[:, 0]
    assert innovation_parts(motion, moved, norms_of(moved))[2] > 10.0 * typical[2]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), length=st.integers(6, 41), order=st.integers(1, 6))
def test_spectra_against_the_plain_transform(seed, length, order):
    windows = windows_of(seed, length=length)
    motion = fit_motion(windows, norms_of(windows), order)
    spectra = [slow_spectra((z - motion.center) @ motion.basis) for z in windows]
    for learnt, kind in zip((motion.shape, motion.power), zip(*spectra, strict=True), strict=True):
        # Logarithms: round-off is relative to the largest power, and there is noise at every frequency.
        np.testing.assert_allclose(learnt[0], np.mean(kind, axis=0), atol=1e-6)
        # Logarithms of powers near 0 magnify round-off.
        np.testing.assert_allclose(learnt[1], np.maximum(np.std(kind, axis=0), 1e-3), atol=1e-4)
    other = windows_of(seed + 1, count=1, length=length, angle=1.5)[0]
    shape, power = slow_spectra((other - motion.center) @ motion.basis)
    expected = [
        np.mean(((shape - motion.shape[0]) / motion.shape[1]) ** 2),
        max(0.0, np.max((power - motion.power[0]) / motion.power[1])),
    ]
    np.testing.assert_allclose(spectrum_scores(motion, other), expected, rtol=1e-6, atol=1e-6)


def test_squared_deviations_of_the_learnt_spectra_have_mean_one():
    windows = windows_of(count=30)
    motion = fit_motion(windows, norms_of(windows), 3)
    scores = np.array([spectrum_scores(motion, z) for z in windows])
    assert scores[:, 0].mean() == pytest.approx(1.0, abs=1e-12)
    faster = windows_of(count=30, angle=1.5)
    assert np.median([spectrum_scores(motion, z)[0] for z in faster]) > 2.0 * scores[:, 0].max()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), order=st.integers(1, 9))
def test_what_states_are(seed, order):
    windows = windows_of(seed)
    motion = fit_motion(windows, norms_of(windows), order)
    every = windows.reshape(-1, 7)
    r = min(order, 7)
    assert motion.basis.shape == (7, r)
    states = (every - every.mean(axis=0)) @ motion.basis
    np.testing.assert_allclose(states.T @ states / len(states), np.eye(r), atol=1e-10)
    np.testing.assert_allclose(motion.span.T @ motion.span, np.eye(r), atol=1e-12)
    np.testing.assert_allclose(motion.span @ (motion.span.T @ motion.basis), motion.basis, atol=1e-10)
    # What is outside: the variance that the span does not hold, and the constant of `norms_of`.
    held = ((every - every.mean(axis=0)) @ motion.span).var(axis=0).sum()
    assert motion.outside == pytest.approx(every.var(axis=0).sum() - held + 0.2, abs=1e-10)
    # Least squares within windows: the errors are orthogonal to the states before.
    pairs = (windows - motion.center) @ motion.basis
    before, after = pairs[:, :-1].reshape(-1, r), pairs[:, 1:].reshape(-1, r)
    errors = after - before @ motion.transition.T
    np.testing.assert_allclose(errors.T @ before / len(before), np.zeros((r, r)), atol=1e-10)
    np.testing.assert_allclose(motion.noise, errors.T @ errors / len(errors), rtol=1e-9, atol=1e-10)


def test_coordinates_of_the_features_do_not_matter():
    windows, other = windows_of(), windows_of(5, count=1)[0]
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((7, 7)))[0]
    motions = [fit_motion(w, norms_of(windows), 4) for w in (windows, windows @ turned)]
    pairs = zip(motions, (other, other @ turned), strict=True)
    (first, peaks), (second, turned_peaks) = [
        (innovation_parts(m, z, norms_of(other)), spectrum_scores(m, z)) for m, z in pairs
    ]
    # States are eigenvectors, which round-off turns by 1e-16 divided by the gaps of the eigenvalues.
    np.testing.assert_allclose(first, second, rtol=1e-7)
    np.testing.assert_allclose(peaks, turned_peaks, rtol=1e-7)


def test_bags_with_no_more_dimensions_than_states():
    windows = windows_of(dimensions=3)
    norms = norms_of(windows, 0.0)
    motion = fit_motion(windows, norms, 5)
    assert motion.basis.shape == (3, 3)
    for z, k in zip(windows, norms, strict=True):
        assert np.isfinite(innovation_parts(motion, z, k)).all()
        assert np.isfinite(spectrum_scores(motion, z)).all()
