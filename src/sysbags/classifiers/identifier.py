"""Streams to systems, as a transformer of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import Array, KernelLike, PerBag
from sysbags._common.validation import check_integer
from sysbags.errors import ParameterError, SysbagsError
from sysbags.systems.identification import descending_orders, identify_first
from sysbags.systems.system import System

__all__ = ["SystemIdentifier"]


class SystemIdentifier(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """Turn each stream of histograms into a system (`identify`, Algorithm 1).

    The tuple of streams that a `BagUnion` makes of a video becomes a tuple of systems, one for each bag.

    Parameters
    ----------
    order : int or "auto", or a sequence of these, default=5
        A sequence has one entry for each bag of a `BagUnion`; otherwise all bags have the same.
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, or a sequence, default="chi2"
        A sequence has one entry for each bag.
    normal_form : {"orthonormal", "unit-variance"}, default="orthonormal"
        The coordinates of the states, see `identify`.
    stability : {"constrained", "clip", "none"}, default="constrained"
    margin : float, default=1e-3
        The spectral norm of a transition is at most ``1 - margin``.
    smaller_orders : bool, default=False
        Where a stream is too short or too still for the order, use the largest order that it has. Otherwise
        this is an error.
    n_jobs : int, optional
        Threads.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 30))
    >>> sysbags.SystemIdentifier(order=2).fit_transform(streams)[1]
    System(order=2, size=30, bag_length=6, kernel='chi2')
    >>> identifier = sysbags.SystemIdentifier(order=(2, 5), smaller_orders=True)
    >>> [system.order for system in identifier.system((streams[0], streams[1][:4]))]
    [2, 3]
    """

    def __init__(
        self,
        order: int | str | Sequence[int | str] = 5,
        kernel: KernelLike | Sequence[KernelLike] = "chi2",
        *,
        normal_form: str = "orthonormal",
        stability: str = "constrained",
        margin: float = 1e-3,
        smaller_orders: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.order: Any = order  # not a sequence, unless there are several bags
        self.kernel: Any = kernel
        self.normal_form = normal_form
        self.stability = stability
        self.margin = margin
        self.smaller_orders = smaller_orders
        self.n_jobs = n_jobs

    @property
    def requires_fit(self) -> bool:
        """False: each stream is identified on its own."""
        return False

    def fit(self, streams: Sequence[npt.ArrayLike], labels: Any = None) -> SystemIdentifier:
        """Do nothing: each stream is identified on its own."""
        return self

    @overload
    def system(self, stream: tuple[Array, ...]) -> tuple[System, ...]: ...
    @overload
    def system(self, stream: npt.ArrayLike) -> System: ...
    def system(self, stream: Any) -> System | tuple[System, ...]:
        """Identify one stream, (N, p), or each of a tuple of streams."""
        if not _has_several(stream):
            (order,), (kernel,) = self._each("order", 1), self._each("kernel", 1)
            return self._identified(stream, order, kernel)
        systems, names = [], getattr(stream, "names", ())
        for k, (part, order, kernel) in enumerate(
            zip(stream, self._each("order", len(stream)), self._each("kernel", len(stream)), strict=True)
        ):
            try:
                systems.append(self._identified(part, order, kernel))
            except ParameterError:
                raise  # it does not depend on the bag
            except SysbagsError as error:
                where = f"the bag {names[k]}" if names else f"bag {k}"
                raise type(error)(f"{where}: {error}") from None
        return PerBag(systems, names)

    def _each(self, name: str, count: int) -> list[Any]:
        """Return the values of a parameter for each of several bags."""
        value = getattr(self, name)
        if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
            return [value] * count
        if len(value) != count:
            raise ParameterError(
                f"{name} is {value!r}, but it must be a single value or have one entry for each bag, "
                f"here {count}"
            )
        return list(value)

    def _identified(self, stream: npt.ArrayLike, order: Any, kernel: KernelLike) -> System:
        orders = [order]
        if self.smaller_orders and not isinstance(order, str):
            orders = descending_orders([check_integer(order, "order")])
        return identify_first(
            stream,
            orders,
            kernel,
            normal_form=self.normal_form,
            stability=self.stability,
            margin=self.margin,
        )

    def transform(self, streams: Sequence[Any]) -> list[Any]:
        """Identify each stream.

        Parameters
        ----------
        streams : sequence of (N, p) array_like, or of tuples of these

        Returns
        -------
        list of System, or of tuples of System
        """

        def identified(numbered: tuple[int, Any]) -> Any:
            index, stream = numbered
            try:
                return self.system(stream)
            except ValueError as error:
                raise type(error)(f"stream {index}: {error}") from None

        return run(identified, list(enumerate(streams)), self.n_jobs, "systems")

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _has_several(stream: Any) -> bool:
    """Return whether an item is a tuple of streams; a stream may be a tuple of rows, as any array_like."""
    return isinstance(stream, tuple) and len(stream) > 0 and np.ndim(stream[0]) == 2
