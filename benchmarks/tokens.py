"""Ways to make streams of the tokens of a network: histograms against kernels on the raw tokens.

`python -m benchmarks.tokens FOLDER [--cache DIR] [--network NAME]`, for a folder with one folder per class
and sources in index.csv, one of which is left out at a time. Kernel ridge with its default metric; weights,
ridge and width are chosen inside the training sets. Which row is best is seen on the test sets: do not take
it for a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import command_parser, facts
from sysbags import video
from sysbags._common.cache import Cache
from sysbags.bags import DeepActivations, PatchWords
from sysbags.bags.networks import NetworkRunner, patch_features
from sysbags.bags.registry import PRESETS
from sysbags.bags.streams import clip_records, good
from sysbags.datasets.folder import class_folders
from sysbags.evaluate import Evaluation, Settings, evaluate

BATCH = 16


def main() -> None:
    """Print the table as Markdown."""
    parser = command_parser("python -m benchmarks.tokens", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".sysbags-cache"))
    parser.add_argument("--network", default=PRESETS["best"].network())
    arguments = parser.parse_args()
    clips = class_folders(arguments.folder)
    frames = {"stride": PRESETS["best"].network_stride}
    runner = NetworkRunner(arguments.network)

    def raw(path: Path) -> dict[str, Any]:
        pictures = list(video.frames(path, colour="rgb", size=runner.size, **frames))  # type: ignore[arg-type]
        rows = []
        for start in range(0, len(pictures), BATCH):
            (tokens,) = runner(pictures[start : start + BATCH]).values()
            patches = patch_features(tokens, runner.output).mean(axis=(1, 2))
            rows.append(np.stack([tokens[:, 0] if runner.output == "tokens" else patches, patches]))
        return {"vector": np.concatenate(rows, axis=1).astype(np.float64)}

    key = {"raw tokens": arguments.network, "frames": frames}
    outcomes = clip_records(Cache(arguments.cache), "vector", key, raw, clips.paths, -1)
    streams = [good(outcome)["vector"] for outcome in outcomes]
    settings = Settings(metric="normalized-covariance")
    options: dict[str, Any] = {
        "methods": ["kernel-ridge"],
        "cache": arguments.cache,
        "n_jobs": -1,
    }
    bags: dict[str, Any] = {
        "class": DeepActivations(arguments.network, frames=frames),
        "patches": DeepActivations(arguments.network, tokens="patches", frames=frames),
        "words": PatchWords(model=arguments.network, frames=frames),
    }

    def of_streams(place: int) -> Evaluation:
        some = [stream[place] for stream in streams]
        return evaluate(
            some, clips.labels, clips.sources, settings=replace(settings, kernel="linear"), **options
        )

    def of_bags(*names: str) -> Evaluation:
        chosen = {name: bags[name] for name in names}
        return evaluate(clips.paths, clips.labels, clips.sources, bags=chosen, settings=settings, **options)

    print("\n".join(facts("python -m benchmarks.tokens FOLDER", ("numpy", "onnxruntime"))), end="\n\n")
    print("| stream | kernel | accuracy | 95 % interval |\n| --- | --- | ---: | ---: |", flush=True)
    rows: list[tuple[str, str, Callable[[], Evaluation]]] = [
        ("class token, raw", "linear", lambda: of_streams(0)),
        ("average of the patch tokens, raw", "linear", lambda: of_streams(1)),
        ("class token, two halves", "chi2", lambda: of_bags("class")),
        ("average of the patch tokens, two halves", "chi2", lambda: of_bags("patches")),
        ("average of the patch tokens + class token", "chi2", lambda: of_bags("patches", "class")),
        ("512 words of patch tokens", "chi2", lambda: of_bags("words")),
        ("words + class token", "chi2", lambda: of_bags("words", "class")),
    ]
    for title, kernel, evaluated in rows:
        rate = evaluated().methods[0].rate
        interval = f"{100 * rate.low:.1f} to {100 * rate.high:.1f}"
        print(f"| {title} | {kernel} | {100 * rate.share:.1f} % | {interval} |", flush=True)


if __name__ == "__main__":
    main()
