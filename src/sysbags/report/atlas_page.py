"""The class atlas on disk: a page for people and its numbers."""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._common.files import atomic_write
from sysbags._common.types import Array
from sysbags.report.results import ClassMean, Clip, Evaluation

__all__ = ["write_atlas"]

NEAREST = 6  # clips that stand for a class
VARYING = 32  # bins whose course is drawn
STYLE = """:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 0 auto; padding: 1rem; }
section { border-top: 1px solid #8888; padding: 1rem 0; }
.clips { display: flex; flex-wrap: wrap; gap: .5rem; }
figure { margin: 0; } figcaption { font-size: .8rem; opacity: .8; }
.clips figure { width: 9.5rem; } .clips img { width: 100%; border-radius: 4px; display: block; }
.course { width: 100%; height: 9rem; image-rendering: pixelated; border-radius: 4px; }
svg { width: 100%; height: 5rem; fill: currentColor; }"""


def write_atlas(
    folder: str | os.PathLike[str], evaluation: Evaluation, *, n_jobs: int | None = None
) -> tuple[Path, Path]:
    """Write the atlas of an evaluation: a page for people, ``atlas.html``, and its numbers, ``atlas.json``.

    The page shows for each class a frame of each of the clips nearest to its mean, the mean histogram, and
    the course of those bins that vary most. It holds all it shows.

    Parameters
    ----------
    folder : path
        Made if need be.
    evaluation : Evaluation
        Its clips are read once more, for their frames.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    page, numbers : Path
    """
    from sysbags.report.page import pictures

    clips, root = evaluation.clips, Path(folder)
    shown = sorted({k for mean in evaluation.atlas for k in mean.members[:NEAREST]})
    drawn = dict(zip(shown, pictures([clips[k] for k in shown], n_jobs=n_jobs), strict=True))
    weights = f"lambda_a = {evaluation.relations.lambda_a:g}, lambda_mu = {evaluation.relations.lambda_mu:g}"
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Atlas of {_text(evaluation.title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<h1>Atlas of {_text(evaluation.title)}</h1>\n<p>The Frechet mean of each class in the alignment "
        f"distance, {weights}: the clips nearest to it, each with its squared distance; its mean histogram; "
        f"and the bins that vary most in a typical course of it, time from left to right.</p>\n"
        f"{''.join(_section(mean, clips, drawn) for mean in evaluation.atlas)}</body></html>\n"
    )
    numbers = {
        "title": evaluation.title,
        "lambda_a": evaluation.relations.lambda_a,
        "lambda_mu": evaluation.relations.lambda_mu,
        "classes": [_numbers(mean, clips) for mean in evaluation.atlas],
    }
    paths = root / "atlas.html", root / "atlas.json"
    for path, text in zip(paths, (page, json.dumps(numbers, allow_nan=False)), strict=True):
        with atomic_write(path) as temporary:
            temporary.write_bytes(text.encode("utf-8", "replace"))
    return paths


def _section(mean: ClassMean, clips: Sequence[Clip], drawn: dict[int, bytes]) -> str:
    near = "".join(
        f'<figure><img alt="" src="data:image/jpeg;base64,{base64.b64encode(drawn[k]).decode()}">'
        f"<figcaption>{_text(clips[k].name)}<br>{distance:.3g}</figcaption></figure>"
        for k, distance in zip(mean.members[:NEAREST], mean.distances, strict=False)
    )
    turns = "; ".join(_mode(value) for value in mean.eigenvalues if value.imag >= 0.0)
    return (
        f"<section><h2>{_text(mean.label)}</h2>\n<p>{len(mean.members)} clips. Modes: {turns}.</p>\n"
        f'<div class="clips">{near}</div>\n'
        f"<figure>{_bars(mean.histogram)}<figcaption>mean histogram, {len(mean.histogram)} bins</figcaption>"
        f'</figure>\n<figure><img class="course" alt="" src="data:image/png;base64,'
        f'{base64.b64encode(_course(mean.dynamics)).decode()}"><figcaption>course of the bins that vary '
        f"most, {len(mean.dynamics)} frames; white is above the average, black below it</figcaption></figure>"
        "</section>\n"
    )


def _mode(value: complex) -> str:
    """An eigenvalue as people read it: what is left of it after a frame, and how long it takes to turn."""
    angle = float(np.angle(value))
    turn = f", a turn in {2.0 * np.pi / angle:.1f} frames" if angle > 0.0 else ""
    return f"{abs(value):.3f} a frame{turn}"


def _bars(values: Array) -> str:
    top = float(values.max()) or 1.0
    path = "".join(f"M{k} 1h1V{1.0 - value / top:.4f}h-1z" for k, value in enumerate(values))
    return f'<svg viewBox="0 0 {len(values)} 1" preserveAspectRatio="none"><path d="{path}"/></svg>'


def _course(dynamics: Array) -> bytes:
    """A PNG with a row for each of the bins that vary most, grey where a bin has its average."""
    import cv2

    chosen = np.sort(np.argsort(-dynamics.std(axis=0), kind="stable")[:VARYING])
    swing = (dynamics - dynamics.mean(axis=0))[:, chosen].T
    largest = float(np.abs(swing).max()) or 1.0
    # By the root, as a few bins swing much more than the others.
    picture = np.rint(127.5 + 127.5 * np.sign(swing) * np.sqrt(np.abs(swing) / largest)).astype(np.uint8)
    return bytes(cv2.imencode(".png", picture)[1])


def _numbers(mean: ClassMean, clips: Sequence[Clip]) -> dict[str, Any]:
    return {
        "class": mean.label,
        "members": [
            {"clip": clips[k].name, "distance": distance}
            for k, distance in zip(mean.members, mean.distances, strict=True)
        ],
        "eigenvalues": [[value.real, value.imag] for value in mean.eigenvalues.tolist()],
        "histogram": _short(mean.histogram),
        "dynamics": [_short(row) for row in mean.dynamics],
    }


def _short(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _text(value: object) -> str:
    return html.escape(str(value))
