"""The paper's experiments on its own data sets, with its figures beside ours."""

from __future__ import annotations

from sysbags.reproduce.common import Options, Outcome
from sysbags.reproduce.dyntex import dyntex
from sysbags.reproduce.yupenn import yupenn

__all__ = ["Options", "Outcome", "dyntex", "yupenn"]
