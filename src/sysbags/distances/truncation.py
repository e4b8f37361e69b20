"""Systems of a smaller order without touching a histogram: one CrossGram serves all orders."""

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
    """Return identified systems, and their CrossGram, as if a smaller order had been asked for.

    Kernel principal component analysis is nested: the n leading components do not depend on how many
    more are taken. So observer, states and cross blocks are cut, and only the transition is learnt anew
    (constrained, by the margin of `identify`).

    Parameters
    ----------
    systems : sequence of System
        From `identify`, so that their states are known.
    gram : CrossGram
        ``cross_gram(systems)``.
    order : int
        The new order; systems of a smaller one stay as they are.

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
    members, n = check_systems(systems), check_integer(order, "order")
    largest = max(member.order for member in members)
    if n > largest:
        raise ParameterError(f"order is {n}, but the largest among the systems is {largest}")
    if not gram.symmetric or len(gram.mean) != len(members):
        raise ParameterError(f"gram must be the CrossGram of the {len(members)} systems: cross_gram(systems)")
    cut = [_cut(member, n, f"systems[{i}]") for i, member in enumerate(members)]
    transition = np.zeros((len(cut), n, n))
    for padded, system in zip(transition, cut, strict=True):
        padded[: system.order, : system.order] = system.transition
    side = SystemStack(
        np.array([system.order for system in cut]),
        transition,
        np.ascontiguousarray(gram.rows.observer_gram[:, :n, :n]),
        gram.rows.mean_norm,
    )
    return cut, CrossGram(np.ascontiguousarray(gram.observer[:, :, :n, :n]), gram.mean, side, side, True)


def _cut(system: System, n: int, name: str) -> System:
    if system.order <= n:
        return system
    if system.states is None:
        raise ParameterError(f"{name} keeps no states, but a smaller order needs them: take it from identify")
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
    """Share of the variance that the leading states hold."""
    if system.explained is None or system.eigenvalues is None:
        return None
    values: Array = system.eigenvalues
    return float(system.explained * values[:n].sum() / values.sum())
