"""Frames of videos: from files, folders of images, arrays and iterators, and live; and files from frames."""

from __future__ import annotations

from sysbags._common.messages import collect_warnings, summary_of_warnings
from sysbags.video.decoding import container_facts
from sysbags.video.feeds import without_password
from sysbags.video.live import LiveVideo, open_live
from sysbags.video.reading import Frame, Reader, SharedVideo, Video, frames
from sysbags.video.timing import LiveFrame, Position, usual_rate
from sysbags.video.writing import reordered_frames, write_video

__all__ = [
    "Frame",
    "LiveFrame",
    "LiveVideo",
    "Position",
    "Reader",
    "SharedVideo",
    "Video",
    "collect_warnings",
    "container_facts",
    "frames",
    "open_live",
    "reordered_frames",
    "summary_of_warnings",
    "usual_rate",
    "without_password",
    "write_video",
]
