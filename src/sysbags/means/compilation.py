"""Compile kernels before they are needed: in a second process beside other work, or all of them at once.

Numba compiles one function at a time in a process, and keeps the result in a cache on disk.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sysbags.distances.gram import CrossGram


@contextmanager
def compiled_ahead(part: str) -> Iterator[None]:
    """Compile a part in a second process while the body runs, and wait for it at the end.

    The part "alignment" is that distance, "means" also has means, and "metrics" all the other distances too.
    Nothing is started where the cache holds the part already.
    """
    if _is_cached(part):
        yield
        return
    # Silent: where it fails, the same is compiled here. One process says that there is compilation.
    quiet = subprocess.DEVNULL
    # By its path, as importing the package takes longer than some parts need.
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, part], stdin=quiet, stdout=quiet, stderr=quiet
    )
    try:
        yield
        # What follows alignments in every use of them is compiled here instead of waiting.
        if process.poll() is None:
            _use_blocks()
        process.wait()
    finally:
        process.kill()


def compiled_for(metric: str) -> AbstractContextManager[None]:
    """Compile what distances of a metric need; only the alignment takes long."""
    return compiled_ahead("alignment") if metric == "alignment" else nullcontext()


def compile_everything(*others: Callable[[], object]) -> None:
    """Compile all kernels, half of them in a second process; `others` use those of packages above this."""
    with compiled_ahead("metrics"):
        _use_clips()
        for use in others:
            use()
    _use_metrics()
    _use_transitions()


def _is_cached(part: str) -> bool:
    """Whether the last function of a part is in the cache on disk, for whatever types."""
    from sysbags._numba.alignment import align_many
    from sysbags._numba.mean import mean_descent
    from sysbags._numba.stein import stein_rows

    function = {"alignment": align_many, "means": mean_descent, "metrics": stein_rows}[part]
    folder = Path(function.stats.cache_path)  # type: ignore[attr-defined]
    return any(folder.glob(f"*.{function.__name__}-*.nbi"))


def _use_alignment() -> None:
    """Align the smallest systems there are."""
    from sysbags.distances.alignment import align_blocks

    align_blocks(0.2 * np.eye(2), 0.5 * np.eye(2), np.eye(2))


def _use_transitions() -> None:
    """Align without observers, as dynamical similarity analysis does."""
    from sysbags.distances.alignment import align_blocks

    align_blocks(np.diag([0.2, 0.3]), np.diag([0.5, 0.4]))


def _use_blocks() -> None:
    """Evaluate the kernel between the smallest systems there are."""
    from sysbags.distances.gram import cross_gram
    from sysbags.systems.system import System

    samples = np.eye(2)
    cross_gram([System(samples, samples, samples, np.full(2, 0.5))] * 2)


def _use_means() -> CrossGram:
    """Align the smallest systems there are and compute their mean; return their kernels."""
    from sysbags.distances.gram import cross_gram
    from sysbags.means.frechet import mean_of_gram
    from sysbags.systems.system import System

    _use_alignment()
    samples = np.eye(2)
    systems = [System(scale * samples, samples, samples, np.full(2, 0.5), "linear") for scale in (0.2, 0.5)]
    gram = cross_gram(systems)
    mean_of_gram(gram)
    return gram


def _use_metrics() -> None:
    """Compute every distance between the smallest systems there are, and their mean."""
    from sysbags.distances import METRICS
    from sysbags.distances.pairwise import distance_matrix
    from sysbags.systems.system import NORMAL_FORMS

    gram = _use_means()
    forms = {form: replace(gram, rows=replace(gram.rows, normal_form=form)) for form in NORMAL_FORMS}
    for name, metric in METRICS.items():
        distance_matrix(forms[metric.normal_form or "orthonormal"], name)


def _use_clips() -> None:
    """Turn two short clips into systems, by every function that is compiled for that."""
    from sysbags.bags.lbp import LocalBinaryPatterns
    from sysbags.bags.planes import PlanePatterns
    from sysbags.datasets.generated import make_clips
    from sysbags.distances.gram import cross_gram
    from sysbags.systems.identification import identify

    with tempfile.TemporaryDirectory() as folder:
        clips, _ = make_clips(folder, per_class=1, frames=8, height=32, width=32, textures=["rain", "fire"])
        systems = [identify(LocalBinaryPatterns().stream(clip), order=2) for clip in clips]
        LocalBinaryPatterns(16, 2, "uniform").stream(clips[0])
        for radii in ((1, 1, 1), (2, 1, 1)):
            PlanePatterns(radii).stream(clips[0])
    cross_gram(systems)
    cross_gram([identify(system.samples, 2, "intersection") for system in systems])


USES: dict[str, Callable[[], object]] = {
    "alignment": _use_alignment,
    "means": _use_means,
    "metrics": _use_metrics,
}


if __name__ == "__main__":
    USES[sys.argv[1]]()
