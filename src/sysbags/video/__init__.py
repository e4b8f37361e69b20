"""Frames of videos: from files, folders of images, arrays and iterators."""

from __future__ import annotations

from sysbags._common.warnings import collect_warnings, summary_of_warnings
from sysbags.video.reading import Frame, Video, frames

__all__ = ["Frame", "Video", "collect_warnings", "frames", "summary_of_warnings"]
