"""Files of labelled streams that do not come from clips: sounds, sensors, any sequences of vectors."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.files import atomic_write
from sysbags._common.types import Array
from sysbags._common.validation import check_stream
from sysbags.datasets.folder import check_trial
from sysbags.errors import FileError, ParameterError, SysbagsError

ARRAYS = ("streams", "lengths", "labels", "groups", "names", "trials", "trial_names")


@dataclass(frozen=True, eq=False)
class LabelledStreams:
    """The result of `read_streams`.

    Attributes
    ----------
    streams : list of (N, p) array
        Rows are time; N may differ from stream to stream.
    labels : list of str or list of int
        The class of each stream.
    groups : list of str, list of int, or None
        What is left out together: the source, the recording or the fold of each stream.
    names : list of str
        A name for each stream; "stream 0", "stream 1", ... if the file has none.
    trials : dict of str to list of str
        Official splits: for each trial, "train" or "test" for each stream, or "" if the stream is not used
        in this trial.

    Examples
    --------
    >>> LabelledStreams([np.ones((20, 4))], ["dog"], groups=[0], names=["stream 0"]).trials
    {}
    """

    streams: list[Array]
    labels: list[str] | list[int]
    groups: list[str] | list[int] | None
    names: list[str]
    trials: dict[str, list[str]] = field(default_factory=dict)


def read_streams(path: str | os.PathLike[str]) -> LabelledStreams:
    """Read labelled streams from an ``.npz`` file. Loading runs no code: pickled objects are refused.

    The file holds K streams of vectors of length p in these arrays; others are ignored:

    * ``streams``: (K, N, p), or (rows, p) with the rows of one stream after those of another.
    * ``lengths``: (K,) numbers of rows, only for ``streams`` of shape (rows, p).
    * ``labels``: (K,) text or integers, the classes.
    * ``groups`` (optional): (K,) text or integers, what is left out together.
    * ``names`` (optional): (K,) text, no name twice.
    * ``trials`` (optional): (K, T) text, official splits. An entry is "train", "test", or empty if the stream
      is not used in this trial.
    * ``trial_names`` (optional): (T,) text, no name twice. Without it they are "trial 0", "trial 1", ...

    A file that is missing or is no such file is a `FileError`; a stream that is empty or holds NaN, infinity,
    or anything but real numbers is a `StreamError`.

    See Also
    --------
    write_streams : write such a file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sounds.npz"
    >>> rng = np.random.default_rng(0)
    >>> np.savez(path, streams=rng.random((3, 20, 4)), labels=["dog", "rain", "rain"])
    >>> data = read_streams(path)
    >>> data.streams[0].shape, data.labels, data.names
    ((20, 4), ['dog', 'rain', 'rain'], ['stream 0', 'stream 1', 'stream 2'])
    """
    _check_path(path)
    arrays = _load(path)
    streams = [
        check_stream(stream, "linear", name=f"stream {k} in {path}")
        for k, stream in enumerate(_split(arrays, path))
    ]
    titles = {name: f"the array {name!r} in {path}" for name in ARRAYS}
    return _labelled(streams, arrays, titles, FileError)


def write_streams(
    path: str | os.PathLike[str],
    streams: Iterable[npt.ArrayLike],
    labels: Iterable[str] | Iterable[int],
    groups: Iterable[str] | Iterable[int] | None = None,
    names: Iterable[str] | None = None,
    trials: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write labelled streams to an ``.npz`` file that `read_streams` reads.

    A file that exists is replaced when the new one is complete.

    Parameters
    ----------
    path : path
    streams : iterable of (N, p) array_like
        Rows are time. N may differ from stream to stream, p may not.
    labels : iterable of str or of int
        The class of each stream.
    groups : iterable of str or of int, optional
        What is left out together: the source, the recording or the fold of each stream.
    names : iterable of str, optional
        A name for each stream, no name twice.
    trials : mapping of str to sequence of str, optional
        Official splits: for each trial, "train" or "test" for each stream, or "" if the stream is not used in
        this trial.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sensors.npz"
    >>> streams = [np.eye(4), np.ones((2, 4)), np.zeros((3, 4))]
    >>> write_streams(path, streams, [0, 1, 1], trials={"official": ["train", "train", "test"]})
    >>> data = read_streams(path)
    >>> [len(stream) for stream in data.streams], data.labels, data.trials
    ([4, 2, 3], [0, 1, 1], {'official': ['train', 'train', 'test']})
    """
    _check_path(path)
    checked = [
        check_stream(stream, "linear", name=f"stream {k}")
        for k, stream in enumerate(_items(streams, "streams"))
    ]
    arrays: dict[str, Any] = _join(checked)
    arrays["labels"] = _array(labels, "labels")
    optional = {"groups": groups, "names": names}
    arrays |= {name: _array(values, name) for name, values in optional.items() if values is not None}
    if trials is not None:
        arrays |= _trial_arrays(trials, len(checked))
    data = _labelled(checked, arrays, {name: name for name in ARRAYS}, ParameterError)
    if data.trials:
        arrays["trials"] = np.array(list(data.trials.values())).T  # lower case, without spaces
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _check_path(path: Any) -> None:
    """Raise an error for a number, which is an open file for `open`, and for bytes."""
    if not isinstance(path, (str, os.PathLike)):
        raise FileError(f"path is {path!r}, but it must be the path of an .npz file, as text or a Path")


def _load(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """Return those arrays of a file that are in `ARRAYS`."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(mode):
        description = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise FileError(f"{path} is {description}, but it must be an .npz file")
    try:
        opened = np.load(path, allow_pickle=False)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception:  # many kinds, also of zipfile; NumPy takes an unknown file for a pickle
        raise FileError(
            f"{path} is not an .npz file, or is damaged: write one with write_streams or numpy.savez"
        ) from None
    if not isinstance(opened, np.lib.npyio.NpzFile):
        raise FileError(
            f"{path} holds a single array (.npy), but it must be an .npz file with the arrays 'streams' and "
            "'labels'"
        )
    with opened:
        for name in ("streams", "labels"):
            if name not in opened.files:
                present = ", ".join(repr(file) for file in opened.files) or "none"
                raise FileError(
                    f"{path} has no array {name!r}, but it needs at least 'streams' and 'labels' "
                    f"(its arrays: {present})"
                )
        return {name: _member(opened, name, path) for name in ARRAYS if name in opened.files}


def _member(opened: Mapping[str, Any], name: str, path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    try:
        array = opened[name]
    except Exception as error:  # many kinds: of zipfile, zlib and NumPy
        if "allow_pickle" in str(error):
            raise FileError(
                f"the array {name!r} in {path} holds Python objects, which are refused because loading them "
                "could run code: store numbers or text, and streams of different length with 'lengths'"
            ) from None
        raise FileError(
            f"the array {name!r} in {path} is damaged, so write the file again: {error}"
        ) from None
    if not isinstance(array, np.ndarray):  # NumPy returns other files of an archive as bytes
        raise FileError(f"{name!r} in {path} is not an array, but it must be one, as numpy.savez writes it")
    return array


def _split(arrays: Mapping[str, npt.NDArray[Any]], path: str | os.PathLike[str]) -> list[npt.NDArray[Any]]:
    """Return the streams of a file, one by one."""
    array = arrays["streams"]
    if array.ndim == 3:
        if "lengths" in arrays:
            raise FileError(
                f"{path} has the array 'lengths', so the array 'streams' must have the shape (rows, p), the "
                f"streams one after another, but its shape is {array.shape}"
            )
        streams = list(array)
    elif array.ndim == 2:
        if "lengths" not in arrays:
            raise FileError(
                f"the array 'streams' in {path} has the shape {array.shape}, so there must be an array "
                "'lengths' with the number of rows of each stream; without it the shape must be (K, N, p)"
            )
        lengths = _lengths(arrays["lengths"], len(array), path)
        streams = np.split(array, np.cumsum(lengths)[:-1]) if lengths else []
    else:
        raise FileError(
            f"the array 'streams' in {path} has the shape {array.shape}, but it must be (K, N, p), or "
            "(rows, p) with an array 'lengths'"
        )
    if not streams:
        raise FileError(f"{path} holds no stream, but it needs at least one")
    return streams


def _lengths(array: npt.NDArray[Any], rows: int, path: str | os.PathLike[str]) -> list[int]:
    """Return the numbers of rows of the streams."""
    title = f"the array 'lengths' in {path}"
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise FileError(
            f"{title} has the shape {array.shape} and the type {array.dtype}, but it must hold one integer "
            "for each stream"
        )
    lengths: list[int] = array.tolist()
    for k, length in enumerate(lengths):
        if length < 1:
            raise FileError(f"entry {k} of {title} is {length}, but a stream has at least one row")
    if sum(lengths) != rows:
        raise FileError(
            f"the sum of {title} is {sum(lengths)}, but the array 'streams' has {rows} rows: the sum must be "
            "the number of rows"
        )
    return lengths


def _join(streams: list[Array]) -> dict[str, npt.NDArray[Any]]:
    """Return streams as arrays of a file."""
    if not streams:
        raise ParameterError("streams is empty, but it needs at least one stream")
    columns = streams[0].shape[1]
    for k, stream in enumerate(streams):
        if stream.shape[1] != columns:
            raise ParameterError(
                f"stream {k} has {stream.shape[1]} columns, but it must have {columns} as stream 0: all "
                "streams have the same number of columns"
            )
    lengths = np.array([len(stream) for stream in streams])
    if (lengths == lengths[0]).all():
        return {"streams": np.stack(streams)}
    return {"streams": np.concatenate(streams), "lengths": lengths}


def _labelled(
    streams: list[Array],
    arrays: Mapping[str, npt.NDArray[Any]],
    titles: Mapping[str, str],
    error: type[SysbagsError],
) -> LabelledStreams:
    """Check all arrays but the streams; `titles` are their names in error messages."""
    count = len(streams)

    def entries(name: str, kinds: str = "Uiu") -> list[Any]:
        return _entries(arrays[name], titles[name], count, "stream", kinds, error)

    labels = entries("labels")
    groups = entries("groups") if "groups" in arrays else None
    names = entries("names", "U") if "names" in arrays else [f"stream {k}" for k in range(count)]
    _check_unique(names, titles["names"], error)
    trials = {}
    if "trials" in arrays:
        trials = _trials(arrays, titles, count, error)
    elif "trial_names" in arrays:
        raise error(f"{titles['trial_names']} is there without the array 'trials', but it names its columns")
    return LabelledStreams(streams, labels, groups, names, trials)


def _trials(
    arrays: Mapping[str, npt.NDArray[Any]], titles: Mapping[str, str], count: int, error: type[SysbagsError]
) -> dict[str, list[str]]:
    array, title = arrays["trials"], titles["trials"]
    if array.ndim != 2 or len(array) != count:
        raise error(
            f"{title} has the shape {array.shape}, but it must have {count} rows, one for each stream, and "
            "one column for each trial"
        )
    names = [f"trial {t}" for t in range(array.shape[1])]
    if "trial_names" in arrays:
        names = _entries(arrays["trial_names"], titles["trial_names"], len(names), "trial", "U", error)
        _check_unique(names, titles["trial_names"], error)
    places = [f"stream {k}" for k in range(count)]
    trials = {}
    for name, column in zip(names, array.T, strict=True):
        words = _entries(column, title, count, "stream", "U", error, allow_empty=True)
        trials[name] = check_trial(words, f"column {name!r} of {title}", places, error)
    return trials


def _entries(
    array: npt.NDArray[Any],
    title: str,
    count: int,
    owner: str,
    kinds: str,
    error: type[SysbagsError],
    *,
    allow_empty: bool = False,
) -> list[Any]:
    """Return the entries of an array that must hold one text or integer for each owner."""
    if array.shape != (count,):
        raise error(
            f"{title} has the shape {array.shape}, but it must be ({count},): one entry for each {owner}"
        )
    if array.dtype.kind not in kinds:
        expected = "text" if kinds == "U" else "text or integers"
        raise error(f"{title} has entries of type {array.dtype}, but they must be {expected}")
    try:
        entries: list[Any] = array.tolist()
    except (ValueError, SystemError):  # a number beyond the last character
        raise error(f"{title} holds text that is not Unicode, but it must be") from None
    for i, entry in enumerate(entries):
        if isinstance(entry, str) and not entry.strip() and not allow_empty:
            raise error(f"entry {i} of {title} is empty, but each {owner} needs one")
    return entries


def _check_unique(names: list[str], title: str, error: type[SysbagsError]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise error(f"{title} has {name!r} more than once, but each name must be different")
        seen.add(name)


def _trial_arrays(trials: Any, count: int) -> dict[str, npt.NDArray[Any]]:
    """Return trials as arrays of a file."""
    if not isinstance(trials, Mapping):
        raise ParameterError(
            f"trials is a {type(trials).__name__}, but it must be a mapping from the name of each trial to "
            "'train', 'test' or '' for each stream"
        )
    if not trials:
        return {}
    columns = []
    for name, words in trials.items():
        column = _array(words, f"trial {name!r}")
        if column.shape != (count,):
            raise ParameterError(
                f"trial {name!r} has the shape {column.shape}, but it must be ({count},): one entry for each "
                "stream"
            )
        columns.append(column)
    return {"trials": np.stack(columns, axis=1), "trial_names": _array(trials, "trials")}


def _array(values: Any, name: str) -> npt.NDArray[Any]:
    """Return an array of text or of integers that holds exactly these values."""
    items = _items(values.tolist() if isinstance(values, np.ndarray) else values, name)
    try:
        array = np.asarray(items)
        same = array.tolist() == items
    except (TypeError, ValueError, OverflowError):  # ragged, or more than one truth value
        same = False
    if not same:
        raise ParameterError(
            f"{name} cannot be stored as it is: all entries must be text, without null characters, or all "
            "must be integers"
        )
    return array


def _items(values: Any, name: str) -> list[Any]:
    try:
        if not isinstance(values, (str, bytes)):  # whose letters are no entries
            return list(values)
    except TypeError:
        pass
    raise ParameterError(f"{name} is {values!r}, but it must be a sequence with one entry for each stream")
