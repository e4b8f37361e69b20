"""Systems of a smaller order, computed from systems and their CrossGram without the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags.distances.gram import CrossGram, SystemStack
from sysbags.errors import ParameterError
from sysbags.systems.stability import stable_transition
from sysbags.systems.system import System
from sysbags.systems.validation import check_systems

__all__ = ["truncate"]


def truncate(systems: Sequence[System], gram: CrossGram, order: int) -> tuple[list[System], CrossGram]:
    """Return identified systems and their CrossGram as if they had been identified with a smaller order.

    The n leading components of kernel principal component analysis do not depend on the number of
    components. So observer, states and cross blocks are truncated, and only the transition is learnt again
    (constrained, with the margin of `identify`).

    Parameters
    ----------
    systems : sequence of System
        Systems from `identify`, which have states.
    gram : CrossGram
        ``cross_gram(systems)``.
    order : int
        The new order; systems of a smaller order do not change.

    Returns
    -------
    systems : list of System
    gram : CrossGram

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(3, 30))
    >>> systems = [sysbags.identify(stream, order=4) for stream in streams]
    >>> fewer, gram = truncate(systems, sysbags.cross_gram(systems), order=2)
    >>> fewer[0], gram.observer.shape
    (System(order=2, size=30, bag_length=6, kernel='chi2'), (3, 3, 2, 2))
    """
    originals, n = check_systems(systems), check_integer(order, "order")
    largest = max(system.order for system in originals)
    if n > largest:
        raise ParameterError(f"order is {n}, but the largest among the systems is {largest}")
    if not gram.symmetric or len(gram.mean) != len(originals):
        raise ParameterError(
            f"gram must be the CrossGram of the {len(originals)} systems: cross_gram(systems)"
        )
    truncated = [_truncate(system, n, f"systems[{i}]") for i, system in enumerate(originals)]
    transition = np.zeros((len(truncated), n, n))
    for padded, system in zip(transition, truncated, strict=True):
        padded[: system.order, : system.order] = system.transition
    stack = SystemStack(
        np.array([system.order for system in truncated]),
        transition,
        np.ascontiguousarray(gram.rows.observer_gram[:, :n, :n]),
        gram.rows.mean_norm,
        gram.rows.normal_form,
    )
    observer = np.ascontiguousarray(gram.observer[:, :, :n, :n])
    return truncated, CrossGram(observer, gram.mean, stack, stack, True)


def _truncate(system: System, n: int, name: str) -> System:
    if system.order <= n:
        return system
    if system.states is None:
        raise ParameterError(f"{name} has no states, but a smaller order needs them: use identify")
    states = system.states[:, :n]
    transition = stable_transition(states)
    return replace(
        system,
        transition=transition,
        alpha=system.alpha[:, :n],
        states=states,
        eigenvalues=None if system.eigenvalues is None else system.eigenvalues[:n],
        explained=_explained(system, n),
        residual=float(np.linalg.norm(states[1:] - states[:-1] @ transition.T) / np.linalg.norm(states[1:])),
        compression_error=None,
        _observer_gram=system.observer_gram[:n, :n],
        _mean_norm=system.mean_norm,
    )


def _explained(system: System, n: int) -> float | None:
    """Return the fraction of the variance that the leading states explain."""
    if system.explained is None or system.eigenvalues is None:
        return None
    values: Array = system.eigenvalues
    return float(system.explained * values[:n].sum() / values.sum())
