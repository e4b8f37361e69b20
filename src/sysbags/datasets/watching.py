"""Long generated videos of a process, with events at known times."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sysbags._common.validation import (
    check_choice,
    check_integer,
    check_positive,
    check_share,
    seed_of,
)
from sysbags.datasets._processes import PROCESSES, Grey, wandering
from sysbags.datasets._scenery import TURN, axes, below
from sysbags.datasets.generated import SMALLEST
from sysbags.errors import ParameterError

Frame = npt.NDArray[np.uint8]

SCENES = tuple(PROCESSES)
LOOP = 4.0  # seconds that a looped feed repeats
ONSET = 3.0  # seconds in which fog, darkness and covers come and go
WIND, DAYLIGHT = 60.0, 1200.0  # seconds after which they have a correlation of exp(-1)
NOISE = 0.008
QUALITY = 85  # of JPEG


@dataclass(frozen=True)
class WatchedEvent:
    """An event of a video: from `start` to `stop`, in seconds.

    Attributes
    ----------
    start, stop : float
        In seconds; the frame at `stop` is normal again.
    kind : str
        One of the kinds of `make_watching`; in joined clips, the class of the clips that are shown.
    strength : float, default=0.5
        Above 0, at most 1.

    Examples
    --------
    >>> from sysbags.datasets import WatchedEvent, make_watching
    >>> fog = WatchedEvent(start=20.0, stop=30.0, kind="fog", strength=0.8)
    >>> make_watching("wheel", 60.0, events=[fog]).events
    (WatchedEvent(start=20.0, stop=30.0, kind='fog', strength=0.8),)
    """

    start: float
    stop: float
    kind: str
    strength: float = 0.5


@dataclass(frozen=True)
class WatchingVideo:
    """A long video whose events are known.

    Attributes
    ----------
    rate : float
        Frames per second: frame `i` is shown at the time `i / rate`.
    count : int
        Number of frames.
    events : tuple of WatchedEvent
        In the order of time.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.datasets import WatchedEvent, make_watching
    >>> video = make_watching("wheel", 4.0, events=[WatchedEvent(2.0, 3.0, "covered")])
    >>> video.count, video.rate, [event.kind for event in video.events]
    (40, 10.0, ['covered'])
    >>> np.stack(list(video.frames())).shape
    (40, 48, 64)
    """

    rate: float
    count: int
    events: tuple[WatchedEvent, ...]
    draw: Callable[[], Iterator[Frame]] = field(repr=False, compare=False)

    def frames(self) -> Iterator[Frame]:
        """Yield the frames, (height, width) arrays of uint8: at each call the same, from the first on."""
        return self.draw()


def make_watching(
    scene: str,
    seconds: float,
    *,
    rate: float = 10.0,
    height: int = 48,
    width: int = 64,
    events: Sequence[WatchedEvent] = (),
    random_state: int | np.random.Generator | None = 0,
) -> WatchingVideo:
    """Generate a long video of a process, with events at known times.

    The scene is a random process without a period. In normal operation the daylight and the wind change
    slowly, the camera adds noise, and each frame is compressed as JPEG. Memory does not grow with the
    length. The frames before the first event are those of the video without events.

    Parameters
    ----------
    scene : {"flame", "wheel", "traffic", "rain"}
    seconds : float
        The length of the video.
    rate : float, default=10.0
        Frames per second.
    height, width : int, default=48, 64
        In pixels, 16 or more.
    events : sequence of WatchedEvent, optional
        They must not overlap. The kinds, and what they do with strength `s`:

        * ``"dynamics"``: only the motion changes, while single frames look as before. The flame pulses
          regularly (share `s` of its flicker), the wheel is slower by ``20 s`` percent, the traffic by
          ``100 s`` percent, and rain turns to snow, which falls slower by ``75 s`` percent and sways.
          Averages over a time may still differ, because a slow process shows fewer pictures in it: those
          of stalled traffic (`s` = 1) are of one picture.
        * ``"object"``: a dark object of up to half the height of the picture passes once.
        * ``"shake"``: the camera shakes by up to about a tenth of the height.
        * ``"fog"``: the lens fogs: the picture loses up to 90 percent of its contrast and becomes blurred.
        * ``"dark"``: the light falls by up to 97 percent.
        * ``"covered"``: something is in front of up to the whole lens.
        * ``"defocused"``: the lens is out of focus; ``"turned"``: the camera is turned by up to half of the
          picture.
        * ``"shower"``, ``"clouds"``, ``"gusts"``, ``"night"``: drops fall before the lens, shadows of clouds
          pass, the camera sways a little in the wind, and the light goes and comes back. This may be
          normal, if it is there while learning.
        * ``"frozen"``, ``"looped"``: the last frame, or the last 4 seconds, are repeated, while the
          process continues unseen; the strength has no effect.
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> slower = WatchedEvent(start=40.0, stop=60.0, kind="dynamics", strength=0.5)
    >>> video = make_watching("wheel", 90.0, events=[slower])
    >>> video.count, video.rate, video.events[0].kind
    (900, 10.0, 'dynamics')
    >>> frame = next(video.frames())
    >>> frame.shape, frame.dtype
    ((48, 64), dtype('uint8'))
    """
    check_choice(scene, "scene", PROCESSES)
    frames = check_positive(seconds, "seconds") * check_positive(rate, "rate")
    count = check_integer(math.floor(frames + 1e-6), "seconds * rate")
    check_integer(height, "height", SMALLEST)
    check_integer(width, "width", SMALLEST)
    ordered = _check_events(events)
    seed = seed_of(random_state)

    def draw() -> Iterator[Frame]:
        return _feed(_filmed(scene, seed, (height, width), rate, ordered), rate, ordered, count)

    return WatchingVideo(rate, count, ordered, draw)


def first_frame(time: float, rate: float) -> int:
    """Return the number of the first frame at a time, in seconds, or after it."""
    return math.ceil(time * rate - 1e-6)  # 0.3 * 10 may be above 3 by round-off


def _check_events(events: Sequence[WatchedEvent]) -> tuple[WatchedEvent, ...]:
    ordered = tuple(sorted(events, key=lambda event: event.start))
    for event in ordered:
        check_choice(event.kind, "the kind of an event", EVENTS)
        check_share(event.strength, "the strength of an event", low="(", high="]")
        if not 0.0 <= event.start < event.stop:
            raise ParameterError(
                f"an event is from {event.start:g} to {event.stop:g} seconds, but it must start at 0 or "
                "later and stop after its start"
            )
    for first, second in itertools.pairwise(ordered):
        if second.start < first.stop:
            raise ParameterError(
                f"the event at {second.start:g} seconds begins before the one at {first.start:g} seconds has "
                "ended, but events must not overlap"
            )
    return ordered


def _active(events: Sequence[WatchedEvent], rate: float) -> Iterator[tuple[int, WatchedEvent | None]]:
    """Yield the number of each frame and the event that it is part of, without end."""
    index = 0
    for event in events:
        start, stop = first_frame(event.start, rate), first_frame(event.stop, rate)
        yield from ((i, None) for i in range(index, start))
        yield from ((i, event) for i in range(start, stop))
        index = stop
    while True:
        yield index, None
        index += 1


def _filmed(
    scene: str, seed: int, size: tuple[int, int], rate: float, events: Sequence[WatchedEvent]
) -> Iterator[Frame]:
    """Yield the frames of the camera, without end: the scene, the events before the lens, light and noise."""
    import cv2

    # Each event has its own random numbers, so that those of the scene and the camera are the same without.
    scene_rng, camera, wind_rng, light_rng = np.random.default_rng(seed).spawn(4)
    controls = (
        (event.strength if event is not None and event.kind == "dynamics" else 0.0, wind)
        for (_, event), wind in zip(_active(events, rate), wandering(wind_rng, WIND * rate), strict=False)
    )
    pictures = PROCESSES[scene](scene_rng, *size, rate, controls)
    daylight = wandering(light_rng, DAYLIGHT * rate)
    for (index, event), picture, light in zip(_active(events, rate), pictures, daylight, strict=False):
        if event is not None and event.kind in EFFECTS:
            rng = np.random.default_rng([seed, first_frame(event.start, rate)])
            seen = EFFECTS[event.kind](picture, event, index / rate, rng)
        else:
            seen = picture
        image = 255.0 * (math.exp(0.1 * light) * seen + NOISE * camera.standard_normal(size, np.float32))
        exposed = np.clip(image + 0.5, 0.0, 255.0).astype(np.uint8)
        _, file = cv2.imencode(".jpg", exposed, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        yield np.asarray(cv2.imdecode(file, cv2.IMREAD_GRAYSCALE), dtype=np.uint8)


def _feed(film: Iterator[Frame], rate: float, events: Sequence[WatchedEvent], count: int) -> Iterator[Frame]:
    """Yield what arrives from a camera: its frames, or the last ones again."""
    last: deque[Frame] = deque(maxlen=max(1, round(LOOP * rate)))
    for (_, event), frame, _ in zip(_active(events, rate), film, range(count), strict=False):
        kind = event.kind if event is not None and last else ""
        if kind == "frozen":
            yield last[-1].copy()
        elif kind == "looped":
            yield last[0].copy()
            last.rotate(-1)
        else:
            last.append(frame.copy())
            yield frame


def _onset(event: WatchedEvent, time: float) -> float:
    """Return the strength of an event that comes and goes slowly."""
    return event.strength * min(1.0, (time - event.start) / ONSET, (event.stop - time) / ONSET)


def _object(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    y, x = axes(*picture.shape)
    tall, level, side = 0.25 * event.strength, rng.uniform(0.4, 0.8), rng.choice([-1.0, 1.0])
    reach = x.max() + tall
    center = side * reach * (2.0 * (time - event.start) / (event.stop - event.start) - 1.0)
    away = np.hypot((x - center) / 0.7, y - level) - tall
    cover = below(away, 1.0 / len(y))
    return np.asarray(picture * (1.0 - cover) + 0.1 * cover, dtype=np.float32)


def _shake(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    import cv2

    rates, phases = rng.uniform(1.5, 4.0, (2, 3)), rng.uniform(0.0, TURN, (2, 3))
    moves = 0.05 * event.strength * len(picture) * np.sin(TURN * rates * time + phases).sum(axis=1)
    shift = np.column_stack([np.eye(2), moves])
    return np.asarray(
        cv2.warpAffine(picture, shift, picture.shape[::-1], borderMode=cv2.BORDER_REPLICATE), np.float32
    )


def _fog(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    import cv2

    thick = _onset(event, time)
    blurred = np.asarray(cv2.GaussianBlur(picture, (0, 0), 0.1 + 0.03 * thick * len(picture)), np.float32)
    return blurred * np.float32(1.0 - 0.9 * thick) + np.float32(0.5 * thick)


def _dark(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    return picture * np.float32(1.0 - 0.97 * _onset(event, time))


def _covered(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    _, x = axes(*picture.shape)
    across = rng.choice([-1.0, 1.0]) * x / (x.max() - x.min()) + 0.5
    cover = below(across - (1.1 * _onset(event, time) - 0.05), 0.1)  # with a soft edge, as it is not in focus
    return np.asarray(picture * (1.0 - cover) + 0.06 * cover, dtype=np.float32)


def _defocused(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    import cv2

    return np.asarray(cv2.GaussianBlur(picture, (0, 0), 0.06 * event.strength * len(picture)), np.float32)


def _turned(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    shift = round(0.5 * event.strength * picture.shape[1])
    return np.pad(picture, ((0, 0), (0, shift)), mode="reflect")[:, shift:]


def _shower(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    height, width = picture.shape
    drops = math.ceil(60 * event.strength)
    tall = max(2, height // 8)
    wet = np.array(picture)
    tops = (rng.uniform(size=drops) + 2.0 * time) % 1.0 * (height + tall) - tall
    for top, left in zip(tops.astype(int).tolist(), rng.integers(width, size=drops).tolist(), strict=True):
        wet[max(top, 0) : max(top + tall, 0), left] += np.float32(0.25)
    return np.minimum(wet, np.float32(1.0))


def _clouds(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    _, x = axes(*picture.shape)
    shadow = 0.5 + 0.5 * np.sin(TURN * (0.4 * x - time / 20.0 + rng.uniform()))
    return np.asarray(picture * (1.0 - 0.5 * _onset(event, time) * shadow), dtype=np.float32)


def _gusts(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    return _shake(picture, replace(event, strength=0.15 * event.strength), time, rng)


def _night(picture: Grey, event: WatchedEvent, time: float, rng: np.random.Generator) -> Grey:
    share = math.sin(math.pi * (time - event.start) / (event.stop - event.start)) ** 2
    return picture * np.float32(1.0 - 0.8 * event.strength * share)


EFFECTS: dict[str, Callable[[Grey, WatchedEvent, float, np.random.Generator], Grey]] = {
    "object": _object,
    "shake": _shake,
    "fog": _fog,
    "dark": _dark,
    "covered": _covered,
    "defocused": _defocused,
    "turned": _turned,
    "shower": _shower,
    "clouds": _clouds,
    "gusts": _gusts,
    "night": _night,
}
EVENTS = ("dynamics", *EFFECTS, "frozen", "looped")
WEATHER, TAMPERING = ("shower", "clouds", "gusts", "night"), ("covered", "defocused", "turned", "frozen")
