"""Generated clips: procedural dynamic textures, as arrays or as MP4 files."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from sysbags._common.files import atomic_write
from sysbags._common.parallel import run
from sysbags._common.validation import check_choice, check_integer, generator_of, seed_of
from sysbags.datasets._scenery import Film, Texture
from sysbags.datasets._textures import fire, grass, lights, rain, smoke, traffic, waves, wheel
from sysbags.errors import ParameterError

TEXTURES: dict[str, Texture] = {
    "waves": waves,
    "rain": rain,
    "fire": fire,
    "smoke": smoke,
    "grass": grass,
    "wheel": wheel,
    "traffic": traffic,
    "lights": lights,
}
SMALLEST = 16  # minimal height and width in pixels
RATE = 25  # frames per second


def make_frames(
    texture: str,
    frames: int = 60,
    height: int = 120,
    width: int = 160,
    random_state: int | np.random.Generator | None = 0,
) -> Film:
    """Generate the frames of one clip of a texture.

    Clips of the same texture differ in speed, scale, direction, contrast, colours, noise and background, as
    recordings would; all of these are drawn from `random_state`.

    Parameters
    ----------
    texture : {"waves", "rain", "fire", "smoke", "grass", "wheel", "traffic", "lights"}
    frames : int, default=60
    height, width : int, default=120, 160
        In pixels, 16 or more.
    random_state : int, Generator or None, default=0

    Returns
    -------
    (frames, height, width, 3) array of uint8
        Red, green, blue.

    Examples
    --------
    >>> film = make_frames("fire", frames=4, height=48, width=64)
    >>> film.shape, film.dtype
    ((4, 48, 64, 3), dtype('uint8'))
    >>> bool((film[1] != film[0]).any()), bool((film == make_frames("fire", 4, 48, 64)).all())
    (True, True)
    """
    check_choice(texture, "texture", TEXTURES)
    check_integer(frames, "frames")
    check_integer(height, "height", SMALLEST)
    check_integer(width, "width", SMALLEST)
    return TEXTURES[texture](generator_of(random_state), frames, height, width)


def make_clips(
    folder: str | os.PathLike[str],
    per_class: int = 8,
    frames: int = 60,
    height: int = 120,
    width: int = 160,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    textures: Iterable[str] | None = None,
) -> tuple[list[Path], list[str]]:
    """Write clips of several textures as MP4 files, one folder per texture: ``folder/fire/00.mp4``.

    Parameters
    ----------
    folder : path
        Created if it does not exist. Clips with the same names are replaced; each is written atomically.
    per_class : int, default=8
        Number of clips per texture.
    frames, height, width : int, default=60, 120, 160
        Size of a clip. Height and width must be even, because the codec halves them for colour.
    random_state : int, Generator or None, default=0
        A clip depends only on this, its texture and its number.
    n_jobs : int, optional
        Number of threads.
    textures : iterable of str, optional
        By default all eight of `make_frames`.

    Returns
    -------
    paths : list of Path
        Texture after texture.
    labels : list of str
        The texture of each clip.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> paths, labels = make_clips(folder, per_class=2, frames=4, height=48, width=64, textures=["rain"])
    >>> [path.relative_to(folder).as_posix() for path in paths], labels
    (['rain/00.mp4', 'rain/01.mp4'], ['rain', 'rain'])
    """
    names = (
        list(TEXTURES) if textures is None else [textures] if isinstance(textures, str) else list(textures)
    )
    for name in names:
        check_choice(name, "texture", TEXTURES)
    if len(set(names)) != len(names) or not names:
        raise ParameterError(f"textures is {names}, but it must be at least one texture, without repetition")
    seed = seed_of(random_state)

    def film(name: str, number: int) -> Film:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
        return make_frames(name, frames, height, width, rng)

    return write_clips(folder, names, per_class, (frames, height, width), film, n_jobs)


def write_clips(
    folder: str | os.PathLike[str],
    names: Sequence[str],
    per_class: int,
    shape: tuple[int, int, int],
    film: Callable[[str, int], Film],
    n_jobs: int | None = None,
) -> tuple[list[Path], list[str]]:
    """Write ``film(name, number)`` of each class and number to ``folder/name/number.mp4``, in threads.

    `shape` is the number of frames, the height and the width of a film.
    """
    check_integer(per_class, "per_class")
    check_integer(shape[0], "frames")
    for side, pixels in zip(("height", "width"), shape[1:], strict=True):
        if check_integer(pixels, side, SMALLEST) % 2:
            raise ParameterError(f"{side} is {pixels}, but the codec needs an even number of pixels")

    def write(place: int, content: bytes) -> None:
        with atomic_write(paths[place]) as temporary:
            temporary.write_bytes(content)

    clips = [(name, number) for name in names for number in range(per_class)]
    paths = [Path(folder) / name / f"{number:02d}.mp4" for name, number in clips]
    # Threads encode, and this one writes: a thread that writes when Python ends would leave a part of a file.
    run(lambda clip: _encode(film(*clip)), clips, n_jobs, "clips", consume=write)
    return paths, [name for name, _ in clips]


def _encode(film: Film) -> bytes:
    """Turn frames into a lossless MP4 file, whose decoded frames are the same on every machine."""
    from sysbags.video.writing import encode_video

    file = io.BytesIO()
    encode_video(file, film, RATE, lossless=True)
    return file.getvalue()
