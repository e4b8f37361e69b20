"""Watch a process: windows of a long video, scores, alarms with a stated rate, and phases."""

from __future__ import annotations

from sysbags.watch.windows import Window, Windows, window_systems

__all__ = ["Window", "Windows", "window_systems"]
