"""Watch a process: windows of a long video, scores, alarms with a stated rate, and phases."""
