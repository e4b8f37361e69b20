"""Pages that show what an evaluation found: report, demonstration, timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.report.page import write_report as write_report

_MODULES = {"write_report": "sysbags.report.page"}

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
