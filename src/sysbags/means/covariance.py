"""The mean of systems for the distance between lagged covariances: the average of the covariances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.linalg

from sysbags._common.validation import check_share
from sysbags.distances.covariance import check_norms, covariance_norms
from sysbags.distances.gram import CrossGram, cross_gram
from sysbags.errors import IncompatibleSystemsError
from sysbags.means.frechet import check_mean_weights
from sysbags.systems.system import System
from sysbags.systems.validation import check_systems

__all__ = ["covariance_mean"]


def covariance_mean(
    systems: Sequence[System],
    *,
    weights: npt.ArrayLike | None = None,
    normalized_by: float | None = None,
    n_jobs: int | None = None,
    gram: CrossGram | None = None,
) -> System:
    """Return the system whose mean and lagged covariances are the weighted averages of those of systems.

    It is exact: ``sum_i w_i C_i A_i^k C_i'`` is `C A^k C'` with ``C = [w_1^(1/2) C_1, w_2^(1/2) C_2, ..]``
    and A the block-diagonal matrix of the transitions. So its order is the sum of all orders. It minimises
    the weighted sum of the squared distances of the metric "covariance", whatever the weights of the lags.
    The mean of the metric "normalized-covariance" is the average of the covariances divided by their norms:
    no other direction has a smaller sum of squared distances.

    Parameters
    ----------
    systems : sequence of System
        In the unit-variance form.
    weights : (K,) array_like, optional
        Weights of the systems, 0 or more; by default equal.
    normalized_by : float, optional
        In [0, 1]: divide the covariances of each system by their norm with this `lambda_a` first, for the
        metric "normalized-covariance".
    n_jobs : int, optional
        Number of threads for the kernel.
    gram : CrossGram, optional
        ``cross_gram(systems)``, if it has been computed before.

    Returns
    -------
    System
        In the unit-variance form, with the samples of all systems.

    Examples
    --------
    >>> import sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = [sysbags.identify(stream, order=2, normal_form="unit-variance") for stream in streams]
    >>> mean = covariance_mean(systems)
    >>> mean
    System(order=8, size=120, bag_length=6, kernel='chi2')
    >>> to_mean = sysbags.pairwise_distances(systems, [mean], "covariance").mean()
    >>> bool(np.isclose(to_mean, sysbags.pairwise_distances(systems, metric="covariance").mean() / 2))
    True
    """
    checked = check_systems(systems)
    if checked[0].normal_form != "unit-variance":
        raise IncompatibleSystemsError(
            f"systems are in the {checked[0].normal_form} form, but the mean of lagged covariances needs the "
            'unit-variance form: identify or SystemIdentifier with normal_form="unit-variance"'
        )
    w = check_mean_weights(weights, len(checked))
    blocks = cross_gram(checked, n_jobs=n_jobs) if gram is None else gram
    shares = w
    if normalized_by is not None:
        lag_weight = check_share(normalized_by, "normalized_by", low="[", high="]")
        norms = covariance_norms(blocks.rows, lag_weight)
        check_norms(norms, "systems")
        shares = w / np.sqrt(norms)
    roots = np.sqrt(shares)
    orders = [system.order for system in checked]
    observer_gram = np.block(
        [
            [roots[i] * roots[j] * blocks.observer[i, j, : orders[i], : orders[j]] for j in range(len(w))]
            for i in range(len(w))
        ]
    )
    return System(
        scipy.linalg.block_diag(*(system.transition for system in checked)),
        np.concatenate([system.samples for system in checked]),
        scipy.linalg.block_diag(*(root * system.alpha for root, system in zip(roots, checked, strict=True))),
        np.concatenate([weight * system.beta for weight, system in zip(w, checked, strict=True)]),
        checked[0].kernel,
        normal_form="unit-variance",
        _observer_gram=observer_gram,
        _mean_norm=float(w @ blocks.mean @ w),
    )
