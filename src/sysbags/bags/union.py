"""Several streams of a video, one for each of several bags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sysbags._common.types import Array, PerBag
from sysbags.bags.base import BagTransformer, check_videos
from sysbags.bags.streams import describe
from sysbags.errors import ParameterError, SysbagsError
from sysbags.video import Frame, SharedVideo, Video


class BagUnion(BagTransformer):
    """Describe each video by several bags at once: a tuple of streams, one for each bag.

    Different bags describe different things, such as texture, colour and motion. Each picture is decoded once
    for all bags, also if they use other frames or other sizes of it, and bags of the same network run it once
    per frame. The streams are those of each bag alone; they may have different lengths.

    Parameters
    ----------
    bags : list of (name, bag) pairs or list of bags
        Without names, those of the classes in lower case are used, numbered where a class is repeated.
    n_jobs : int, optional
        Number of threads, over videos.

    Attributes
    ----------
    bags_ : list of bags
        Fitted copies of `bags`.

    See Also
    --------
    sysbags.SystemIdentifier : Turns each tuple of streams into a tuple of systems.

    Notes
    -----
    The names of the parameters of a bag begin with its name, as those of scikit-learn's `FeatureUnion`: for
    instance ``{"lbp__radius": [1, 2]}`` in a grid search. The bags take turns, so that few frames are in
    memory. `fit` keeps the frames of an iterator, which cannot be read twice, in memory. If no bag requires
    `fit`, `stream` works without it.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.bags import ColourHistogram, LocalBinaryPatterns, OpticalFlow
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(8, 48, 64, 3), dtype=np.uint8)
    >>> bags = BagUnion([("lbp", LocalBinaryPatterns()), ("colour", ColourHistogram(frames={"stride": 4}))])
    >>> [stream.shape for stream in bags.stream(clip)]
    [(8, 256), (2, 1536)]
    >>> bags.set_params(colour__grid=1).stream(clip)[1].shape
    (2, 384)
    """

    bags: Sequence[Any]
    bags_: list[BagTransformer]

    def __init__(
        self, bags: Sequence[tuple[str, BagTransformer] | BagTransformer], *, n_jobs: int | None = None
    ) -> None:
        self.bags = bags
        self.n_jobs = n_jobs

    def named_bags(self) -> list[tuple[str, Any]]:
        """Return names and bags as they are given, not checked; none if `bags` is not a list."""
        items = list(self.bags) if isinstance(self.bags, (list, tuple)) else []
        if any(isinstance(item, tuple) for item in items):
            return [item if _is_pair(item) else (str(k), item) for k, item in enumerate(items)]
        names = [type(bag).__name__.lower() for bag in items]
        totals, counts = Counter(names), Counter[str]()
        named = []
        for name, bag in zip(names, items, strict=True):
            counts[name] += 1
            named.append((f"{name}-{counts[name]}" if totals[name] > 1 else name, bag))
        return named

    def check_bags(self) -> list[BagTransformer]:
        """Return the bags; raise an error about values that are not bags, and about wrong names."""
        names, bags = [name for name, _ in self.named_bags()], [bag for _, bag in self.named_bags()]
        if not bags or not all(
            isinstance(bag, BagTransformer) and not isinstance(bag, BagUnion) for bag in bags
        ):
            raise ParameterError(
                f"bags is {self.bags!r}, but it must be a list of bags, for instance "
                '[("lbp", LocalBinaryPatterns()), ("flow", OpticalFlow())]'
            )
        taken = self.get_params(deep=False)
        for name in names:
            if names.count(name) > 1 or "__" in name or not name or name in taken:
                raise ParameterError(
                    f"the name of a bag is {name!r}, but names must be different, without '__', and none of "
                    f"{', '.join(taken)}"
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

    def join(self, streams: Sequence[Array | SysbagsError]) -> PerBag[Array]:
        """Return the streams with the names of the bags; an error names the bag, unless all have the same."""
        names = [name for name, _ in self.named_bags()]
        errors = [str(stream) if isinstance(stream, SysbagsError) else None for stream in streams]
        good = []
        for name, stream in zip(names, streams, strict=True):
            if isinstance(stream, SysbagsError):
                raise stream if len(set(errors)) == 1 else type(stream)(f"the bag {name}: {stream}")
            good.append(stream)
        return PerBag(good, names)

    @property
    def requires_fit(self) -> bool:
        """Whether one of the bags requires `fit`."""
        # `fit` and `stream` raise the error about values that are not bags; a property should not.
        return any(isinstance(bag, BagTransformer) and bag.requires_fit for _, bag in self.named_bags())

    def fit(self, videos: Sequence[Video], y: Any = None) -> BagUnion:
        """Fit a copy of each bag; the threads of the union are for a bag that has none of its own."""
        rereadable = _rereadable(videos)
        self.bags_ = []
        for bag in self.check_bags():
            copy: BagTransformer = clone(bag)
            if copy.requires_fit:
                jobs = copy.n_jobs
                copy.set_params(n_jobs=self.n_jobs if jobs is None else jobs)
                copy.fit(rereadable, y).set_params(n_jobs=jobs)
            self.bags_.append(copy)
        return self

    def fit_transform(self, videos: Sequence[Video], y: Any = None, **_: Any) -> list[Any]:
        """Fit a copy of each bag, then turn each video into its streams."""
        rereadable = _rereadable(videos)
        return self.fit(rereadable, y).transform(rereadable)

    def read(self, source: Video, **fixed: Any) -> Iterator[Any]:
        """Read the frames of a video as tuples, one frame for each bag; the first tuple needs all bags.

        Bags with different frames are not at the same time of the video, so use it for the first frames.
        """
        shared = SharedVideo(source)
        readers: list[Iterator[Frame]] = [bag.read(shared, **fixed) for bag in self.check_bags()]
        return zip(*readers, strict=False)

    def stream(self, video: Video) -> PerBag[Array]:  # type: ignore[override]
        """Turn one video into a tuple of streams, one for each bag."""
        return self.join([described.stream for described in describe(self.members(), video)])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; `deep` adds the bags by name, and their parameters as ``name__points``."""
        params: dict[str, Any] = super().get_params(deep=False)
        for name, bag in self.named_bags() if deep else ():
            params[name] = bag
            if isinstance(bag, BagTransformer):
                params |= {f"{name}__{key}": value for key, value in bag.get_params().items()}
        return params

    def set_params(self, **params: Any) -> BagUnion:
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
            self.bags = list({**named, **replaced}.items())
        super().set_params(**params)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        if hasattr(self, "bags_"):
            return True
        try:
            for _, bag in self.named_bags():
                check_is_fitted(bag)
        except NotFittedError:
            return False
        return True


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _rereadable(videos: Any) -> list[Video]:
    """Return videos that can be read more than once."""
    return [list(video) if isinstance(video, Iterator) else video for video in check_videos(videos)]
