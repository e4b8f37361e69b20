"""The report of the demonstration: one HTML page that needs no other file and no script."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import numpy as np

from sysbags._common import __version__
from sysbags._common.types import Array
from sysbags.datasets.generated import RATE
from sysbags.distances.pairwise import classical_scaling
from sysbags.evaluate.demo import Outcome
from sysbags.report.templates import COLOURS, render, static
from sysbags.video import frames

MARKS = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    "M-4.5 -4.5h9v9h-9z",
    "M0 -6l5.5 10h-11z",
    "M0 -6l6 6l-6 6l-6 -6z",
)
SHOTS, STRIDE = 16, 2  # frames of a film, and the distance between them in the clip
WIDTH, MARGIN = 600.0, 10.0  # of the map, in pixels
PATHS = ("wheel", "rain")  # classes; the path of the first clip of each is drawn


def page(outcome: Outcome) -> str:
    """Return the report of the demonstration as the text of an HTML file."""
    settings, classes = outcome.settings, outcome.model.classes_.tolist()
    heads, accuracies = outcome.table()
    examples = [outcome.clips[outcome.labels.index(name)] for name in outcome.new_labels]
    pairs = list(zip(outcome.new_labels, outcome.predictions, strict=True))
    distances, places = outcome.distances()
    positions = _positions(distances)
    model, fire, smoke, clips = (
        shlex.quote(os.fspath(path))
        for path in (
            settings.model,
            settings.out / "new/fire/00.mp4",
            settings.out / "clips/smoke/00.mp4",
            settings.out / "clips",
        )
    )
    commands = [
        f"sysbags classify {model} {fire}",
        f"sysbags inspect {model}",
        f"sysbags evaluate {clips} --report report.html",
        f"sysbags distance {fire} {smoke}",
    ]
    return render(
        "demo.html",
        style=static("plain.css") + static("demo.css"),
        count=len(outcome.clips),
        classes=classes,
        frames=settings.frames,
        compared=outcome.trained.settings["compared"],
        tried=outcome.trained.tried,
        heads=heads,
        accuracies=accuracies,
        shots=SHOTS,
        duration=SHOTS * STRIDE / RATE,
        examples=[(_strip(path), name) for path, name in zip(examples, outcome.new_labels, strict=True)],
        new_clips=[(_strip(path), *pair) for path, pair in zip(outcome.new_clips, pairs, strict=True)],
        correct=sum(label == predicted for label, predicted in pairs),
        confusion=outcome.confusion.tolist(),
        colours=COLOURS,
        marks=MARKS,
        map_height=positions[:, 1].max() + MARGIN,
        points=[
            (x, y, classes.index(outcome.labels[k]), f"{outcome.labels[k]}/{outcome.clips[k].name}")
            for (x, y), k in zip(positions.tolist(), places.tolist(), strict=True)
        ],
        paths=[(name, _lines(outcome.paths[name])) for name in PATHS],
        seconds=[(stage, f"{duration:.2f} s") for stage, duration in outcome.seconds.items()],
        settings=[
            ("clips per class", settings.per_class),
            ("frames per clip", settings.frames),
            ("random_state", settings.random_state),
            ("random_state of the new clips", settings.random_state + 1),
            ("sysbags", __version__),
        ],
        commands="\n".join(commands),
    )


def _strip(path: Path) -> bytes:
    """Return a JPEG of a clip's frames side by side."""
    import cv2

    shots = list(frames(path, colour="rgb", stride=STRIDE, max_frames=SHOTS))
    strip = np.concatenate(shots + shots[-1:] * (SHOTS - len(shots)), axis=1)
    return bytes(cv2.imencode(".jpg", strip[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 70])[1])


def _positions(distances: Array) -> Array:
    """Return the position of each clip on the map, in pixels from the upper left corner."""
    points = classical_scaling(distances) * [1.0, -1.0]
    points -= points.min(axis=0)
    points *= (WIDTH - 2.0 * MARGIN) / max(points.max(), 1e-12)
    # A map that is taller than wide is centered.
    corner = np.array([(WIDTH - points[:, 0].max()) / 2.0, MARGIN])
    return np.asarray(points + corner)


def _lines(path: Array) -> list[str]:
    """Return a path in the three directions in which it varies most, as the points of three lines."""
    states = np.linalg.svd(path - path.mean(axis=0), full_matrices=False)[0][:, :3]
    scaled = states / max(np.abs(states).max(), 1e-12)
    times = np.linspace(0.0, 600.0, len(scaled))
    return [
        " ".join(f"{time:.1f},{70 - 62 * value:.1f}" for time, value in zip(times, line, strict=True))
        for line in scaled.T
    ]
