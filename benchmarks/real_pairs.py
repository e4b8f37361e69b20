"""Alignments of pairs of real systems: time, starts, proofs and missed optima; and how many a search needs.

`python -m benchmarks.real_pairs [DATA] [--orders 5,10,20,40] [--systems 24]`

Systems of generated streams and, with the folder of real data, of clips of traffic and wild-scenes (local
binary patterns) and of sounds (esc-10). All pairs, of order 40 every twelfth, are aligned with the default
weights of the form: 0.25 for the orthonormal form, "scale" for the unit-variance form. An optimum is missed
if 200 starts find a value that is larger by more than 1e-8 of its scale. A pair is proven as the search does
it, here for all pairs and orders. The last table has the ten nearest of some of 1,000 systems, and the share
of all pairs that are aligned for it.

Constants were chosen with other clips and seeds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import sysbags
from benchmarks.machine import command_parser, print_table, seconds
from benchmarks.results import mel_streams
from benchmarks.scale.matrices import identified
from benchmarks.scale.search import WEIGHTS, named_sets
from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled
from sysbags._numba.alignment import SAME_VALUE, align_many
from sysbags._numba.dense import remove_trace, square_norm
from sysbags._numba.proof import proves
from sysbags.datasets import make_streams
from sysbags.datasets.folder import class_folders
from sysbags.distances import alignment_matrix as matrices
from sysbags.distances.alignment import start_tables
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import resolve_weights
from sysbags.errors import SysbagsError
from sysbags.library import fit_embedding

PACKAGES = ("numpy", "numba")
FORMS = ("orthonormal", "unit-variance")
STARTS = 200
ALL_PAIRS = 20  # above this order every twelfth pair
QUERIES, NEIGHBORS = 50, 10


def named_streams(data: Path | None, count: int) -> Iterator[tuple[str, list[Array]]]:
    """Streams of each set; every second of the clips at even distances, from the second one on."""
    yield "generated", make_streams(classes=count // 4, per_class=4, random_state=70)[0][:count]
    if data is None:
        return
    bag = sysbags.bags.LocalBinaryPatterns()
    for name in ("traffic", "wild-scenes"):
        root = data / name
        paths = sorted(root.rglob("*.avi")) if name == "traffic" else [*class_folders(root).paths]
        yield name, [bag.stream(path) for path in _some(paths, count)]
    yield "esc-10", _some(mel_streams(data / "sounds" / "esc10.npz")[0], count)


def _some(items: list, count: int) -> list:  # type: ignore[type-arg]
    """Items at even distances, none of them the first."""
    places = np.linspace(0, len(items) - 1, 2 * count + 1).astype(int)[1::2]
    return [items[place] for place in places]


@compiled()
def count_proven(transitions: Array, blocks: Array, pairs: IntArray, weight: float, rotations: Array) -> int:
    """How many of the pairs are proven to be aligned in the best way."""
    count, n = 0, transitions.shape[1]
    A, A2 = np.empty((n, n)), np.empty((n, n))
    for k in range(len(pairs)):
        A[:] = transitions[pairs[k, 0]]
        A2[:] = transitions[pairs[k, 1]]
        A *= weight
        remove_trace(A)
        remove_trace(A2)
        scale = np.sqrt(square_norm(A) * square_norm(A2)) + np.sqrt(square_norm(blocks[k]))
        Q = rotations[k]
        count += proves(A, Q.T @ A2 @ Q, blocks[k] @ Q, SAME_VALUE * scale)
    return count


def alignment_row(gram: CrossGram, form: str) -> str:
    """Microseconds, starts, share of proven and of missed pairs of a CrossGram."""
    weight, _ = resolve_weights(gram.rows, "alignment", 0.25 if form == FORMS[0] else "scale", 0.0)
    transitions = np.ascontiguousarray(gram.rows.transition)
    pairs = np.column_stack(np.triu_indices(len(transitions), 1))
    if transitions.shape[1] > ALL_PAIRS:
        pairs = np.ascontiguousarray(pairs[::12])
    blocks = np.ascontiguousarray(gram.observer[pairs[:, 0], pairs[:, 1]])
    n = transitions.shape[1]

    def align(starts: int | None, seed: int) -> tuple[Array, Array]:
        reports, rotations = np.empty((len(pairs), 6)), np.empty((len(pairs), n, n))
        tables = start_tables(n, starts, seed)
        align_many(transitions, transitions, blocks, pairs, weight, *tables, True, False, reports, rotations)
        return reports, rotations

    align(None, 0)
    time, (reports, rotations) = seconds(lambda: align(None, 0), process_time)
    many, _ = align(STARTS, 1)
    norms = np.linalg.norm(transitions, axis=(1, 2))
    scale = weight * norms[pairs[:, 0]] * norms[pairs[:, 1]] + reports[:, 1]
    missed = np.mean(np.maximum(many, reports)[:, 0] - reports[:, 0] > 1e-8 * scale)
    proven = count_proven(transitions, blocks, pairs, weight, rotations) / len(pairs)
    spent = f"{1e6 * time / len(pairs):.0f} | {reports[:, 5].mean():.1f}"
    return f"{len(pairs)} | {spent} | {proven:.0%} | {missed:.2%}"


def rows(data: Path | None, orders: list[int], count: int) -> Iterator[str]:
    """Lines of the table of alignments."""
    yield "| systems | form | order | pairs | us per pair | starts | proven | missed |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, streams in named_streams(data, count):
        for form in FORMS:
            for order in orders:
                items = []
                for stream in streams:
                    try:
                        items.append(sysbags.identify(stream, order, normal_form=form))
                    except SysbagsError:  # a clip that changes too little for this order
                        continue
                line = alignment_row(sysbags.cross_gram(items), form)
                yield f"| {name} | {form} | {order} | {line} |"


def search_rows(data: Path | None) -> Iterator[str]:
    """Lines of the table of searches: how many of the pairs are aligned for the nearest of some systems."""
    yield f"| systems | stored | aligned for the {NEIGHBORS} nearest | the same as without bounds |"
    yield "| --- | ---: | ---: | --- |"
    aligned: list[int] = []
    align = matrices._align

    def counted(gram: CrossGram, pairs: IntArray, *others: Any) -> None:
        aligned.append(len(pairs))
        align(gram, pairs, *others)

    matrices._align = counted  # type: ignore[assignment]
    for name, streams in named_sets(1000, None if data is None else data / "wild-scenes"):
        items = identified(streams)
        gram = sysbags.cross_gram(
            items[:: len(items) // QUERIES], items, embedding=fit_embedding(items, 1000), n_jobs=-1
        )
        every = matrices.alignment_matrix(gram, **WEIGHTS)
        aligned.clear()
        found = matrices.alignment_matrix(gram, n_neighbors=NEIGHBORS, **WEIGHTS)
        nearest = np.where(every <= np.sort(every, axis=1)[:, NEIGHBORS - 1, None], every, np.inf)
        same = "yes" if np.array_equal(found, nearest) else "no"
        yield f"| {name} | {len(items)} | {sum(aligned) / every.size:.1%} | {same} |"
    matrices._align = align


def main() -> None:
    """Print both tables."""
    parser = command_parser("python -m benchmarks.real_pairs", __doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--orders", default="5,10,20,40")
    parser.add_argument("--systems", type=int, default=24)
    arguments = parser.parse_args()
    data = [] if arguments.data is None else ["DATA"]
    command = shlex.join(["python", "-m", "benchmarks.real_pairs", *data])
    orders = [int(order) for order in arguments.orders.split(",")]
    for table in (rows(arguments.data, orders, arguments.systems), search_rows(arguments.data)):
        print_table(table, command, PACKAGES, None, "")


if __name__ == "__main__":
    main()
