"""A small folder of class folders, and the command line as tests call it."""

from __future__ import annotations

import json

import numpy as np

from clips import moving_frames, write_clip
from schemas import check_output
from sysbags.cli import main

FRAMES, HEIGHT, WIDTH = 16, 96, 128  # smaller pictures have too few keypoints


def flicker(seed, count=FRAMES):
    """Noise that changes slowly: as unlike waves as can be."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(128.0, 60.0, (count, HEIGHT, WIDTH))
    for t in range(1, count):
        noise[t] = 0.7 * noise[t - 1] + 0.3 * noise[t]
    return np.clip(noise, 0.0, 255.0).astype(np.uint8)


def waves(seed, count=FRAMES):
    return moving_frames(count, HEIGHT, WIDTH, seed=seed)


def make_classes(root, per_class=3, suffix=".mp4"):
    for name, frames in (("flicker", flicker), ("waves", waves)):
        (root / name).mkdir(parents=True)
        for k in range(per_class):
            write_clip(root / name / f"{k}{suffix}", frames(k))
    return root


def call(capsys, *argv):
    """The exit code, the output and the complaints of a command; JSON must be as its schema says."""
    capsys.readouterr()
    words = [str(word) for word in argv]
    code = main(words)
    captured = capsys.readouterr()
    check_output(words, captured.out)
    return code, captured.out, captured.err


def call_json(capsys, *argv, code=0):
    """The one JSON document that a command prints."""
    exit_code, out, err = call(capsys, *argv, "--json")
    assert exit_code == code, err
    return json.loads(out)
