"""The timeline of generated streams: change points, returning phases, and streams that never change."""

from __future__ import annotations

import dataclasses
import itertools
import sys

import numpy as np
import pytest

import sysbags
from sysbags.datasets import make_streams
from sysbags.errors import OrderError, ParameterError, StreamError
from sysbags.watch.timeline import NO_SYSTEM, timeline, timeline_of

SIZES = {"length": 50, "step": 10, "order": 3}
ROUND_OFF = {"rtol": 1e-7, "atol": 1e-9}  # of two searches for the same rotation


def processes(seed, frames=700):
    return make_streams(classes=3, per_class=1, frames=frames, bins=12, random_state=seed)[0]


@pytest.fixture(scope="module")
def abac():
    a, b, c = processes(0)
    stream = np.concatenate([a[:350], b[:350], a[350:], c[:350]])
    return stream, timeline(stream, **SIZES, rate=25.0)


def check_phases(result, rows):
    """The phases are without gaps, in windows and in rows."""
    assert (result.phases[0].start, result.phases[-1].stop) == (0, rows)
    for before, after in itertools.pairwise(result.phases):
        assert (before.stop, before.last) == (after.start, after.first)
        assert before.start < before.stop
    for phase in result.phases:
        assert phase.first <= phase.medoid < phase.last
    assert len(result.labels) == len(result.windows)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_phases_of_joined_processes(seed):
    a, b, c = processes(seed)
    result = timeline(np.concatenate([a[:350], b[:350], a[350:], c[:350]]), **SIZES)
    check_phases(result, 1400)
    assert len(result.change_points) == 3
    assert np.abs(np.array(result.change_points) - [350, 700, 1050]).max() <= 50
    assert [phase.label for phase in result.phases] == [0, 1, 0, 2]
    returning = result.kinds[0]
    assert (returning.label, returning.occurrences) == (0, 2)
    assert abs(returning.rows - 700) <= 100
    assert result.labels[returning.medoid] == 0


@pytest.mark.parametrize(("streams", "most"), [(4, 1), pytest.param(20, 3, marks=pytest.mark.long)])
def test_one_process_has_one_phase(streams, most):
    """The stated rate is 0.05; of 20 streams, 4 or more are divided with a probability of 0.02."""
    divided = 0
    for seed in range(streams):
        result = timeline(processes(100 + seed, frames=400)[seed % 3], **SIZES, n_jobs=2)
        divided += len(result.phases) > 1
    assert divided <= most


def test_numbers_of_windows(abac):
    stream, result = abac
    systems = [
        sysbags.identify(stream[k : k + 50], 3, normal_form="unit-variance") for k in range(0, 1351, 10)
    ]
    assert [(window.start, window.stop) for window in result.windows[:2]] == [(0, 50), (10, 60)]
    weights = {"lambda_a": result.lambda_a, "lambda_mu": result.lambda_mu}
    expected = sysbags.pairwise_distances(systems, lambda_a="scale", lambda_mu="scale")
    np.testing.assert_allclose(result.distances, expected, **ROUND_OFF)
    aligned = sysbags.align(systems[7], systems[12], **weights)
    np.testing.assert_allclose(result.scores[12], list(aligned.parts.values()), **ROUND_OFF)
    np.testing.assert_allclose(result.scores.sum(axis=1)[12], expected[7, 12], **ROUND_OFF)
    assert np.isnan(result.scores[:5]).all()
    assert not np.isnan(result.scores[5:]).any()
    values = np.linalg.eigvals(systems[3].transition)
    np.testing.assert_allclose(np.sort_complex(result.eigenvalues[3]), np.sort_complex(values), **ROUND_OFF)
    assert (np.diff(np.abs(result.eigenvalues), axis=1) <= 1e-12).all()
    angles = np.sort(np.abs(np.angle(values))) * 25.0 / (2.0 * np.pi)
    np.testing.assert_allclose(np.sort(result.frequencies[3]), angles, **ROUND_OFF)
    assert result.landmarks is None


def test_windows_threads_and_parameters(abac):
    stream, result = abac
    other = timeline(stream, **SIZES, n_jobs=2)
    assert other.phases == result.phases
    assert other.penalty == result.penalty
    part = result.windows[20:50]  # with a change in its middle
    assert [len(timeline_of(part, penalty=penalty).phases) for penalty in (result.penalty, 1e9)] == [2, 1]


def test_embedded_distances_give_the_same_phases(abac, monkeypatch):
    _, result = abac
    module = sys.modules["sysbags.watch.timeline"]  # the package has the function by this name
    monkeypatch.setattr(module, "EXACT", 100)
    monkeypatch.setattr(module, "LANDMARKS", 200)
    embedded = timeline_of(result.windows)
    assert embedded.landmarks == 200
    assert [phase.label for phase in embedded.phases] == [0, 1, 0, 2]
    assert np.abs(np.subtract(embedded.change_points, result.change_points)).max() <= 10


def test_still_stretches_are_phases_of_their_own(abac):
    a, b, _ = processes(1)
    still = np.repeat(a[:1], 120, axis=0)
    result = timeline(np.concatenate([a[:350], still, a[350:], still, b[:200]]), **SIZES)
    check_phases(result, 1140)
    labels = [phase.label for phase in result.phases]
    assert labels == [0, NO_SYSTEM, 0, NO_SYSTEM, 1]
    stills = [phase for phase in result.phases if phase.label == NO_SYSTEM]
    assert [(phase.start, phase.stop) for phase in stills] == [(350, 470), (820, 940)]
    assert all("still" in phase.failure for phase in stills)
    assert result.kinds[0].occurrences == 2
    assert np.isnan(result.distances[stills[0].medoid]).all()
    assert np.isnan(result.eigenvalues[stills[0].medoid]).all()


def test_single_windows_without_a_system(abac):
    """Their neighbours overlap them, and the phases between them are shorter than a window."""
    windows = list(abac[1].windows)
    for k in (0, 10, 12, 13, 135):
        windows[k] = dataclasses.replace(windows[k], system=None, failure="dark")
    result = timeline_of(windows)
    check_phases(result, 1400)
    first = [NO_SYSTEM, 0, NO_SYSTEM, 0, NO_SYSTEM, 0]
    assert [phase.label for phase in result.phases] == [*first, 1, 0, 2, NO_SYSTEM]
    assert result.kinds[-1].occurrences == 4


def test_a_single_window_is_one_phase():
    result = timeline(processes(0)[0][:60], **SIZES | {"step": 20})
    check_phases(result, 50)
    assert [phase.label for phase in result.phases] == [0]


def test_refused():
    stream = processes(0)[0]
    with pytest.raises(StreamError, match=r"the stream has 49 rows, but a window has 50: use a longer clip"):
        timeline(stream[:49], **SIZES)
    with pytest.raises(OrderError, match="no window of the stream has a system: all 50 frames have the same"):
        timeline(np.repeat(stream[:1], 80, axis=0), **SIZES)
    with pytest.raises(ParameterError, match="penalty is 0"):
        timeline(stream, penalty=0)
    with pytest.raises(ParameterError, match="alpha is 0"):
        timeline(stream, alpha=0)
