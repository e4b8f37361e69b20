"""Clips whose classes differ in their dynamics only: the same pictures in another order.

A surface with one main direction, such as brushed metal, rotates below a camera. A clip shows its pictures
at evenly spaced angles of a full rotation, each exactly once. The class is their order: slow or fast
rotation, forwards or backwards, in jumps, a random walk, or a swing. So every feature of the set of frames
is the same for the clips of all classes.

A linear system represents the direction of time by a rotation of its states: a process that is equally likely
forwards and backwards has a symmetric transition. The histogram of local binary patterns makes such a
rotation, two full turns for each turn of the surface. It does so in the same plane for all surfaces, because
a rotation of a picture by 45 degrees rotates every pattern by one neighbour. For this reason no clip is
mirrored: the mirrored clip would rotate backwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sysbags._common.files import write_table
from sysbags._common.types import Array, IntArray
from sysbags.datasets._scenery import TILE, TURN, Film, axes, clouds, colour, over, sample
from sysbags.datasets.folder import INDEX
from sysbags.datasets.generated import write_clips

__all__ = ["DYNAMICS", "SURFACES", "make_dynamics_clips", "make_dynamics_frames"]

BACKWARDS = "-reversed"
DYNAMICS = (
    "slow",
    "slow-reversed",
    "fast",
    "fast-reversed",
    "jerky",
    "jerky-reversed",
    "wandering",
    "swinging",
)


def make_dynamics_frames(
    dynamics: str,
    surface: str,
    rng: np.random.Generator,
    frames: int = 90,
    height: int = 120,
    width: int = 160,
) -> Film:
    """Generate the frames of a surface that rotates with one of `DYNAMICS`, (frames, height, width, 3).

    The same generator gives the same pictures for all dynamics, in another order: each of the `frames` angles
    of a full turn is shown once. It determines scale, position, colours, contrast, focus and noise of the
    surface, and the speed, the steps and the first angle. Rotation is at a constant speed of about 1/20
    ("slow") or 1/8 ("fast") of a turn per frame, in jumps of about 1/7 of a turn with pauses ("jerky"), a
    random walk ("wandering"), or through the whole turn and back at a constant speed ("swinging"). A
    "-reversed" film is the other film backwards.
    """
    picture_rng, path_rng = rng.spawn(2)
    return _pictures(picture_rng, surface, frames, height, width)[_path(path_rng, dynamics, frames)]


def make_dynamics_clips(
    folder: str | os.PathLike[str],
    per_class: int,
    seed: int,
    *,
    frames: int = 90,
    height: int = 120,
    width: int = 160,
    n_jobs: int | None = None,
) -> tuple[list[Path], list[str]]:
    """Write clips of all `DYNAMICS` as MP4 files, one folder per class, and return paths and labels.

    Clips with the same number show exactly the same pictures in every class, also after decoding, and the
    surface changes from number to number. So the classes differ in the order of frames only. The number is
    the source of the clip in ``folder/index.csv``. If one source is left out at a time, a method that ignores
    the order predicts the same class for all eight clips, of which one is right (up to ties by round-off).
    """
    surfaces = list(SURFACES)

    def film(name: str, number: int) -> Film:
        surface, rng = surfaces[number % len(surfaces)], np.random.default_rng([seed, number])
        return make_dynamics_frames(name, surface, rng, frames, height, width)

    # Files are lossless: a lossy codec preserves frames better where they change less, so that averages over
    # the decoded frames would differ between slow and fast.
    paths, labels = write_clips(folder, DYNAMICS, per_class, (frames, height, width), film, n_jobs)
    rows = ([f"{path.parent.name}/{path.name}", path.stem] for path in paths)
    write_table(Path(folder) / INDEX, [["clip", "source"], *rows])
    return paths, labels


def _path(rng: np.random.Generator, dynamics: str, frames: int) -> IntArray:
    """Draw the index of the picture at each time, a permutation.

    An angle is drawn for each time, in turns, and the angles are replaced by their ranks. This changes them
    little, because all of these dynamics visit all angles about equally often.
    """
    time = np.arange(frames)
    turns: npt.NDArray[np.floating]

    def whole(low: float, high: float) -> int:
        return max(1, round(frames * rng.uniform(low, high)))

    match dynamics.removesuffix(BACKWARDS):
        case "slow":
            turns = time * whole(0.044, 0.056) / frames
        case "fast":
            turns = time * whole(0.12, 0.145) / frames
        case "jerky":
            turns = time // rng.integers(4, 7) * rng.uniform(0.12, 0.16)
        case "wandering":
            turns = np.cumsum(rng.normal(0.0, 0.1, frames))
        case _:
            phase = time * whole(0.011, 0.022) / frames % 1.0
            turns = np.minimum(2.0 * phase, 2.0 - 2.0 * phase)
    # Rounded, so that angles that are equal up to round-off have the order of the frames.
    order = np.argsort(np.round(turns % 1.0, 9) % 1.0, kind="stable")
    path = np.empty(frames, dtype=np.int64)
    path[order] = (time + rng.integers(frames)) % frames
    return path[::-1] if dynamics.endswith(BACKWARDS) else path


def _pictures(rng: np.random.Generator, surface: str, frames: int, height: int, width: int) -> Film:
    """Draw the pictures of a surface at evenly spaced angles of a full turn."""
    import cv2

    tile = SURFACES[surface](rng).astype(np.float64)
    y, x = axes(height, width)
    scale = rng.uniform(0.5, 1.0) * height  # cells of the tile per unit: at most one per pixel
    across, down, first = scale * x, scale * (y - 0.5), rng.uniform(0.0, TURN)
    center = rng.uniform(0.0, TILE, 2)
    shades = [(0.05, 0.4), (0.6, 1.0)]
    ground, paint = (colour(rng, (0.0, 1.0), (0.0, 0.6), span) for span in rng.permutation(shades).tolist())
    contrast, focus = rng.uniform(0.5, 1.0), rng.uniform(0.0, 0.6)
    noise = np.float64(0.002 * 10 ** rng.uniform(0.0, 0.9))
    film = np.empty((frames, height, width, 3), dtype=np.uint8)
    for k, angle in enumerate(first + TURN * np.arange(frames) / frames):
        c, s = np.cos(angle), np.sin(angle)
        shade = sample(tile, c * across + s * down + center[0], c * down - s * across + center[1])
        cover = 0.5 + contrast * (1.0 / (1.0 + np.exp(-1.5 * shade)) - 0.5)
        picture = over(np.broadcast_to(ground, (height, width, 3)), paint, cover).astype(np.float64)
        if focus > 0.3:
            picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), focus))
        picture = picture + noise * rng.standard_normal(picture.shape)
        film[k] = np.clip(255.0 * picture + 0.5, 0.0, 255.0)
    return film


def _brushed(rng: np.random.Generator) -> Array:
    """Noise that is smooth in one direction and rough across it."""
    down, along = np.fft.fftfreq(TILE)[:, None], rng.uniform(4.0, 10.0) * np.fft.rfftfreq(TILE)
    spectrum = np.fft.rfft2(rng.standard_normal((TILE, TILE)))
    spectrum /= down**2 + along**2 + rng.uniform(18.0, 48.0) ** -2
    spectrum[0, 0] = 0.0
    field = np.fft.irfft2(spectrum, (TILE, TILE))
    return np.asarray(field / field.std())


def _stripes(rng: np.random.Generator) -> Array:
    """Wavy stripes with soft or hard edges."""
    waver = rng.uniform(0.3, 1.2) * clouds(rng, rng.uniform(15.0, 50.0), 1.5)
    wave = np.cos(TURN * rng.integers(20, 40) * _rows() / TILE + waver)
    return np.asarray(1.2 * np.tanh(rng.uniform(0.5, 3.0) * wave))


def _straws(rng: np.random.Generator) -> Array:
    """Overlapping straws, most of them in one direction."""
    import cv2

    field = np.zeros((TILE, TILE), dtype=np.float64)
    count, spread = int(rng.integers(500, 1100)), rng.uniform(0.05, 0.25)
    angles, lengths = rng.normal(0.0, spread, count), rng.uniform(15.0, 45.0, count)
    starts = rng.uniform(0.0, TILE, (count, 2))
    ends = starts + lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # Copies at the neighbouring tiles make the tile periodic.
    away = TILE * (np.array(list(np.ndindex(3, 3))) - 1)
    lines = np.rint(np.stack([starts, ends], axis=1)[:, None] + away[:, None]).astype(int).tolist()
    for copies, shade in zip(lines, rng.standard_normal(count).tolist(), strict=True):
        for start, end in copies:
            cv2.line(field, start, end, shade, 2)
    return np.asarray(field / field.std(), dtype=np.float64)


def _layers(rng: np.random.Generator) -> Array:
    """Layers of rock of different shades, with grain."""
    count = int(rng.integers(40, 70))
    edges, shades = np.sort(rng.uniform(0.0, TILE, count)), rng.standard_normal(count)
    positions = (_rows() + rng.uniform(1.0, 3.0) * clouds(rng, rng.uniform(20.0, 60.0), 1.5)) % TILE
    grain = rng.uniform(0.1, 0.3) * clouds(rng, 4.0)
    return np.asarray(shades[np.searchsorted(edges, positions) % count] + grain)


def _ripples(rng: np.random.Generator) -> Array:
    """Waves of many lengths in about one direction."""
    field = np.zeros((TILE, TILE))
    for length, angle in zip(rng.uniform(8.0, 40.0, 25), rng.normal(0.0, 0.25, 25), strict=True):
        down, along = np.rint(length * np.cos(angle)), np.rint(length * np.sin(angle))
        phase = TURN * (down * _rows() + along * _rows().T) / TILE + rng.uniform(0.0, TURN)
        field += np.cos(phase) / np.sqrt(length)
    return np.asarray(field / field.std())


def _rows() -> Array:
    return np.repeat(np.arange(TILE, dtype=np.float64)[:, None], TILE, axis=1)


SURFACES: dict[str, Callable[[np.random.Generator], Array]] = {
    "brushed": _brushed,
    "stripes": _stripes,
    "straws": _straws,
    "layers": _layers,
    "ripples": _ripples,
}
