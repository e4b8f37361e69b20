"""Miniatures of the paper's data sets, made from generated clips, and the experiments on them."""

from __future__ import annotations

from dataclasses import replace

from clips import write_clip
from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags.datasets import TEXTURES, make_frames
from sysbags.datasets.layouts import LAYOUTS
from sysbags.reproduce import Options

FRAMES, HEIGHT, WIDTH = 16, 48, 64
WORDS = 30


def miniature(root, name, per_class, classes=None, textures=tuple(TEXTURES)):
    """A small layout of the same classes, and its clips on disk."""
    layout = LAYOUTS[name]
    labels = list(layout.counts)[:classes]
    small = replace(layout, counts=dict.fromkeys(labels, per_class))
    suffixes = (".avi", ".mov", ".mp4", ".mkv")
    for c, label in enumerate(labels):
        (root / label).mkdir(parents=True)
        for k in range(per_class):
            frames = make_frames(textures[c % len(textures)], FRAMES, HEIGHT, WIDTH, 100 * c + k)
            write_clip(root / label / f"{k}{suffixes[k % 4]}", frames)
    return small, small.find(root)


def run(experiment, clips, cache, **more):
    return experiment(clips, Options(cache=Cache(cache), words=WORDS, n_jobs=1, **more), Stages())


def findings(outcome):
    """All that an experiment found but times: what must be the same bit for bit."""
    evaluation = outcome.evaluation
    return {
        "predictions": [method.predictions for method in evaluation.methods],
        "rates": [method.rate for method in evaluation.methods],
        "curves": evaluation.details.curves,
        "systems": [(s.transition.tobytes(), s.alpha.tobytes()) for s in evaluation.details.systems],
        "distances": evaluation.details.relations.distances.tobytes(),
        "plane": evaluation.details.relations.plane.tobytes(),
        "parts": evaluation.details.relations.neighbour_parts.tobytes(),
        "atlas": [(page.members, page.dynamics.tobytes()) for page in evaluation.details.atlas],
        "grid": outcome.details.get("grid"),
    }
