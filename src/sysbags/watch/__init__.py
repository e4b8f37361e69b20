"""Watch a process: windows of a long video, scores, alarms with a stated rate, and phases."""

from __future__ import annotations

from sysbags.watch.alarms import Event, Verdict
from sysbags.watch.timeline import Timeline, timeline
from sysbags.watch.watcher import Watcher
from sysbags.watch.windows import Window, Windows, window_systems

__all__ = ["Event", "Timeline", "Verdict", "Watcher", "Window", "Windows", "timeline", "window_systems"]
