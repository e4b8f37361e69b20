"""Blocks of pairs of systems that clones of a classifier share, as in a grid search."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from sysbags._common.memory import MEMORY
from sysbags._common.types import Array
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.systems.system import System

MOST_AT_ONCE = 250_000  # pairs of a call: for more the kernel is evaluated as if there were no memory
MOST = 1_000_000  # pairs in all: then all are forgotten

Blocks = WeakKeyDictionary[System, tuple[Array, float]]
_BLOCKS: WeakKeyDictionary[System, Blocks] = WeakKeyDictionary()
_added = 0  # pairs since the last time that all were forgotten


def shared_cross_gram(
    systems: Sequence[System], others: Sequence[System] | None = None, *, n_jobs: int | None = None
) -> CrossGram:
    """Return `cross_gram` of systems; the kernel is evaluated between pairs that are not known only.

    Blocks are known as long as both systems exist. Folds of a cross-validation are parts of one another, so
    that the kernel between all systems is evaluated about once. The missing pairs are computed as one
    rectangle, which in the worst case is all that `cross_gram` would compute.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> gram = shared_cross_gram(systems)
    >>> bool(np.allclose(shared_cross_gram(systems[:1], systems[1:]).observer, gram.observer[:1, 1:]))
    True
    """
    columns = systems if others is None else others
    if not MEMORY.limit or len(systems) * len(columns) > MOST_AT_ONCE:
        return cross_gram(systems, others, n_jobs=n_jobs)
    rows_known = [_BLOCKS.setdefault(system, WeakKeyDictionary()) for system in systems]
    columns_known = [_BLOCKS.setdefault(system, WeakKeyDictionary()) for system in columns]
    missing = [
        (i, j)
        for i, (first, row) in enumerate(zip(systems, rows_known, strict=True))
        for j, (second, column) in enumerate(zip(columns, columns_known, strict=True))
        if second not in row and first not in column
    ]
    if missing:
        top, left = (sorted(set(places)) for places in zip(*missing, strict=True))
        part = [columns[j] for j in left] if others is not None else None
        gram = cross_gram([systems[i] for i in top], part, n_jobs=n_jobs)
        _keep(gram, [systems[i] for i in top], part, [rows_known[i] for i in top])
    first_stack, second_stack = SystemStack.of(systems), SystemStack.of(columns)
    shape = (len(systems), len(columns))
    observer = np.zeros((*shape, first_stack.transition.shape[1], second_stack.transition.shape[1]))
    mean = np.zeros(shape)
    for i, (first, row) in enumerate(zip(systems, rows_known, strict=True)):
        for j, (second, column) in enumerate(zip(columns, columns_known, strict=True)):
            found = row.get(second)
            block, mean[i, j] = column[first] if found is None else found
            block = block.T if found is None else block
            observer[i, j, : block.shape[0], : block.shape[1]] = block
    symmetric = others is None
    return CrossGram(observer, mean, first_stack, first_stack if symmetric else second_stack, symmetric)


def _keep(gram: CrossGram, systems: list[System], others: list[System] | None, known: list[Blocks]) -> None:
    """Keep the blocks of a CrossGram; of a symmetric one, one of each pair."""
    global _added
    _added += gram.mean.size
    if _added > MOST:
        _BLOCKS.clear()  # what this call needs is in `known`
        _added = gram.mean.size
    for i, (system, row) in enumerate(zip(systems, known, strict=True)):
        columns = systems[i:] if others is None else others
        for j, other in enumerate(columns, i if others is None else 0):
            row[other] = gram.observer[i, j, : system.order, : other.order].copy(), float(gram.mean[i, j])
