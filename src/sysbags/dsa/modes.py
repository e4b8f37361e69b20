"""Dynamic mode decomposition: the linear system that predicts each delay-embedded row from the one before.

The number of delays is chosen by how well the next observation is predicted on held-out time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import check_integer, check_weight
from sysbags.dsa.trials import Trials, check_controls, check_trials, delay_embed, embedded_trials
from sysbags.errors import OrderError, ParameterError, StreamError
from sysbags.kernels.functions import check_kernel
from sysbags.systems.identification import identify

EPSILON = float(np.finfo(np.float64).eps)
CANDIDATES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of delays
TRAINING_SHARE = 0.75
MARGIN = 1.05  # fewer delays are preferred while their error is at most this many times the smallest one
PERFECT = 1e-6  # relative errors below this are round-off, whose order means nothing


@dataclass(frozen=True, eq=False)
class DynamicModes:
    """The result of `fit_dmd`: ``z_{t+1} = A z_t + B u_t``.

    Attributes
    ----------
    transition : (rank, rank) array
        The matrix A of the states.
    control : (rank, inputs) array
        The matrix B of the inputs; without inputs it has no columns.
    encoder : (n_delays * channels, rank) array
        ``z = h @ encoder`` is the state of a delay-embedded row h; empty with a kernel.
    decoder : (rank, n_delays * channels) array
        ``z @ decoder`` is the delay-embedded row of a state; empty with a kernel.
    singular_values : array
        All singular values of the delay-embedded data, descending. With a kernel, the square roots of the
        leading eigenvalues of the centred kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.dsa import fit_dmd
    >>> modes = fit_dmd(np.cos(0.3 * np.arange(100))[:, None], n_delays=3, rank=2)
    >>> modes.rank, modes.encoder.shape, modes.control.shape
    (2, (3, 2), (2, 0))
    >>> np.abs(np.angle(modes.eigenvalues)).round(6)
    array([0.3, 0.3])
    """

    transition: Array
    control: Array
    encoder: Array
    decoder: Array
    singular_values: Array

    @property
    def rank(self) -> int:
        """Dimension of the state."""
        return len(self.transition)

    @cached_property
    def eigenvalues(self) -> npt.NDArray[np.complex128]:
        """Eigenvalues of the transition."""
        return np.linalg.eigvals(self.transition).astype(np.complex128)


def fit_dmd(
    data: Any,
    *,
    control: Any = None,
    n_delays: int = 1,
    delay_interval: int = 1,
    rank: int | str | None = None,
    lamb: float = 0.0,
    kernel: KernelLike | None = None,
) -> DynamicModes:
    """Fit a linear system to the time series of one system.

    The rows of the delay embedding H of all trials (N in total) have the singular value decomposition
    ``H = V S W'``. The states are the leading columns ``z = N^(1/2) V``, of mean square 1, and the transition
    A and the input matrix B minimise

        1/N sum_t ||z_{t+1} - A z_t - B u_t||^2 + lamb (||A||^2 + ||B||^2)

    over all time steps within trials. No mean is subtracted. With a kernel, the states are the kernel
    principal components of the rows by `sysbags.identify` instead, which are centred.

    Parameters
    ----------
    data : array, flat list of numbers, or list of arrays
        (time,) for one channel, (time, channels), (trials, time, channels), or a list of trials, whose
        lengths may differ. A flat list of numbers is (time,). A list of lists of numbers is refused, because
        these could be trials or time points: pass a numpy array.
    control : array, flat list of numbers, or list of arrays, optional
        Inputs u, in the same form as the data, with the same number of time points. A row acts on the step
        from its own time point to the next.
    n_delays, delay_interval : int, default=1, 1
        Number of observations in a row of H, and time steps from one to the next.
    rank : int, "auto" or None, default=None
        Dimension of the state. None takes all singular values above round-off, "auto" those that stand out of
        the noise (Gavish and Donoho, 2014). With a kernel both are the smallest order that explains 95 % of
        the variance.
    lamb : float, default=0.0
        Ridge penalty.
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, optional
        Histograms of several delays are divided by the number of delays, so that their sum is 1 again.

    Returns
    -------
    DynamicModes

    Examples
    --------
    >>> import numpy as np
    >>> time = np.arange(100)
    >>> modes = fit_dmd(np.cos(0.3 * time), n_delays=2)
    >>> np.angle(modes.eigenvalues).round(6)
    array([ 0.3, -0.3])
    """
    trials = check_trials(data, "data")
    controls = check_controls(control, trials, "control")
    return fit_trials(trials, controls, n_delays, delay_interval, rank, lamb, kernel, "data")


def fit_trials(
    trials: Sequence[Array],
    controls: Sequence[Array],
    n_delays: int,
    delay_interval: int,
    rank: int | str | None,
    lamb: float,
    kernel: KernelLike | None,
    name: str,
) -> DynamicModes:
    """Fit the checked trials of one system, see `fit_dmd`; `name` is that of the data in error messages."""
    penalty = check_weight(lamb, "lamb")
    rows = embedded_trials(trials, n_delays, delay_interval, name)
    stacked = np.concatenate(rows)
    if kernel is None:
        V, singular_values, W = _principal(stacked, rank, name)
        scale = singular_values[: V.shape[1]] / np.sqrt(len(V))
        encoder, decoder = W.T / scale, W * scale[:, None]
    else:
        V, singular_values = _kernel_principal(stacked, rank, kernel, n_delays)
        encoder, decoder = np.empty((0, V.shape[1])), np.empty((V.shape[1], 0))
    inputs = np.concatenate([u[len(u) - len(h) :] for u, h in zip(controls, rows, strict=True)]) / np.sqrt(
        len(V)
    )
    ends = np.cumsum([len(h) for h in rows])
    before = np.delete(np.arange(len(V)), ends - 1)
    predictors = np.hstack([V, inputs])[before]
    r, width = V.shape[1], predictors.shape[1]
    # The rows of the penalty make this the ridge regression, without the squared condition number.
    coefficients = np.linalg.lstsq(
        np.vstack([predictors, np.sqrt(penalty) * np.eye(width)]),
        np.vstack([V[before + 1], np.zeros((width, r))]),
        rcond=None,
    )[0].T
    return DynamicModes(
        np.ascontiguousarray(coefficients[:, :r]),
        np.ascontiguousarray(coefficients[:, r:]),
        encoder,
        decoder,
        singular_values,
    )


def check_rank(rank: Any) -> int | str | None:
    """Return a rank that is None, "auto" or a whole number of at least 1."""
    if rank is None or (isinstance(rank, str) and rank == "auto"):
        return rank
    if isinstance(rank, str):
        raise ParameterError(f'rank is {rank!r}, but it must be a whole number of at least 1, "auto" or None')
    return check_integer(rank, "rank")


def rank_range(
    trials: Sequence[Array], n_delays: int, delay_interval: int, kernel: KernelLike | None, name: str
) -> tuple[int, int]:
    """Return the automatic and the largest possible rank of one system."""
    stacked = np.concatenate(embedded_trials(trials, n_delays, delay_interval, name))
    if kernel is not None:
        return _kernel_principal(stacked, None, kernel, n_delays)[0].shape[1], len(stacked) - 1
    values = np.asarray(np.linalg.svd(stacked, compute_uv=False), dtype=np.float64)
    return hard_threshold_rank(values, stacked.shape), _numerical_rank(values, stacked.shape)


def hard_threshold_rank(values: Array, shape: tuple[int, ...]) -> int:
    """Return the number of singular values that stand out of the noise, at least 1.

    For a matrix of low rank with white noise of unknown level, singular values above
    ``omega(beta) median(s)`` are kept, where beta is the ratio of the matrix's sides and
    ``omega(beta) = 0.56 beta^3 - 0.95 beta^2 + 1.82 beta + 1.43`` (Gavish and Donoho, "The optimal hard
    threshold for singular values is 4/sqrt(3)", IEEE Transactions on Information Theory 2014). Values at
    round-off level are never kept.

    The median stands for the noise, so the matrix needs more than twice as many columns as the rank of its
    signal: add delays where there are few channels. The noise of a delay embedding is not white, because
    each observation occurs `n_delays` times; the rank is a guide there.
    """
    beta = min(shape) / max(shape)
    threshold = (0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43) * float(np.median(values))
    kept = min(int(np.sum(values > threshold)), _numerical_rank(values, shape))
    return max(1, kept)


def _numerical_rank(values: Array, shape: tuple[int, ...]) -> int:
    """Return the number of singular values above round-off."""
    return int(np.sum(values > 10.0 * max(shape) * EPSILON * values[0]))


def _principal(rows: Array, rank: int | str | None, name: str) -> tuple[Array, Array, Array]:
    """Return the leading left singular vectors, all singular values, and the leading right ones."""
    V, values, W = np.linalg.svd(rows, full_matrices=False)
    most = _numerical_rank(values, rows.shape)
    if most == 0:
        raise StreamError(f"{name} is 0 everywhere, so there are no dynamics to learn")
    wanted = check_rank(rank)
    if wanted is None:
        wanted = most
    elif isinstance(wanted, str):
        wanted = hard_threshold_rank(values, rows.shape)
    if wanted > most:
        raise OrderError(
            f"rank {wanted} is above the rank of the delay-embedded rows of {name}, which is {most}: "
            f"use at most {most}, more delays, or None for all"
        )
    return V[:, :wanted], values, W[:wanted]


def _kernel_principal(
    rows: Array, rank: int | str | None, kernel: KernelLike, n_delays: int
) -> tuple[Array, Array]:
    """Return the leading eigenvectors of the centred kernel, and the roots of their eigenvalues."""
    if isinstance(check_kernel(kernel), str) and kernel != "linear":
        rows = rows / n_delays
    order = check_rank(rank) or "auto"
    theta = identify(rows, order, kernel, normal_form="unit-variance", stability="none")
    assert theta.states is not None
    assert theta.eigenvalues is not None
    return theta.states / np.sqrt(len(rows)), np.sqrt(theta.eigenvalues)


def choose_delays(
    systems: Sequence[Trials],
    delay_intervals: Sequence[int],
    ranks: Sequence[int | str | None],
    lamb: float,
    n_jobs: int | None = None,
) -> int:
    """Return one number of delays for several systems, by the mean of their squared errors.

    The first three quarters of each trial are fitted, once for each of `CANDIDATES`. On the last quarter,
    which is the same for all of them, the states are moved by one step, and the newest observation is read
    from them. The smallest number of delays whose error is at most 1.05 times the smallest error is returned.
    Numbers above 1 for which the training part is too short (fewer than two rows for each dimension of the
    state), and those for which the rank is not possible, are left out.
    """

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
