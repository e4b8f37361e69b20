"""Windows against `identify`, their slow twin."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags import identify
from sysbags.bags import BagUnion, LocalBinaryPatterns, OpticalFlow
from sysbags.bags.streams import LiveBag
from sysbags.datasets import make_frames, make_streams
from sysbags.datasets.watching import make_watching
from sysbags.errors import OrderError, ParameterError, StreamError, SysbagsError
from sysbags.watch import Windows, window_systems

SMALL_GAP = 1e-5  # of the largest eigenvalue: below it, round-off turns eigenvectors by more than 1e-11


def stream_of(rows, seed=0, bins=24):
    return make_streams(classes=1, per_class=1, frames=rows, bins=bins, random_state=seed)[0][0]


def assert_same(system, expected):
    """The numbers of both systems agree to 1e-8; those of nearly equal eigenvalues up to a rotation."""

    def close(first, second):
        scale = np.abs(second).max()
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-8 * scale)

    assert system.kernel == expected.kernel
    assert system.normal_form == expected.normal_form
    np.testing.assert_array_equal(system.samples, expected.samples)
    np.testing.assert_array_equal(system.beta, expected.beta)
    close(system.eigenvalues, expected.eigenvalues)
    close(system.explained, expected.explained)
    close(system.mean_norm, expected.mean_norm)
    close(system.observer_gram, expected.observer_gram)
    values = expected.eigenvalues
    gaps = -np.diff(values)
    if gaps.size and gaps.min() < SMALL_GAP * values[0]:
        close(system.alpha @ system.alpha.T, expected.alpha @ expected.alpha.T)
        return
    # The largest entry of each eigenvector is positive; of two that are equally large, round-off chooses one.
    largest = np.sort(np.abs(expected.alpha), axis=0)[-2:]
    ties = largest[0] > (1.0 - 1e-8) * largest[1]
    signs = np.sign(np.einsum("ij,ij->j", system.alpha, expected.alpha))
    system = system.rotate(np.diag(np.where(ties, signs, 1.0)))
    close(system.alpha, expected.alpha)
    close(system.states, expected.states)
    close(system.transition, expected.transition)
    assert system.residual == pytest.approx(expected.residual, abs=1e-8)  # it is a ratio


def assert_windows(windows, stream, length, step, **options):
    """All windows are there, each with the system of `identify` or with its error."""
    starts = range(0, len(stream) - length + 1, step)
    assert [(window.start, window.stop) for window in windows] == [(i, i + length) for i in starts]
    for window in windows:
        rows = stream[window.start : window.stop]
        np.testing.assert_array_equal(window.rows, rows)
        assert not window.rows.flags.writeable
        if window.system is None:
            with pytest.raises(OrderError) as caught:
                identify(rows, **options)
            assert window.failure == str(caught.value)
        else:
            assert window.failure is None
            assert_same(window.system, identify(rows, **options))


def in_chunks(windows, stream, sizes):
    """Feed a stream in chunks of the sizes, again and again."""
    found, at, turn = [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found.extend(windows.update(stream[at : at + size]))
        at, turn = at + size, turn + 1
    return found


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(2, 70),
    step=st.integers(1, 90),
    order=st.integers(1, 6),
    kernel=st.sampled_from(["chi2", "bhattacharyya", "intersection", "linear"]),
    normal_form=st.sampled_from(["orthonormal", "unit-variance"]),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any),
    seed=st.integers(0, 3),
)
def test_each_window_has_the_system_of_its_rows(length, step, order, kernel, normal_form, sizes, seed):
    order = min(order, length - 1)
    stream = stream_of(length + 3 * step, seed)
    options = {"order": order, "kernel": kernel, "normal_form": normal_form}
    windows = in_chunks(Windows(length, step, **options), stream, sizes)
    assert_windows(windows, stream, length, step, **options)


@pytest.mark.parametrize("kernel", ["chi2", "linear"])
def test_the_result_does_not_depend_on_the_chunks(kernel):
    stream = stream_of(170)
    whole = window_systems(stream, 60, 7, kernel=kernel)
    parts = in_chunks(Windows(60, 7, kernel=kernel), stream, [1, 0, 13])
    assert len(whole) == len(parts) == 16
    for one, other in zip(whole, parts, strict=True):
        for name in ("transition", "alpha", "states", "eigenvalues"):
            np.testing.assert_array_equal(getattr(one.system, name), getattr(other.system, name))


def test_still_stretches_cuts_and_repeated_rows():
    moving, other = stream_of(90, 1), stream_of(80, 2)
    still = np.repeat(moving[-1:], 70, axis=0)
    slow = np.repeat(stream_of(30, 3), 3, axis=0)
    stream = np.concatenate([moving, still, other, slow])
    options = {"order": 3, "normal_form": "unit-variance"}
    windows = window_systems(stream, 40, 10, **options)
    assert_windows(windows, stream, 40, 10, **options)
    failures = [window.failure for window in windows if window.failure is not None]
    assert len(failures) == 4  # the windows from 90, 100, 110 and 120 have 40 equal rows
    assert all("still clip" in failure for failure in failures)


def test_a_loop_has_pairs_of_equal_eigenvalues():
    stream = np.tile(stream_of(20), (8, 1))
    time = np.arange(160)[:, None] * 2 * np.pi / 20
    circle = 1.0 + 0.5 * np.cos(time + np.arange(8) * 2 * np.pi / 8)
    for rows, order in ((stream, 5), (circle / circle.sum(axis=1, keepdims=True), 2)):
        options = {"order": order, "normal_form": "unit-variance"}
        assert_windows(window_systems(rows, 60, 10, **options), rows, 60, 10, **options)


def test_more_rows_than_a_tile_of_columns():
    stream = stream_of(420, bins=12)
    assert_windows(window_systems(stream, 300, 60, normal_form="orthonormal"), stream, 300, 60)


def test_order_chosen_by_variance():
    stream = stream_of(120)
    options = {"order": "auto", "normal_form": "unit-variance"}
    assert_windows(window_systems(stream, 50, 20, **options), stream, 50, 20, **options)


def test_nothing_drifts():
    stream = stream_of(10_000)
    windows = Windows(50, 5)
    for at in range(0, len(stream), 500):
        last = windows.update(stream[at : at + 500])[-1]
    assert (last.start, last.stop) == (9950, 10_000)
    assert_same(last.system, identify(stream[9950:], normal_form="unit-variance"))
    # 1,991 windows: nearly all eigenpairs are proven without LAPACK.
    assert windows.fallbacks < 100


@pytest.mark.parametrize("length", [60, 100])
def test_noisy_bags_of_small_frames_rarely_need_lapack(length):
    # Their eigenvalues decay slowly: the bound from trace and norm proves few of them. Of 60 rows, 50 steps
    # may not suffice where the fifth and sixth eigenvalue are close: 2 of 15 windows are left to LAPACK.
    stream = LocalBinaryPatterns().stream(np.stack(list(make_watching("wheel", 20.0).frames())))
    windows = Windows(length, 10)
    found = windows.update(stream)
    assert_windows(found, stream, length, 10, normal_form="unit-variance")
    assert windows.fallbacks <= len(found) // 3


def test_reset_starts_again():
    stream = stream_of(120)
    windows = Windows(50, 10)
    first = windows.update(stream)
    windows.reset()
    assert windows.count == 0
    again = windows.update(stream_of(120, bins=9))  # another bag is allowed now
    assert [(w.start, w.stop) for w in again] == [(w.start, w.stop) for w in first]
    windows.reset()
    for one, other in zip(first, windows.update(stream), strict=True):
        np.testing.assert_array_equal(one.system.transition, other.system.transition)


def test_rows_of_the_caller_may_change_afterwards():
    stream = stream_of(80)
    chunk, windows, found = np.empty((10, stream.shape[1])), Windows(40, 20), []
    for at in range(0, 80, 10):
        chunk[:] = stream[at : at + 10]
        found += windows.update(chunk)
        chunk[:] = np.nan
    assert_windows(found, stream, 40, 20, normal_form="unit-variance")


def test_a_callable_kernel():
    def product(first, second):
        return first @ second.T

    stream = stream_of(60)
    found = window_systems(stream, 30, 10, kernel=product)
    for window in found:
        assert_same(window.system, identify(window.rows, 5, product, normal_form="unit-variance"))

    def skew(first, second):
        return first[:, :1] + 2.0 * second[:, 0]

    with pytest.raises(ParameterError, match="not symmetric"):
        window_systems(stream, 30, 10, kernel=skew)


@pytest.mark.parametrize(
    "bag", [LocalBinaryPatterns(), OpticalFlow(), OpticalFlow(frames={"stride": 2}, window=2)]
)
@pytest.mark.parametrize("sizes", [[1], [7, 0, 2]])
def test_frames_become_the_stream_of_the_bag(bag, sizes):
    clip = make_frames("fire", frames=40, height=48, width=64)
    np.testing.assert_array_equal(np.stack(in_chunks(LiveBag(bag), clip, sizes)), bag.stream(clip))


def test_frames_of_an_iterator_and_after_an_error():
    clip = make_frames("fire", frames=20, height=48, width=64)
    live = LiveBag(LocalBinaryPatterns())
    rows = live.update(iter(clip))
    assert live.update([]).shape == (0, 256)
    np.testing.assert_array_equal(rows, LocalBinaryPatterns().stream(clip))
    for _ in range(2):  # the error stays
        with pytest.raises(SysbagsError, match="frame"):
            live.update([np.zeros((3, 3, 3, 3))])
    few = LiveBag(LocalBinaryPatterns(frames={"stop": 5}))
    assert [len(few.update(clip[i : i + 4])) for i in range(0, 16, 4)] == [4, 1, 0, 0]
    thread = few._thread
    del few
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive()
    with pytest.raises(ParameterError, match="BagUnion"):
        LiveBag(BagUnion([LocalBinaryPatterns()]))


def test_bad_arguments():
    with pytest.raises(ParameterError, match=r"length is 5, but .* at least 6 rows"):
        Windows(5, order=5)
    with pytest.raises(ParameterError, match="step"):
        Windows(step=0)
    with pytest.raises(ParameterError, match="order"):
        Windows(order="some")
    with pytest.raises(ParameterError, match="normal_form"):
        Windows(normal_form="any")
    windows = Windows(10, order=2)
    windows.update(np.empty((0, 24)))
    windows.update(stream_of(5))
    with pytest.raises(StreamError, match="12 bins, but those before had 24"):
        windows.update(stream_of(5, bins=12))
    with pytest.raises(StreamError, match="sums to 2"):
        windows.update(2.0 * stream_of(5))
