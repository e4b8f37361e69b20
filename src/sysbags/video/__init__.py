"""Frames of videos: from files, folders of images, arrays and iterators; and video files from frames."""

from __future__ import annotations

from sysbags._common.warnings import collect_warnings, summary_of_warnings
from sysbags.video.reading import Frame, Reader, SharedVideo, Video, frames, frames_of_several
from sysbags.video.writing import reordered_frames, write_video

__all__ = [
    "Frame",
    "Reader",
    "SharedVideo",
    "Video",
    "collect_warnings",
    "frames",
    "frames_of_several",
    "reordered_frames",
    "summary_of_warnings",
    "write_video",
]
