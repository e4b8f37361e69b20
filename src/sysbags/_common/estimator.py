"""The base of every estimator here."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

__all__ = ["SequenceEstimator"]


class SequenceEstimator(BaseEstimator):  # type: ignore[misc]
    """What takes a list of objects (videos, streams, systems), not a table of numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags
