"""Systems of a smaller order or another normal form, from systems and their CrossGram without the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags._numba.stability import one_step_errors
from sysbags.distances.gram import CrossGram, SystemStack
from sysbags.errors import ParameterError
from sysbags.systems.collection import check_systems
from sysbags.systems.stability import stable_transition
from sysbags.systems.system import System


def truncate(systems: Sequence[System], gram: CrossGram, order: int) -> tuple[list[System], CrossGram]:
    """Return identified systems and their CrossGram as if they had been identified with a smaller order.

    The n leading components of kernel principal component analysis do not depend on the number of components.
    So observer, states and cross blocks are truncated, and only the transition is learnt again (constrained,
    with the margin of `identify`). The systems come from `identify`, and so have states; those of a smaller
    order do not change.
    """
    originals, n = check_systems(systems), check_integer(order, "order")
    largest = max(system.order for system in originals)
    if n > largest:
        raise ParameterError(f"order is {n}, but the largest among the systems is {largest}")
    _check_gram(gram, len(originals))
    truncated = [_truncate(system, n, f"systems[{i}]") for i, system in enumerate(originals)]
    observer = np.ascontiguousarray(gram.observer[:, :, :n, :n])
    observer_gram = np.ascontiguousarray(gram.rows.observer_gram[:, :n, :n])
    return truncated, _gram_of(truncated, observer, observer_gram, gram)


def to_unit_variance(systems: Sequence[System], gram: CrossGram) -> tuple[list[System], CrossGram]:
    """Return identified systems and their CrossGram as if they had been identified in the unit-variance form.

    The states are divided by their standard deviations, and the observer and the cross blocks multiplied.
    Only the transition is learnt again. The arguments are those of `truncate`, in the orthonormal form.
    """
    originals = check_systems(systems)
    if originals[0].normal_form != "orthonormal":
        raise ParameterError("systems are in the unit-variance form already")
    _check_gram(gram, len(originals))
    changed = in_unit_variance(originals)
    deviations = np.zeros((len(originals), gram.observer.shape[2]))
    for row, system in zip(deviations, originals, strict=True):
        row[: system.order] = np.std(system.states, axis=0)  # type: ignore[arg-type]
    observer = deviations[:, None, :, None] * gram.observer
    observer *= deviations[None, :, None, :]  # in place: of many systems the blocks are large
    observer_gram = deviations[:, :, None] * gram.rows.observer_gram * deviations[:, None, :]
    return changed, _gram_of(changed, observer, observer_gram, gram)


def in_unit_variance(systems: Sequence[System]) -> list[System]:
    """Return identified systems as if they had been identified in the unit-variance form.

    The states are divided by their standard deviations, and the observer is multiplied by them, which is an
    exact change of basis. The transition is learnt again, with the margin of `identify`, because its
    constraint depends on the basis. Systems in that form already are returned as they are. A system is
    changed once, however often it is asked for.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> stream = np.random.default_rng(0).dirichlet(np.ones(6), size=30)
    >>> (changed,) = in_unit_variance([sysbags.identify(stream, order=2)])
    >>> expected = sysbags.identify(stream, order=2, normal_form="unit-variance")
    >>> bool(np.allclose(changed.transition, expected.transition))
    True
    """
    return [_in_unit_variance(system, f"systems[{i}]") for i, system in enumerate(systems)]


_CHANGED: WeakKeyDictionary[System, System] = WeakKeyDictionary()


def _in_unit_variance(system: System, name: str) -> System:
    if system.normal_form == "unit-variance":
        return system
    changed = _CHANGED.get(system)
    if changed is None:
        if system.states is None:
            raise ParameterError(
                f"{name} is in the orthonormal form and has no states, but the unit-variance form needs "
                'them: identify or SystemIdentifier with normal_form="unit-variance"'
            )
        deviation = system.states.std(axis=0)
        changed = _CHANGED[system] = replace(
            _learn_again(system, system.states / deviation),
            alpha=system.alpha * deviation,
            normal_form="unit-variance",
            _observer_gram=system.observer_gram * np.outer(deviation, deviation),
        )
    return changed


def _check_gram(gram: CrossGram, count: int) -> None:
    if not gram.symmetric or len(gram.mean) != count:
        raise ParameterError(f"gram must be the CrossGram of the {count} systems: cross_gram(systems)")


def _gram_of(systems: list[System], observer: Array, observer_gram: Array, gram: CrossGram) -> CrossGram:
    """Return the CrossGram of changed systems from their blocks; the means did not change."""
    transition = np.zeros_like(observer_gram)
    for padded, system in zip(transition, systems, strict=True):
        padded[: system.order, : system.order] = system.transition
    orders = np.array([system.order for system in systems])
    stack = SystemStack(orders, transition, observer_gram, gram.rows.mean_norm, systems[0].normal_form)
    return CrossGram(observer, gram.mean, stack, stack, True, gram.approximate)


def _learn_again(system: System, states: Array) -> System:
    """Return the system with other states and the transition that is learnt from them."""
    states = np.ascontiguousarray(states)
    transition, order = stable_transition(states), states.shape[1]
    noise, residual = one_step_errors(states, transition)
    # An observer for the new order, which the caller replaces or truncates.
    return replace(
        system,
        transition=transition,
        alpha=system.alpha[:, :order],
        states=states,
        residual=residual,
        noise=noise,
        compression_error=None,
        _observer_gram=system.observer_gram[:order, :order],
        _mean_norm=system.mean_norm,
    )


def _truncate(system: System, n: int, name: str) -> System:
    if system.order <= n:
        return system
    if system.states is None:
        raise ParameterError(f"{name} has no states, but a smaller order needs them: use identify")
    return replace(
        _learn_again(system, system.states[:, :n]),
        eigenvalues=None if system.eigenvalues is None else system.eigenvalues[:n],
        explained=_explained(system, n),
    )


def _explained(system: System, n: int) -> float | None:
    """Return the fraction of the variance that the leading states explain."""
    if system.explained is None or system.eigenvalues is None:
        return None
    values: Array = system.eigenvalues
    return float(system.explained * values[:n].sum() / values.sum())
