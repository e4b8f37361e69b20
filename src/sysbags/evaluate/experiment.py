"""An experiment on a set of clips: every method judged by the same protocol, and what there is to see."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sysbags._common.parallel import check_jobs
from sysbags._common.stages import Stages
from sysbags._common.types import Array
from sysbags._common.version import __version__
from sysbags.bags.base import BagTransformer
from sysbags.distances.pairwise import alignment_matrix
from sysbags.errors import SysbagsError
from sysbags.evaluate.assemble import curves, relations
from sysbags.evaluate.atlas import atlas
from sysbags.evaluate.cached_gram import cached_gram
from sysbags.evaluate.entries import (
    COMPARATORS,
    EvaluationSet,
    MethodSpec,
    SystemSet,
    alignment_methods,
    baseline_methods,
    comparator_methods,
    evaluate_method,
    vector_methods,
)
from sysbags.evaluate.features import Features, descending_orders, identified
from sysbags.evaluate.left_out import LAMBDA_A_GRID, LAMBDA_MU_GRID
from sysbags.evaluate.together import kernel_ridge_method
from sysbags.evaluate.tuning import bag_settings, tuned
from sysbags.report.results import Evaluation, Method

__all__ = ["Options", "experiment"]

AVERAGES = ("1-NN", "nearest centroid", "logistic regression")
PAIRS = 2000  # are aligned to tell what one takes


@dataclass(frozen=True)
class Options:
    """What is asked for; what is None is left to the experiment.

    Attributes
    ----------
    order, kernel : optional
        5, or less for a clip that is too short or too still for it, and "chi2"; with `tune` to be chosen.
    lambda_a, lambda_mu : float, optional
        Always chosen without the clips to be judged.
    compare : bool, default=False
        All distances, averages of the bags over time, and other people's methods.
    tune : bool, default=False
        Choose order, kernel, weights, neighbours and parameters of the bags.
    bag : str, default="LBP"
        What tables call the bags.
    add_bags : mapping of str to BagTransformer
        Further bags, whose distances are added for the kernel machine, and what tables call them.
    fixed : sequence of str
        Parameters of the bags that are not to be tuned.
    frames : dict
        How comparators read clips, instead of their own ways.
    """

    order: int | str | None = None
    kernel: str | None = None
    lambda_a: float | None = None
    lambda_mu: float | None = None
    compare: bool = False
    tune: bool = False
    bag: str = "LBP"
    add_bags: Mapping[str, BagTransformer] = field(default_factory=dict)
    fixed: Sequence[str] = ()
    frames: dict[str, Any] = field(default_factory=dict)


def experiment(
    title: str,
    items: EvaluationSet,
    streams: Sequence[Sequence[Array]],
    bags: BagTransformer,
    features: Features,
    options: Options,
    stages: Stages,
) -> Evaluation:
    """Judge every method that is asked for, and put together what there is to see.

    The first line of the table is the main method, whatever comes out: systems with the alignment distance
    and the nearest mean; with `add_bags` the kernel machine on all bags; with `tune` the tuned ones. Curves,
    map and atlas are of its (first) systems, at the weights that it chose most often.

    Parameters
    ----------
    title : str
    items : EvaluationSet
    streams : sequence of one or three sequences of (N, p) array
        Of all clips, three by codebooks without a third each.
    bags : BagTransformer
        What made them; `tune` varies them.
    features : Features
        Describes the same clips otherwise, for `compare` and `tune`.
    options : Options
    stages : Stages

    Returns
    -------
    Evaluation
        `facts["notes"]` holds sentences about what had to be left out.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sysbags._common.cache import Store
    >>> from sysbags.bags import LocalBinaryPatterns
    >>> from sysbags._common.stages import Stages
    >>> from sysbags.datasets import make_streams
    >>> from sysbags.report.results import Clip
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> clips = tuple(Clip(f"{label}/{k}", Path(str(k)), str(label)) for k, label in enumerate(labels))
    >>> items = EvaluationSet(clips, np.arange(8), np.arange(8) % 3, "one clip left out at a time")
    >>> features = Features([clip.path for clip in clips], items.codebook_folds, Store(None), 1)
    >>> options = Options(order=2, lambda_a=0.25, lambda_mu=0.0)
    >>> bags = LocalBinaryPatterns()
    >>> found = experiment("streams", items, [streams], bags, features, options, Stages())
    >>> [(method.name, method.classifier) for method in found.methods]
    [('LBP systems, alignment', 'nearest mean'), ('LBP systems, alignment', '1-NN'),
     ('LBP systems, alignment', 'kernel machine')]
    """
    notes: list[str] = []
    order, kernel = options.order or 5, options.kernel or "chi2"
    grid_a = _from_the_middle(LAMBDA_A_GRID) if options.lambda_a is None else (options.lambda_a,)
    grid_mu = _from_the_middle(LAMBDA_MU_GRID) if options.lambda_mu is None else (options.lambda_mu,)

    def views(described: Sequence[Sequence[Array]], way: str, orders: Sequence[int | str]) -> list[SystemSet]:
        made = [identified(one, orders, way, items.jobs) for one in described]
        return [SystemSet(one, cached_gram(features.store, one, items.jobs).gram) for one in made]

    with stages("systems and kernel"):
        own = views(streams, kernel, descending_orders([order]) if options.order is None else [order])
        together = [own]
        for more in options.add_bags.values():
            together.append(views(features.good_streams(more), kernel, descending_orders([order])))
    entries = alignment_methods(f"{options.bag} systems", "systems", own, items, grid_a, grid_mu)
    joint = kernel_ridge_method(
        [options.bag, *options.add_bags], together, items, options.lambda_a, options.lambda_mu
    )
    entries.insert(0 if options.add_bags else len(entries), joint)
    if options.tune:

        def alternatives() -> Any:
            return tuned(
                features.good_streams,
                views,
                bags,
                items,
                order=options.order,
                kernel=options.kernel,
                lambda_a=options.lambda_a,
                grid_mu=grid_mu,
                fixed=options.fixed,
                note=notes.append,
            )

        entries.insert(0, MethodSpec(f"{options.bag} systems, tuned", "chosen", "systems", alternatives))
    if options.compare:
        entries += baseline_methods(f"{options.bag} systems", "systems", own, items)
        averages = [np.stack([stream.mean(axis=0) for stream in one]) for one in streams]
        entries += vector_methods(f"{options.bag} bags averaged over time", averages, items, AVERAGES, "chi2")
        for name in COMPARATORS:
            try:
                with stages(name):
                    # The first weight of a grid is its middle.
                    entries += comparator_methods(name, options.frames, features, items, grid_a[0], grid_mu)
            except (SysbagsError, ImportError) as error:
                notes.append(f"{name} was left out: {error}")

    methods: list[Method] = []
    main: dict[str, Any] = {}
    for entry in entries:
        right = np.array(methods[0].predictions) == items.labels if methods else None
        with stages(entry.name):
            line, chosen = evaluate_method(entry, items, right)
        main = main or chosen
        methods.append(line)

    if options.tune:
        bags = bag_settings(bags, options.fixed)[main["bag parameters"]]
        order, kernel = main["order"], main["kernel"]
        with stages("systems and kernel"):
            own = views(features.good_streams(bags), kernel, descending_orders([order]))
    # By codebooks without a third each, what is shown is that of the first.
    (systems, gram), weights = own[0], (main["lambda_a"], main["lambda_mu"])
    common: dict[str, Any] = {"random_state": items.seed, "n_jobs": items.jobs}
    with stages("curves"):
        lines = curves(
            [view.gram for view in own],
            items.labels,
            items.groups,
            codebook_folds=items.codebook_folds if len(own) > 1 else None,
            lambda_a=weights[0],
            lambda_mu=weights[1],
            classifiers=("1-NN", "nearest mean"),
            **common,
        )
    with stages("map"):
        where = relations(systems, gram, items.codes, items.groups, *weights, **common)
    with stages("atlas"):
        pages = atlas(systems, gram, items.labels, *weights, **common)
    return Evaluation(
        title,
        items.protocol,
        items.clips,
        tuple(np.unique(items.labels).tolist()),
        tuple(methods),
        0,
        (),
        lines,
        tuple(systems),
        where,
        pages,
        dict(stages.seconds),
        {
            "bag": " ".join(str(bags).split()),
            "order": order,
            "kernel": kernel,
            "weights of curves, map and atlas": {"lambda_a": weights[0], "lambda_mu": weights[1]},
            "seconds for a pair after the kernel": _seconds_a_pair(own[0], weights[0]),
            "threads": check_jobs(items.jobs),
            "seed": items.seed,
            "version": __version__,
            "notes": notes,
        },
    )


def _from_the_middle(grid: Sequence[float]) -> list[float]:
    """A grid with its middle first: that is taken unless something else is clearly better."""
    middle = (len(grid) - 1) / 2.0
    return [grid[k] for k in sorted(range(len(grid)), key=lambda k: abs(k - middle))]


def _seconds_a_pair(view: SystemSet, lambda_a: float) -> float:
    """What one alignment takes, on one thread."""
    some = np.arange(min(len(view.systems), int(np.sqrt(2 * PAIRS))))
    part, started = view.gram.subset(some), time.perf_counter()
    alignment_matrix(part, lambda_a)
    return (time.perf_counter() - started) / max(1, len(some) * (len(some) - 1) // 2)
