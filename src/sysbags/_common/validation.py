"""Checks of arguments: each error is one sentence on what is wrong, where, and what would be right."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.messages import warn
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags.errors import ParameterError, StreamError, StreamWarning, SysbagsError

SUM_TOLERANCE = 1e-6
TRANSPOSE = "rows must be time, so give streams.transpose(0, 2, 1), or stream.T of a single one"


def check_stream(stream: Any, kernel: KernelLike = "chi2", *, name: str = "stream") -> Array:
    """Return a stream as a C-contiguous (N, p) float64 array that is valid for the kernel.

    The histogram kernels need rows without negative entries whose sum is 1; "linear" and a callable take any
    finite rows. The name is for error messages. The array of the caller is returned if nothing has to be
    converted, otherwise a copy.
    """
    array = _real_array(stream, name, StreamError)
    if array.ndim != 2:
        raise StreamError(
            f"{name} has {array.ndim} dimensions, but it must have 2: one row per frame, one column per bin"
        )
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise StreamError(
            f"{name} is empty (shape {array.shape}), but it needs at least one row (frame) and column (bin)"
        )
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise StreamError(
            f"{name} holds {array[row, column]} at row {row}, column {column}, but every entry must be finite"
        )
    if isinstance(kernel, str) and kernel != "linear":
        _check_histograms(array, kernel, name)
    return array


def _check_histograms(array: Array, kernel: str, name: str) -> None:
    """Raise an error unless all rows are histograms that sum to 1."""
    if array.min() < 0.0:
        row, column = np.unravel_index(int(array.argmin()), array.shape)
        raise StreamError(
            f"{name} holds the negative entry {array[row, column]:.6g} at row {row}, column {column}, but "
            f'the {kernel} kernel compares histograms: entries must be 0 or more (kernel="linear" takes any, '
            "such as the paths of a StreamEmbedding)"
        )
    sums = array.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    if wrong.size:
        total = sums[wrong[0]]
        if np.abs(array.sum(axis=0) - 1.0).max() <= SUM_TOLERANCE:
            advice = f"its columns do, so time and bins are exchanged: {TRANSPOSE}"
        elif total > 0.0:
            advice = "divide each row by its sum"
        else:
            advice = "this frame has an empty bag, so drop it or give it a bag"
        raise StreamError(
            f"row {wrong[0]} of {name} sums to {total:.6g}, but each histogram must sum to 1: {advice}"
        )


def warn_if_exchanged(streams: Any, kernel: Any) -> None:
    """Warn of an array of streams that seems to be (clips, channels, time), as aeon has it.

    Histogram kernels check the sum of each row instead, which shows more; see `check_stream`.
    """
    shape: Sequence[int] = getattr(streams, "shape", ())
    if len(shape) == 3 and shape[1] < shape[2] and (kernel == "linear" or callable(kernel)):
        warn(
            f"streams have {shape[1]} rows, frames, and {shape[2]} columns, bins or channels; if these are "
            f"channels and frames, as in aeon, {TRANSPOSE}",
            StreamWarning,
            stacklevel=3,
        )


def check_matrix(
    value: Any,
    name: str,
    shape: tuple[int | None, ...],
    meaning: str,
    error: type[SysbagsError] = ParameterError,
) -> Array:
    """Return a finite float64 array of the given shape (None: any length); `meaning` ends the message."""
    array = _real_array(value, name, error)
    fits = array.ndim == len(shape) and all(
        expected in (None, length) for expected, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise error(f"{name} has shape {array.shape}, but it must be {meaning}")
    if array.size == 0:
        raise error(f"{name} is empty (shape {array.shape}), but it must be {meaning}")
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise error(f"{name} holds {array[index]} at index {index}, but every entry must be finite")
    return array


def _real_array(value: Any, name: str, error: type[SysbagsError]) -> Array:
    """Return a C-contiguous float64 array, without a copy if nothing has to be converted."""
    if _has_masked_entries(value):
        raise error(f"{name} is a masked array with masked entries, but each entry must have a value")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        raise error(
            f"{name} is ragged: its rows have different lengths, but it must be an array of numbers"
        ) from None
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (ValueError, TypeError):
            what = "holds objects that are not numbers" if array.ndim else f"is a {type(value).__name__}"
            raise error(f"{name} {what}, but it must be an array of numbers") from None
    if array.dtype.kind not in "biuf":
        raise error(f"{name} holds {array.dtype} entries, but it must hold real numbers")
    return np.ascontiguousarray(array, dtype=np.float64) if array.ndim else array.astype(np.float64)


def _has_masked_entries(value: Any) -> bool:
    """Whether an array, or a row in a list of rows, has masked entries; NumPy would ignore the mask."""
    rows = value if isinstance(value, (list, tuple)) else (value,)
    return any(np.ma.is_masked(row) for row in rows)


def kernel_name(kernel: KernelLike) -> str:
    """Return the name of a kernel in error messages."""
    return repr(kernel) if isinstance(kernel, str) else getattr(kernel, "__name__", repr(kernel))


def check_labels(labels: Any, items: int, name: str = "labels") -> tuple[npt.NDArray[Any], IntArray]:
    """Return the sorted classes (or groups) and the index of the class of each item."""
    if _has_masked_entries(labels):
        raise ParameterError(f"{name} are a masked array with masked entries, but each item needs a label")
    try:
        array = np.asarray(labels)
        fits = array.shape == (items,)
        classes, codes = np.unique(array, return_inverse=True)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be a sequence of one kind, such as words or whole numbers"
        ) from None
    if not fits:
        raise ParameterError(
            f"{name} have shape {array.shape}, but there must be one for each of the {items} items"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ParameterError(f"{name} hold a number that is not finite, but each item needs a class")
    # What scikit-learn calls continuous; its own check takes a second to import, and warns of large numbers.
    if array.dtype.kind == "f" and name == "labels" and (array % 1.0).any():
        raise ParameterError(
            f"labels hold {array[array % 1.0 != 0.0][0]:g}, but they must be classes, such as words or whole "
            "numbers: continuous values are for regression"
        )
    return classes, codes.astype(np.int64)


def check_two_classes(classes: npt.NDArray[Any]) -> None:
    """Refuse a single class."""
    if len(classes) < 2:
        raise ParameterError(f"all clips have the class {classes[0]}, but there must be at least two classes")


def check_weight(value: Any, name: str) -> float:
    """Return a finite real number that is 0 or more."""
    if type(value) is float and 0.0 <= value < math.inf:
        return value
    if not _is_real(value) or not math.isfinite(value) or value < 0:
        raise ParameterError(f"{name} is {value!r}, but it must be a finite number that is 0 or more")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """Return a finite real number above 0."""
    number = check_weight(value, name)
    if number == 0.0:
        raise ParameterError(f"{name} is 0, but it must be above 0")
    return number


def check_share(value: Any, name: str, *, low: str, high: str) -> float:
    """Return a real number between 0 and 1; `low` is "[" or "(", `high` is "]" or ")"."""
    inside = (
        _is_real(value)
        and (value >= 0 if low == "[" else value > 0)
        and (value <= 1 if high == "]" else value < 1)
    )
    if not inside:
        raise ParameterError(f"{name} is {value!r}, but it must be a number in {low}0, 1{high}")
    return float(value)


def check_choice(value: Any, name: str, choices: Collection[str]) -> str:
    """Return a value that is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name} is {value!r}, but it must be one of {', '.join(map(repr, choices))}")
    return value


def check_integer(value: Any, name: str, minimum: int = 1) -> int:
    """Return a whole number that is not below the minimum."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not is_integer or value < minimum:
        raise ParameterError(f"{name} is {value!r}, but it must be a whole number of at least {minimum}")
    return int(value)


def has_several_streams(item: Any) -> bool:
    """Return whether an item is a tuple of streams; a stream may be a tuple of rows, as any array_like."""
    return isinstance(item, tuple) and len(item) > 0 and np.ndim(item[0]) == 2


def check_per_bag(value: Any, name: str, count: int) -> list[Any]:
    """Return the values of a parameter for each of several bags: a single one serves all."""
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        return [value] * count
    if len(value) != count:
        raise ParameterError(
            f"{name} is {value!r}, but it must be a single value or have one entry for each bag, here {count}"
        )
    return list(value)


def _is_real(value: Any) -> bool:
    return isinstance(value, (numbers.Real, np.floating)) and not isinstance(value, (bool, np.bool_))


def seed_of(random_state: Any) -> int:
    """Turn a random state (an integer, a Generator, a RandomState or None) into an integer."""
    if type(random_state) is int and random_state >= 0:
        return random_state
    if isinstance(random_state, np.integer) and random_state >= 0:
        return int(random_state)
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise ParameterError(
        f"random_state is {random_state!r}, but it must be a whole number of at least 0, a Generator or None"
    )


def generator_of(random_state: Any) -> np.random.Generator:
    """Return a Generator as it is, and a new one for any other random state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_of(random_state))
