"""Frames of videos: from files, folders of images, arrays and iterators."""

from __future__ import annotations

from sysbags.video.reading import IMAGE_SUFFIXES, Frame, Video, frames

__all__ = ["IMAGE_SUFFIXES", "Frame", "Video", "frames"]
