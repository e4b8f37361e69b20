"""The number of delays, chosen by how well the next observation is predicted on held-out time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.dsa.modes import fit_trials
from sysbags.dsa.trials import check_controls, check_trials, delay_embed
from sysbags.errors import OrderError, StreamError

__all__ = ["CANDIDATES", "Trials", "choose_delays", "select_delays"]

CANDIDATES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
TRAINING_SHARE = 0.75
MARGIN = 1.05
"""Fewer delays are preferred while their error is at most this many times the smallest one."""
PERFECT = 1e-6
"""Relative errors below this are round-off, whose order means nothing."""

Trials = tuple[list[Array], list[Array], str]
"""The trials of one system, their inputs, and the name of the data in error messages."""


def select_delays(
    data: Any,
    *,
    control: Any = None,
    delay_interval: int = 1,
    rank: int | str | None = None,
    lamb: float = 0.0,
) -> int:
    """Return the number of delays that predicts the next observation of one system best.

    The first three quarters of each trial are fitted, once for each number of delays in 1, 2, 3, 4, 6, 8,
    12, 16, 24, 32. On the last quarter, which is the same for all of them, the states are moved by one step,
    and the newest observation is read from them. The smallest number of delays whose error is at most
    1.05 times the smallest error is returned. Numbers above 1 for which the training part is too short (fewer
    than two rows for each dimension of the state), and those for which the rank is not possible, are left
    out.

    Parameters
    ----------
    data, control, delay_interval, rank, lamb
        See `fit_dmd`.

    Returns
    -------
    int
        One of the numbers above.

    Examples
    --------
    >>> import numpy as np
    >>> select_delays(np.cos(0.3 * np.arange(200)))
    2
    """
    trials = check_trials(data, "data")
    system = trials, check_controls(control, trials, "control"), "data"
    return choose_delays([system], [delay_interval], [rank], lamb)


def choose_delays(
    systems: Sequence[Trials],
    delay_intervals: Sequence[int],
    ranks: Sequence[int | str | None],
    lamb: float,
    n_jobs: int | None = None,
) -> int:
    """Return one number of delays for several systems, by the mean of their squared errors."""

    def mean_error(n_delays: int) -> float:
        settings = zip(systems, delay_intervals, ranks, strict=True)
        return float(
            np.mean([_error(system, n_delays, interval, rank, lamb) for system, interval, rank in settings])
        )

    errors = np.array(run(mean_error, CANDIDATES, n_jobs, "numbers of delays"))
    if not np.isfinite(errors).any():
        raise StreamError(
            f'{systems[0][2]} is too short for n_delays="auto", which holds out a quarter of each trial: '
            "give the number of delays"
        )
    good = np.flatnonzero(errors <= MARGIN**2 * errors.min() + PERFECT**2)
    return CANDIDATES[int(good[0])]


def _error(system: Trials, n_delays: int, interval: int, rank: int | str | None, lamb: float) -> float:
    """Return the relative squared error of one-step prediction on held-out time; inf where nothing fits."""
    trials, controls, name = system
    cuts = [int(TRAINING_SHARE * len(trial)) for trial in trials]
    span, channels = (n_delays - 1) * interval, trials[0].shape[1]
    rows = [cut - span for cut in cuts]
    width = rank if isinstance(rank, int) else n_delays * channels
    if min(rows) < 2 or (n_delays > 1 and sum(rows) < 2 * width):
        return np.inf
    try:
        modes = fit_trials(
            [trial[:cut] for trial, cut in zip(trials, cuts, strict=True)],
            [inputs[:cut] for inputs, cut in zip(controls, cuts, strict=True)],
            n_delays,
            interval,
            rank,
            lamb,
            None,
            name,
        )
    except OrderError:
        return np.inf
    missed = total = 0.0
    for trial, inputs, cut in zip(trials, controls, cuts, strict=True):
        # The first target is the observation at `cut`, whatever the number of delays.
        states = delay_embed(trial[cut - 1 - span : -1], n_delays, interval) @ modes.encoder
        following = states @ modes.transition.T + inputs[cut - 1 : -1] @ modes.control.T
        predicted = following @ modes.decoder[:, :channels]
        missed += float(np.sum((trial[cut:] - predicted) ** 2))
        total += float(np.sum(trial[cut:] ** 2))
    return missed / total if total > 0.0 else np.inf
