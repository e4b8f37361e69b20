"""A grid search of 4 x 3 settings, with what its clones share in memory and without.

`python -m benchmarks.grid_search [--frames N]`: the demonstration's generated clips, 64 of eight textures, as
streams of local binary patterns; five folds, so that 61 models are fitted. Times are the processor's, on one
core.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import nullcontext
from typing import Any

from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks.machine import command_parser, facts
from sysbags import KernelRidgeClassifier, StreamClassifier, SystemIdentifier
from sysbags._common.memory import MEMORY
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import make_clips
from sysbags.evaluate.demo import Settings

COMPONENTS = (8, 16, 32, 64)
COMBINATIONS = ((("averages",),), (("averages", "covariances"),), (("averages", "normalized covariances"),))
SEARCHES: dict[str, tuple[Any, dict[str, Any]]] = {
    "SystemIdentifier(), KernelRidgeClassifier(), order x ridge": (
        make_pipeline(SystemIdentifier(), KernelRidgeClassifier()),
        {"systemidentifier__order": [2, 3, 5, 8], "kernelridgeclassifier__ridge": [1.0, 0.1, 0.01]},
    ),
    "SystemIdentifier(), KernelRidgeClassifier(), ridge x width": (
        make_pipeline(SystemIdentifier(), KernelRidgeClassifier()),
        {
            "kernelridgeclassifier__ridge": [1.0, 0.3, 0.1, 0.03],
            "kernelridgeclassifier__width": [None, 1.0, 0.3],
        },
    ),
    "StreamClassifier(), components x combinations": (
        StreamClassifier(),
        {"components": list(COMPONENTS), "combinations": list(COMBINATIONS)},
    ),
}


def seconds(
    model: Any, grid: dict[str, Any], streams: list[Any], labels: list[str], *, memory: bool
) -> tuple[float, Any]:
    """The time of a search, from an empty memory, and what it chooses."""
    MEMORY.clear()
    with nullcontext() if memory else MEMORY.off():
        started = time.process_time()
        search = GridSearchCV(model, grid, cv=5, error_score="raise").fit(streams, labels)
    return time.process_time() - started, (search.best_params_, search.best_score_)


def main() -> None:
    """Print the table as Markdown."""
    parser = command_parser("python -m benchmarks.grid_search", __doc__)
    parser.add_argument("--frames", type=int, default=Settings().frames)
    frames = parser.parse_args().frames
    with tempfile.TemporaryDirectory() as folder:
        clips, labels = make_clips(folder, Settings().per_class, frames)
        streams = LocalBinaryPatterns().fit_transform(clips)
    command = f"python -m benchmarks.grid_search --frames {frames}"
    print("\n".join(facts(command, ("numpy", "numba", "scikit-learn"))), end="\n\n")
    print("| search | without memory, s | with memory, s | ratio |\n| --- | ---: | ---: | ---: |", flush=True)
    with threadpool_limits(limits=1):
        for title, (model, grid) in SEARCHES.items():
            first = {name: values[:1] for name, values in grid.items()}
            seconds(model, first, streams, labels, memory=False)  # compiles
            (before, chosen), (after, same) = (
                seconds(model, grid, streams, labels, memory=memory) for memory in (False, True)
            )
            if chosen != same:
                raise AssertionError(f"{title}: {same} is chosen with the memory, but {chosen} without")
            print(f"| {title} | {before:.1f} | {after:.1f} | {before / after:.1f} |", flush=True)


if __name__ == "__main__":
    main()
