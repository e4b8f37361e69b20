"""Facts of clips that say nothing of their dynamics, and whether they tell the classes apart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sysbags._common.files import images_in
from sysbags._common.parallel import run
from sysbags.errors import VideoError
from sysbags.evaluate.reading import LabelledClips
from sysbags.evaluate.settings import Request
from sysbags.statistics.shortcuts import find_shortcuts
from sysbags.video import container_facts

FACTS = {
    "width": "the width",
    "height": "the height",
    "frames": "the number of frames",
    "frames_per_second": "the frame rate",
    "codec": "the codec",
}


def shortcut_notes(given: LabelledClips, request: Request, n_jobs: int | None) -> list[str]:
    """Return a warning if such facts alone predict the class of clips, as `find_shortcuts` finds; or nothing.

    Sizes, rates and codecs are as the headers of files say; of streams there are the lengths. The number of
    frames is that of the frames that the first bag uses. Clips that cannot be read are left out.
    """
    reading: Mapping[str, Any] = getattr(request.main_bag[1], "frames", None) or {}

    def of_clip(clip: Any) -> dict[str, Any] | None:
        try:
            found = file_facts(Path(clip)) if isinstance(clip, (str, os.PathLike)) else {"frames": len(clip)}
        except (OSError, VideoError):
            return None
        if found["frames"] is not None:
            used = slice(*(reading.get(name) for name in ("start", "stop", "stride")))
            found["frames"] = len(range(found["frames"])[used][: reading.get("max_frames")])
        return found

    every = run(of_clip, given.clips, n_jobs, "headers")
    known = {k: found for k, found in enumerate(every) if found is not None}
    if not known:
        return []
    facts = {name: [found.get(name) for found in known.values()] for name in FACTS}
    some = given.subset(list(known))
    shortcuts = find_shortcuts(facts, some.labels, some.sources)
    if not shortcuts:
        return []
    listed = " and ".join(f"{FACTS[fact]} ({100 * accuracy:.0f} %)" for fact, accuracy, *_ in shortcuts)
    verb, chance = "predicts" if len(shortcuts) == 1 else "predict", 100 * shortcuts[0].chance
    return [
        f"{listed} alone {verb} the class of clips (the most frequent class: {chance:.0f} %), so that the "
        "accuracy may not be due to what moves: use clips of the same size, length, frame rate and codec"
    ]


def file_facts(path: Path) -> dict[str, Any]:
    """Return `container_facts` of a file; of a folder of images those of the first, and their number."""
    if not path.is_dir():
        return container_facts(path)
    images = images_in(path)
    if not images:
        raise VideoError(f"the folder {path} has no images")
    return {**container_facts(images[0]), "frames": len(images), "frames_per_second": None}
