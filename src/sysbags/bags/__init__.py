"""Bags: transformers from videos to streams of histograms."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sysbags.bags.registry import CLASSES

if TYPE_CHECKING:
    from sysbags.bags.colour import ColourHistogram as ColourHistogram
    from sysbags.bags.concatenated import Concatenated as Concatenated
    from sysbags.bags.deep import DeepActivations as DeepActivations
    from sysbags.bags.flow import OpticalFlow as OpticalFlow
    from sysbags.bags.lbp import LocalBinaryPatterns as LocalBinaryPatterns
    from sysbags.bags.words import VisualWords as VisualWords

__all__ = [*sorted(CLASSES)]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return getattr(import_module(CLASSES[name].module), name)
    raise AttributeError(f"module 'sysbags.bags' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
