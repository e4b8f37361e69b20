"""What the experiments share: options, outcome, and the account of what was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sysbags._common import __version__
from sysbags._common.cache import Cache
from sysbags._common.parallel import check_jobs
from sysbags._common.types import IntArray
from sysbags.classifiers.identifier import ClipSystems
from sysbags.datasets.layouts import LayoutClips
from sysbags.errors import FileError
from sysbags.evaluate.results import Clip, Evaluation
from sysbags.evaluate.splits import EvaluationSet, describe
from sysbags.reproduce import published

KERNEL = "chi2"
ROWS = {  # what the paper's tables call each metric
    "martin": "SoB + Martin",
    "max-singular-value": "SoB + Max SV",
    "alignment": "SoB + Align",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the paper leaves open, or what departs from it."""

    cache: Cache
    # For reading, see `sysbags.video.frames`; the paper states none, so all frames as they are.
    frames: Mapping[str, Any] = field(default_factory=dict)
    words: int = 500  # of the codebook; 500 in the paper
    random_state: int = 0
    n_jobs: int = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What an experiment found."""

    # `settings["paper"]` of a method is the paper's figure in per cent; no accuracy counts the failures.
    evaluation: Evaluation
    # Seconds without features, each (ours, the paper's): "pair", and in all for each classifier.
    runtimes: Mapping[str, tuple[float, float]]
    departures: list[str]  # what is not as in the paper
    details: Mapping[str, Any] = field(default_factory=dict)  # what else there is, for JSON


def evaluation_set(
    layout: LayoutClips, clips: ClipSystems, options: Options, codebook_folds: IntArray | None = None
) -> EvaluationSet:
    """Return the clips that can be used, each left out alone; there must be two classes of them."""
    labels = [layout.labels[k] for k in clips.indices]
    if len(set(labels)) < 2:
        first = next(iter(clips.failures.values()))
        raise FileError(
            f"fewer than two classes have a clip that can be used, but there must be two: {first}"
        )
    groups = np.arange(len(labels))
    return EvaluationSet(
        clips=tuple(
            Clip(f"{label}/{path.name}", path, label) for label, path in zip(labels, clips.paths, strict=True)
        ),
        groups=groups,
        codebook_folds=codebook_folds,
        protocol=describe("leave-one-out", groups),
        random_state=options.random_state,
        n_jobs=options.n_jobs,
    )


def departures(
    layout: LayoutClips, clips: ClipSystems, options: Options, words: int | None = None
) -> list[str]:
    """Return what is not as in the paper, in words; `words` is the paper's number of them."""
    listed = list(layout.differences)
    listed += [f"frames were read with {name} = {value}" for name, value in options.frames.items()]
    if words not in (None, options.words):
        listed.append(f"there are {options.words} words, not {words}")
    if clips.failures:
        count = "1 clip is" if len(clips.failures) == 1 else f"{len(clips.failures)} clips are"
        listed.append(f"{count} left out, as no system can be made of a clip that is short, still or broken")
    return listed


def facts(options: Options, bag: str, order: int, listed: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return lines for people about an experiment."""
    return {
        "departures from the paper": "; ".join(listed) or "none",
        "bag": bag,
        "order": order,
        "kernel": KERNEL,
        "threads": check_jobs(options.n_jobs),
        "random_state": options.random_state,
        "sysbags": __version__,
        **more,
        "published figures": published.figures()["paper"],
    }
