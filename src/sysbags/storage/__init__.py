"""Model files: arrays and JSON, never code."""

from __future__ import annotations

from sysbags.storage.files import FORMAT, describe, load, load_values, save, save_values
from sysbags.storage.kinds import KINDS

__all__ = ["FORMAT", "KINDS", "describe", "load", "load_values", "save", "save_values"]
