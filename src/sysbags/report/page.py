"""The report of an evaluation: one HTML file that needs no other file and makes no request."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.errors import ParameterError, VideoWarning
from sysbags.evaluate.results import ClassMean, Clip, Evaluation, Method
from sysbags.report.templates import SPACE, p_value, percent, render, static, write_page
from sysbags.systems.system import System
from sysbags.video import Frame, frames

SCRIPTS = (
    "base.js",
    "charts.js",
    "confidence.js",
    "tables.js",
    "map.js",
    "clip.js",
    "atlas.js",
)  # in this order
COLUMNS = (  # of the table of methods, and how the script sorts them
    ("Method", "text"),
    ("Classifier", "text"),
    ("Accuracy", "falling"),
    ("95 % interval, from 0 to 100 %", ""),
    ("p", "rising"),
    ("Seconds", "rising"),
)
KINDS = {  # of methods, and what the best of each is called in the summary
    "averages": "Averages over time alone",
    "systems": "Best other method on systems",
    "comparator": "Best comparator",
}
DEPARTURES = "departures from the paper"  # a line of the settings that belongs under the title
FRAMES = 64  # at most in memory, of which the middle one becomes the picture
JPEG_QUALITY = 72
HEIGHT = 120  # of the pictures, in pixels; the proportions are kept
# Of the data for the script:
STATES = 3  # of a system that are drawn
STEPS = 600  # of them at most
BARS = 256  # of a histogram: in longer ones, neighbouring bins are added
BINS = 24  # of the dynamics: those that vary most
NEAREST = 6  # clips nearest to the mean of a class
LEVELS = 127  # enough for a drawing of a hundred pixels


def page(evaluation: Evaluation, pictures: Sequence[bytes]) -> str:
    """Return the report as the text of an HTML file that holds everything it shows.

    The summary, the table of methods and the runtimes are plain HTML. A script draws the rest from the
    numbers of `compact`. The page's content security policy allows no request and no other script.

    `pictures` are a JPEG of each clip, see the function of this name.
    """
    if len(pictures) != len(evaluation.clips):
        raise ParameterError(
            f"{len(pictures)} pictures, but there must be {len(evaluation.clips)}, one for each clip"
        )
    script = Markup("").join(static(name) for name in SCRIPTS)
    content = compact(evaluation) | {"pictures": [base64.b64encode(jpeg).decode() for jpeg in pictures]}
    departures = str(evaluation.facts.get(DEPARTURES, "none"))
    return render(
        "page.html",
        evaluation=evaluation,
        main=evaluation.methods[evaluation.main],
        departures="" if departures == "none" else departures,
        confidence=evaluation.confidence_summary,
        tiles=_tiles(evaluation),
        columns=COLUMNS,
        longest=max(evaluation.seconds.values(), default=0.0) or 1.0,
        style=static("style.css"),
        data=_json(content),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def pictures(
    clips: Sequence[Clip], streams: Sequence[Array] | None = None, *, n_jobs: int | None = None
) -> list[bytes]:
    """Return a small JPEG of each clip: a frame from its middle, or its stream where there is no file.

    In the picture of a stream time runs to the right, and large entries are dark.
    """
    with warnings.catch_warnings():
        # These clips were read for the evaluation, which has warned of those that break off.
        warnings.simplefilter("ignore", VideoWarning)
        known: Sequence[Array | None] = streams or [None] * len(clips)
        pairs = list(zip(clips, known, strict=True))
        return run(lambda pair: _picture(*pair), pairs, n_jobs, "pictures")


def write_report(path: str | os.PathLike[str], evaluation: Evaluation, *, n_jobs: int | None = None) -> None:
    """Write the report of an evaluation, whose clips are read once more, for a picture of each."""
    streams = [system.samples for system in evaluation.details.systems]
    write_page(path, page(evaluation, pictures(evaluation.clips, streams, n_jobs=n_jobs)))


def compact(evaluation: Evaluation) -> dict[str, Any]:
    """Return the data for the script of the report, ready for JSON: no NaN, classes as numbers."""
    code = {name: k for k, name in enumerate(evaluation.classes)}
    relations, confidence = evaluation.details.relations, evaluation.confidence_summary
    return {
        "classes": list(evaluation.classes),
        "clips": [{"name": clip.name, "source": clip.source} for clip in evaluation.clips],
        "truth": [code[clip.label] for clip in evaluation.clips],
        "methods": [f"{method.name}, {method.classifier}" for method in evaluation.methods],
        "main": evaluation.main,
        "predictions": [[code[name] for name in method.predictions] for method in evaluation.methods],
        "curves": [
            {
                "weight": curve.weight,
                "classifier": curve.classifier,
                "values": numbers(curve.values),
                "accuracies": numbers(curve.accuracies, 4),
                "fixed": curve.fixed,
            }
            for curve in evaluation.details.curves
        ],
        "reliability": None if confidence is None else confidence["reliability"],
        "lambda_a": relations.lambda_a,
        "lambda_mu": relations.lambda_mu,
        "plane": numbers(relations.plane, 4),
        "neighbours": relations.neighbours.tolist(),
        "neighbour_parts": numbers(relations.neighbour_parts),
        "explanations": [_explanations(method, evaluation.classes) for method in evaluation.methods],
        "systems": [_system(system) for system in evaluation.details.systems],
        "atlas": [{"code": code[mean.label]} | _mean(mean) for mean in evaluation.details.atlas],
    }


def numbers(values: npt.ArrayLike, digits: int = 3) -> Any:
    """Return nested lists of numbers with few significant digits, None for those that are not finite.

    >>> numbers([[0.123456, float("nan")], [1234.5, -0.0]])
    [[0.123, None], [1230.0, 0]]
    """
    array = np.asarray(values)
    if array.ndim:
        return [numbers(part, digits) for part in array]
    if not np.isfinite(array):
        return None
    return float(f"{array:.{digits}g}") or 0


def quantised(values: Array) -> dict[str, Any]:
    """Return an array as signed bytes in base64, and the factor to multiply them with."""
    largest = float(np.abs(values).max(initial=0.0))
    levels = np.rint(values * (LEVELS / largest if largest else 0.0)).astype(np.int8)
    return {"scale": numbers(largest / LEVELS), "bytes": base64.b64encode(levels.tobytes()).decode()}


def _plane(values: npt.NDArray[np.complex128]) -> list[list[float]]:
    return [[round(value.real, 3), round(value.imag, 3)] for value in values.tolist()]


def _explanations(method: Method, classes: Sequence[str]) -> dict[str, Any] | None:
    """Return the distances, scores and probabilities of each class for each clip, and parts of a distance.

    A clip whose class the smallest distance decides has no scores.
    """
    found = method.explanations
    if found is None:
        return None
    parts = list(dict.fromkeys(name for one in found for name in one.parts))
    likely = [one.probabilities for one in found]
    return {
        "distances": numbers([[one.distances.get(name, np.nan) for name in classes] for one in found]),
        "probabilities": None
        if None in likely
        else numbers([[(one or {}).get(name, 0.0) for name in classes] for one in likely]),
        "scores": [
            None if one.scores is None else numbers([one.scores.get(name, np.nan) for name in classes], 4)
            for one in found
        ],
        "names": parts,
        "parts": numbers([[one.parts.get(name, 0.0) for name in parts] for one in found]),
    }


def _system(system: System) -> dict[str, Any]:
    result: dict[str, Any] = {"eigenvalues": _plane(np.linalg.eigvals(system.transition).astype(complex))}
    if system.states is not None:
        shown = system.states[:STEPS, :STATES]
        result |= {"steps": len(shown), "frames": len(system.states), "states": quantised(shown.T)}
    return result


def _mean(mean: ClassMean) -> dict[str, Any]:
    bins = len(mean.histogram)
    bars = min(bins, BARS)
    varying = np.sort(np.argsort(-mean.dynamics.std(axis=0), kind="stable")[:BINS])
    course = mean.dynamics[:, varying]
    return {
        "nearest": list(mean.members[:NEAREST]),
        "distances": numbers(mean.distances[:NEAREST]),
        "size": len(mean.members),
        "eigenvalues": _plane(mean.eigenvalues),
        "length": bins,
        "histogram": quantised(np.add.reduceat(mean.histogram, np.arange(bars) * bins // bars)),
        "bins": varying.tolist(),
        "steps": len(course),
        "dynamics": quantised((course - course.mean(axis=0)).T),
    }


def _tiles(evaluation: Evaluation) -> list[tuple[str, str, str, str]]:
    """Return what the summary compares the main method with, the best of each other kind.

    A tile has a title, an accuracy, the name of a method and a note.
    """
    main = evaluation.methods[evaluation.main]
    tiles = []
    for kind, title in KINDS.items():
        others = [m for k, m in enumerate(evaluation.methods) if m.kind == kind and k != evaluation.main]
        if not others:
            continue
        best = max(others, key=lambda method: method.rate.share)
        points = 100 * (best.rate.share - main.rate.share)
        note = f"{abs(points):.1f} points {'above' if points > 0 else 'below'}" if points else "same accuracy"
        if best.p_value is not None:
            note += f", p{SPACE}{p_value(best.p_value, f'={SPACE}')}"
        tiles.append((title, percent(best.rate.share), f"{best.name}, {best.classifier}", note))
    if evaluation.published:
        figure = max(evaluation.published, key=lambda published: published.rate)
        method = f"{figure.name}, {figure.classifier}"
        tiles.append(("Best published", f"{figure.rate:.1f} %", method, f"source: {figure.source}"))
    return tiles


def _json(content: Any) -> Markup:
    """JSON for the inside of a script element, which no name of a clip or a class can close."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _picture(clip: Clip, stream: Array | None) -> bytes:
    import cv2

    if clip.path is None:
        assert stream is not None
        shade = 255.0 * (1.0 - stream.T / max(float(stream.max()), 1e-300)).clip(0.0, 1.0)
        frame, width = shade.astype(np.uint8)[..., None].repeat(3, axis=-1), HEIGHT * 4 // 3
    else:
        frame = _middle(clip.path)
        width = max(1, round(frame.shape[1] * HEIGHT / frame.shape[0]))
    small = cv2.resize(frame, (width, HEIGHT), interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", small[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()


def _middle(path: Path) -> Frame:
    """Return the frame in the middle, up to a 32nd of the length.

    The length is known only at the end, so frames at equal intervals are stored on the way.
    """
    stored: list[Frame] = []
    stride = 1
    for time, frame in enumerate(frames(path, colour="rgb", size=HEIGHT)):
        if time % stride == 0:
            stored.append(frame)
            if len(stored) > FRAMES:
                stored, stride = stored[::2], 2 * stride
    return stored[len(stored) // 2]
