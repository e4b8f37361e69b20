"""The report of an evaluation: one HTML file that needs no other and asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import warnings
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from sysbags._common.files import atomic_write
from sysbags._common.parallel import run
from sysbags._common.validation import check_integer
from sysbags.errors import ParameterError, VideoWarning
from sysbags.report import tables as _tables
from sysbags.report.data import compact
from sysbags.report.results import Clip, Evaluation
from sysbags.video import Frame, frames

__all__ = ["page", "pictures", "write"]

SCRIPTS = ("base.js", "charts.js", "tables.js", "map.js", "clip.js", "atlas.js")  # in the order they run
KEPT = 64  # frames at most in memory, of which the one in the middle becomes the picture
JPEG_QUALITY = 72


def page(evaluation: Evaluation, pictures: Sequence[bytes]) -> str:
    """Return the report as the text of an HTML file that holds all it shows.

    Summary, tables and runtimes are plain HTML; a script draws the rest from the numbers of
    `sysbags.report.data.compact`. The page forbids itself to load anything or to run any other script.

    Parameters
    ----------
    evaluation : Evaluation
    pictures : sequence of bytes
        A JPEG of each clip, see `pictures`.

    Returns
    -------
    str
    """
    if len(pictures) != len(evaluation.clips):
        raise ParameterError(
            f"there are {len(pictures)} pictures, but it must be {len(evaluation.clips)}, one for each clip"
        )
    script = "".join(_file(name) for name in SCRIPTS)
    content = compact(evaluation) | {"pictures": [base64.b64encode(jpeg).decode() for jpeg in pictures]}
    return Template(_file("page.html")).substitute(
        title=html.escape(evaluation.title),
        style=_file("style.css"),
        summary=_tables.summary(evaluation),
        methods=_tables.methods(evaluation),
        seconds=_tables.seconds(evaluation.seconds),
        facts=_tables.facts(evaluation.facts),
        data=_json(content),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def pictures(clips: Sequence[Clip], *, height: int = 120, n_jobs: int | None = None) -> list[bytes]:
    """Return a small JPEG from the middle of each clip.

    Parameters
    ----------
    clips : sequence of Clip
    height : int, default=120
        Of the pictures, in pixels; the proportions are kept.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    list of bytes

    Examples
    --------
    >>> import tempfile
    >>> from sysbags.datasets import make_clips
    >>> paths, labels = make_clips(tempfile.mkdtemp(), 1, frames=4, height=48, width=64, textures=["rain"])
    >>> [jpeg] = pictures([Clip("rain/00.mp4", paths[0], "rain")], height=24)
    >>> jpeg[:2].hex()
    'ffd8'
    """
    check_integer(height, "height", 8)
    with warnings.catch_warnings():
        # Who made the evaluation has read these clips, and was told of those that break off.
        warnings.simplefilter("ignore", VideoWarning)
        return run(lambda clip: _picture(clip, height), clips, n_jobs, "pictures")


def write(path: str | os.PathLike[str], evaluation: Evaluation, *, n_jobs: int | None = None) -> None:
    """Write the report of an evaluation, as a whole or not at all.

    Parameters
    ----------
    path : path
        Of the HTML file.
    evaluation : Evaluation
        Its clips are read once more, for a picture of each.
    n_jobs : int, optional
        Threads.
    """
    text = page(evaluation, pictures(evaluation.clips, n_jobs=n_jobs))
    with atomic_write(path) as temporary:
        # A file name need not be text: what cannot be written is shown as a question mark.
        temporary.write_bytes(text.encode("utf-8", "replace"))


def _file(name: str) -> str:
    return resources.files("sysbags.report").joinpath(name).read_text(encoding="utf-8")


def _json(content: Any) -> str:
    """JSON for the inside of a script element, which no name of a clip or a class can close."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _picture(clip: Clip, height: int) -> bytes:
    import cv2

    frame = _middle(clip, height)
    width = max(1, round(frame.shape[1] * height / frame.shape[0]))
    small = cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", small[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()


def _middle(clip: Clip, height: int) -> Frame:
    """The frame in the middle, up to a 32nd of the length, which shows only at the end: so some are kept."""
    kept: list[Frame] = []
    stride = 1
    for time, frame in enumerate(frames(clip.path, colour="rgb", size=height)):
        if time % stride == 0:
            kept.append(frame)
            if len(kept) > KEPT:
                kept, stride = kept[::2], 2 * stride
    return kept[len(kept) // 2]
