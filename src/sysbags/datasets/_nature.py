"""Textures of nature: waves, rain, fire, smoke and grass.

The parameters of a film (speed, scale, direction, colours, background) are drawn at its start; `filmed` draws
the camera. Lengths are in units of the height of the picture, speeds in units per frame.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sysbags.datasets._scenery import (
    FINE,
    TILE,
    TURN,
    Picture,
    axes,
    backdrop,
    clouds,
    colour,
    filmed,
    over,
    pixels,
    sample,
)

__all__ = ["fire", "grass", "rain", "smoke", "waves"]


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
