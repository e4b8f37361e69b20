"""Watching a process: how many events are found, and what other methods find in the same histograms."""
