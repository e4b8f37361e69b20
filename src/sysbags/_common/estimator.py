"""The base class of all estimators."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator


class SequenceEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that takes a list of objects (videos, streams, systems), not a table of numbers."""

    @property
    def requires_fit(self) -> bool:
        """Whether `fit` must be called before the other methods."""
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        tags.requires_fit = self.requires_fit
        return tags
