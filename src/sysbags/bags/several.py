"""Several bags on one video: each picture is decoded once for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sysbags._common.messages import collect_warnings, warn
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer, Pooling, check_videos, video_name
from sysbags.errors import ParameterError, StreamError, SysbagsError, VideoWarning
from sysbags.video import Frame, Reader, SharedVideo, Video

__all__ = ["Described", "SeveralBags", "describe"]

Self = TypeVar("Self", bound="SeveralBags")


class Described(NamedTuple):
    """What a bag makes of a video.

    Attributes
    ----------
    stream : (N, p) array or SysbagsError
        The stream; a tuple of streams for a `BagUnion`; or what is wrong.
    warnings : tuple of str
        The texts of the warnings about the video that concern this bag.
    """

    stream: Any
    warnings: tuple[str, ...] = ()


def describe(bags: Sequence[BagTransformer], video: Video) -> list[Described]:
    """Describe a video by each of several bags, and decode each picture once.

    The streams are those of ``bag.stream(video)``. The bags take turns, so that few frames are in memory, for
    any reading options. Bags of the same network run it once per frame, and visual words with the same
    descriptors compute them once.

    Parameters
    ----------
    bags : sequence of BagTransformer
        Fitted, if they require it. A bag with its own method `stream` reads the video by itself.
    video : path, array or iterable of arrays

    Returns
    -------
    list of Described
        With the error of a bag in the place of its stream; the other bags are not affected.

    Warns
    -----
    VideoWarning
        When the video breaks off, once.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.bags import ColourHistogram, LocalBinaryPatterns
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(6, 48, 64, 3), dtype=np.uint8)
    >>> bags = [LocalBinaryPatterns(), ColourHistogram(grid=1, frames={"stride": 2})]
    >>> [described.stream.shape for described in describe(bags, iter(clip))]
    [(6, 256), (3, 384)]
    """
    plain = [part for bag in bags for part in _parts(bag)]
    if not all(_reads_frames(bag) for bag in plain):
        video = rereadable(video)
    shared = [k for k, bag in enumerate(plain) if _reads_frames(bag)]
    described = dict(zip(shared, _shared([plain[k] for k in shared], video), strict=True))
    in_order = iter([described[k] if k in described else _alone(bag, video) for k, bag in enumerate(plain)])
    return [_joined(bag, in_order) for bag in bags]


def _parts(bag: BagTransformer) -> list[BagTransformer]:
    """Return a bag, or the bags that it consists of."""
    if isinstance(bag, SeveralBags):
        return [part for member in bag.members() for part in _parts(member)]
    return [bag]


def _joined(bag: BagTransformer, parts: Iterator[Described]) -> Described:
    """Join what the parts of a bag make of a video."""
    if not isinstance(bag, SeveralBags):
        return next(parts)
    members = [_joined(member, parts) for member in bag.members()]
    warnings = tuple(dict.fromkeys(text for member in members for text in member.warnings))
    try:
        return Described(bag.join([member.stream for member in members]), warnings)
    except SysbagsError as error:
        return Described(error, warnings)


def _reads_frames(bag: BagTransformer) -> bool:
    """Return whether the stream of a bag is the pooled masses of the frames that it reads."""
    return type(bag).stream is BagTransformer.stream


def _alone(bag: BagTransformer, video: Video) -> Described:
    """Describe a video by one bag, which reads it by itself."""
    stream: Any
    with collect_warnings() as texts:
        try:
            stream = bag.stream(video)
        except SysbagsError as error:
            stream = error
    for text in texts:
        warn(text, VideoWarning)
    return Described(stream, tuple(texts))


def _shared(bags: Sequence[BagTransformer], video: Video) -> list[Described]:
    """Describe a video by each of several bags, which take turns: none is ahead of the others."""
    shared = SharedVideo(video)
    lanes = [_Lane([bags[k] for k in group], group, shared) for group in _groups(bags)]
    active = [lane for lane in lanes if not lane.is_done]
    try:
        for lane in active:
            lane.start()
        while active := [lane for lane in active if not lane.is_done]:
            ready = [lane for lane in active if lane.is_ready()]
            for lane in ready:
                lane.advance()
            if not ready:
                shared.advance()
    finally:
        for reader in shared.readers:
            reader.close()
    described = {}
    for lane in lanes:
        for place, bag, result in zip(lane.places, lane.bags, lane.results, strict=True):
            # In a pass of several bags the layers of another one may be at fault.
            is_doubtful = isinstance(result, StreamError) and len(lane.bags) > 1
            if is_doubtful and not isinstance(video, Iterator):
                described[place] = _alone(bag, video)
            else:
                described[place] = Described(result, lane.warnings)
    return [described[k] for k in range(len(bags))]


def _groups(bags: Sequence[BagTransformer]) -> list[list[int]]:
    """Divide the indices of bags into groups that share a pass."""
    groups: list[list[int]] = []
    for k, bag in enumerate(bags):
        for group in groups:
            # All pairs, because the relation is not transitive: an output belongs to one network only.
            if all(bags[other].shares_a_pass(bag) for other in group):
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


class _Lane:
    """One reader of a shared video: for a bag, or for several that share a pass.

    Attributes
    ----------
    results : list
        The stream or the error of each bag, once `is_done`.
    """

    def __init__(self, bags: Sequence[BagTransformer], places: Sequence[int], shared: SharedVideo) -> None:
        self.bags, self.places, self.shared = bags, places, shared
        self.results: list[Any] = [None for _ in bags]
        self.rows: Iterator[tuple[Array, ...]] = iter(())
        self.pooling: list[Pooling] = []
        self.reader: Reader | None = None
        try:
            self.frames = bags[0].read(shared)
            self.reader = shared.readers[-1]
        except SysbagsError as error:
            self._fail(error)
        # A network takes a batch of frames at once, and optical flow two for its first row. With fewer in the
        # queue, a bag would decode pictures itself, and the queues of the others would grow.
        self.batch = max(2, getattr(bags[0], "batch_size", 1))

    def start(self) -> None:
        """Prepare the rows, when all lanes have a reader: a bag may take frames at once."""
        name = video_name(self.shared.video)
        first, *others = self.bags
        try:
            if others:
                self.rows = first.masses_with(others, self.frames)
            else:
                self.rows = zip(first.masses(self.frames), strict=True)
            self.pooling = [Pooling(bag.window, bag.step, name=name) for bag in self.bags]
        except SysbagsError as error:
            self._fail(error)

    @property
    def is_done(self) -> bool:
        """Whether each bag has its stream or its error."""
        return all(result is not None for result in self.results)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The text of the warning of the reader, if there is one."""
        return (self.reader.warning,) if self.reader is not None and self.reader.warning else ()

    def is_ready(self) -> bool:
        """Whether the next row needs no further picture."""
        reader = self.reader
        return reader is None or reader.waiting >= self.batch or reader.is_done or self.shared.has_ended

    def advance(self) -> None:
        """Compute the next row of each bag."""
        try:
            row = next(self.rows, None)
        except SysbagsError as error:
            self._fail(error)
            return
        for k, pooling in enumerate(self.pooling):
            if self.results[k] is None:
                try:
                    if row is None:
                        self.results[k] = pooling.stream()
                    else:
                        pooling.add(row[k])
                except SysbagsError as error:
                    self.results[k] = error
        if self.is_done:
            self._close()

    def _fail(self, error: SysbagsError) -> None:
        self.results = [error if result is None else result for result in self.results]
        self._close()

    def _close(self) -> None:
        if self.reader is not None:
            self.reader.close()


class SeveralBags(BagTransformer, ABC):
    """The base class of bags that consist of other bags, which `fit` copies.

    A subclass has the parameters `bags` and `n_jobs`, and implements `named_bags` and `join`.
    """

    example: ClassVar[str] = "[LocalBinaryPatterns(), OpticalFlow()]"
    gives_tuples: ClassVar[bool] = False
    bags: Sequence[Any]
    bags_: list[BagTransformer]

    @abstractmethod
    def named_bags(self) -> list[tuple[str, Any]]:
        """Return names and bags as they are given, not checked; none if `bags` is not a list."""

    def used_bags(self) -> list[tuple[str, Any]]:
        """Return those of `named_bags` that describe videos: all, by default."""
        return self.named_bags()

    @abstractmethod
    def join(self, streams: Sequence[Any]) -> Any:
        """Join the streams of the bags; raise if one of them is an error."""

    def check_bags(self) -> list[BagTransformer]:
        """Return the bags, or raise an error about values that are not bags."""
        bags = [bag for _, bag in self.used_bags()]
        if not bags or not all(_gives_one_stream(bag) for bag in bags):
            raise ParameterError(
                f"bags is {self.bags!r}, but it must be a list of bags, for instance {self.example}"
            )
        return bags

    def members(self) -> list[BagTransformer]:
        """Return the fitted copies of the bags if there are some, else the bags."""
        given = self.check_bags()
        members: list[BagTransformer] = getattr(self, "bags_", given)
        if len(members) != len(given):
            raise ParameterError(
                f"there are {len(given)} bags, but fit was called with {len(members)}: call it again"
            )
        return members

    @property
    def requires_fit(self) -> bool:
        """Whether one of the bags requires `fit`."""
        # `fit` and `stream` raise the error about values that are not bags; a property should not.
        return any(isinstance(bag, BagTransformer) and bag.requires_fit for _, bag in self.named_bags())

    def fit(self: Self, videos: Sequence[Video], labels: Any = None) -> Self:
        """Fit a copy of each bag."""
        rereadables = [rereadable(video) for video in check_videos(videos)]
        self.bags_ = [self._fitted(bag, rereadables, labels) for bag in self.check_bags()]
        return self

    def _fitted(self, bag: BagTransformer, videos: list[Video], labels: Any) -> BagTransformer:
        """Return a fitted copy of a bag; the threads of all bags are for one that has none of its own."""
        copy: BagTransformer = clone(bag)
        if copy.requires_fit:
            jobs = copy.n_jobs
            copy.set_params(n_jobs=self.n_jobs if jobs is None else jobs)
            copy.fit(videos, labels).set_params(n_jobs=jobs)
        return copy

    def fit_transform(self, videos: Sequence[Video], labels: Any = None, **_: Any) -> list[Any]:
        """Fit a copy of each bag, then turn each video into its stream."""
        rereadables = [rereadable(video) for video in check_videos(videos)]
        return self.fit(rereadables, labels).transform(rereadables)

    def read(self, source: Video, **fixed: Any) -> Iterator[Frame]:
        """Read the frames of a video with the options of the first bag."""
        return self.check_bags()[0].read(source, **fixed)

    def stream(self, video: Video) -> Any:
        """Turn one video into the streams of the bags, joined."""
        ((stream, _),) = describe([self], video)
        if isinstance(stream, SysbagsError):
            raise stream
        return stream

    def fitted_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the bags have learnt, with names such as ``0/words_``."""
        return {
            f"{i}/{name}": array
            for i, bag in enumerate(self.bags_)
            for name, array in bag.fitted_arrays().items()
        }

    def set_fitted_arrays(self: Self, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Set what the bags of another transformer have learnt, as returned by its `fitted_arrays`."""
        bags = self.check_bags()
        parts: list[dict[str, npt.NDArray[Any]]] = [{} for _ in bags]
        for name, array in arrays.items():
            index, _, attribute = name.partition("/")
            parts[int(index)][attribute] = array
        self.bags_ = [clone(bag).set_fitted_arrays(part) for bag, part in zip(bags, parts, strict=True)]
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; `deep` adds the bags by name, and their parameters as ``name__points``."""
        params: dict[str, Any] = super().get_params(deep=False)
        for name, bag in self.named_bags() if deep else ():
            params[name] = bag
            if isinstance(bag, BagTransformer):
                params |= {f"{name}__{key}": value for key, value in bag.get_params().items()}
        return params

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters, also the bags and their parameters by the names of `get_params`."""
        if "bags" in params:  # first, because the other names refer to it
            self.bags = params.pop("bags")
        own, named = super().get_params(deep=False), dict(self.named_bags())
        replaced = {name: params.pop(name) for name in [*params] if "__" not in name and name not in own}
        unknown = [name for name in replaced if name not in named]
        if unknown:
            raise ParameterError(
                f"there is no bag or parameter {unknown[0]}, but the bags are {', '.join(named)} and the "
                f"parameters {', '.join(own)}"
            )
        if replaced:
            self.bags = self.with_names({**named, **replaced})
        super().set_params(**params)
        return self

    def with_names(self, named: Mapping[str, Any]) -> list[Any]:
        """Return the value of `bags` for bags by name."""
        return list(named.values())

    def __sklearn_is_fitted__(self) -> bool:
        if hasattr(self, "bags_"):
            return True
        try:
            for _, bag in self.used_bags():
                check_is_fitted(bag)
        except NotFittedError:
            return False
        return True


def _gives_one_stream(bag: Any) -> bool:
    return isinstance(bag, BagTransformer) and not (isinstance(bag, SeveralBags) and bag.gives_tuples)


def rereadable(video: Video) -> Video:
    """Return a video that can be read more than once."""
    return list(video) if isinstance(video, Iterator) else video
