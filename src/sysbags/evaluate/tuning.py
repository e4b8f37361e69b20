"""What tuning chooses from: orders, kernels, weights, neighbours and parameters of the bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from sysbags._common.types import Array, IntArray
from sysbags.bags.base import BagTransformer
from sysbags.distances.truncation import truncate
from sysbags.errors import SysbagsError
from sysbags.evaluate.candidates import Candidate
from sysbags.evaluate.entries import Alternative, EvaluationSet, SystemSet, aligned
from sysbags.evaluate.features import descending_orders

__all__ = ["ORDERS", "bag_settings", "kept", "tuned", "words"]

# What comes first is taken unless something else is clearly better.
ORDERS = (5, 3, 8)
KERNELS = ("chi2", "bhattacharyya", "intersection")
LAMBDA_A = (0.25, 1.0, 0.05)
NEIGHBOURS = (1, 3, 5)
BAGS: dict[str, tuple[dict[str, Any], ...]] = {
    "LocalBinaryPatterns": (
        {},
        {"radius": 2},
        {"radius": (1, 2), "method": "nri_uniform"},
        {"window": 3, "step": 1},
    ),
    "OpticalFlow": ({}, {"bins": 16}, {"window": 3, "step": 1}),
    "VisualWords": ({}, {"assignment": "soft"}, {"window": 3, "step": 1}),
    "DeepActivations": ({}, {"grid": 2}, {"window": 2, "step": 1}),
}


def bag_settings(bags: BagTransformer, fixed: Sequence[str] = ()) -> dict[str, BagTransformer]:
    """Return bags of other parameters by the words for them, but for parameters that are fixed.

    Examples
    --------
    >>> from sysbags.bags import OpticalFlow
    >>> list(bag_settings(OpticalFlow(), fixed=["window"]))
    ['as given', 'bins 16']
    """
    changes = [one for one in BAGS.get(type(bags).__name__, ({},)) if not set(one) & set(fixed)]
    return {words(change): clone(bags).set_params(**change) for change in changes}


def words(settings: dict[str, Any]) -> str:
    """Say what differs."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "as given"


def tuned(
    streams: Callable[[BagTransformer], Sequence[Sequence[Array]]],
    views: Callable[[Sequence[Sequence[Array]], str, Sequence[int | str]], list[SystemSet]],
    bags: BagTransformer,
    items: EvaluationSet,
    *,
    order: int | str | None,
    kernel: str | None,
    lambda_a: float | None,
    grid_mu: Sequence[float],
    fixed: Sequence[str],
    note: Callable[[str], None],
) -> list[Alternative]:
    """All that can be chosen, judged: one CrossGram for each setting of the bags and each kernel.

    Predictions are worked out at once, so that no CrossGram need be kept.

    Parameters
    ----------
    streams : callable
        From bags to one or three collections of streams.
    views : callable
        From those, a kernel and orders to try to systems and their CrossGram.
    bags : BagTransformer
    items : EvaluationSet
    order, kernel, lambda_a : optional
        What is given is kept.
    grid_mu : sequence of float
    fixed : sequence of str
        Parameters of the bags that are kept.
    note : callable
        Told of settings that cannot be had.
    """
    found: list[Alternative] = []
    orders: Sequence[int | str] = ORDERS if order is None else (order,)
    grid_a = LAMBDA_A if lambda_a is None else (lambda_a,)
    for name, changed in bag_settings(bags, fixed).items():
        try:
            described = streams(changed)
            for way in KERNELS if kernel is None else (kernel,):
                largest = views(described, way, descending_orders(orders))
                for n, cut in _orders(largest, orders):
                    told = {"bag parameters": name, "kernel": way, "order": n}
                    for classifier, counts in (("nearest mean", (1,)), ("1-NN", NEIGHBOURS)):
                        found += [
                            ({**told, **settings}, kept(candidate, items.groups))
                            for settings, candidate in aligned(
                                cut, items, classifier, grid_a, grid_mu, counts
                            )
                        ]
        except SysbagsError as error:
            note(f"the bags with {name} were left out of the tuning: {error}")
    return found


def _orders(
    views: list[SystemSet], orders: Sequence[int | str]
) -> Iterator[tuple[int | str, list[SystemSet]]]:
    """The systems at each of some orders that at least one clip has."""
    largest = max(system.order for view in views for system in view.systems)
    for order in orders:
        if isinstance(order, str) or order == largest:
            yield order, views
        elif order < largest:
            yield order, [SystemSet(*truncate(*view, order)) for view in views]


def kept(candidate: Candidate, groups: IntArray) -> Candidate:
    """Ask a candidate everything, and return one that has only the answers."""
    names = np.unique(groups)
    place: dict[int | None, int] = {int(group): k for k, group in enumerate(names)} | {None: len(names)}
    table = np.stack([candidate(group) for group in place]).astype(np.int16)
    return lambda group: table[place[group]].astype(np.int64)
