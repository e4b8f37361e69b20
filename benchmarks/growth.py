"""Growth of time and memory with clips, frames, bins, order and landmarks: tables, fitted models, pictures.

`python -m benchmarks.growth [--pictures docs/images] [--page docs/scale.md] [--quick]`: one quantity is
varied at a time around 250 frames, 256 bins, order 5 and 500 landmarks, on one thread; times are medians.
Powers are fitted to logarithms by least squares.

An index of many clips is made of replicas of fewer systems: the observer and the mean of each are mixed by a
random matrix near the identity, which gives the replica's embedding and Gram matrix exactly and without the
kernel. There are at least twenty replicas of each system, and queries are further ones: all collections have
near-duplicates, as in `benchmarks.scale`. Without any, bounds exclude little, and an exact search is a scan.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

import sysbags
from benchmarks.machine import command_parser, facts, fill_page, seconds
from benchmarks.scale.libraries import write_systems
from benchmarks.scale.search import LANDMARKS, NEIGHBOURS, ORDER, WEIGHTS, generated
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.datasets import make_clips, make_streams
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.kernels import kernel_matrix
from sysbags.library import EmbeddedSystems, Library, SystemIndex, embed, fit_embedding
from sysbags.library.systems import embed_clips
from sysbags.systems.collection import LazySystems
from sysbags.systems.system import System

BASE = {"frames": 250, "bins": 256, "order": ORDER, "landmarks": LANDMARKS}
MIXED, RELATED = 0.05, 20  # deviation of the matrices that make replicas; replicas of each system, at least
PART = 2000  # replicas that are embedded at a time
STORED, COMPRESSED = 16, 40  # systems whose space in a file is measured, and samples of a compressed one
DAY = 86_400.0


class Sizes(NamedTuple):
    """What is measured: numbers of clips, of real systems and queries, and the values of each parameter."""

    clips: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000)
    systems: int = 1_000
    queries: int = 5
    repeated: int = 16
    added: int = 8
    frames: tuple[int, ...] = (60, 125, 250, 500, 1000)
    bins: tuple[int, ...] = (64, 128, 256, 512, 1024)
    order: tuple[int, ...] = (2, 5, 10, 20)
    landmarks: tuple[int, ...] = (125, 250, 500, 1000, 2000)


QUICK = Sizes((500, 1_000, 2_000), 100, 2, 3, 2, (60, 125, 250), (64, 128, 256), (2, 5, 10), (60, 125, 250))


class Power(NamedTuple):
    """``c * x_1^a_1 * x_2^a_2 ...``, fitted to logarithms, and R^2, the share of their variance explained."""

    factor: float
    exponents: Array
    explained: float

    @classmethod
    def fit(cls, sizes: Array, values: Array) -> Power:
        """Fit to (m, d) sizes and m values."""
        logs = np.log(values)
        design = np.column_stack([np.ones(len(logs)), np.log(sizes)])
        solution = np.linalg.lstsq(design, logs, rcond=None)[0]
        left, total = np.sum((logs - design @ solution) ** 2), np.sum((logs - logs.mean()) ** 2)
        return cls(float(np.exp(solution[0])), solution[1:], float(1.0 - left / total) if total else 1.0)

    def __call__(self, sizes: Array) -> Array:
        """Return the values for (m, d) sizes."""
        return np.asarray(self.factor * np.prod(np.asarray(sizes) ** self.exponents, axis=-1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Replicas(LazySystems):
    """Systems whose observers and means are those of `originals`, ``[C mu] T`` with T near the identity."""

    originals: list[System]
    owners: IntArray
    mixing: Array

    def read(self, indices: IntArray) -> list[System]:
        """Make systems."""
        found = []
        for k in indices:
            own = self.originals[self.owners[k]]
            weights = np.column_stack([own.alpha, own.beta]) @ self.mixing[k]
            found.append(System(own.transition, own.samples, weights[:, :-1], weights[:, -1], own.kernel))
        return found

    @classmethod
    def of(cls, originals: list[System], count: int, rng: np.random.Generator) -> Replicas:
        """Make replicas of systems of the same order, about as many of each."""
        n = originals[0].order
        owners = np.arange(count) % len(originals)
        mixing = np.eye(n + 1) + MIXED * rng.standard_normal((count, n + 1, n + 1))
        mixing[:, n, :n], mixing[:, n, n] = 0.0, 1.0  # the mean is no part of an observer
        grams = np.stack(run(_gram, originals, -1, "Gram matrices"))[owners]
        grams = np.einsum("kji,kjl,klm->kim", mixing, grams, mixing, optimize=True)
        return cls(
            kernel=originals[0].kernel,
            bag_length=originals[0].bag_length,
            normal_form=originals[0].normal_form,
            sizes=np.array([system.size for system in originals])[owners],
            orders=np.full(count, n),
            transition=np.stack([system.transition for system in originals])[owners],
            observer_gram=np.ascontiguousarray(grams[:, :n, :n]),
            mean_norm=grams[:, n, n].copy(),
            originals=originals,
            owners=owners,
            mixing=mixing,
        )

    def embedded(self, originals: EmbeddedSystems) -> EmbeddedSystems:
        """Return the replicas in the embedding of the originals."""
        observers = np.empty((len(self), *originals.observers.shape[1:]), np.float32)
        for start in range(0, len(self), PART):
            part = slice(start, start + PART)
            mixing = self.mixing[part].transpose(0, 2, 1).astype(np.float32)
            observers[part] = mixing @ originals.observers[self.owners[part]]
        held = np.einsum("kij,kij->ki", observers, observers, dtype=np.float64)
        norms = np.einsum("kii->k", self.observer_gram)
        return EmbeddedSystems(
            observers=observers,
            lost=np.clip(1.0 - held[:, :-1].sum(axis=1) / norms, 0.0, 1.0),
            lost_of_mean=np.clip(1.0 - held[:, -1] / self.mean_norm, 0.0, 1.0),
        )


def _gram(system: System) -> Array:
    """The inner products of the columns of the observer and of the mean."""
    weights = np.column_stack([system.alpha, system.beta])
    return np.asarray(weights.T @ kernel_matrix(system.samples, kernel=system.kernel) @ weights)


def median_seconds(function: Callable[[Any], Any], items: list[Any]) -> float:
    """The median time of a call; the first is not counted, as it compiles."""
    function(items[0])
    return float(np.median([seconds(lambda item=item: function(item))[0] for item in items]))  # type: ignore[misc]


def clip_growth(sizes: Sizes) -> tuple[list[str], Array]:
    """Measure what grows with clips: names, and for each number of clips a row of values."""
    rng = np.random.default_rng(2026)
    streams = generated(sizes.systems, rng)
    originals = run(lambda stream: sysbags.identify(stream, ORDER), streams, -1, "systems")
    asked = Replicas.of(originals[: sizes.clips[0] // RELATED], sizes.queries + 1, rng)[:]
    embedding = fit_embedding(originals, LANDMARKS, n_jobs=-1)
    known = embed(embedding, originals, n_jobs=-1)
    rows = []
    for clips in sizes.clips:
        replicas = Replicas.of(originals[: clips // RELATED], clips, rng)
        embedded = replicas.embedded(known)
        index = SystemIndex(replicas, embedding=embedding, embedded=embedded, **WEIGHTS)
        arrays: list[npt.NDArray[Any]] = [replicas.transition, replicas.observer_gram, replicas.mean_norm]
        arrays += [embedded.observers, embedded.lost, embedded.lost_of_mean]
        blocks: list[int] = []

        def search(query: System, exact: bool, index: SystemIndex = index, blocks: Any = blocks) -> None:
            blocks.append(index.search(query, NEIGHBOURS, exact=exact).blocks)

        fast = median_seconds(lambda query: search(query, False), asked)
        blocks.clear()
        exact = median_seconds(lambda query: search(query, True), asked)
        rows.append([clips, fast, exact, float(np.median(blocks)), sum(array.nbytes for array in arrays)])
    return ["clips", "search, s", "exact search, s", "kernel blocks, exact", "index, bytes"], np.array(rows)


def system_growth(sizes: Sizes) -> Array:
    """Measure what one system costs: for each setting a row of its parameters and of `COSTS`."""
    rows = []
    for name in BASE:
        rows += [_costs(BASE | {name: value}, sizes.repeated) for value in getattr(sizes, name)]
    return np.array(rows)


COSTS = ("identification, s", "embedding, s", "kernel block of a pair, s", "alignment of a pair, s", "bytes")


def _costs(setting: dict[str, int], repeated: int) -> list[float]:
    frames, bins, order, landmarks = setting.values()
    per = max(repeated, -(-2 * landmarks // frames))
    streams, _ = make_streams(classes=per, per_class=1, frames=frames, bins=bins)
    candidates = np.concatenate(streams)[: 2 * landmarks]
    embedding = sysbags.StreamEmbedding(size=landmarks).fit([candidates])
    streams = streams[:repeated]
    systems = [sysbags.identify(stream, order) for stream in streams]
    for system in systems:
        _ = system.observer_gram, system.mean_norm  # computed once
    gram = sysbags.cross_gram(systems, embedding=embedding)
    pairs = repeated * (repeated - 1) / 2
    times = [
        median_seconds(lambda stream: sysbags.identify(stream, order), streams),
        median_seconds(lambda system: embed(embedding, [system]), systems),
        median_seconds(sysbags.cross_gram, [systems] * 3) / pairs,
        median_seconds(lambda gram: alignment_matrix(gram, **WEIGHTS), [gram] * 3) / pairs,
    ]
    one = systems[0]
    size = one.samples.nbytes + one.alpha.nbytes + one.beta.nbytes + 2 * one.transition.nbytes
    return [*setting.values(), *times, size + 4 * (order + 1) * landmarks]


def library_costs(sizes: Sizes) -> dict[str, float]:
    """Measure what a clip costs in a library: seconds to add it, with all cores, and bytes of the file."""
    frames, bins = BASE["frames"], BASE["bins"]
    with tempfile.TemporaryDirectory() as folder:
        clips, _ = make_clips(
            Path(folder) / "clips", sizes.added + 1, frames, 240, 320, n_jobs=-1, textures=["rain"]
        )
        with Library(Path(folder) / "added.library") as library:
            library.add(clips[:1], n_jobs=-1)  # compiled, and an embedding is fitted
            spent, _ = seconds(lambda: library.add(clips[1:], n_jobs=-1))
        streams, _ = make_streams(classes=2 * STORED, per_class=1, frames=frames, bins=bins)
        systems = [sysbags.identify(stream, ORDER) for stream in streams]
        stored: list[float] = []
        for given in (systems, [system.compress(COMPRESSED) for system in systems]):
            sizes_of_files = []
            for part in (given[:STORED], given):  # the difference: without what all clips share
                path = Path(folder) / f"{len(stored)}-{len(part)}.library"
                with Library(path) as library:
                    write_systems(library, part)
                    embed_clips(library)
                sizes_of_files.append(path.stat().st_size)
            stored.append((sizes_of_files[1] - sizes_of_files[0]) / STORED)
    return {"added": spent / sizes.added, "stored": stored[0], "compressed": stored[1]}


def clip_lines(names: list[str], rows: Array) -> Iterator[str]:
    yield "| clips | search, ms | exact search, ms | kernel blocks, exact search | index in memory, MB |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for clips, fast, exact, blocks, size in rows:
        yield f"| {clips:,.0f} | {1e3 * fast:.1f} | {1e3 * exact:.0f} | {blocks:.0f} | {size / 1e6:,.1f} |"
    yield ""
    yield "| model, K clips, the three largest sizes | exponent of K | R^2 |"
    yield "| --- | ---: | ---: |"
    for name, power in clip_models(names, rows).items():
        yield f"| {name} | {power.exponents[0]:.2f} | {power.explained:.3f} |"


def clip_models(names: list[str], rows: Array) -> dict[str, Power]:
    """Powers of the number of clips; small collections, where constant parts dominate, are left out."""
    large = rows[-3:]
    return {name: Power.fit(large[:, :1], large[:, k]) for k, name in enumerate(names) if k}


def extrapolated(names: list[str], rows: Array, name: str, counts: Array) -> Array:
    """What grows with clips, for larger numbers of clips, from the largest number that was measured."""
    # Every search looks at every system: a smaller exponent is that of constant parts, and would flatter.
    exponent = max(1.0, float(clip_models(names, rows)[name].exponents[0]))
    return np.asarray(rows[-1, names.index(name)] * (counts / rows[-1, 0]) ** exponent)


def system_models(rows: Array) -> dict[str, Power]:
    """Powers of frames, bins, order and landmarks, relative to the base."""
    ratios = rows[:, : len(BASE)] / np.array(list(BASE.values()))
    return {name: Power.fit(ratios, rows[:, len(BASE) + k]) for k, name in enumerate(COSTS)}


def system_lines(rows: Array) -> Iterator[str]:
    heads = ("identification, ms", "embedding, ms", "kernel block of a pair, ms", "alignment of a pair, ms")
    yield f"| {' | '.join(BASE)} | {' | '.join(heads)} | system and embedding, KB |"
    yield f"|{' ---: |' * (len(BASE) + len(COSTS))}"
    for row in rows:
        sizes = " | ".join(f"{value:.0f}" for value in row[: len(BASE)])
        times = " | ".join(f"{1e3 * value:.3g}" for value in row[len(BASE) : -1])
        yield f"| {sizes} | {times} | {row[-1] / 1e3:.0f} |"
    yield ""
    yield f"| model | at the base | {' | '.join(f'exponent of {name}' for name in BASE)} | R^2 |"
    yield f"| --- |{' ---: |' * (len(BASE) + 2)}"
    for name, power in system_models(rows).items():
        base = f"{power.factor / 1e3:.0f} KB" if name == "bytes" else f"{1e3 * power.factor:.3g} ms"
        exponents = " | ".join(f"{value:.2f}" for value in power.exponents)
        yield f"| {name.split(',')[0]} | {base} | {exponents} | {power.explained:.3f} |"


def extrapolated_lines(
    names: list[str], clips: Array, systems: Array, costs: dict[str, float]
) -> Iterator[str]:
    """What 10^6 and 10^8 clips would cost, from the largest collection that was measured."""
    pair = {name: float(power.factor) for name, power in system_models(systems).items()}

    def grown(name: str, count: float) -> float:
        return float(extrapolated(names, clips, name, np.array(count)))

    exact, aligned = pair["kernel block of a pair, s"], pair["alignment of a pair, s"]
    counts = (clips[-1, 0], 1e6, 1e8)
    rows: dict[str, Callable[[float], float]] = {
        "library file, TB": lambda count: count * costs["stored"] / 1e12,
        f"the same with `compress={COMPRESSED}`, TB": lambda count: count * costs["compressed"] / 1e12,
        "index in memory, GB": lambda count: grown("index, bytes", count) / 1e9,
        "search, s": lambda count: grown("search, s", count),
        "exact search, s": lambda count: grown("exact search, s", count),
        "a scan without an index, s": lambda count: count * (exact + aligned),
        "adding all clips, days, all cores": lambda count: count * costs["added"] / DAY,
        "of which embedding, days, one core": lambda count: count * pair["embedding, s"] / DAY,
        "all distances in the embedding, days": lambda count: count**2 / 2 * aligned / DAY,
        "all exact distances, days": lambda count: count**2 / 2 * (exact + aligned) / DAY,
    }
    yield f"| clips | {' | '.join(f'{count:,.0f}' for count in counts)} |"
    yield f"| --- |{' ---: |' * len(counts)}"
    for name, function in rows.items():
        yield f"| {name} | {' | '.join(_short(function(count)) for count in counts)} |"


def _short(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{float(f'{value:.2g}'):g}"


def picture_of_clips(path: Path, names: list[str], rows: Array, systems: Array) -> None:
    """Search and memory against clips, with the fitted lines, and dotted what is extrapolated."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), dpi=130, layout="constrained")
    times, memory = figure.subplots(1, 2)
    clips, models, each = rows[:, 0], clip_models(names, rows), system_models(systems)
    fitted, line = np.geomspace(*clips[[-3, -1]]), np.geomspace(clips[-1], 1e6)
    for name, colour in (("search, s", "#0072B2"), ("exact search, s", "#D55E00")):
        times.loglog(clips, rows[:, names.index(name)], "o", color=colour, label=name.split(",")[0])
        times.loglog(fitted, models[name](fitted[:, None]), "-", color=colour, linewidth=1)
        times.loglog(line, extrapolated(names, rows, name, line), ":", color=colour)
    pair = each["kernel block of a pair, s"].factor + each["alignment of a pair, s"].factor
    whole = np.array([clips[0], 1e6])
    times.loglog(whole, pair * whole, "--", color="#666666", linewidth=1, label="scan of all, from a pair")
    times.set(xlabel="clips", ylabel="seconds per query")
    size = names.index("index, bytes")
    memory.loglog(clips, rows[:, size] / 1e9, "o", color="#0072B2", label="index in memory")
    memory.loglog(fitted, models["index, bytes"](fitted[:, None]) / 1e9, "-", color="#0072B2", linewidth=1)
    memory.loglog(line, extrapolated(names, rows, "index, bytes", line) / 1e9, ":", color="#0072B2")
    memory.set(xlabel="clips", ylabel="GB")
    for axes in (times, memory):
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
    figure.savefig(path)


def picture_of_systems(path: Path, rows: Array, sizes: Sizes) -> None:
    """The cost of one system against each parameter, with the fitted lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.4), dpi=130, layout="constrained")
    models, start = system_models(rows), 0
    colours = dict(zip(COSTS[:-1], ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), strict=True))
    for k, (axes, name) in enumerate(zip(figure.subplots(2, 2).ravel(), BASE, strict=True)):
        part = rows[start : start + len(getattr(sizes, name))]
        start += len(part)
        line = np.geomspace(part[0, k], part[-1, k])
        ratios = np.ones((len(line), len(BASE)))
        ratios[:, k] = line / BASE[name]
        for place, (cost, colour) in enumerate(colours.items()):
            axes.loglog(
                part[:, k], 1e3 * part[:, len(BASE) + place], "o", color=colour, label=cost.split(",")[0]
            )
            axes.loglog(line, 1e3 * models[cost](ratios), "-", color=colour, linewidth=1)
        axes.set(xlabel=name, ylabel="ms")
        axes.set_xticks(part[:, k], [f"{value:.0f}" for value in part[:, k]], minor=False)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path)


def main() -> None:
    """Print the tables as Markdown, and write pictures where asked for."""
    parser = command_parser("python -m benchmarks.growth", __doc__)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else Sizes()
    command = f"python -m benchmarks.growth{' --quick' if arguments.quick else ''}"
    about = [*facts(command, ("numpy", "scipy", "numba")), ""]
    print("\n".join(about), flush=True)
    with threadpool_limits(limits=1, user_api="blas"):
        names, clips = clip_growth(sizes)
    tables = {"clips": [*clip_lines(names, clips)]}
    print("\n".join(tables["clips"]), end="\n\n", flush=True)
    with threadpool_limits(limits=1, user_api="blas"):
        systems = system_growth(sizes)
    tables["systems"] = [*system_lines(systems)]
    print("\n".join(tables["systems"]), end="\n\n", flush=True)
    tables["extrapolated"] = [*extrapolated_lines(names, clips, systems, library_costs(sizes))]
    print("\n".join(tables["extrapolated"]), flush=True)
    if arguments.pictures:
        picture_of_clips(arguments.pictures / "growth_clips.png", names, clips, systems)
        picture_of_systems(arguments.pictures / "growth_systems.png", systems, sizes)
    if arguments.page:
        for name, lines in tables.items():
            fill_page(arguments.page, f"python -m benchmarks.growth: {name}", "\n".join([*about, *lines]))


if __name__ == "__main__":
    main()
