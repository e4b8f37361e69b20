from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import EVENTS, SCENES, WatchedEvent, make_watching
from sysbags.datasets._processes import PROCESSES
from sysbags.datasets.watching import EFFECTS, LOOP, first_frame
from sysbags.errors import ParameterError

START, STOP = 6.0, 12.0  # of the event in short videos, in seconds
RATE = 10.0


def film(scene="wheel", seconds=20.0, seed=0, **options):
    return np.stack(list(make_watching(scene, seconds, random_state=seed, **options).frames()))


def with_event(kind, strength=0.5, scene="wheel", **options):
    return film(scene, events=[WatchedEvent(START, STOP, kind, strength)], **options)


def difference(first, second):
    """Mean absolute difference of each frame."""
    return np.abs(first.astype(float) - second).mean(axis=(1, 2))


def spectrum(signal):
    signal = signal - signal.mean()
    return np.fft.rfftfreq(len(signal), 1.0 / RATE), np.abs(np.fft.rfft(signal)) ** 2


def pictures(scene, count, change=0.0, seed=0):
    """The pictures of a scene without daylight, wind, noise and compression."""
    controls = itertools.repeat((change, 0.0), count)
    return np.stack(list(PROCESSES[scene](np.random.default_rng(seed), 48, 64, RATE, controls)))


@pytest.mark.parametrize("scene", SCENES)
def test_a_video_is_the_same_at_each_call(scene):
    video = make_watching(scene, 4.05, height=32, width=40, random_state=3)
    first, again = np.stack(list(video.frames())), np.stack(list(video.frames()))
    assert first.shape == (video.count, 32, 40) == (40, 32, 40)
    assert first.dtype == np.uint8
    assert (first == again).all()
    assert (first != film(scene, 4.05, seed=4, height=32, width=40)).any()


@pytest.mark.parametrize("scene", SCENES)
def test_no_picture_returns(scene):
    assert len({picture.tobytes() for picture in pictures(scene, 600)}) == 600


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_changes_the_frames_of_its_time(kind):
    start, stop = first_frame(START, RATE), first_frame(STOP, RATE)
    changed = (with_event(kind, 1.0) != film()).any(axis=(1, 2))
    assert not changed[:start].any()
    assert changed[start + 1 : stop - 1].mean() > 0.8
    if kind == "dynamics":
        assert changed[stop:].all()  # the wheel has another angle from then on
    else:
        assert not changed[stop:].any()


@pytest.mark.parametrize("kind", EFFECTS)
def test_a_stronger_event_changes_more(kind):
    clean, during = film(), slice(first_frame(START, RATE), first_frame(STOP, RATE))
    effects = [difference(with_event(kind, s), clean)[during].mean() for s in (0.1, 0.4, 1.0)]
    assert effects[0] < effects[1] < effects[2]


def test_frozen_frames_are_equal():
    frames = with_event("frozen")
    assert (frames[60:120] == frames[59]).all()
    assert (frames[120] != frames[59]).any()


def test_a_looped_feed_repeats_its_last_seconds():
    frames, period = with_event("looped"), round(LOOP * RATE)
    assert (frames[60:120] == frames[60 - period : 120 - period]).all()


def test_a_feed_that_is_frozen_from_the_beginning():
    frames = film(seconds=3.0, events=[WatchedEvent(0.0, 2.0, "frozen")])
    assert (frames[:20] == frames[0]).all()
    assert (frames[20] != frames[0]).any()


def test_dark_and_covered_pictures_are_nearly_black_and_fog_has_little_contrast():
    middle = slice(90, 91)
    assert with_event("dark", 1.0)[middle].max() < 25
    assert with_event("covered", 1.0)[middle].max() < 35
    assert with_event("fog", 1.0)[middle].std() < 0.2 * film()[middle].std()


def test_an_object_passes():
    """Its column, where most pixels differ, moves from one side to the other."""
    apart = np.abs(with_event("object", 1.0).astype(float) - film())[66:114].sum(axis=1)
    steps = np.diff(apart @ np.arange(64) / apart.sum(axis=1))
    assert abs(np.sign(steps).sum()) > 0.9 * len(steps)


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_the_wheel_becomes_slower(strength):
    """The frequency of the spokes, in the brightness of the pixels on a circle."""

    def frequency(frames):
        freqs, power = spectrum(frames[:, 24, 40:44].mean(axis=1).astype(float))
        band = (freqs > 0.5) & (freqs < 1.6)
        return freqs[band][power[band].argmax()]

    frames = film(seconds=120.0, events=[WatchedEvent(60.0, 120.0, "dynamics", strength)])
    # The wind changes the speed by 1 percent or so, and the resolution is 0.017 Hz.
    assert frequency(frames[600:]) / frequency(frames[:600]) == pytest.approx(1 - 0.2 * strength, abs=0.035)


def test_the_flame_pulses():
    """A part of the power of the brightness moves to one frequency; its variance stays the same."""
    calm, pulsing = (pictures("flame", 1500, change).mean(axis=(1, 2)) for change in (0.0, 0.5))
    shares = []
    for signal in (calm, pulsing):
        freqs, power = spectrum(signal)
        shares.append(power[np.abs(freqs - 1.7) < 0.02].sum() / power.sum())
    assert shares[0] < 0.05
    assert shares[1] > 0.3
    assert pulsing.var() == pytest.approx(calm.var(), rel=0.3)  # a flicker of 0.3 s, for 150 s


def test_the_traffic_stalls():
    moving, slow, still = (
        np.abs(np.diff(pictures("traffic", 300, change), axis=0)).mean() for change in (0.0, 0.5, 1.0)
    )
    assert still == 0.0
    assert 0.3 * moving < slow < 0.9 * moving


def test_snow_falls_slower_than_rain():
    """A mark of snow is still near its place in the next frame, a mark of rain is not."""

    def correlation(frames):
        moving = frames - frames.mean(axis=0)
        return (moving[1:] * moving[:-1]).sum() / (moving**2).sum()

    rain, snow = (pictures("rain", 300, change) for change in (0.0, 1.0))
    assert correlation(rain) < 0.1 < correlation(snow) - 0.1
    assert snow.mean() == pytest.approx(rain.mean(), rel=0.02)


@pytest.mark.parametrize("scene", SCENES)
def test_single_frames_hardly_show_a_change_of_the_dynamics(scene):
    """The mean histogram moves no more than between two normal parts of the same length; fog moves it far."""

    def mean_root(kind=None):
        events = [] if kind is None else [WatchedEvent(30.0, 60.0, kind, 0.5)]
        video = make_watching(scene, 60.0, events=events, random_state=1)
        stream = LocalBinaryPatterns().stream(video.frames())
        return [np.sqrt(part.mean(axis=0)) for part in (stream[:300], stream[300:])]

    before, after = mean_root()
    normal = np.linalg.norm(after - before)
    assert np.linalg.norm(mean_root("dynamics")[1] - before) < 2.0 * normal
    assert np.linalg.norm(mean_root("fog")[1] - before) > 4.0 * normal


def test_memory_does_not_grow():
    def peak(count):
        tracemalloc.start()
        try:
            for _ in itertools.islice(make_watching("rain", 1e6).frames(), count):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(5)  # imports
    assert peak(400) < peak(60) + 2 * 48 * 64  # two frames, of 340


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"scene": "sea"}, "scene is 'sea', but it must be one of 'flame'"),
        ({"seconds": 0.0}, "seconds is 0, but"),
        ({"rate": -1.0}, "rate is -1.0, but"),
        ({"height": 8}, "height is 8, but"),
        ({"events": [WatchedEvent(1.0, 2.0, "rainbow")]}, "the kind of an event is 'rainbow', but"),
        ({"events": [WatchedEvent(1.0, 2.0, "fog", 1.5)]}, "the strength of an event is 1.5, but"),
        ({"events": [WatchedEvent(2.0, 2.0, "fog")]}, "an event is from 2 to 2 seconds, but"),
        (
            {"events": [WatchedEvent(3.0, 5.0, "fog"), WatchedEvent(1.0, 4.0, "dark")]},
            "the event at 3 seconds begins before the one at 1 seconds has ended",
        ),
    ],
)
def test_bad_videos(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make_watching(**{"scene": "wheel", "seconds": 10.0, **options})
