"""``sysbags synthesize``: the frames of a clip along a simulated path of its system."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from sysbags._common.messages import Stages
from sysbags.cli._clips import read_clips
from sysbags.cli._options import Json, RandomState, Settings, argument, option, out_option, with_settings
from sysbags.cli._output import check_out, print_json, say, show_facts
from sysbags.errors import FileError, ParameterError

LONGEST = 600.0  # seconds
RATE = 25.0  # frames per second of a folder of images
PICTURE_SIDE = 32  # pixels; enough to see a jump
NOTE = (
    "The frames are those of the clip, in an order that its system has simulated. It shows what the system "
    "has learnt about the motion, and does not compete with methods that synthesize pixels."
)


@dataclass(frozen=True, kw_only=True)
class ClipSettings(Settings):
    """How the clip becomes a system; each frame needs a bag of its own."""

    window: None = None


@with_settings
def synthesize(
    clip: Annotated[Path, argument("CLIP", "A video file or a folder of images.")],
    out: Annotated[Path, out_option("The video to write; it must not exist yet.", "FILE")],
    seconds: Annotated[float, option("Length of the new video.", "X")] = 20.0,
    smoothness: Annotated[
        float, option("Weight of smooth motion against following the system.", "X", min=0.0)
    ] = 3.0,
    random_state: RandomState = 0,
    as_json: Json = False,
    *,
    settings: ClipSettings,
) -> None:
    """Write a video of a clip's frames along a simulated path.

    The system of the clip is simulated, and each step shows a frame of the clip whose state is near and that
    continues smoothly from the frame before. This is a look at what the system has learnt about the motion;
    it does not compete with methods that synthesize pixels, and says so.

    Example: sysbags synthesize fire.mp4 --seconds 20 -o endless.mp4
    """
    check_out(out, clip, kind="video")
    if os.path.lexists(out):
        raise FileError(f"{out} exists already: remove it, or choose another name")
    from itertools import islice

    import numpy as np

    from sysbags._common.parallel import with_progress
    from sysbags.systems.synthesis import frame_order
    from sysbags.video import container_facts, frames, reordered_frames, write_video
    from sysbags.video.writing import check_format

    if not 0.0 < seconds <= LONGEST:
        raise ParameterError(f"--seconds is {seconds:g}, but it must be above 0 and at most {LONGEST:g}")
    check_format(out)
    bags = settings.make_bags(random_state)
    identifier = settings.make_identifier().set_params(normal_form="unit-variance")
    clips = read_clips([clip], bags, identifier, Stages(), 1, fit=True)
    clips.raise_first_error()
    theta = clips.systems[0][0]

    reading = {name: value for name, value in (bags.frames or {}).items() if name != "size"}
    stored = container_facts(clip)["frames_per_second"] if clip.is_file() else None
    rate = (stored or RATE) / reading.get("stride", 1)
    path, _ = theta.simulate(max(1, round(seconds * rate)), random_state)
    small = islice(frames(clip, size=PICTURE_SIDE, **reading), theta.size)
    order = frame_order(theta, path, np.array([picture.ravel() for picture in small], float), smoothness)
    shown = reordered_frames(clip, order.tolist(), colour="rgb", **reading)
    write_video(out, with_progress(shown, len(order), "frames"), rate)
    facts: dict[str, Any] = {
        "out": out,
        "frames": len(order),
        "frames_per_second": rate,
        "frames_of_clip": theta.size,
        "frames_used": len(set(order.tolist())),
        "jumps": int((np.diff(order) != 1).sum()),
        "order": theta.order,
        "explained": theta.explained,
        "residual": theta.residual,
    }
    if as_json:
        print_json({**facts, "indices": order.tolist(), "note": NOTE})
        return
    show_facts(facts)
    say(NOTE)
