"""An evaluation of clips or streams: every method by the same protocol, with its cross-validated accuracy."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.cache import Cache
from sysbags._common.parallel import check_jobs, run
from sysbags._common.seeds import seed_of
from sysbags._common.stages import Stages
from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_labels
from sysbags._common.version import __version__
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import BAGS, make_bag
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.errors import FileError, ParameterError, SysbagsError
from sysbags.evaluate.atlas import atlas
from sysbags.evaluate.cached import cached_gram
from sysbags.evaluate.comparators import COMPARATORS, comparator_methods
from sysbags.evaluate.compilation import compiled_ahead
from sysbags.evaluate.cross_validation import LAMBDA_A_GRID, LAMBDA_MU_GRID
from sysbags.evaluate.details import curves, relations
from sysbags.evaluate.features import ClipFeatures
from sysbags.evaluate.methods import (
    MethodSpec,
    SystemSet,
    alignment_methods,
    baseline_methods,
    evaluate_method,
    kernel_ridge_method,
    vector_methods,
)
from sysbags.evaluate.reading import (
    DescribedClips,
    LabelledClips,
    RunContext,
    describe_files,
    describe_streams,
)
from sysbags.evaluate.tuning import bag_settings, tuning_alternatives
from sysbags.report.results import Details, Evaluation, Method
from sysbags.systems.identification import descending_orders, identify_first

__all__ = ["METHODS", "evaluate", "single_group_classes"]

METHODS = ("nearest mean", "1-NN", "kernel ridge")
AVERAGE_CLASSIFIERS = ("1-NN", "nearest mean", "logistic regression")
TIMED_PAIRS = 2000  # are aligned to measure what one takes

BagsLike = str | BagTransformer | Sequence[str | BagTransformer] | Mapping[str, BagTransformer]


def evaluate(
    clips: Sequence[Any],
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    bags: BagsLike = "lbp",
    methods: Sequence[str] = METHODS,
    protocol: str | None = None,
    folds: int = 10,
    order: int | str | None = None,
    kernel: str | None = None,
    lambda_a: float | None = None,
    lambda_mu: float | None = None,
    compare: bool | Sequence[str] = False,
    compare_frames: Mapping[str, Any] | None = None,
    tune: bool = False,
    fixed: Sequence[str] = (),
    title: str = "clips",
    cache: str | os.PathLike[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> Evaluation:
    """Evaluate how well clips or streams are classified, each by others alone.

    The first row of the table is the main method: systems with the alignment distance and the nearest
    mean; with several bags kernel ridge on all of them; with `tune` the tuned ones. Whatever has several
    settings is chosen by nested selection, never by the clips that are predicted. Codebooks are learnt
    without them too.

    Parameters
    ----------
    clips : sequence of paths, or of (N, p) arrays
        Video files or folders of images; or streams of histograms, one row per frame.
    labels : (K,) array_like
        The class of each.
    groups : (K,) array_like, optional
        What must not be split, such as the source that a clip was cut from.
    bags : str, BagTransformer, sequence of these or mapping, default="lbp"
        How clips are described, by name (`sysbags.bags.registry.BAGS`) or as an object; the keys of a mapping
        are what tables call them. With several, kernel ridge adds up their distances. Ignored for streams.
    methods : sequence of {"nearest mean", "1-NN", "kernel ridge"}
        Classifiers of systems with the alignment distance.
    protocol : {"leave-one-out", "folds", "by-source"}, optional
        What is left out together; by default the groups, where there are two of them, or else each clip.
    folds : int, default=10
        For the protocol "folds".
    order, kernel : optional
        By default 5, or less for a clip that is too short or too still for it, and "chi2"; with `tune` they
        are chosen.
    lambda_a, lambda_mu : float, optional
        Weights of the transition and of the mean; by default chosen.
    compare : bool or sequence of str, default=False
        Also all other distances, averages of the bags over time, and, for clips, other people's methods: all
        of `sysbags.comparators`, or those named.
    compare_frames : mapping, optional
        How other people's methods read clips, see `sysbags.video.frames`.
    tune : bool, default=False
        Choose order, kernel, weights, neighbours and parameters of the bags.
    fixed : sequence of str
        Parameters of the bags that are not tuned.
    title : str, default="clips"
    cache : path, optional
        Folder for results that another run can use again.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.
    stages : Stages, optional
        Keeps the times.

    Returns
    -------
    Evaluation

    Raises
    ------
    SysbagsError
        If a class has no clip that can be used, or no class has clips in two groups.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> result = evaluate(streams, labels, order=2, lambda_a=0.25, lambda_mu=0.0)
    >>> for method in result.methods:
    ...     print(method.name, method.classifier, method.rate.total)
    stream systems, alignment nearest mean 8
    stream systems, alignment 1-NN 8
    stream systems, alignment kernel ridge 8
    >>> result.predictions.shape, result.confusion.shape
    ((8,), (2, 2))
    """
    for method in methods:
        check_choice(method, "methods", METHODS)
    if not methods:
        raise ParameterError("methods is empty, but there must be at least one")
    count = len(clips)
    if not count:
        raise ParameterError("clips is empty, but there must be at least two")
    check_labels(labels, count)
    names = [str(label) for label in np.asarray(labels)]
    sources = None if groups is None else [str(group) for group in np.asarray(groups)]
    request = _Request(
        bags=_named_bags(bags),
        methods=tuple(methods),
        order=order,
        kernel=kernel,
        lambda_a=lambda_a,
        lambda_mu=lambda_mu,
        compare=bool(compare) or not isinstance(compare, bool),
        comparators=_comparator_names(compare),
        compare_frames=dict(compare_frames or {}),
        tune=tune,
        fixed=tuple(fixed),
    )
    if len(set(names)) < 2:
        raise ParameterError(f"all clips have the class {names[0]}, but there must be at least two classes")
    if protocol is None:
        protocol = "by-source" if sources is not None and len(set(sources)) > 1 else "leave-one-out"
    context = RunContext(
        cache=Cache(cache), stages=stages or Stages(), random_state=seed_of(random_state), n_jobs=n_jobs
    )
    values = dict(zip(names, np.asarray(labels), strict=True))
    given = LabelledClips(clips=clips, labels=names, sources=sources, protocol=protocol, folds=folds)
    identify_one = partial(identify_first, orders=request.orders, kernel=request.kernel_name)
    if all(isinstance(clip, (str, os.PathLike)) for clip in clips):
        transformers = [bag for bag in request.bags.values() if bag is not None]
        with compiled_ahead("metrics" if compare else "means"):
            described = describe_files(given, transformers, identify_one, context)
    else:
        request = replace(request, bags={"stream": None})
        described = describe_streams(given, request.kernel_name, identify_one, context)
    labels_read = [clip.label for clip in described.items.clips]
    isolated_classes = single_group_classes(labels_read, described.items.groups.tolist())
    if len(isolated_classes) == len(set(labels_read)):
        raise FileError(
            "each class has its clips in a single group, so none can be left out: there must be two groups"
        )
    outcome = _Experiment(title, described, request, context).run(tuple(isolated_classes))
    return replace(outcome, label_values=values)


def single_group_classes(labels: Sequence[str], groups: Sequence[Any]) -> list[str]:
    """Return the classes that have all their clips in one group: none of them can be predicted correctly.

    Examples
    --------
    >>> single_group_classes(["sea", "sea", "fire", "fire"], [0, 1, 2, 2])
    ['fire']
    """
    pairs = set(zip(labels, groups, strict=True))
    return [name for name in dict.fromkeys(labels) if sum(label == name for label, _ in pairs) < 2]


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What is asked for; what is None is left to the evaluation."""

    bags: Mapping[str, BagTransformer | None]
    methods: tuple[str, ...]
    order: int | str | None
    kernel: str | None
    lambda_a: float | None
    lambda_mu: float | None
    compare: bool
    comparators: tuple[str, ...]
    compare_frames: dict[str, Any] = field(default_factory=dict)
    tune: bool
    fixed: tuple[str, ...]

    @property
    def orders(self) -> list[int | str]:
        """The orders to try for a clip."""
        return descending_orders([5]) if self.order is None else [self.order]

    @property
    def kernel_name(self) -> str:
        return self.kernel or "chi2"

    @property
    def main_bag(self) -> tuple[str, BagTransformer | None]:
        return next(iter(self.bags.items()))


def _comparator_names(compare: bool | Sequence[str]) -> tuple[str, ...]:
    if isinstance(compare, bool):
        return tuple(COMPARATORS) if compare else ()
    return tuple(check_choice(name, "compare", COMPARATORS) for name in compare)


def _named_bags(bags: BagsLike) -> dict[str, BagTransformer | None]:
    """Return bags by what tables call them."""
    if not isinstance(bags, (str, BagTransformer)) and not bags:
        raise ParameterError("bags is empty, but there must be at least one")
    if isinstance(bags, Mapping):
        return dict(bags)
    listed = [bags] if isinstance(bags, (str, BagTransformer)) else list(bags)
    named: dict[str, BagTransformer | None] = {}
    for bag in listed:
        if isinstance(bag, str):
            title, transformer = BAGS[check_choice(bag, "bags", BAGS)].title, make_bag(bag)
        elif isinstance(bag, BagTransformer):
            titles = [known.title for known in BAGS.values() if known.bag_class.name == type(bag).__name__]
            title, transformer = titles[0] if titles else type(bag).__name__, bag
        else:
            raise ParameterError(f"bags holds a {type(bag).__name__}, but it must hold names or bags")
        if title in named:
            raise ParameterError(f"bags holds {title} twice: give a mapping, whose keys are different names")
        named[title] = transformer
    return named


class _Experiment:
    """The methods of a request, evaluated one after the other, and what there is to see."""

    def __init__(self, title: str, described: DescribedClips, request: _Request, context: RunContext) -> None:
        self.title, self.request, self.stages = title, request, context.stages
        self.items, self.main, self.further = described.items, described.main, described.further
        self.features = ClipFeatures(
            self.main.paths, self.items.codebook_folds, context.cache, context.n_jobs
        )
        self.notes: list[str] = []
        self.grid_a = _from_the_middle(LAMBDA_A_GRID) if request.lambda_a is None else [request.lambda_a]
        self.grid_mu = _from_the_middle(LAMBDA_MU_GRID) if request.lambda_mu is None else [request.lambda_mu]

    def run(self, single_groups: tuple[str, ...]) -> Evaluation:
        """Evaluate every method."""
        request, items, stages = self.request, self.items, self.stages
        with stages("systems and kernel"):
            system_sets = [self._system_set(systems) for systems in self.main.systems]
        methods: list[Method] = []
        main: dict[str, Any] = {}
        for spec in self._specs(system_sets):
            right = np.array(methods[0].predictions) == items.labels if methods else None
            with stages(spec.name):
                method, chosen = evaluate_method(spec, items, right)
            main = main or chosen
            methods.append(method)
        order, kernel = main.get("order", request.order or 5), main.get("kernel", request.kernel_name)
        bags = request.main_bag[1]
        if request.tune and bags is not None:
            bags = bag_settings(bags, request.fixed)[main["bag parameters"]]
        weights = main["lambda_a"], main["lambda_mu"]
        return Evaluation(
            title=self.title,
            protocol=items.protocol,
            clips=items.clips,
            groups=tuple(items.groups.tolist()),
            classes=tuple(np.unique(items.labels).tolist()),
            methods=tuple(methods),
            make_details=partial(self._details, system_sets, bags, order, kernel, weights),
            failures=self.main.failures,
            single_group_classes=single_groups,
            seconds=stages.seconds,
            facts={
                "bag": "streams" if bags is None else " ".join(str(bags).split()),
                "order": order,
                "kernel": kernel,
                "weights of curves, map and atlas": {"lambda_a": weights[0], "lambda_mu": weights[1]},
                "threads": check_jobs(items.n_jobs),
                "random_state": items.random_state,
                "version": __version__,
                "notes": self.notes,
            },
        )

    def _specs(self, system_sets: list[SystemSet]) -> list[MethodSpec]:
        """The rows of the table, the main method first."""
        request, items = self.request, self.items
        name, bags = request.main_bag
        specs = alignment_methods(f"{name} systems", "systems", system_sets, items, self.grid_a, self.grid_mu)
        specs = [spec for spec in specs if spec.classifier in request.methods]
        if "kernel ridge" in request.methods:
            sets_per_bag = [system_sets]
            with self.stages("systems and kernel"):
                orders = descending_orders([request.order or 5])
                for streams in self.further:
                    sets_per_bag.append(self._system_sets(streams, request.kernel_name, orders))
            joint = kernel_ridge_method(
                list(request.bags), sets_per_bag, items, request.lambda_a, request.lambda_mu
            )
            specs.insert(0 if len(request.bags) > 1 else len(specs), joint)
        if request.tune:
            alternatives = partial(
                tuning_alternatives,
                self._streams,
                self._system_sets,
                bags,
                items,
                order=request.order,
                kernel=request.kernel,
                lambda_a=request.lambda_a,
                grid_mu=self.grid_mu,
                fixed=request.fixed,
                note=self.notes.append,
            )
            tuned = MethodSpec(
                name=f"{name} systems, tuned", classifier="chosen", kind="systems", alternatives=alternatives
            )
            specs.insert(0, tuned)
        if request.compare:
            specs += self._rivals(name, system_sets)
        return specs

    def _rivals(self, name: str, system_sets: list[SystemSet]) -> list[MethodSpec]:
        """Other distances, averages over time, and other people's methods."""
        specs = baseline_methods(f"{name} systems", "systems", system_sets, self.items)
        averages = [np.stack([stream.mean(axis=0) for stream in version]) for version in self.main.streams]
        title = f"{name} bags averaged over time"
        specs += vector_methods(title, averages, self.items, AVERAGE_CLASSIFIERS, "chi2")
        if self.request.main_bag[1] is None:
            self.notes.append("other people's methods were left out: they need clips, but there are streams")
            return specs
        for comparator in self.request.comparators:
            try:
                with self.stages(comparator):
                    # The first weight of a grid is its middle.
                    specs += comparator_methods(
                        comparator,
                        self.request.compare_frames,
                        self.features,
                        self.items,
                        self.grid_a[0],
                        self.grid_mu,
                    )
            except (SysbagsError, ImportError) as error:
                self.notes.append(f"{comparator} was left out: {error}")
        return specs

    def _streams(self, bags: BagTransformer | None) -> Sequence[Sequence[Array]]:
        return self.main.streams if bags is None else self.features.good_streams(bags)

    def _system_sets(
        self, streams: Sequence[Sequence[Array]], kernel: str, orders: Sequence[int | str]
    ) -> list[SystemSet]:
        identify_one = partial(identify_first, orders=orders, kernel=kernel)
        return [
            self._system_set(run(identify_one, version, self.items.n_jobs, "systems")) for version in streams
        ]

    def _system_set(self, systems: list[Any]) -> SystemSet:
        return SystemSet(systems, cached_gram(self.features.cache, systems, self.items.n_jobs).gram)

    def _details(
        self,
        system_sets: list[SystemSet],
        bags: BagTransformer | None,
        order: int | str,
        kernel: str,
        weights: tuple[float, float],
    ) -> Details:
        """Compute curves, map and class means at the weights of the main method."""
        items, stages = self.items, self.stages
        common: dict[str, Any] = {"random_state": items.random_state, "n_jobs": items.n_jobs}
        if self.request.tune:
            with stages("systems and kernel"):
                system_sets = self._system_sets(self._streams(bags), kernel, descending_orders([order]))
        # With codebooks, what is shown is that of the first.
        systems, gram = system_sets[0]
        with stages("curves"):
            lines = curves(
                [system_set.gram for system_set in system_sets],
                items.labels,
                items.groups,
                codebook_folds=items.codebook_folds if len(system_sets) > 1 else None,
                lambda_a=weights[0],
                lambda_mu=weights[1],
                classifiers=("1-NN", "nearest mean"),
                **common,
            )
        with stages("map"):
            places = relations(gram, items.codes, items.groups, *weights, **common)
        with stages("atlas"):
            means = atlas(systems, gram, items.labels, *weights, **common)
        return Details(
            curves=lines,
            systems=tuple(systems),
            relations=places,
            atlas=means,
            facts={"seconds for a pair after the kernel": _seconds_per_pair(system_sets[0], weights[0])},
        )


def _from_the_middle(grid: Sequence[float]) -> list[float]:
    """A grid with its middle first: that is taken unless something else is clearly better."""
    middle = (len(grid) - 1) / 2.0
    return [grid[k] for k in sorted(range(len(grid)), key=lambda k: abs(k - middle))]


def _seconds_per_pair(system_set: SystemSet, lambda_a: float) -> float:
    """Measure what one alignment takes, on one thread."""
    indices = np.arange(min(len(system_set.systems), int(np.sqrt(2 * TIMED_PAIRS))))
    part, started = system_set.gram.subset(indices), time.perf_counter()
    alignment_matrix(part, lambda_a)
    return (time.perf_counter() - started) / max(1, len(indices) * (len(indices) - 1) // 2)
