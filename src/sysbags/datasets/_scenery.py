"""What the textures are made of: a camera, tiled noise, colours, soft edges, a view that stays."""

from __future__ import annotations

import colorsys
import functools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array

__all__ = [
    "FINE",
    "TILE",
    "TURN",
    "Film",
    "Picture",
    "Scene",
    "Texture",
    "axes",
    "backdrop",
    "below",
    "clouds",
    "colour",
    "filmed",
    "over",
    "pixels",
    "sample",
]

Picture = npt.NDArray[np.float64]
Film = npt.NDArray[np.uint8]
Scene = Callable[[np.random.Generator, int, int, int], Iterator[Picture]]
Texture = Callable[[np.random.Generator, int, int, int], Film]
Span = tuple[float, float]

TILE = 256  # cells a side of a noise tile
TURN = 2.0 * np.pi
FINE = 4  # bits for the fraction of a pixel, where shapes are drawn


def filmed(scene: Scene) -> Texture:
    """Turn a scene, which yields pictures in [0, 1], into a texture: (frames, height, width, 3) uint8.

    Each film has a camera of its own: mirrored or not, with a focus, exposure, tint, contrast and noise.
    """

    @functools.wraps(scene)
    def texture(rng: np.random.Generator, frames: int, height: int, width: int) -> Film:
        import cv2

        played, camera = rng.spawn(2)
        side = -1 if camera.random() < 0.5 else 1
        focus = camera.uniform(0.0, 0.8) * height / 120.0
        noise = np.float64(0.002 * 10 ** camera.uniform(0.0, 0.9))
        gain = (2 ** camera.uniform(-0.5, 0.3) * camera.uniform(0.93, 1.07, 3)).astype(np.float64)
        contrast = np.float64(camera.uniform(0.7, 1.1))
        film = np.empty((frames, height, width, 3), dtype=np.uint8)
        for t, picture in enumerate(scene(played, frames, height, width)):
            seen = cv2.GaussianBlur(picture, (0, 0), focus) if focus > 0.3 else picture
            seen = (seen * gain - 0.5) * contrast + 0.5
            seen += noise * camera.standard_normal(seen.shape)
            film[t] = np.clip(255.0 * seen + 0.5, 0.0, 255.0)[:, ::side]
        return film

    return texture


def axes(height: int, width: int) -> tuple[Picture, Picture]:
    """Return y, from 0 at the top to 1, and x, from the middle, at the pixels' centres."""
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    return (rows + 0.5) / height, (columns + 0.5 - width / 2.0) / height


def pixels(points: Array, height: int, width: int) -> npt.NDArray[np.int32]:
    """Turn points (x, y) in the units of `axes` into what OpenCV draws: whole 2**-FINE of a pixel."""
    placed = points * height + [width / 2.0 - 0.5, -0.5]
    return np.asarray(np.rint(placed * 2**FINE), dtype=np.int32)


def colour(rng: np.random.Generator, hue: Span, saturation: Span, value: Span) -> Picture:
    """Draw a colour: red, green and blue in [0, 1]. Hues outside [0, 1] come round again."""
    h, s, v = (rng.uniform(*span) for span in (hue, saturation, value))
    return np.array(colorsys.hsv_to_rgb(h % 1.0, s, v), dtype=np.float64)


def clouds(rng: np.random.Generator, cell: float, smoothness: float = 1.0) -> Picture:
    """Draw noise that can be tiled, of mean 0 and deviation 1, with lumps of up to `cell` cells."""
    frequency = np.hypot(np.fft.fftfreq(TILE)[:, None], np.fft.rfftfreq(TILE))
    spectrum = np.fft.rfft2(rng.standard_normal((TILE, TILE))) / (frequency**2 + cell**-2) ** smoothness
    spectrum[0, 0] = 0.0
    field = np.fft.irfft2(spectrum, (TILE, TILE))
    return np.asarray(field / field.std(), dtype=np.float64)


def sample(tile: Picture, x: npt.NDArray[np.floating], y: npt.NDArray[np.floating]) -> Picture:
    """Look a tiled picture up at the places (x, y), which are given in its cells."""
    import cv2

    # np.mod would take ten times as long.
    across, down = ((places - TILE * np.floor(places / TILE)).astype(np.float32) for places in (x, y))
    return np.asarray(cv2.remap(tile, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP))


def below(length: npt.NDArray[np.floating], edge: float) -> Picture:
    """Return 1 where a length is below 0 and 0 where it is above, with an `edge` that is soft."""
    return np.asarray(np.clip(0.5 - length / edge, 0.0, 1.0), dtype=np.float64)


def over(picture: Picture, paint: Picture, cover: Picture) -> Picture:
    """Lay paint, a colour or a picture, over a picture where it covers it."""
    return picture + cover[..., None] * (paint - picture)


def backdrop(
    rng: np.random.Generator, y: Picture, x: Picture, ground: float, soil: Picture | None = None
) -> Picture:
    """Draw a view that does not move: sky, a jagged skyline, and soil from y = `ground` on."""
    sky = colour(rng, (0.5, 0.68), (0.0, 0.4), (0.45, 0.9))
    woods = colour(rng, (0.2, 0.7), (0.05, 0.4), (0.25, 0.55))
    if soil is None:
        soil = colour(rng, (0.05, 0.45), (0.1, 0.5), (0.2, 0.5))
    lumps, scale = clouds(rng, rng.uniform(10.0, 40.0), 1.2), TILE * rng.uniform(0.5, 1.0)
    grain = sample(lumps, scale * x, scale * y)[..., None]
    skyline = ground - 0.12 - rng.uniform(0.02, 0.1) * sample(lumps, scale * x, np.zeros_like(y))
    edge = 4.0 / len(y)
    view = sky * (0.75 + 0.35 * y[..., None]) + 0.02 * grain
    view = over(view, woods + 0.04 * grain, below(skyline - y, edge))
    return over(view, soil + 0.06 * grain, below(ground - y, edge))
