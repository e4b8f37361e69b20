"""From clips to streams: by several bags at once, with the cache and the errors of each clip, and live."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sysbags._common.cache import Cache, clip_key, fingerprint
from sysbags._common.messages import collect_warnings, warn
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer, Pooling, video_name
from sysbags.errors import OrderError, ParameterError, StreamError, SysbagsError, VideoError, VideoWarning
from sysbags.video import Frame, Reader, SharedVideo, Video

if TYPE_CHECKING:
    from sysbags.bags.regions import Regions

Item = TypeVar("Item")
Arrays = Mapping[str, npt.ArrayLike]
Made = tuple[Arrays | SysbagsError, Sequence[str]]
Inbox = SimpleQueue[Iterable[Frame] | None]


def clip_streams(
    bags: Sequence[BagTransformer],
    paths: Sequence[Path],
    cache: Cache | None = None,
    *,
    n_jobs: int | None = None,
) -> list[list[Any]]:
    """Turn clips into streams by each of several bags; each clip is read once for all of them.

    For each bag and each clip there is a stream, or the `VideoError`, `StreamError` or `OrderError` in its
    place, which names the clip. Other errors do not depend on the clip, so they are raised. A `BagUnion`
    gives tuples of streams. Each bag, also of a union, has a record of its own for each clip, which is read
    again if it is there; a clip that breaks off gives a `VideoWarning`, whether its record is new or not.
    """
    members = [bag.members() for bag in bags]
    single = [member for several in members for member in several]
    keys = [{"bags": fingerprint(bag)} if cache is not None and cache.folder else {} for bag in single]

    def make(path: Path, missing: Sequence[int]) -> list[Made]:
        with collect_warnings():  # they are part of the records
            described = describe([single[k] for k in missing], path)
        return [
            (stream if isinstance(stream, SysbagsError) else {"stream": stream}, texts)
            for stream, texts in described
        ]

    results: list[list[Any]] = [[] for _ in bags]
    records = _records(cache, "stream", keys, make, paths, n_jobs, "clips")
    for path, outcomes in zip(paths, records, strict=True):
        streams = iter([one if isinstance(one, SysbagsError) else one["stream"] for one in outcomes])
        for bag, several, result in zip(bags, members, results, strict=True):
            result.append(attempt(path, bag.join, [next(streams) for _ in several]))
    return results


def clip_records(
    cache: Cache | None,
    kind: str,
    key: Mapping[str, Any],
    make: Callable[[Path], Arrays],
    paths: Sequence[Path],
    n_jobs: int | None = None,
    description: str = "clips",
) -> list[Any]:
    """Compute named arrays for each clip, one record per clip; an error takes the place of the arrays.

    `kind` is one of `sysbags._common.cache.SCHEMAS`, `key` what the arrays depend on besides the clip. The
    warnings of a clip are part of its record, so no array has this name. They are given in the caller's
    thread when all clips are done, whether the record is new or not.
    """

    def make_one(path: Path, _: Sequence[int]) -> list[Made]:
        with collect_warnings() as texts:
            return [(make(path), texts)]

    return [one for (one,) in _records(cache, kind, [key], make_one, paths, n_jobs, description)]


def attempt(path: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a clip; return what it returns, or what is wrong with the clip, by its path."""
    try:
        return function(*arguments)
    except (VideoError, StreamError, OrderError) as error:
        text = str(error)
        return type(error)(text if str(path) in text else f"{path}: {text}")


def good(outcome: Item | SysbagsError) -> Item:
    """Return a result, or raise the error in its place."""
    if isinstance(outcome, SysbagsError):
        raise outcome
    return outcome


def _records(
    cache: Cache | None,
    kind: str,
    keys: Sequence[Mapping[str, Any]],
    make: Callable[[Path, Sequence[int]], Sequence[Made]],
    paths: Sequence[Path],
    n_jobs: int | None,
    description: str,
) -> list[list[Any]]:
    """Return one record for each clip and each of the keys; an error may be in the place of a record.

    `make` is called once per clip, if any of its records is missing, with the path and the places of the
    missing ones in `keys`. It returns one pair for each of these: the arrays, or an error, and the texts of
    the warnings. An error that it raises is that of all missing records.
    """
    shared = (cache, kind, keys, make)
    outcomes = run(_records_of_clip, list(paths), n_jobs, description, shared=shared, remote=True)
    for outcome in outcomes:
        records = [record for record in outcome if not isinstance(record, SysbagsError)]
        texts = [text for record in records for text in json.loads(record.pop("warnings").tobytes())]
        for text in dict.fromkeys(texts):
            warn(text, VideoWarning, stacklevel=3)
    return outcomes


def _records_of_clip(
    path: Path,
    cache: Cache | None,
    kind: str,
    keys: Sequence[Mapping[str, Any]],
    make: Callable[[Path, Sequence[int]], Sequence[Made]],
) -> list[Any]:
    """Read the records of a clip, and make and write those that are missing."""
    clip = attempt(path, clip_key, path)
    if isinstance(clip, SysbagsError):
        return [clip for _ in keys]
    clip_keys = [{**key, **clip} for key in keys]
    found: list[Any] = [None if cache is None else cache.find(kind, key) for key in clip_keys]
    missing = [k for k, record in enumerate(found) if record is None]
    made = attempt(path, make, path, missing) if missing else ()
    if isinstance(made, SysbagsError):
        made = [(made, ()) for _ in missing]
    for k, (outcome, texts) in zip(missing, made, strict=True):
        found[k] = arrays = attempt(path, good, outcome)
        if not isinstance(arrays, SysbagsError):
            found[k] = {**arrays, "warnings": np.frombuffer(json.dumps(texts).encode(), np.uint8)}
            if cache is not None:
                found[k] = cache.keep(kind, clip_keys[k], found[k])
    return found


class Described(NamedTuple):
    """What a bag makes of a video: its stream or what is wrong, and warnings that concern this bag."""

    stream: Any
    warnings: tuple[str, ...] = ()


def describe(bags: Sequence[BagTransformer], video: Video) -> list[Described]:
    """Describe a video by each of several bags, and decode each picture once.

    The streams are those of ``bag.stream(video)``. The bags take turns, so that few frames are in memory, for
    any reading options. Bags of the same network run it once per frame, and visual words with the same
    descriptors compute them once. The error of a bag takes the place of its stream, and the other bags are
    not affected. A video that breaks off gives one `VideoWarning`.

    >>> from sysbags.bags import ColourHistogram, LocalBinaryPatterns
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(6, 48, 64, 3), dtype=np.uint8)
    >>> bags = [LocalBinaryPatterns(), ColourHistogram(grid=1, frames={"stride": 2})]
    >>> [described.stream.shape for described in describe(bags, iter(clip))]
    [(6, 256), (3, 384)]
    """
    if len(bags) == 1:
        return [_describe_alone(bags[0], video)]
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
                described[place] = _describe_alone(bag, video)
            else:
                described[place] = Described(result, lane.warnings)
    return [described[k] for k in range(len(bags))]


def _describe_alone(bag: BagTransformer, video: Video) -> Described:
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
    """One reader of a shared video, for bags that share a pass; `results` has their streams or errors."""

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


class LiveBag:
    """Turn the frames of an endless video into rows of its stream, with the options and memory of a bag.

    The rows are those of ``bag.stream(video)``, also for bags that compare neighbouring frames, skip frames
    (`frames={"stride": 2}`) or pool them. A bag takes its frames from an iterator when it needs them, so it
    runs in a thread of its own, which waits for frames; only one of the two threads runs at a time. The rows
    of `Regions` are (T, cells, p).
    """

    def __init__(self, bag: BagTransformer | Regions) -> None:
        if type(bag).masses is BagTransformer.masses:
            raise ParameterError(
                f"{type(bag).__name__} needs a finished video, but this one is live: use another bag, for "
                "instance LocalBinaryPatterns"
            )
        self._inbox: Inbox = SimpleQueue()
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = Thread(target=_describe, args=(bag, self._inbox, self._outbox), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._inbox.put, None)

    def update(self, frames: Iterable[Frame]) -> Array:
        """Add frames and return the rows that are complete now, (T, p); (0, 0) before there are any."""
        if self._failure is None:
            self._inbox.put(frames)
            rows = self._outbox.get()
            if not isinstance(rows, BaseException):
                return rows  # type: ignore[no-any-return]
            self._failure = rows
        raise self._failure


def _describe(bag: BagTransformer | Regions, inbox: Inbox, outbox: SimpleQueue[Any]) -> None:
    """Answer each bunch of frames with the rows that end within it, or with the error that it gives."""
    pooling = Pooling(bag.window, bag.step)
    shape: tuple[int, ...] = (0,)

    def answer() -> None:
        rows = np.frombuffer(bytes(pooling.rows))
        outbox.put(rows.reshape(-1, *shape) if rows.size else np.empty((0, *shape)))
        pooling.rows.clear()

    def arriving() -> Iterator[Frame]:
        while (frames := inbox.get()) is not None:
            yield from frames
            answer()  # the bag asks for a frame that is not there yet: all rows so far are complete
        inbox.put(None)  # for the loop below

    try:
        for row in bag.masses(bag.read(arriving())):
            shape = row.shape
            pooling.add(row)
        # The bag wants no more frames, for instance by its option `stop`.
        answer()
        while inbox.get() is not None:
            answer()
    except BaseException as error:
        outbox.put(error)
