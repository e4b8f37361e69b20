"""Dynamical similarity analysis: compare the dynamics of time series, whatever their coordinates."""

from __future__ import annotations

from sysbags.dsa.modes import DynamicModes, fit_dmd
from sysbags.dsa.scores import Score, euclidean_distance
from sysbags.dsa.similarity import DSA

__all__ = ["DSA", "DynamicModes", "Score", "euclidean_distance", "fit_dmd"]
