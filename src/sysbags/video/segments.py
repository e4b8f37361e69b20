"""A folder of video segments, read in natural order while a recorder adds more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sysbags._common.files import VIDEO_SUFFIXES, natural_order
from sysbags.errors import VideoError

POLL_SECONDS = 0.5


def segments(
    folder: Path,
    first: str = "",
    *,
    follow: bool = False,
    patience: float = 10.0,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    is_stopped: Callable[[], bool],
    on_wait: Callable[[], None],
) -> Iterator[Path]:
    """Yield the video files of a folder in natural order, from `first`, each when it is complete.

    With `follow`, wait for more segments until `is_stopped`. The last segment is then complete when it has
    not changed for `patience` seconds, or when there is a later one; files that are added before a segment
    that was already used are ignored. `on_wait` is called once whenever all complete segments have been used.
    """
    is_next = _is_from(first)
    state, since, is_waiting = None, clock(), False
    while not is_stopped():
        later = [path for path in _videos(folder) if is_next(path)]
        newest = _state(later[-1]) if later else None
        if newest != state:
            state, since = newest, clock()
        if len(later) > 1 or (later and (not follow or clock() - since >= patience)):
            is_waiting = False
            yield later[0]
            is_next = _is_after(later[0])
        elif not follow:
            return
        else:
            if not is_waiting:
                on_wait()
            is_waiting = True
            sleep(POLL_SECONDS)


def _is_from(name: str) -> Callable[[Path], bool]:
    return lambda path: not name or natural_order(path) >= natural_order(Path(name))


def _is_after(last: Path) -> Callable[[Path], bool]:
    return lambda path: natural_order(path) > natural_order(last)


def _videos(folder: Path) -> list[Path]:
    try:
        paths = [p for p in folder.iterdir() if p.suffix.lower() in VIDEO_SUFFIXES and p.name[0] != "."]
    except OSError as error:
        raise VideoError(f"the folder {folder} cannot be read: {error.strerror}") from None
    return sorted(paths, key=natural_order)


def _state(path: Path) -> tuple[str, int, int] | None:
    """Return what changes while a file is being written; None if it has been removed."""
    try:
        status = path.stat()
    except OSError:
        return None
    return path.name, status.st_size, status.st_mtime_ns
