"""Several streams of a video, one for each of several bags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sysbags._common.types import Array, PerBag
from sysbags.bags.base import BagTransformer
from sysbags.bags.several import SeveralBags
from sysbags.errors import ParameterError, SysbagsError
from sysbags.video import Frame, SharedVideo, Video

__all__ = ["BagUnion"]


class BagUnion(SeveralBags):
    """Describe each video by several bags at once: a tuple of streams, one for each bag.

    Different bags describe different things, such as texture, colour and motion. Each picture is decoded once
    for all bags, also if they use other frames or other sizes of it, and bags of the same network run it once
    per frame. The streams are those of each bag alone; they may have different lengths.

    Parameters
    ----------
    bags : list of (name, bag) pairs or list of bags
        Without names, those of the classes in lower case are used, numbered where a class is repeated. A bag
        that is replaced by "drop" is left out of the tuples, as in scikit-learn's `FeatureUnion`.
    n_jobs : int, optional
        Number of threads, over videos.

    Attributes
    ----------
    bags_ : list of bags
        Fitted copies of `bags`.

    See Also
    --------
    Concatenated : One stream with the bins of all bags.
    sysbags.SystemIdentifier : Turns each tuple of streams into a tuple of systems.

    Notes
    -----
    The names of the parameters of a bag begin with its name, as those of scikit-learn's `FeatureUnion`: for
    instance ``{"lbp__radius": [1, 2], "colour": ["drop", ColourHistogram()]}`` in a grid search. The bags
    take turns, so that few frames are in memory. `fit` keeps the frames of an iterator, which cannot be read
    twice, in memory. If no bag requires `fit`, `stream` works without it.

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
    >>> len(bags.set_params(colour="drop").stream(clip))
    1
    """

    example = '[("lbp", LocalBinaryPatterns()), ("flow", OpticalFlow())]'
    gives_tuples = True

    def __init__(
        self, bags: Sequence[tuple[str, BagTransformer] | BagTransformer], *, n_jobs: int | None = None
    ) -> None:
        self.bags = bags
        self.n_jobs = n_jobs

    def named_bags(self) -> list[tuple[str, Any]]:
        """Return the names of the bags, and the bags."""
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

    def used_bags(self) -> list[tuple[str, Any]]:
        """Return the names of the bags, and the bags, without those that are "drop"."""
        return [
            (name, bag) for name, bag in self.named_bags() if not (isinstance(bag, str) and bag == "drop")
        ]

    def with_names(self, named: Mapping[str, Any]) -> list[Any]:
        """Return the pairs for bags by name."""
        return list(named.items())

    def check_bags(self) -> list[BagTransformer]:
        """Return the bags; raise an error about values that are not bags, and about wrong names."""
        named, used = self.named_bags(), self.used_bags()
        for name, bag in used:
            if isinstance(bag, str):
                raise ParameterError(f"the bag {name} is {bag!r}, but it must be a bag or 'drop'")
        if named and not used:
            raise ParameterError("all bags are 'drop', but at least one must be a bag")
        bags, names = super().check_bags(), [name for name, _ in named]
        taken = self.get_params(deep=False)
        for name in names:
            if names.count(name) > 1 or "__" in name or not name or name in taken:
                raise ParameterError(
                    f"the name of a bag is {name!r}, but names must be different, without '__', and none of "
                    f"{', '.join(taken)}"
                )
        return bags

    def join(self, streams: Sequence[Array | SysbagsError]) -> PerBag[Array]:
        """Return the streams with the names of the bags; an error names the bag, unless all have the same."""
        names = [name for name, _ in self.used_bags()]
        errors = [str(stream) if isinstance(stream, SysbagsError) else None for stream in streams]
        good = []
        for name, stream in zip(names, streams, strict=True):
            if isinstance(stream, SysbagsError):
                raise stream if len(set(errors)) == 1 else type(stream)(f"the bag {name}: {stream}")
            good.append(stream)
        return PerBag(good, names)

    def read(self, source: Video, **fixed: Any) -> Iterator[Any]:
        """Read the frames of a video as tuples, one frame for each bag; the first tuple needs all bags.

        Bags with different frames are not at the same time of the video, so use it for the first frames.
        """
        shared = SharedVideo(source)
        readers: list[Iterator[Frame]] = [bag.read(shared, **fixed) for bag in self.check_bags()]
        return zip(*readers, strict=False)

    def stream(self, video: Video) -> tuple[Array, ...]:  # type: ignore[override]
        """Turn one video into a tuple of streams, one for each bag."""
        streams: tuple[Array, ...] = super().stream(video)
        return streams


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
