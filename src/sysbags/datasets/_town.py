"""Textures of a town: a rotating wheel, traffic and lights at night; the units are those of `_nature`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.datasets._scenery import (
    FINE,
    TURN,
    Picture,
    axes,
    backdrop,
    below,
    clouds,
    colour,
    filmed,
    over,
)

__all__ = ["from_plan", "lights", "traffic", "wheel"]


@filmed
def wheel(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Rotating blades or spokes with a hub, a rim and sometimes cabins, seen at an angle."""
    y, x = axes(height, width)
    view = backdrop(rng, y, x, rng.uniform(0.5, 1.1))
    roll, slant, size = rng.uniform(0.0, np.pi), rng.uniform(0.6, 1.0), rng.uniform(0.25, 0.55)
    u, v = x - rng.uniform(-0.25, 0.25), y - rng.uniform(0.4, 0.6)
    c, s = math.cos(roll), math.sin(roll)
    u, v = c * u + s * v, (c * v - s * u) / slant
    radius, angle = np.hypot(u, v) / size, np.arctan2(v, u)
    spokes = int(rng.integers(3, 13))
    speed = math.copysign(rng.uniform(0.02, 0.35), rng.normal()) / spokes  # in turns per frame
    fan, broad = spokes < 8, rng.uniform(0.12, 0.3)
    twist, thin, cabins = rng.normal(0.0, 0.5), rng.uniform(0.03, 0.12), rng.random() < 0.4
    shades = (0.05, 0.25) if rng.random() < 0.5 else (0.85, 1.0)  # unlike the brightness of the background
    paints = [colour(rng, (0.0, 1.0), (0.1, 0.6), span) for span in (shades, (0.2, 1.0), shades)]
    edge = 1.0 / (size * height)  # a pixel; the unit of all lengths below is the radius
    rim, hub = below(np.abs(radius - 0.97) - thin, edge), below(radius - rng.uniform(0.1, 0.25), edge)
    inside, arc = below(radius - 1.0, edge), TURN / spokes * np.maximum(radius, 0.05)
    for t in range(frames):
        sector = np.mod(spokes * ((angle + twist * radius) / TURN - speed * t), 1.0) - 0.5
        aside = np.abs(sector) * arc - (broad * arc if fan else thin / 3.0)
        picture = over(view, paints[0] * (0.85 + 0.3 * sector[..., None]), below(aside, edge) * inside)
        picture = over(picture, paints[1], rim)
        if cabins:
            picture = over(picture, paints[2], below(np.hypot(sector * arc, radius - 1.0) - 0.12, edge))
        yield over(picture, paints[2], hub).astype(np.float64)


@filmed
def traffic(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Cars and lorries on a road, with one speed per lane, seen from a bridge or from above."""
    import cv2

    scale = 1.3 * height  # pixels of the plan per unit
    lanes, lane, length = int(rng.integers(2, 7)), rng.uniform(0.13, 0.28), 5.0
    breadth = lanes * lane + 1.2
    verge = colour(rng, (0.1, 0.35), (0.1, 0.5), (0.3, 0.6))
    tar = colour(rng, (0.0, 1.0), (0.0, 0.08), (0.25, 0.5))
    grain = np.resize(clouds(rng, 6.0), (int(breadth * scale), int(length * scale), 1))
    plan, margin = verge + 0.05 * grain, int(0.5 * scale)
    plan[margin:-margin] = tar + 0.02 * grain[margin:-margin]

    def box(picture: Picture, x: float, y: float, long: float, wide: float, paint: Any) -> None:
        corners = np.array([[x, y], [x + long, y], [x + long, y + wide], [x, y + wide]])
        outline = np.rint(corners * scale * 2**FINE).astype(np.int32)
        cv2.fillConvexPoly(picture, outline, np.asarray(paint).tolist(), cv2.LINE_AA, FINE)

    for line in range(lanes + 1):
        dash = 0.3 if line in (0, lanes // 2, lanes) else 0.13
        for x in np.arange(0.0, length, 0.3):
            box(plan, x, 0.59 + line * lane, dash, 0.02, (0.85, 0.85, 0.85))
    directions = np.where(np.arange(lanes) < lanes // 2, -1.0, 1.0) if rng.random() < 0.7 else np.ones(lanes)
    speeds = directions * rng.uniform(0.012, 0.05) * rng.uniform(0.7, 1.3, lanes)
    cars = []
    for i in range(lanes):
        position = rng.uniform(0.0, 0.5)
        while position < length - 0.6:
            size = 0.8 * lane * (rng.uniform(1.5, 2.0) if rng.random() < 0.85 else rng.uniform(2.6, 4.0))
            hue = rng.choice([0.0, 0.12, 0.4, 0.6])
            vivid = colour(rng, (hue - 0.04, hue + 0.04), (0.5, 0.9), (0.3, 0.8))
            plain = colour(rng, (0.0, 1.0), (0.0, 0.1), (0.05, 1.0))
            cars.append((i, position, size, vivid if rng.random() < 0.4 else plain))
            position += size + rng.uniform(0.1, 1.0)
    to_picture = from_plan(rng, height, width, scale, length, breadth)
    for t in range(frames):
        picture = plan.copy()
        for i, position, size, paint in cars:
            x, y = (position + speeds[i] * t) % length - 0.2, 0.6 + (i + 0.22) * lane
            wide, middle, ahead = 0.56 * lane, x + size / 2.0, directions[i] * size
            box(picture, x + 0.02, y + 0.03, size, wide, 0.5 * tar)  # the shadow
            box(picture, x, y, size, wide, paint)
            for start, long in ((0.16, 0.14), (-0.34, 0.09)):  # the windows
                box(picture, middle + start * ahead, y + 0.07 * lane, long * ahead, 0.42 * lane, 0.35 * tar)
        shown = cv2.warpPerspective(picture, to_picture, (width, height), borderMode=cv2.BORDER_REPLICATE)
        yield np.asarray(shown, dtype=np.float64)


def from_plan(
    rng: np.random.Generator, height: int, width: int, scale: float, length: float, breadth: float
) -> Array:
    """Return the homography from the plan of a road to a picture, with random heading, zoom and tilt."""
    heading, zoom, tilt = rng.uniform(0.0, TURN), rng.uniform(0.8, 1.4) * height, rng.uniform(0.0, 0.8)
    c, s = np.cos(heading), np.sin(heading)
    centred = [[1.0 / scale, 0.0, -length / 2.0], [0.0, 1.0 / scale, -breadth / 2.0], [0.0, 0.0, 1.0]]
    turned = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    tilted = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -tilt, 1.0]])
    shown = np.array([[zoom, 0.0, width / 2.0], [0.0, zoom, height / 2.0], [0.0, 0.0, 1.0]])
    return np.asarray(shown @ tilted @ turned @ centred)


@filmed
def lights(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Lights at night out of focus: discs that twinkle at different rates."""
    y, x = axes(height, width)
    count, blur = int(rng.uniform(25, 90)), 10 ** rng.uniform(-1.9, -1.1)
    hue, variety = rng.uniform(0.0, 1.0), rng.uniform(0.03, 0.5)
    night = backdrop(rng, y, x, rng.uniform(0.5, 1.0)) * np.float64(rng.uniform(0.03, 0.15))
    discs = []
    for _ in range(count):
        radius = blur * rng.uniform(0.7, 1.4)
        away = np.hypot(x - rng.uniform(-0.65, 0.65), y - rng.uniform(0.02, 0.98)) / radius
        disc = below(away - 1.0, 1.2 / (radius * height)) * (0.7 + 0.3 * np.minimum(away, 1.0) ** 4)
        rows, columns = (np.flatnonzero(disc.max(axis=axis)) for axis in (1, 0))
        paint = 1.2 * colour(rng, (hue - variety, hue + variety), (0.2, 0.9), (0.6, 1.0))
        if rows.size:
            area = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
            discs.append((area, disc[area][..., None] * paint))
    rates = rng.uniform(0.05, 0.35) * rng.uniform(0.6, 1.4, len(discs))
    phases, sharp = rng.uniform(0.0, TURN, len(discs)), rng.uniform(0.5, 4.0)
    least = rng.uniform(0.05, 0.5, len(discs))
    for t in range(frames):
        shine = least + (1.0 - least) * (0.5 + 0.5 * np.sin(rates * t + phases)) ** sharp
        picture = night.copy()
        for (area, disc), strength in zip(discs, shine.astype(np.float64), strict=True):
            picture[area] += strength * disc
        yield picture
