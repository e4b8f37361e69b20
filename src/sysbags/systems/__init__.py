"""Systems: linear dynamic systems in the feature space of a kernel, and how streams become systems."""

from __future__ import annotations

from sysbags.systems.identification import identify
from sysbags.systems.system import System

__all__ = ["System", "identify"]
