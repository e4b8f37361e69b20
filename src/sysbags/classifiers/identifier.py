"""From clips to streams and systems: the transformer, and what leaves out clips that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin

from sysbags._common.cache import Cache
from sysbags._common.estimator import SequenceEstimator
from sysbags._common.memory import MEMORY
from sysbags._common.messages import Stages
from sysbags._common.parallel import run
from sysbags._common.types import Array, KernelLike, PerBag
from sysbags._common.validation import check_integer, check_per_bag, has_several_streams, warn_if_exchanged
from sysbags.bags.base import BagTransformer
from sysbags.bags.streams import attempt, clip_streams, good
from sysbags.errors import ParameterError, SysbagsError
from sysbags.systems.identification import descending_orders, identify_first
from sysbags.systems.system import System

Describe = Callable[[list[int]], list[list[Any]]]


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

    def fit(self, streams: Sequence[npt.ArrayLike], y: Any = None) -> SystemIdentifier:
        """Do nothing: each stream is identified on its own."""
        return self

    @overload
    def system(self, stream: tuple[Array, ...]) -> tuple[System, ...]: ...
    @overload
    def system(self, stream: npt.ArrayLike) -> System: ...
    def system(self, stream: Any) -> System | tuple[System, ...]:
        """Identify one stream, (N, p), or each of a tuple of streams."""
        if not has_several_streams(stream):
            (order,) = check_per_bag(self.order, "order", 1)
            (kernel,) = check_per_bag(self.kernel, "kernel", 1)
            return self._identified(stream, order, kernel)
        systems, names = [], getattr(stream, "names", ())
        for k, (part, order, kernel) in enumerate(
            zip(
                stream,
                check_per_bag(self.order, "order", len(stream)),
                check_per_bag(self.kernel, "kernel", len(stream)),
                strict=True,
            )
        ):
            try:
                systems.append(self._identified(part, order, kernel))
            except ParameterError:
                raise  # it does not depend on the bag
            except SysbagsError as error:
                where = f"the bag {names[k]}" if names else f"bag {k}"
                raise type(error)(f"{where}: {error}") from None
        return PerBag(systems, names)

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
                parts = stream if isinstance(stream, tuple) else (stream,)
                if any(type(part) is not np.ndarray for part in parts):
                    return self.system(stream)
                depends_on = [parameters, isinstance(stream, tuple), *parts, getattr(stream, "names", ())]
                return MEMORY.recall("system", depends_on, lambda: self.system(stream))
            except ValueError as error:
                raise type(error)(f"stream {index}: {error}") from None

        warn_if_exchanged(streams, self.kernel)
        parameters = {**self.get_params(), "class": type(self).__qualname__, "n_jobs": None}
        return run(identified, list(enumerate(streams)), self.n_jobs, "systems")

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(frozen=True, eq=False, kw_only=True)
class ClipSystems:
    """The clips that could be used, and what is wrong with the others.

    Attributes
    ----------
    paths : list of Path
        The clips that could be used.
    indices : list of int
        Their places among those that were given.
    streams, systems : list of lists
        One list, or one for each of several codebooks; each with one stream or system per clip, or with one
        tuple per clip if the bags are a `BagUnion`.
    failures : dict
        What is wrong with each of the other clips; the sentence names it.
    """

    paths: list[Path] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    streams: list[list[Any]] = field(default_factory=list)
    systems: list[list[Any]] = field(default_factory=list)
    failures: dict[Path, SysbagsError] = field(default_factory=dict)

    def raise_first_error(self) -> None:
        """Raise what is wrong with the first clip that cannot be used."""
        for error in self.failures.values():
            raise error


def describe_clips(
    paths: Sequence[Path],
    bags: BagTransformer,
    identify: Callable[[Any], Any] | None,
    *,
    fit: bool = False,
    cache: Cache | None = None,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> ClipSystems:
    """Turn clips into streams and systems; a clip that cannot be used becomes one of the failures.

    `identify` goes from a stream to its system, and for a `BagUnion` from a tuple of streams to a tuple of
    systems; None keeps streams in the place of systems. With `fit`, bags that require it are fitted to the
    clips first.

    Examples
    --------
    >>> import tempfile, sysbags
    >>> from sysbags.bags import LocalBinaryPatterns
    >>> from sysbags.datasets import make_clips
    >>> paths, _ = make_clips(tempfile.mkdtemp(), 2, frames=8, height=48, width=64, textures=["rain"])
    >>> clips = describe_clips(
    ...     [*paths, Path("missing.mp4")], LocalBinaryPatterns(), sysbags.SystemIdentifier(order=2).system
    ... )
    >>> clips.systems[0][1].order, list(clips.failures)
    (2, [PosixPath('missing.mp4')])
    """
    times = stages or Stages()

    def describe(indices: list[int]) -> list[list[Any]]:
        readable = [paths[k] for k in indices]
        if fit and bags.requires_fit and readable:
            with times("codebook"):
                bags.set_params(n_jobs=n_jobs).fit(readable).set_params(n_jobs=None)
        with times("frames and bags"):
            return clip_streams([bags], readable, cache, n_jobs=n_jobs)

    return read_clips(paths, bags, describe, identify, fit=fit, n_jobs=n_jobs, stages=times)


def read_clips(
    paths: Sequence[Path],
    bags: BagTransformer,
    describe: Describe,
    identify: Callable[[Any], Any] | None,
    *,
    fit: bool,
    n_jobs: int | None = None,
    stages: Stages,
) -> ClipSystems:
    """Read clips in three steps: those that can be read, those with streams, those with systems.

    `describe` is given the indices of the clips that can be read, and returns their streams, or errors in the
    place of streams, once or once per codebook. Whether a clip can be read at all is checked where bags are
    to be fitted: a clip that cannot must not keep the others from a codebook.
    """
    failures: dict[Path, SysbagsError] = {}

    def attempts(function: Callable[[Any], Any], indices: list[int], inputs: Sequence[Any]) -> list[Any]:
        """Call a function for each clip; keep the failures and return the results, None for a failure."""

        def outcome(pair: tuple[int, Any]) -> Any:
            return attempt(paths[pair[0]], function, pair[1])

        results = run(outcome, list(zip(indices, inputs, strict=True)), n_jobs, "clips")
        for k, result in zip(indices, results, strict=True):
            if isinstance(result, SysbagsError):
                failures[paths[k]] = result
        return [None if isinstance(result, SysbagsError) else result for result in results]

    indices = list(range(len(paths)))
    if fit and bags.requires_fit:
        with stages("first frames"):
            first = attempts(lambda path: next(iter(bags.read(path))), indices, paths)
        indices = [k for k, frame in zip(indices, first, strict=True) if frame is not None]
    if not indices:
        return ClipSystems(failures=failures)
    streams = describe(indices)

    systems: list[Any] = list(zip(*streams, strict=True))
    if identify is None:
        for place, versions in enumerate(systems):
            for error in (one for one in versions if isinstance(one, SysbagsError)):
                failures[paths[indices[place]]], systems[place] = error, None
    else:
        with stages("systems"):
            systems = attempts(lambda each: [identify(good(one)) for one in each], indices, systems)
    usable = [place for place, result in enumerate(systems) if result is not None]
    return ClipSystems(
        paths=[paths[indices[place]] for place in usable],
        indices=[indices[place] for place in usable],
        streams=[[version[place] for place in usable] for version in streams],
        systems=[[systems[place][k] for place in usable] for k in range(len(streams))],
        failures=failures,
    )


def check_classes(paths: Sequence[Path], labels: Sequence[str], clips: ClipSystems) -> list[str]:
    """Return the labels of the clips that can be used; raise if a class has none of them."""
    usable_classes = {labels[k] for k in clips.indices}
    for path, label in zip(paths, labels, strict=True):
        if label not in usable_classes:
            error = clips.failures[path]
            what = f"no clip of the class {label} can be used, but there must be one"
            raise type(error)(f"{what if usable_classes else 'none of the clips can be used'}: {error}")
    return [labels[k] for k in clips.indices]
