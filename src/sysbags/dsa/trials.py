"""Trials: the time series of one system, their delay embedding, and the checks of both."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_integer, check_matrix
from sysbags.errors import StreamError

Trials = tuple[list[Array], list[Array], str]
"""The trials of one system, their inputs, and the name of the data in error messages."""

MEANING = "an array (time,), (time, channels) or (trials, time, channels)"


def delay_embed(data: npt.ArrayLike, n_delays: int = 1, delay_interval: int = 1) -> Array:
    """Return the delay embedding of a time series: each row joins `n_delays` rows of the data.

    Row t of the result is ``[x_s, x_{s-i}, ..., x_{s-(d-1)i}]`` with ``s = t + (d-1) i``, for d delays at the
    interval i: the newest observation comes first. So one delay is the data itself. The data is (time,) for
    one channel, (time, channels) or (trials, time, channels); trials are embedded one by one.

    >>> delay_embed([[0, 10], [1, 11], [2, 12]], n_delays=2)
    array([[ 1., 11.,  0., 10.],
           [ 2., 12.,  1., 11.]])
    """
    array = _check_array(data, "data")
    check_integer(n_delays, "n_delays")
    check_integer(delay_interval, "delay_interval")
    span = (n_delays - 1) * delay_interval
    rows = array.shape[-2] - span
    if rows < 1:
        raise StreamError(
            f"data has {array.shape[-2]} time points, but {n_delays} delays at the interval {delay_interval} "
            f"need at least {span + 1}"
        )
    starts = range(span, -1, -delay_interval)
    return np.concatenate([array[..., start : start + rows, :] for start in starts], axis=-1)


def is_collection(data: Any) -> bool:
    """Return whether the data is a list of trials or systems; a flat list of numbers is one series."""
    return isinstance(data, (list, tuple)) and not (data and isinstance(data[0], Real))


def check_items(data: Sequence[Any], name: str) -> None:
    """Raise an error if an item of a list is a list of numbers: it could as well be a time point."""
    for k, item in enumerate(data):
        if isinstance(item, (list, tuple)) and not is_collection(item):
            raise StreamError(
                f"{name}[{k}] is a list of numbers, which may be a series or a time point: pass {name} as a "
                "numpy array or as a list of numpy arrays"
            )


def check_trials(data: Any, name: str) -> list[Array]:
    """Return the trials (time, channels) of one system, whose name is for error messages.

    The data is (time,) for one channel, (time, channels), (trials, time, channels), or a list of such arrays,
    whose lengths may differ. A flat list of numbers is (time,).
    """
    if not is_collection(data):
        return _split(data, name)
    if not data:
        raise StreamError(f"{name} is an empty list, but a system needs at least one trial")
    check_items(data, name)
    trials = [trial for k, item in enumerate(data) for trial in _split(item, f"{name}[{k}]")]
    channels = {trial.shape[1] for trial in trials}
    if len(channels) > 1:
        raise StreamError(
            f"the trials of {name} have {' and '.join(map(str, sorted(channels)))} channels, but all trials "
            "of a system must have the same channels"
        )
    return trials


def _split(data: Any, name: str) -> list[Array]:
    """Return the trials of an array with one to three dimensions."""
    array = _check_array(data, name)
    return list(array) if array.ndim == 3 else [array]


def _check_array(data: Any, name: str) -> Array:
    """Return a finite array with two or three dimensions; one dimension becomes one channel."""
    try:
        dimensions = np.ndim(data)
    except ValueError:  # ragged rows, which are refused below
        dimensions = 2
    shape = (None,) * (dimensions if dimensions in (1, 3) else 2)
    array = check_matrix(data, name, shape, MEANING, StreamError)
    return array[:, None] if array.ndim == 1 else array


def check_controls(control: Any, trials: Sequence[Array], name: str) -> list[Array]:
    """Return the inputs (time, inputs) of each trial; without any, arrays without columns."""
    if control is None:
        return [np.empty((len(trial), 0)) for trial in trials]
    controls = check_trials(control, name)
    lengths, expected = [len(inputs) for inputs in controls], [len(trial) for trial in trials]
    if lengths != expected:
        raise StreamError(
            f"the trials of {name} have {_listed(lengths)} time points, but the trials of the data have "
            f"{_listed(expected)}: each time point needs its inputs"
        )
    return controls


def _listed(lengths: list[int]) -> str:
    return ", ".join(map(str, lengths[:5])) + (", ..." if len(lengths) > 5 else "")


def embedded_trials(trials: Sequence[Array], n_delays: int, delay_interval: int, name: str) -> list[Array]:
    """Return the delay embedding of each trial, with at least two rows, so that there is a transition."""
    check_integer(n_delays, "n_delays")
    check_integer(delay_interval, "delay_interval")
    needed = (n_delays - 1) * delay_interval + 2
    for k, trial in enumerate(trials):
        if len(trial) < needed:
            raise StreamError(
                f"trial {k} of {name} has {len(trial)} time points, but n_delays={n_delays} with "
                f"delay_interval={delay_interval} needs at least {needed}"
            )
    return [delay_embed(trial, n_delays, delay_interval) for trial in trials]
