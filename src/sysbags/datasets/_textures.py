"""Textures of nature and of a town.

The parameters of a film (speed, scale, direction, colours, background) are drawn at its start; `filmed` draws
the camera. Lengths are in units of the height of the picture, speeds in units per frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.datasets._scenery import (
    FINE,
    TILE,
    TURN,
    Picture,
    axes,
    backdrop,
    below,
    clouds,
    colour,
    filmed,
    over,
    pixels,
    sample,
)


@filmed
def waves(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Wavelets on water with glints, seen from above or towards the horizon; longer ones are faster."""
    y, x = axes(height, width)
    margin = 10 ** rng.uniform(-1.1, 0.6)  # from the picture up to the horizon
    depth = (1.0 + margin) / (y + margin)
    count = 40
    length = rng.uniform(0.15, 0.5) * 2.0 ** rng.uniform(-3.0, 0.5, count)
    heading = rng.uniform(0.0, TURN) + rng.normal(0.0, rng.uniform(0.2, 0.7), count)
    k, east, north = TURN / length, np.cos(heading), np.sin(heading)
    omega = rng.uniform(0.02, 0.07) * np.sqrt(k)
    steep = rng.uniform(0.05, 0.1) * np.sqrt(length / length.mean())
    phase = np.multiply.outer(k * east, x * depth) + np.multiply.outer(k * north, (1.0 + margin) * depth)
    phase += rng.uniform(0.0, TURN, count)[:, None, None]
    footprint = depth**2 / (1.0 + margin) / height  # length covered by a pixel, which hides shorter wavelets
    amplitude = steep[:, None, None] * np.exp(-((k[:, None, None] * footprint) ** 2) / 8.0)
    cosines, sines = ((amplitude * f(phase)).reshape(count, -1).astype(np.float64) for f in (np.cos, np.sin))
    sun, glitter = rng.normal(0.0, 0.12, 2).tolist(), rng.uniform(0.3, 1.2)
    deep = colour(rng, (0.5, 0.62), (0.5, 0.9), (0.15, 0.4))
    sky = colour(rng, (0.52, 0.62), (0.05, 0.35), (0.7, 0.95))
    dull, side = 1.2 - 1.5 * (1.0 - 1.0 / depth) ** 2, rng.normal(0.0, 0.5)
    for t in range(frames):
        # Slopes of sum(cos(phase - omega t) / k). einsum, because the round-off of BLAS depends on threads.
        to_east, to_north = (
            np.einsum("w,wp->p", (np.cos(omega * t) * part).astype(np.float64), cosines)
            + np.einsum("w,wp->p", (np.sin(omega * t) * part).astype(np.float64), sines)
            for part in (east, north)
        )
        right, up = to_east.reshape(y.shape), to_north.reshape(y.shape)
        mirrored = 1.0 / (1.0 + np.exp(dull - 5.5 * (up + side * right)))
        glint = glitter * np.exp(-((right - sun[0]) ** 2 + (up - sun[1]) ** 2) / 0.004)
        yield over(deep, sky, mirrored) + glint[..., None]


@filmed
def rain(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Streaks at many depths in front of a background, and rings on the wet ground."""
    import cv2

    y, x = axes(height, width)
    ground = rng.uniform(0.55, 0.9)
    view = backdrop(rng, y, x, ground)
    drops, wind = int(rng.uniform(80, 350)), rng.normal(0.0, 0.22)
    depth = rng.uniform(1.0, 4.0, drops)
    fall = rng.uniform(0.1, 0.2) * rng.uniform(0.9, 1.1, drops) / depth
    streak = rng.uniform(0.5, 1.1) * fall[:, None] * [wind, 1.0]
    light = 255.0 * rng.uniform(0.25, 0.6) / np.sqrt(depth)
    thick = np.maximum(1, np.rint(height / 110.0 / np.sqrt(depth))).astype(int)
    start, columns = rng.uniform(0.0, 1.3, drops), rng.uniform(-1.2, 1.2, (64, drops))
    rings = int(rng.uniform(10, 40))
    spots = np.stack([rng.uniform(-1.0, 1.0, (64, rings)), rng.uniform(ground, 1.0, (64, rings))], axis=-1)
    birth, life = rng.uniform(0.0, 1.0, rings), rng.uniform(6.0, 14.0, rings)
    for t in range(frames):
        layer = np.zeros((height, width), dtype=np.uint8)
        falls, down = np.divmod(start + fall * t, 1.3)
        across = columns[falls.astype(int) % 64, np.arange(drops)] + wind * down
        head = np.stack([across, down - 0.15], axis=1)
        ends = pixels(np.stack([head, head - streak], axis=1), height, width).tolist()
        for (start_point, end_point), shine, thickness in zip(
            ends, light.tolist(), thick.tolist(), strict=True
        ):
            cv2.line(layer, start_point, end_point, shine, thickness, cv2.LINE_AA, FINE)
        hits, age = np.divmod(birth + t / life, 1.0)
        spot = spots[hits.astype(int) % 64, np.arange(rings)]
        reach = 0.03 * age * (0.4 + (spot[:, 1] - ground) / (1.0 - ground)) * height
        sizes = np.rint(np.multiply.outer(reach, [2.0, 0.7]) * 2**FINE).astype(int).tolist()
        points = pixels(spot, height, width).tolist()
        for point, size, ring_age in zip(points, sizes, age.tolist(), strict=True):
            cv2.ellipse(layer, point, size, 0, 0, 360, 110.0 * (1.0 - ring_age), 1, cv2.LINE_AA, FINE)
        yield view + (layer.astype(np.float64) / 255.0)[..., None] * (1.0 - 0.5 * view)


@filmed
def fire(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Flames of rising noise, hottest at the bottom and in the middle."""
    y, x = axes(height, width)
    tile, sway = clouds(rng, 30.0, 1.2), clouds(rng, 80.0, 2.0)
    up, lean, stretch = 1.0 - y, rng.normal(0.0, 0.25), rng.uniform(0.3, 0.6)
    speed, scale = rng.uniform(0.01, 0.05), TILE * rng.uniform(0.4, 1.2)
    flames = int(rng.integers(1, 6))
    centers, tops = rng.uniform(-0.55, 0.55, flames), rng.uniform(0.6, 1.4, flames)
    spread, bite = rng.uniform(0.15, 0.4), rng.uniform(0.3, 0.55)
    flicker, calm = 1.0, rng.uniform(0.8, 0.95)
    glow = colour(rng, (0.02, 0.07), (0.4, 0.9), (0.05, 0.2)) * np.exp(-2.0 * up)[..., None]
    for t in range(frames):
        flicker += (calm - 1.0) * (flicker - 1.0) + 0.04 * rng.standard_normal()
        bend = x + lean * up**1.5 + 0.12 * up * sample(sway, 0.5 * scale * x, 0.5 * scale * (y + speed * t))
        tongues = sample(tile, scale * bend, scale * stretch * (y + 1.5 * speed * t))
        body = np.zeros_like(y)
        for center, top in zip(centers.tolist(), tops.tolist(), strict=True):
            body = np.maximum(body, 1.3 - ((bend - center) / spread) ** 2 * (0.4 + up) - up / top)
        heat = np.clip(flicker * body + bite * tongues * (0.3 + up) * (body > 0.0), 0.0, 1.1)
        yield (glow + np.stack([1.5 * heat, 1.05 * heat**2, 0.5 * heat**5], axis=-1)).astype(np.float64)


@filmed
def smoke(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Smoke that rises from its sources, with eddies, and becomes thinner."""
    import cv2

    y, x = axes(height, width)
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    eddies, puffs = clouds(rng, 40.0, 1.8), clouds(rng, 12.0)
    scale, speed = TILE * rng.uniform(0.5, 1.2), rng.uniform(0.006, 0.02)
    wind, swirl = rng.normal(0.0, 0.35), rng.uniform(0.2, 0.5)
    source = np.zeros_like(y)
    for center in rng.uniform(-0.4, 0.4, int(rng.integers(1, 4))).tolist():
        wide, low = rng.uniform(0.06, 0.2), rng.uniform(0.85, 1.0)
        source += np.exp(-(((x - center) / wide) ** 2) - ((y - low) / 0.06) ** 2)
    view = backdrop(rng, y, x, rng.uniform(0.75, 1.1))
    shades = (0.05, 0.3) if rng.random() < 0.5 else (0.75, 1.0)
    grey, thick = colour(rng, (0.0, 1.0), (0.0, 0.1), shades), rng.uniform(0.7, 0.95)
    keep, strength = 1.0 - rng.uniform(0.3, 0.9) * speed, 25.0 * swirl * speed * height**2 / scale
    density = np.zeros_like(y)
    for t in range(-int(1.2 / speed), frames):  # the film begins when the first smoke has reached the top
        # The velocity of the eddies is the curl of a potential, so it has no sources or sinks.
        potential = sample(eddies, scale * (x - 0.7 * wind * speed * t), scale * (y + 0.7 * speed * t))
        down, right = np.gradient(potential)
        from_columns = columns - strength * down - wind * speed * height
        from_rows = rows + strength * right + speed * height
        positions = from_columns.astype(np.float32), from_rows.astype(np.float32)
        moved = np.asarray(cv2.remap(density, *positions, cv2.INTER_LINEAR))
        gust = np.clip(0.5 + 0.6 * sample(puffs, scale * x, scale * (y + speed * t)), 0.0, 2.0)
        density = (keep * moved + 25.0 * speed * source * gust).astype(np.float64)
        if t >= 0:
            yield over(view, grey * (1.0 + 0.12 * potential[..., None]), thick * (1.0 - np.exp(-density)))


@filmed
def grass(rng: np.random.Generator, frames: int, height: int, width: int) -> Iterator[Picture]:
    """Tapered blades, near ones in front of far ones, bent by gusts that move across the meadow."""
    import cv2

    y, x = axes(height, width)
    horizon, hue, tall = rng.uniform(-0.2, 0.4), rng.uniform(0.14, 0.34), rng.uniform(0.2, 0.5)
    view = backdrop(rng, y, x, max(horizon, 0.02), colour(rng, (hue, hue), (0.4, 0.6), (0.15, 0.3)))
    meadow = (255.0 * np.clip(view, 0.0, 1.0)).astype(np.uint8)
    blades = int(rng.uniform(300, 600))
    near = np.sort(rng.uniform(0.0, 1.0, blades))
    root_x, root_y = rng.uniform(-1.0, 1.0, blades), horizon + 0.1 + (1.1 - horizon) * near
    size = tall * (0.35 + 0.65 * near) * rng.uniform(0.7, 1.3, blades)
    hues, along = (hue - 0.03, hue + 0.03), np.linspace(0.0, 1.0, 7)
    paints = [255.0 * colour(rng, hues, (0.35, 0.75), (0.15 + 0.2 * n, 0.4 + 0.5 * n)) for n in near]
    half = 0.5 * np.multiply.outer(rng.uniform(0.008, 0.02) * (0.4 + 0.6 * near), 1.0 - along)
    lean, give, wind = rng.normal(0.0, 0.25, blades), rng.uniform(0.6, 1.3, blades), rng.uniform(0.15, 0.6)
    gusts, speed = TURN * rng.uniform(0.4, 1.5, 3), rng.uniform(0.01, 0.035)
    shiver, rate = rng.uniform(0.03, 0.12), rng.uniform(6.0, 18.0, blades)
    lag = rng.uniform(0.0, TURN, blades)
    for t in range(frames):
        travelled = root_x + 0.5 * root_y - speed * t
        gust = np.sin(np.multiply.outer(gusts, travelled) + np.arange(3)[:, None]).sum(axis=0) / 2.0
        bend = lean + give * wind * (0.5 + gust) + shiver * np.sin(lag + rate * speed * t)
        spine_x = root_x[:, None] + np.multiply.outer(size * bend, along**2)
        droop = 1.0 - 0.3 * np.multiply.outer(np.minimum(bend**2, 1.0), along)
        spine_y = root_y[:, None] - size[:, None] * along * droop
        left, right = (np.stack([spine_x + side * half, spine_y], axis=-1) for side in (-1.0, 1.0))
        outlines = pixels(np.concatenate([left, right[:, ::-1]], axis=1), height, width)
        picture = meadow.copy()
        for outline, paint in zip(outlines, paints, strict=True):
            cv2.fillPoly(picture, [outline], paint.tolist(), cv2.LINE_AA, FINE)
        yield picture.astype(np.float64) / 255.0


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
