"""How long a saved model takes for a clip, and how large its file is.

`python -m benchmarks.deployment [FOLDER]`: models are fitted to generated clips, or to those of a folder with
one folder per class; the first clip of each class is predicted. A ratio compares both times in one run.

* LBP model: prediction of a clip against decoding it (grey frames, nothing else).
* preset best: prediction of a clip per second of video of 25 frames, with the network that is found.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import sysbags
from benchmarks.machine import command_parser, facts
from benchmarks.video import best_seconds
from sysbags import video
from sysbags.bags.registry import PRESETS, preset_bags
from sysbags.datasets import class_folders, make_clips
from sysbags.evaluate import Settings, train

REPEATS = 5
TEXTURES = ("fire", "grass", "rain", "waves")
PER_CLASS = 8
SETTINGS = Settings(metric="normalized-covariance")


def fitted(paths: list[Path], labels: list[str], bags: Any, folder: Path) -> tuple[Pipeline, int]:
    """A model as `sysbags fit --classifier kernel-ridge` saves it, read again, and the size of its file."""
    trained = train(paths, labels, classifier="kernel-ridge", bags=bags, settings=SETTINGS, n_jobs=-1)
    path = folder / "benchmark.model"
    sysbags.save(path, trained.pipeline)
    return sysbags.load(path).set_params(classify__n_jobs=-1), path.stat().st_size


def main() -> None:
    """Print the table as Markdown."""
    parser = command_parser("python -m benchmarks.deployment", __doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.folder is None:
            paths, labels = make_clips(
                folder / "clips", PER_CLASS, frames=250, height=240, width=320, textures=list(TEXTURES)
            )
        else:
            clips = class_folders(arguments.folder)
            places = [k for k, label in enumerate(clips.labels) if clips.labels[:k].count(label) < PER_CLASS]
            paths, labels = [clips.paths[k] for k in places], [clips.labels[k] for k in places]
        first = [paths[k] for k in np.unique(labels, return_index=True)[1]]
        command = f"python -m benchmarks.deployment{' FOLDER' if arguments.folder else ''}"
        print("\n".join(facts(command, ("numpy", "numba", "av", "onnxruntime"))), end="\n\n")
        print("| model | clips | file, MB | prediction, s per clip | decoding, s per clip | ratio |", end="")
        print(
            " s per second of 25-frame video |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True
        )
        frames = sum(sum(1 for _ in video.frames(path)) for path in first) / len(first)
        for title, bags in (
            ("LBP", "lbp"),
            ("preset fast", preset_bags("fast")),
            (f"preset best, {PRESETS['best'].network()}", preset_bags("best")),
        ):
            model, size = fitted(paths, labels, bags, folder)
            predict, decode = best_seconds(
                [
                    lambda model=model: [model.predict([path]) for path in first],  # type: ignore[misc]
                    lambda: [sum(1 for _ in video.frames(path)) for path in first],
                ],
                time.perf_counter,
                REPEATS,
            )
            cells = (
                title,
                str(len(paths)),
                f"{size / 1e6:.2f}",
                f"{predict / len(first):.3f}",
                f"{decode / len(first):.3f}",
                f"{predict / decode:.2f}",
                f"{25.0 * predict / len(first) / frames:.3f}",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
