"""Streams to try things on."""

from sysbags.datasets.streams import make_streams

__all__ = ["make_streams"]
