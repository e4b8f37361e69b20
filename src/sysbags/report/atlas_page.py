"""The class atlas on disk: a page for people and its numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.report.page import pictures
from sysbags.report.results import ClassMean, Clip, Evaluation
from sysbags.report.templates import render, static, write_page

__all__ = ["write_atlas"]

NEAREST = 6  # clips that stand for a class
VARYING = 32  # bins whose course is drawn


def write_atlas(
    folder: str | os.PathLike[str], evaluation: Evaluation, *, n_jobs: int | None = None
) -> tuple[Path, Path]:
    """Write the atlas of an evaluation: a page for people, ``atlas.html``, and its numbers, ``atlas.json``.

    For each class the page shows a frame of each of the clips nearest to its mean, the eigenvalues, the mean
    histogram, and the course of the bins that vary most. It needs no other file.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
    evaluation : Evaluation
        Its clips are read once more, for their frames.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    page, numbers : Path
    """
    clips, root = evaluation.clips, Path(folder)
    nearest = sorted({k for mean in evaluation.atlas for k in mean.members[:NEAREST]})
    streams = [evaluation.systems[k].samples for k in nearest]
    jpegs = dict(zip(nearest, pictures([clips[k] for k in nearest], streams, n_jobs=n_jobs), strict=True))
    settings = {
        "title": evaluation.title,
        "lambda_a": evaluation.relations.lambda_a,
        "lambda_mu": evaluation.relations.lambda_mu,
    }
    page = render(
        "atlas.html",
        **settings,
        style=static("plain.css") + static("atlas.css"),
        means=[_section(mean, clips, jpegs) for mean in evaluation.atlas],
    )
    numbers = settings | {"classes": [_numbers(mean, clips) for mean in evaluation.atlas]}
    paths = root / "atlas.html", root / "atlas.json"
    write_page(paths[0], page)
    write_page(paths[1], json.dumps(numbers, allow_nan=False))
    return paths


def _section(mean: ClassMean, clips: Sequence[Clip], jpegs: dict[int, bytes]) -> dict[str, Any]:
    nearest = zip(mean.members[:NEAREST], mean.distances, strict=False)
    return {
        "label": mean.label,
        "size": len(mean.members),
        "clips": [(clips[k].name, distance, jpegs[k]) for k, distance in nearest],
        "modes": [_mode(value) for value in mean.eigenvalues.tolist() if value.imag >= 0.0],
        "bins": len(mean.histogram),
        "bars": _bars(mean.histogram),
        "frames": len(mean.dynamics),
        "course": _course(mean.dynamics),
    }


def _mode(value: complex) -> tuple[str, str]:
    """Return the modulus of an eigenvalue, which is its decay per frame, and its period in frames."""
    angle = float(np.angle(value))
    return f"{abs(value):.3f}", f"{2.0 * np.pi / angle:.1f}" if angle > 0.0 else "–"


def _bars(values: Array) -> str:
    """Return the outline of bars, each one unit wide and at most one unit high."""
    top = float(values.max()) or 1.0
    return "".join(f"M{k} 1h1V{1.0 - value / top:.4f}h-1z" for k, value in enumerate(values))


def _course(dynamics: Array) -> bytes:
    """Return a PNG with one row for each of the bins that vary most, grey where a bin has its average."""
    import cv2

    varying = np.sort(np.argsort(-dynamics.std(axis=0), kind="stable")[:VARYING])
    swing = (dynamics - dynamics.mean(axis=0))[:, varying].T
    largest = float(np.abs(swing).max()) or 1.0
    # The root makes small changes visible: a few bins vary much more than the others.
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
