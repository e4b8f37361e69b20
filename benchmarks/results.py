"""The tables of docs/results.md: every metric, both normal forms and the rivals on real data.

`python -m benchmarks.results SET DATA [--cache DIR] [--only RUN ...]`, where SET is one of

* traffic: the folder of the UCSD highway traffic database, with its four official trials in index.csv;
* gait-speed: a folder of walks with labels and persons (sources) in index.csv; the central 80 frames;
* esc-10: an .npz file of mel spectra (log_mel_power, label, fold);
* wild-scenes: a folder with one folder of clips per class, and sources in index.csv.

Settings are chosen inside the training sets, by nested selection.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.machine import command_parser, facts
from sysbags import video
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.bags import ColourHistogram, DeepActivations, LocalBinaryPatterns, OpticalFlow
from sysbags.datasets import class_folders
from sysbags.evaluate import Evaluation, Protocol, evaluate
from sysbags.evaluate.results import Method

Runs = Iterator[tuple[str, Callable[[], Evaluation]]]
CENTRAL_FRAMES = 80  # of a walk; the length of a clip alone tells the speed


def traffic(folder: Path, options: dict[str, Any]) -> Runs:
    """Four official trials; the first frame of every clip is damaged."""
    clips, frames = class_folders(folder), {"start": 1}
    bags = {"LBP": LocalBinaryPatterns(frames=frames), "flow": OpticalFlow(frames=frames)}
    options |= {"protocol": Protocol(trials=clips.trials)}
    compare = {"LBPTOP": frames, "LinearSystem": frames}
    yield from _runs(clips.paths, clips.labels, None, bags, compare, options)


def gait_speed(folder: Path, options: dict[str, Any]) -> Runs:
    """One person left out at a time; the central frames are written as folders of images."""
    clips = class_folders(folder)
    with tempfile.TemporaryDirectory() as name:

        def cut(path: Path) -> Path:
            frames = list(video.frames(path))
            start = max(0, (len(frames) - CENTRAL_FRAMES) // 2)
            target = Path(name, path.stem)
            target.mkdir()
            for k, frame in enumerate(frames[start : start + CENTRAL_FRAMES]):
                cv2.imwrite(str(target / f"{k:03d}.png"), frame)
            return target

        paths = run(cut, clips.paths, -1, "central frames")
        bags = {"LBP": LocalBinaryPatterns(), "flow": OpticalFlow()}
        yield from _runs(paths, clips.labels, clips.sources, bags, ["LBPTOP", "LinearSystem"], options)


def esc_10(file: Path, options: dict[str, Any]) -> Runs:
    """Five official folds; a frame is the fourth root of its mel powers, divided by their sum."""
    streams, labels, folds = mel_streams(file)
    yield "mel spectra", lambda: evaluate(streams, labels, folds, compare=True, **options)


def mel_streams(file: Path) -> tuple[list[Array], Any, Any]:
    """Return the streams of a file of mel spectra, their labels and folds."""
    arrays = np.load(file, allow_pickle=False)
    roots = 10.0 ** (arrays["log_mel_power"].astype(float) / 4.0)
    return list(roots / roots.sum(axis=2, keepdims=True)), arrays["label"], arrays["fold"]


def wild_scenes(folder: Path, options: dict[str, Any]) -> Runs:
    """One source left out at a time."""
    clips = class_folders(folder)
    # `sysbags evaluate FOLDER --compare` has all published methods; some take an hour.
    yield "LBP", lambda: evaluate(clips.paths, clips.labels, clips.sources, compare=["LBPTOP"], **options)
    frames = {"stride": 12, "max_frames": 21}
    deep: dict[str, Any] = {"size": 256, "keep_aspect": True, "frames": frames}
    bags = {
        "deep": DeepActivations(**deep),
        "deep word": DeepActivations("efficientnet-lite0-words", **deep),
        "colour": ColourHistogram(frames=frames),
    }
    yield (
        "deep + deep word + colour",
        lambda: evaluate(clips.paths, clips.labels, clips.sources, bags=bags, compare=(), **options),
    )


def _runs(
    paths: list[Path],
    labels: list[str],
    sources: list[str] | None,
    bags: dict[str, Any],
    compare: Sequence[str] | Mapping[str, dict[str, int]],
    options: dict[str, Any],
) -> Runs:
    """Each bag alone, with published methods beside the first, and all together."""
    for k, (name, bag) in enumerate(bags.items()):
        rivals: Any = compare if k == 0 else ()
        yield (
            name,
            lambda name=name, bag=bag, rivals=rivals: evaluate(  # type: ignore[misc]
                paths, labels, sources, bags={name: bag}, compare=rivals, **options
            ),
        )
    yield (
        " + ".join(bags),
        lambda: evaluate(paths, labels, sources, bags=bags, compare=(), methods=["kernel-ridge"], **options),
    )


SETS = {"traffic": traffic, "gait-speed": gait_speed, "esc-10": esc_10, "wild-scenes": wild_scenes}


def table(outcome: Evaluation) -> list[str]:
    """All methods of an evaluation, and the settings that were chosen for those of systems.

    Of an evaluation of several bags, the methods that use all of them: the others are in tables of one bag.
    """
    lines = [
        "| method | classifier | accuracy | 95 % interval | McNemar p |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    several = " + " in outcome.methods[outcome.main].name
    for k, method in enumerate(outcome.methods):
        if several and " + " not in method.name:
            continue
        share = f"{100 * method.rate.share:.1f} %"
        p = method.p_value
        cells = (
            method.name,
            method.classifier,
            f"**{share}**" if k == outcome.main else share,
            f"{100 * method.rate.low:.1f} to {100 * method.rate.high:.1f}",
            "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [text for method in outcome.methods for text in _chosen(method)]
    return lines


def _chosen(method: Method) -> list[str]:
    """What nested selection chose for the rows that choose among metrics."""
    metric = method.settings.get("metric")
    if method.kind != "systems" or "," in method.name or metric is None:
        return []
    values = (
        f"{name} {', '.join(f'{v} ({n})' for v, n in value.items()) if isinstance(value, dict) else value}"
        for name, value in method.settings.items()
        if name in ("metric", "normal form", "ridge", "width") or name.startswith("weight of")
    )
    return ["", f"Chosen for {method.name}, {method.classifier}: {'; '.join(values)}."]


def main() -> None:
    """Print the tables as Markdown."""
    parser = command_parser("python -m benchmarks.results", __doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".sysbags-cache"))
    parser.add_argument("--only", nargs="+", metavar="RUN")
    arguments = parser.parse_args()
    options: dict[str, Any] = {"cache": arguments.cache, "n_jobs": -1, "title": arguments.set}
    for name, evaluated in SETS[arguments.set](arguments.data, options):
        if arguments.only and name not in arguments.only:
            continue
        outcome = evaluated()
        command = f"python -m benchmarks.results {arguments.set} DATA --only '{name}'"
        print(f"#### {arguments.set}, {name}\n")
        print(f"{len(outcome.clips)} clips, {len(outcome.failures)} skipped; {outcome.protocol}.\n")
        print("\n".join(facts(command, ("numpy", "scikit-learn", "numba", "av"))), end="\n\n")
        print("\n".join(table(outcome)), end="\n\n")
        seconds = sum(outcome.seconds.values())
        print(f"Everything took {seconds:.0f} s, except for what was read from the cache.\n", flush=True)


if __name__ == "__main__":
    main()
