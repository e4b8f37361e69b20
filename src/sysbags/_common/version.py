"""The version of the package, which model files and reports state."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
