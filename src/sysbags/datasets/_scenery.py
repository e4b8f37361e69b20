"""Building blocks of the textures: a camera, periodic noise, colours, soft edges and a background."""

from __future__ import annotations

import colorsys
import functools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array

Picture = npt.NDArray[np.float64]
Film = npt.NDArray[np.uint8]
Scene = Callable[[np.random.Generator, int, int, int], Iterator[Picture]]
Texture = Callable[[np.random.Generator, int, int, int], Film]
Span = tuple[float, float]

TILE = 256  # cells per side of a noise tile
TURN = 2.0 * np.pi
FINE = 4  # bits for the fraction of a pixel, where shapes are drawn


def filmed(scene: Scene) -> Texture:
    """Turn a scene, which yields pictures in [0, 1], into a texture: (frames, height, width, 3) uint8.

    The camera of each film is drawn at random: mirrored or not, focus, exposure, tint, contrast and noise.
    """

    @functools.wraps(scene)
    def texture(rng: np.random.Generator, frames: int, height: int, width: int) -> Film:
        import cv2

        scene_rng, camera = rng.spawn(2)
        side = -1 if camera.random() < 0.5 else 1
        focus = camera.uniform(0.0, 0.8) * height / 120.0
        noise = np.float64(0.002 * 10 ** camera.uniform(0.0, 0.9))
        gain = (2 ** camera.uniform(-0.5, 0.3) * camera.uniform(0.93, 1.07, 3)).astype(np.float64)
        contrast = np.float64(camera.uniform(0.7, 1.1))
        film = np.empty((frames, height, width, 3), dtype=np.uint8)
        for t, picture in enumerate(scene(scene_rng, frames, height, width)):
            image = cv2.GaussianBlur(picture, (0, 0), focus) if focus > 0.3 else picture
            image = (image * gain - 0.5) * contrast + 0.5
            image += noise * camera.standard_normal(image.shape)
            film[t] = np.clip(255.0 * image + 0.5, 0.0, 255.0)[:, ::side]
        return film

    return texture


def axes(height: int, width: int) -> tuple[Picture, Picture]:
    """Return y, from 0 at the top to 1, and x, from the middle, at the centers of the pixels."""
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    return (rows + 0.5) / height, (columns + 0.5 - width / 2.0) / height


def pixels(points: Array, height: int, width: int) -> npt.NDArray[np.int32]:
    """Turn points (x, y) in the units of `axes` into the coordinates of OpenCV: 2**-FINE pixels."""
    coordinates = points * height + [width / 2.0 - 0.5, -0.5]
    return np.asarray(np.rint(coordinates * 2**FINE), dtype=np.int32)


def colour(rng: np.random.Generator, hue: Span, saturation: Span, value: Span) -> Picture:
    """Draw a colour: red, green and blue in [0, 1]. Hues are modulo 1."""
    h, s, v = (rng.uniform(*span) for span in (hue, saturation, value))
    return np.array(colorsys.hsv_to_rgb(h % 1.0, s, v), dtype=np.float64)


def clouds(rng: np.random.Generator, cell: float, smoothness: float = 1.0) -> Picture:
    """Draw periodic noise with mean 0, standard deviation 1 and lumps of up to `cell` cells."""
    frequency = np.hypot(np.fft.fftfreq(TILE)[:, None], np.fft.rfftfreq(TILE))
    spectrum = np.fft.rfft2(rng.standard_normal((TILE, TILE))) / (frequency**2 + cell**-2) ** smoothness
    spectrum[0, 0] = 0.0
    field = np.fft.irfft2(spectrum, (TILE, TILE))
    return np.asarray(field / field.std(), dtype=np.float64)


def sample(tile: Picture, x: npt.NDArray[np.floating], y: npt.NDArray[np.floating]) -> Picture:
    """Interpolate a periodic picture at the positions (x, y), in cells."""
    import cv2

    # np.mod would take ten times as long.
    across, down = (
        (positions - TILE * np.floor(positions / TILE)).astype(np.float32) for positions in (x, y)
    )
    return np.asarray(cv2.remap(tile, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP))


def below(length: npt.NDArray[np.floating], edge: float) -> Picture:
    """Return 1 where a length is below 0 and 0 where it is above, with a soft edge of width `edge`."""
    return np.asarray(np.clip(0.5 - length / edge, 0.0, 1.0), dtype=np.float64)


def over(picture: Picture, paint: Picture, cover: Picture) -> Picture:
    """Blend paint, a colour or a picture, over a picture with the opacity `cover`."""
    return picture + cover[..., None] * (paint - picture)


def backdrop(
    rng: np.random.Generator, y: Picture, x: Picture, ground: float, soil: Picture | None = None
) -> Picture:
    """Draw a still background: sky, a skyline, and soil below y = `ground`."""
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
