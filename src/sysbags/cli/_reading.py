"""Clips to systems; clips that cannot be used are reported and skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sysbags._common.messages import Stages
from sysbags.cli._output import note, note_summary
from sysbags.errors import SysbagsError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier
    from sysbags.classifiers.clips import ClipSystems
    from sysbags.datasets.folder import ClipFolder
    from sysbags.library import Added

__all__ = [
    "note_single_groups",
    "note_skipped",
    "read_clips",
    "report_skipped",
    "skipped",
    "warnings_as_notes",
    "without_class",
]


def read_clips(
    paths: Sequence[Path],
    bags: BagTransformer,
    identifier: SystemIdentifier,
    stages: Stages,
    n_jobs: int,
    fit: bool,
) -> ClipSystems:
    """Turn clips into systems; with `fit` the bags are fitted to the clips first, where they require it."""
    from sysbags.classifiers.clips import describe_clips

    with warnings_as_notes():
        return describe_clips(paths, bags, identifier.system, fit=fit, n_jobs=n_jobs, stages=stages)


def skipped(clips: ClipSystems | Added) -> list[dict[str, str]]:
    """Return the failures for a JSON document."""
    return [{"path": str(path), "error": str(error)} for path, error in clips.failures.items()]


def without_class(folder: Path, clips: ClipFolder) -> list[dict[str, str]]:
    """Return the clips beside the class folders for a JSON document."""
    return [
        {"path": str(folder / name), "error": f"{name} is in no class folder"} for name in clips.unlabelled
    ]


def report_skipped(clips: ClipSystems) -> None:
    """Print which clips are skipped; if that is all of them, raise what is wrong with the first."""
    if not clips.paths:
        for error in clips.failures.values():
            raise type(error)(f"none of the clips can be used: {error}")
    note_skipped(clips.failures.values())


def note_skipped(errors: Iterable[SysbagsError]) -> None:
    """Print which clips are skipped, and why; of many the first."""
    note_summary([f"skipped: {error}" for error in errors], "clips are skipped (--json lists them)", limit=10)


def note_single_groups(classes: Iterable[str]) -> None:
    """Print which classes are left out as a whole."""
    for name in classes:
        note(
            f"the class {name} has a single clip or source: its clips are left out together, and so they are "
            "classified wrongly"
        )


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print the warnings about videos when the work is done; of many, one summary."""
    from sysbags.video import collect_warnings, summary_of_warnings

    with collect_warnings() as texts:
        yield
    for text in summary_of_warnings(list(dict.fromkeys(texts))):
        note(text)
