"""Endless scenes for watching: a flame, a wheel, traffic and rain, each a random process without a period.

A scene yields one grey picture in [0, 1] per pair (change, wind) that it gets. `wind` varies slowly with
mean 0 and variance 1, and drives what varies in normal operation. `change`, from 0 to 1, is the strength of
an event that alters the motion: the pictures that the scene shows remain as likely as before, as far as
possible. Lengths are in units of the height of the picture, speeds in units per second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from sysbags.datasets._scenery import FINE, TILE, TURN, axes, backdrop, below, clouds, pixels, sample
from sysbags.datasets._textures import from_plan

Grey = npt.NDArray[np.float32]
Controls = Iterable[tuple[float, float]]
Process = Callable[[np.random.Generator, int, int, float, Controls], Iterator[Grey]]

LUMA = np.array([0.299, 0.587, 0.114])
PULSE = 1.7  # pulses of the flame per second
SLOWDOWN = 0.2  # of the wheel, at strength 1
SNOW = 0.25  # speed of a flake, compared with that of a drop


def flame(
    rng: np.random.Generator, height: int, width: int, rate: float, controls: Controls
) -> Iterator[Grey]:
    """A flame of rising noise that flickers at random and leans with the wind.

    A change replaces a part of the flicker by regular pulses of the same variance.
    """
    y, x = (axis.astype(np.float32) for axis in axes(height, width))
    up, wall = 1.0 - y, 0.35 * _view(rng, height, width, 0.85)
    spread, top, bite = rng.uniform(0.25, 0.35), rng.uniform(0.85, 1.0), rng.uniform(0.3, 0.4)
    rise, lasting = rng.uniform(0.6, 0.9) * height / rate, math.exp(-1.0 / (0.6 * rate))
    tongues = _drifting(rng, height, width, 0.15 * height, -rise, lasting)
    flickers, phase = wandering(rng, 0.3 * rate), rng.uniform(0.0, TURN)
    narrow, rough = (0.4 + up) / spread**2, bite * (0.3 + up)
    for (change, wind), tongue, flicker in zip(controls, tongues, flickers, strict=False):
        phase += TURN * PULSE / rate
        pulse = math.sqrt(2.0) * math.sin(phase)  # variance 1, as that of the flicker
        light = 1.0 + 0.25 * (math.sqrt(1.0 - change) * flicker + math.sqrt(change) * pulse)
        body = light * (1.25 - (x + 0.06 * wind * up) ** 2 * narrow - up / top)
        heat = np.clip(body + rough * tongue * (body > 0.0), 0.0, 1.0)
        yield wall * light * (1.0 - heat) + 0.95 * heat


def wheel(
    rng: np.random.Generator, height: int, width: int, rate: float, controls: Controls
) -> Iterator[Grey]:
    """A worn wheel with spokes in front of foliage in the wind; a change makes it slower."""
    import cv2

    view = _view(rng, height, width, 0.9)
    fine = 2  # the wheel is drawn with so many times as many pixels, against steps at its edges
    y, x = axes(fine * height, fine * width)
    radius, angle = np.hypot(x, y - 0.5) / 0.45, np.arctan2(y - 0.5, x)
    spokes, edge = int(rng.integers(3, 5)), 1.0 / (0.45 * height)
    sector = np.mod(spokes * angle / TURN, 1.0) - 0.5
    aside = np.abs(sector) * TURN / spokes * radius - 0.09
    solid = below(np.minimum(np.minimum(aside, np.abs(radius - 0.88) - 0.1), radius - 0.22), edge)
    solid *= below(radius - 1.0, edge)
    wear = sample(clouds(rng, 12.0, 1.5), 0.5 * TILE * x, 0.5 * TILE * y)
    shade = np.clip(rng.uniform(0.12, 0.18) + 0.06 * wear, 0.0, 1.0)
    drawing = np.stack([shade * solid, solid], axis=-1).astype(np.float32)
    turns, speed = rng.uniform(), rng.uniform(0.24, 0.3)
    leaves = _drifting(rng, height, width, 3.0, 0.0, math.exp(-1.0 / (0.5 * rate)))
    for (change, wind), leaf in zip(controls, leaves, strict=False):
        turns += speed / rate * (1.0 - SLOWDOWN * change) * (1.0 + 0.01 * wind)
        center = (fine * width / 2.0 - 0.5, fine * height / 2.0 - 0.5)
        rotation = cv2.getRotationMatrix2D(center, -360.0 * (turns % 1.0), 1.0)
        turned = cv2.warpAffine(drawing, rotation, (fine * width, fine * height))
        shown = cv2.resize(turned, (width, height), interpolation=cv2.INTER_AREA)
        behind = view + 0.01 * math.exp(0.3 * wind) * leaf
        yield shown[..., 0] + behind * (1.0 - shown[..., 1])


def traffic(
    rng: np.random.Generator, height: int, width: int, rate: float, controls: Controls
) -> Iterator[Grey]:
    """Cars on a road of four lanes, more or fewer with the time; a change makes all of them slower."""
    import cv2

    scale, lanes, lane, length, slots = 1.3 * height, 4, 0.22, 5.0, 7
    breadth = lanes * lane + 1.2
    grain = np.resize(clouds(rng, 6.0), (int(breadth * scale), int(length * scale)))
    plan, margin = 0.45 + 0.05 * grain, int(0.5 * scale)
    plan[margin:-margin] = 0.35 + 0.02 * grain[margin:-margin]
    for line in range(lanes + 1):
        row, dash = round((0.59 + line * lane) * scale), int(0.13 * scale)
        for start in range(0, plan.shape[1], int(0.3 * scale)):
            plan[row : row + 2, start : start + (dash if 0 < line < lanes else plan.shape[1])] = 0.85
    empty = np.clip(255.0 * plan, 0.0, 255.0).astype(np.uint8)
    to_picture = from_plan(rng, height, width, scale, length, breadth)
    speeds = rng.uniform(0.5, 0.7) * rng.uniform(0.8, 1.2, lanes)
    sizes = lane * rng.uniform(1.2, 1.7, (lanes, slots))
    shades = rng.uniform(0.0, 255.0, (lanes, slots))
    fronts = np.cumsum(sizes + rng.exponential(0.5, (lanes, slots)), axis=1)
    tops = 0.6 + (np.arange(lanes)[:, None] + 0.22) * lane
    for change, wind in controls:
        fronts += speeds[:, None] / rate * (1.0 - change) * (1.0 + 0.03 * wind)
        for i, k in np.argwhere(fronts - sizes > length):  # has left: another car enters behind the last one
            entry = min(0.0, float((fronts[i] - sizes[i]).min()) - 0.1)
            sizes[i, k], shades[i, k] = lane * rng.uniform(1.2, 1.7), rng.uniform(0.0, 255.0)
            fronts[i, k] = entry - rng.exponential(0.4 * math.exp(-0.2 * wind))
        picture = empty.copy()
        rears = fronts - sizes
        rears = np.where(np.arange(lanes)[:, None] < lanes // 2, length - fronts, rears)
        for shift, behind, part, side, paint in (
            (0.03, 0.0, 1.0, 0.56, np.full_like(shades, 45.0)),  # the shadow
            (0.0, 0.0, 1.0, 0.56, shades),
            (0.01, 0.3, 0.4, 0.42, 0.4 * shades + 20.0),  # the roof
        ):
            left, top = rears + behind * sizes + shift, tops + shift
            right, bottom = left + part * sizes, np.broadcast_to(top + side * lane, left.shape)
            top = np.broadcast_to(top, left.shape)
            corners = np.stack([left, top, right, top, right, bottom, left, bottom], axis=-1)
            outlines = np.rint(corners * scale * 2**FINE).astype(np.int32).reshape(-1, 4, 2)
            for outline, tone in zip(outlines, paint.ravel().tolist(), strict=True):
                cv2.fillConvexPoly(picture, outline, tone, cv2.LINE_AA, FINE)
        shown = cv2.warpPerspective(picture, to_picture, (width, height), borderMode=cv2.BORDER_REPLICATE)
        yield shown.astype(np.float32) / np.float32(255.0)


def rain(
    rng: np.random.Generator, height: int, width: int, rate: float, controls: Controls
) -> Iterator[Grey]:
    """Rain in squalls, at three depths; a change makes the drops fall slowly and sway, as snow does.

    Drops and flakes are drawn with the same short marks, so that only their motion differs.
    """
    import cv2

    view = 0.8 * _view(rng, height, width, rng.uniform(0.7, 0.85))
    layer = np.repeat([0, 1, 2], [30, 45, 60])
    depth = np.array([1.0, 1.7, 3.0])[layer]
    wide = width / height / 2.0 + 0.1
    x, y = rng.uniform(-wide, wide, layer.size), rng.uniform(-0.3, 1.0, layer.size)
    fall, sway = rng.uniform(1.3, 1.6) / depth, rng.standard_normal(layer.size)
    squalls, keep = wandering(rng, 1.5 * rate), math.exp(-1.0 / rate)
    for (change, wind), squall in zip(controls, squalls, strict=False):
        sway = keep * sway + math.sqrt(1.0 - keep**2) * rng.standard_normal(layer.size)
        slant = 0.12 * wind
        down = fall / rate * (1.0 - (1.0 - SNOW) * change)
        y += down
        x += slant * down + 0.15 * change * sway / (depth * rate)
        gone = y > 1.1
        y[gone] = -rng.exponential(0.3 * math.exp(0.8 * squall), int(gone.sum()))
        x[gone] = rng.uniform(-wide, wide, int(gone.sum()))
        x = (x + wide) % (2.0 * wide) - wide
        head = np.stack([x, y], axis=-1)
        tail = head - np.array([slant, 1.0]) * (0.08 / depth)[:, None]
        marks, drawing = pixels(np.stack([head, tail], axis=1), height, width), np.zeros_like(view, np.uint8)
        for near, light in enumerate((150.0, 105.0, 75.0)):
            cv2.polylines(drawing, list(marks[layer == near]), False, light, 1, cv2.LINE_AA, FINE)
        yield view + drawing / np.float32(255.0) * (1.0 - 0.5 * view)


PROCESSES: dict[str, Process] = {"flame": flame, "wheel": wheel, "traffic": traffic, "rain": rain}


def wandering(rng: np.random.Generator, steps: float) -> Iterator[float]:
    """Yield an Ornstein-Uhlenbeck process: mean 0, variance 1, correlation exp(-1) after so many steps."""
    value, keep = rng.standard_normal(), math.exp(-1.0 / steps)
    while True:
        yield value
        value = keep * value + math.sqrt(1.0 - keep**2) * rng.standard_normal()


def _drifting(
    rng: np.random.Generator, height: int, width: int, cell: float, down: float, keep: float
) -> Iterator[Grey]:
    """Yield noise, mean 0 and variance 1, that moves down by so many rows per step and is renewed.

    The Fourier coefficients are independent autoregressive processes of order 1 with coefficient `keep`,
    rotated by the motion.
    """
    from scipy.fft import irfft2, rfft2

    size = height, width
    fy = np.fft.fftfreq(height)[:, None]
    amplitude = (fy**2 + np.fft.fftfreq(width) ** 2 + cell**-2.0) ** -1.5
    amplitude[0, 0] = 0.0
    amplitude /= np.sqrt(np.mean(amplitude**2))
    amplitude = amplitude[:, : width // 2 + 1].astype(np.float32)
    turn = (keep * np.exp(-1j * TURN * fy * down)).astype(np.complex64)

    def fresh() -> npt.NDArray[np.complex64]:
        return np.asarray(rfft2(rng.standard_normal(size, dtype=np.float32)) * amplitude)

    state, renewal = fresh(), np.float32(math.sqrt(1.0 - keep**2))
    while True:
        yield np.asarray(irfft2(state, size))
        state = turn * state + renewal * fresh()


def _view(rng: np.random.Generator, height: int, width: int, ground: float) -> Grey:
    """Draw a still background in grey."""
    y, x = axes(height, width)
    return np.asarray(backdrop(rng, y, x, ground) @ LUMA, dtype=np.float32)
