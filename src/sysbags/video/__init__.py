"""Frames of videos: from files, folders of images, arrays and iterators."""

from __future__ import annotations

from sysbags._common.warnings import collect_warnings, summary_of_warnings
from sysbags.video.reading import Frame, Reader, SharedVideo, Video, frames, frames_of_several

__all__ = [
    "Frame",
    "Reader",
    "SharedVideo",
    "Video",
    "collect_warnings",
    "frames",
    "frames_of_several",
    "summary_of_warnings",
]
