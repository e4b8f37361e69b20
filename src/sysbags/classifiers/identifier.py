"""Streams to systems, as a transformer of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from sklearn.base import TransformerMixin

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import KernelLike
from sysbags.systems.identification import identify
from sysbags.systems.system import System

__all__ = ["SystemIdentifier"]


class SystemIdentifier(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """Turn each stream of histograms into a system (`identify`, Algorithm 1).

    Parameters
    ----------
    order : int or "auto", default=5
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, default="chi2"
    normal_form : {"orthonormal", "unit-variance"}, default="orthonormal"
        The coordinates of the states, see `identify`.
    stability : {"constrained", "clip", "none"}, default="constrained"
    margin : float, default=1e-3
        The spectral norm of a transition is at most ``1 - margin``.
    n_jobs : int, optional
        Threads.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 30))
    >>> sysbags.SystemIdentifier(order=2).fit_transform(streams)[1]
    System(order=2, size=30, bag_length=6, kernel='chi2')
    """

    def __init__(
        self,
        order: int | str = 5,
        kernel: KernelLike = "chi2",
        *,
        normal_form: str = "orthonormal",
        stability: str = "constrained",
        margin: float = 1e-3,
        n_jobs: int | None = None,
    ) -> None:
        self.order = order
        self.kernel = kernel
        self.normal_form = normal_form
        self.stability = stability
        self.margin = margin
        self.n_jobs = n_jobs

    @property
    def requires_fit(self) -> bool:
        """False: each stream is identified on its own."""
        return False

    def fit(self, streams: Sequence[npt.ArrayLike], labels: Any = None) -> SystemIdentifier:
        """Do nothing: each stream is identified on its own."""
        return self

    def system(self, stream: npt.ArrayLike) -> System:
        """Identify one stream, (N, p)."""
        return identify(
            stream,
            self.order,
            self.kernel,
            normal_form=self.normal_form,
            stability=self.stability,
            margin=self.margin,
        )

    def transform(self, streams: Sequence[npt.ArrayLike]) -> list[System]:
        """Identify each stream.

        Parameters
        ----------
        streams : sequence of (N, p) array_like
        """

        def identified(numbered: tuple[int, npt.ArrayLike]) -> System:
            index, stream = numbered
            try:
                return self.system(stream)
            except ValueError as error:
                raise type(error)(f"stream {index}: {error}") from None

        return run(identified, list(enumerate(streams)), self.n_jobs, "systems")

    def __sklearn_is_fitted__(self) -> bool:
        return True
