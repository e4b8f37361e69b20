"""What tuning chooses from: orders, kernels, weights, neighbours and parameters of the bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sklearn.base import clone

from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import CLASSES
from sysbags.distances.truncation import truncate
from sysbags.errors import SysbagsError
from sysbags.evaluate.methods import Alternative, EvaluationSet, SystemSet, alignment_alternatives
from sysbags.evaluate.predictors import TabulatedPredictor
from sysbags.kernels.registry import KERNELS
from sysbags.systems.identification import descending_orders

__all__ = ["ORDERS", "bag_settings", "tuning_alternatives"]

# What comes first is taken unless something else is clearly better.
ORDERS = (5, 3, 8)
HISTOGRAM_KERNELS = tuple(name for name in KERNELS if name != "linear")
LAMBDA_A = (0.25, 1.0, 0.05)
NEIGHBORS = (1, 3, 5)
AS_GIVEN = "as given"


def bag_settings(bags: BagTransformer, fixed: Sequence[str] = ()) -> dict[str, BagTransformer]:
    """Return bags with other parameters by a description of them; parameters that are fixed do not change.

    Examples
    --------
    >>> from sysbags.bags import OpticalFlow
    >>> list(bag_settings(OpticalFlow(), fixed=["window"]))
    ['as given', 'grid 2']
    """
    name = type(bags).__name__
    changes = CLASSES[name].tuning if name in CLASSES else ({},)
    return {
        ", ".join(f"{name} {value}" for name, value in change.items()) or AS_GIVEN: clone(bags).set_params(
            **change
        )
        for change in changes
        if not set(change) & set(fixed)
    }


def tuning_alternatives(
    streams: Callable[[BagTransformer | None], Sequence[Sequence[Array]]],
    system_sets: Callable[[Sequence[Sequence[Array]], str, Sequence[int | str]], list[SystemSet]],
    bags: BagTransformer | None,
    items: EvaluationSet,
    *,
    order: int | str | None,
    kernel: str | None,
    lambda_a: float | None,
    grid_mu: Sequence[float],
    fixed: Sequence[str],
    note: Callable[[str], None],
) -> list[Alternative]:
    """All settings that can be chosen: one CrossGram for each setting of the bags and each kernel.

    Predictions are tabulated at once, so that no CrossGram need be kept.

    Parameters
    ----------
    streams : callable
        From bags to one collection of streams, or one per codebook fold.
    system_sets : callable
        From those, a kernel and orders to try to systems and their CrossGram.
    bags : BagTransformer or None
        None where there are only streams.
    items : EvaluationSet
    order, kernel, lambda_a : optional
        What is given does not change.
    grid_mu : sequence of float
    fixed : sequence of str
        Parameters of the bags that do not change.
    note : callable
        Called with a sentence about settings that cannot be used.
    """
    alternatives: list[Alternative] = []
    orders: Sequence[int | str] = ORDERS if order is None else (order,)
    grid_a = LAMBDA_A if lambda_a is None else (lambda_a,)
    choices: dict[str, BagTransformer | None] = (
        {AS_GIVEN: None} if bags is None else {**bag_settings(bags, fixed)}
    )
    for name, changed in choices.items():
        try:
            described = streams(changed)
            for kernel_name in HISTOGRAM_KERNELS if kernel is None else (kernel,):
                largest = system_sets(described, kernel_name, descending_orders(orders))
                for n, cut in _orders(largest, orders):
                    known: dict[str, Any] = {"bag parameters": name, "kernel": kernel_name, "order": n}
                    for classifier, counts in (("nearest mean", (1,)), ("1-NN", NEIGHBORS)):
                        alternatives += [
                            ({**known, **settings}, TabulatedPredictor(predictor, items.groups))
                            for settings, predictor in alignment_alternatives(
                                cut, items, classifier, grid_a, grid_mu, counts
                            )
                        ]
        except SysbagsError as error:
            note(f"the bags with {name} were left out of the tuning: {error}")
    return alternatives


def _orders(
    sets: list[SystemSet], orders: Sequence[int | str]
) -> Iterator[tuple[int | str, list[SystemSet]]]:
    """The systems at each of some orders that at least one clip has."""
    largest = max(system.order for system_set in sets for system in system_set.systems)
    for order in orders:
        if isinstance(order, str) or order == largest:
            yield order, sets
        elif order < largest:
            yield order, [SystemSet(*truncate(*system_set, order)) for system_set in sets]
