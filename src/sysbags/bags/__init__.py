"""Bags: what turns the frames of a video into histograms, each a transformer from videos to streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sysbags.bags.colour import ColourHistogram as ColourHistogram
    from sysbags.bags.concatenated import Concatenated as Concatenated
    from sysbags.bags.deep import DeepActivations as DeepActivations
    from sysbags.bags.flow import OpticalFlow as OpticalFlow
    from sysbags.bags.lbp import LocalBinaryPatterns as LocalBinaryPatterns
    from sysbags.bags.words import VisualWords as VisualWords

_HOMES = {
    "ColourHistogram": "colour",
    "Concatenated": "concatenated",
    "DeepActivations": "deep",
    "LocalBinaryPatterns": "lbp",
    "OpticalFlow": "flow",
    "VisualWords": "words",
}

__all__ = [*sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sysbags.bags.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sysbags.bags' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
