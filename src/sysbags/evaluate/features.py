"""What clips are described by: streams, vectors and systems, kept on disk; what is learnt, by folds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from sysbags._common.cache import Store, clip_key, fingerprint, records
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.bags.base import BagTransformer
from sysbags.bags.cached import cached_streams
from sysbags.comparators.base import Comparator
from sysbags.errors import OrderError, ParameterError, SysbagsError
from sysbags.systems.identification import identify
from sysbags.systems.system import System

__all__ = ["Features", "descending_orders", "identified", "learns"]

Item = TypeVar("Item")
SYSTEM = ("transition", "samples", "alpha", "beta", "states")  # what is kept of a system


class Features:
    """Describes clips, and finds again what it has once worked out.

    Where a description is learnt from clips, such as a codebook, there are three of it: number k is learnt
    without third k, so that no clip is judged by what it had a part in.

    Parameters
    ----------
    paths : sequence of Path
        The clips.
    codebook_folds : (K,) array of int or None
        See `sysbags.evaluate.protocols.codebook_folds`; without them nothing can be learnt.
    store : Store
    jobs : int
        Threads; nothing depends on it.
    """

    def __init__(
        self, paths: Sequence[Path], codebook_folds: IntArray | None, store: Store, jobs: int | None
    ) -> None:
        self.paths, self._codebook_folds, self.store, self.jobs = list(paths), codebook_folds, store, jobs

    @property
    def codebook_folds(self) -> IntArray:
        """Of each clip."""
        if self._codebook_folds is None:
            raise ParameterError(
                "a codebook is learnt without a third of the clips, but there are fewer than three groups"
            )
        return self._codebook_folds

    def streams(self, bags: BagTransformer) -> list[list[Array | SysbagsError]]:
        """Streams of all clips, once or by three codebooks; what is wrong with a clip in its place."""
        made = [self._learnt(bags, third) for third in range(3)] if learns(bags) else [bags]
        return [cached_streams(self.store, one, self.paths, n_jobs=self.jobs) for one in made]

    def good_streams(self, bags: BagTransformer) -> list[list[Array]]:
        """`streams`, but what is wrong with a clip is raised."""
        return [[_good(stream) for stream in one] for one in self.streams(bags)]

    def vectors(self, comparator: Comparator) -> list[Array]:
        """Vectors of all clips, (K, p), once or by three codebooks; what is wrong with a clip is raised."""
        key = {"comparator": fingerprint(comparator)}
        if not comparator.learns:
            found = records(
                self.store,
                key,
                lambda path: {"vector": comparator.vector(path)},
                self.paths,
                self.jobs,
                comparator.title,
            )
            return [np.stack([_good(one)["vector"] for one in found])]

        def make() -> dict[str, Array]:
            # Clips are described once, and counted by each of the three.
            method: Any = clone(comparator).set_params(n_jobs=self.jobs)
            local, vectors = method.each(method.local, self.paths), {}
            for third in range(3):
                method.learn(
                    [one for one, own in zip(local, self.codebook_folds, strict=True) if own != third]
                )
                vectors[str(third)] = np.stack(run(method.count, local, self.jobs, method.title))
            return vectors

        clips = [clip_key(path) for path in self.paths]
        kept = self.store.arrays(
            {**key, "clips": clips, "codebook_folds": self.codebook_folds.tolist()}, make
        )
        return [kept[str(third)] for third in range(3)]

    def systems(self, comparator: Any) -> list[System]:
        """Systems of all clips, for a comparator that makes such of the linear kernel."""

        def make(path: Path) -> dict[str, Array]:
            system = comparator.system(path)
            return {name: getattr(system, name) for name in SYSTEM}

        key = {"comparator": fingerprint(comparator)}
        found = records(self.store, key, make, self.paths, self.jobs, comparator.title)
        parts: list[dict[str, Any]] = [_good(one) for one in found]
        return [System(**one, kernel="linear") for one in parts]

    def _learnt(self, bags: BagTransformer, third: int) -> BagTransformer:
        """Return bags that have learnt from all clips but those of a third."""
        chosen = [path for path, own in zip(self.paths, self.codebook_folds, strict=True) if own != third]

        def make() -> dict[str, Any]:
            fitted = clone(bags).set_params(n_jobs=self.jobs).fit(chosen)
            return {name: value for name, value in vars(fitted).items() if name.endswith("_")}

        key = {"learnt": fingerprint(bags), "from": [clip_key(path) for path in chosen]}
        copy: BagTransformer = clone(bags)
        for name, value in self.store.arrays(key, make).items():
            setattr(copy, name, value if value.ndim else value.item())
        return copy


def learns(bags: BagTransformer) -> bool:
    """Tell whether bags learn something from clips before they can describe them."""
    return type(bags).fit is not BagTransformer.fit


def descending_orders(orders: Sequence[int | str]) -> list[int | str]:
    """Return orders to try, one after the other, for a clip that may be too short or too still for the first.

    Examples
    --------
    >>> descending_orders([3, 5]), descending_orders(["auto"])
    ([5, 4, 3, 2, 1], ['auto'])
    """
    numbers = [order for order in orders if isinstance(order, int)]
    return list(range(max(numbers), 0, -1)) if numbers else list(orders)


def identified(
    streams: Sequence[Array], orders: Sequence[int | str], kernel: str, jobs: int | None
) -> list[System]:
    """Turn streams into systems of the first of some orders that each has.

    Parameters
    ----------
    streams : sequence of (N, p) array
    orders : sequence of int or "auto"
        A stream that is too short or too still for the first gets the next.
    kernel : str
    jobs : int or None
    """

    def one(stream: Array) -> System:
        for order in orders[:-1]:
            try:
                return identify(stream, order, kernel)
            except OrderError:
                continue
        return identify(stream, orders[-1], kernel)

    return run(one, streams, jobs, "systems")


def _good(outcome: Item | SysbagsError) -> Item:
    if isinstance(outcome, SysbagsError):
        raise outcome
    return outcome
