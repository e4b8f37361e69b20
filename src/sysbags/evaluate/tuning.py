"""What tuning chooses from: orders, kernels, weights, neighbours and parameters of the bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import CLASSES
from sysbags.distances.truncation import truncate
from sysbags.errors import SysbagsError
from sysbags.evaluate.alternatives import (
    Alternative,
    Systems,
    SystemSet,
    WeightGrid,
    neighbour_alternatives,
)
from sysbags.evaluate.predictors import TabulatedPredictor
from sysbags.evaluate.splits import EvaluationSet
from sysbags.kernels import KERNELS
from sysbags.systems.identification import descending_orders

__all__ = ["ORDERS", "bag_settings", "tuning_alternatives"]

# What comes first is taken unless something else is clearly better.
ORDERS = (5, 3, 8)
HISTOGRAM_KERNELS = tuple(name for name in KERNELS if name != "linear")
MOST_LAMBDA_A = 3  # of each metric
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
    make_systems: Callable[[Sequence[Sequence[Array]], str, Sequence[int | str]], Systems],
    bags: BagTransformer | None,
    items: EvaluationSet,
    *,
    order: int | str | None,
    kernel: str | None,
    grids: Sequence[WeightGrid],
    fixed: Sequence[str],
    note: Callable[[str], None],
) -> list[Alternative]:
    """All settings that can be chosen: one CrossGram for each setting of the bags and each kernel.

    Predictions are tabulated at once, so that no CrossGram need be kept.

    Parameters
    ----------
    streams : callable
        From bags to one collection of streams, or one per codebook fold.
    make_systems : callable
        From those, a kernel and orders to try to systems and their CrossGram.
    bags : BagTransformer or None
        None where there are only streams.
    items : EvaluationSet
    order, kernel : optional
        What is given does not change.
    grids : sequence of WeightGrid
        Metrics and weights; the first values of `lambda_a` of each are tried.
    fixed : sequence of str
        Parameters of the bags that do not change.
    note : callable
        Called with a sentence about settings that cannot be used.
    """
    alternatives: list[Alternative] = []
    orders: Sequence[int | str] = ORDERS if order is None else (order,)
    some = [replace(grid, lambda_a=grid.lambda_a[:MOST_LAMBDA_A]) for grid in grids]
    choices: dict[str, BagTransformer | None] = (
        {AS_GIVEN: None} if bags is None else {**bag_settings(bags, fixed)}
    )
    for name, changed in choices.items():
        try:
            described = streams(changed)
            for kernel_name in HISTOGRAM_KERNELS if kernel is None else (kernel,):
                largest = make_systems(described, kernel_name, descending_orders(orders))
                for n, systems in _orders(largest, orders):
                    known: dict[str, Any] = {"bag parameters": name, "kernel": kernel_name, "order": n}
                    for classifier, counts in (("nearest mean", (1,)), ("1-NN", NEIGHBORS)):
                        alternatives += [
                            ({**known, **settings}, TabulatedPredictor(predictor, items.groups))
                            for settings, predictor in neighbour_alternatives(
                                {name: systems}, classifier, some, counts
                            )
                        ]
        except SysbagsError as error:
            note(f"the bags with {name} were left out of the tuning: {error}")
    return alternatives


def _orders(systems: Systems, orders: Sequence[int | str]) -> Iterator[tuple[int | str, Systems]]:
    """The systems at each of some orders that at least one clip has."""
    sets = systems.sets("orthonormal")
    largest = max(system.order for system_set in sets for system in system_set.systems)
    for order in orders:
        if isinstance(order, str) or order == largest:
            yield order, systems
        elif order < largest:
            cut = [SystemSet(*truncate(*system_set, order)) for system_set in sets]
            yield order, Systems(cut, systems.items)
