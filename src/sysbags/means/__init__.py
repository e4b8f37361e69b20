"""Means of systems: the Frechet mean and the medoid."""

from __future__ import annotations

from sysbags.means.frechet import FrechetMean, covariance_mean, frechet_mean, medoid

__all__ = ["FrechetMean", "covariance_mean", "frechet_mean", "medoid"]
