"""The experiment: the methods of a request on clips that were read, and what there is to see."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from sysbags._common import __version__
from sysbags._common.parallel import check_jobs, run
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import CLASSES
from sysbags.bags.streams import clip_streams, good
from sysbags.classifiers.registry import CLASSIFIERS, MOMENTS
from sysbags.classifiers.scores.committee import AVERAGES
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.distances.embedding import fit_embedding, landmark_count
from sysbags.distances.pairwise import scaled_weights
from sysbags.distances.projection import EmbeddingLoss
from sysbags.errors import SysbagsError
from sysbags.evaluate.atlas import atlas
from sysbags.evaluate.candidates import (
    AND,
    Systems,
    SystemSet,
    bag_settings,
    tuning_candidates,
)
from sysbags.evaluate.comparators import comparator_methods
from sysbags.evaluate.details import relations
from sysbags.evaluate.features import ClipFeatures, cached_gram
from sysbags.evaluate.methods import (
    MethodSpec,
    average_ridge_method,
    baseline_methods,
    evaluate_method,
    mean_methods,
    system_methods,
    vector_methods,
)
from sysbags.evaluate.moments import moments_method
from sysbags.evaluate.reading import DescribedClips, RunContext
from sysbags.evaluate.results import Details, Evaluation, Method
from sysbags.evaluate.settings import Request
from sysbags.systems.identification import descending_orders, identify_first

AVERAGE_CLASSIFIERS = ("1-NN", "nearest-mean", "kernel-ridge", "logistic regression")
TIMED_PAIRS = 2000  # are aligned to measure what one takes


class Shown(NamedTuple):
    """The setting of the alignment distance that map and atlas are of."""

    bags: BagTransformer | None
    order: int | str
    kernel: str
    normal_form: str
    lambda_a: float
    lambda_mu: float


class Experiment:
    """The methods of a request, evaluated one after the other, and what there is to see."""

    def __init__(self, title: str, described: DescribedClips, request: Request, context: RunContext) -> None:
        self.title, self.request, self.stages = title, request, context.stages
        self.items, self.main, self.further = described.items, described.main, described.further
        self._further_systems = described.further_systems
        self.features = ClipFeatures(
            self.main.paths, self.items.codebook_folds, context.cache, context.n_jobs
        )
        order, self.notes = request.settings.usual_order, list[str]()
        self._embedded: list[tuple[int | None, Array]] = []  # sizes of embeddings, and what systems lose
        short = [
            name
            for name, versions in zip(request.bags, (self.main.systems, *self._further_systems), strict=True)
            if isinstance(order, int) and np.median([system.size for system in versions[0]]) <= order
        ]
        if short:
            options = sorted(
                {option for name in short if (option := _stride_option(request.bags[name], order))}
            )
            self.notes.append(
                f"most clips have too few frames for order {order} ({', '.join(short)}): their systems have "
                "smaller orders, fit so few frames almost exactly and say little about dynamics"
                + (f"; a smaller {' and '.join(options)} helps" if options else "")
            )

    @cached_property
    def bags(self) -> dict[str, Systems]:
        """The systems of each bag."""
        with self.stages("systems and kernel"):
            every = [
                Systems([self._system_set(systems) for systems in versions], self.items)
                for versions in (self.main.systems, *self._further_systems)
            ]
        return dict(zip(self.request.bags, every, strict=True))

    @property
    def systems(self) -> Systems:
        """The systems of the main bag."""
        return next(iter(self.bags.values()))

    def run(self, single_groups: tuple[str, ...] = ()) -> tuple[Evaluation, Shown]:
        """Evaluate every method; return what was found, and the setting that is shown."""
        items, stages = self.items, self.stages
        methods: list[Method] = []
        main: dict[str, Any] = {}
        labels = items.labels[items.tested]
        for spec in self._specs():
            right = np.array(methods[0].predictions) == labels if methods else None
            with stages(spec.name):
                method, chosen = evaluate_method(spec, items, right)
            main = main or chosen
            methods.append(method)
        shown = self._shown(main)
        loss = EmbeddingLoss.of(*zip(*self._embedded, strict=True)) if self._embedded else None
        # Of several bags, map and atlas show the first.
        bags = [shown.bags, *list(self.request.bags.values())[1:]]
        texts = ["streams" if bag is None else " ".join(str(bag).split()) for bag in bags]
        evaluation = Evaluation(
            title=self.title,
            protocol=items.protocol,
            clips=tuple(items.clips[k] for k in items.tested),
            groups=tuple(items.groups[items.tested].tolist()),
            classes=tuple(np.unique(items.labels).tolist()),
            methods=tuple(methods),
            make_details=partial(self.details, shown),
            failures=self.main.failures,
            single_group_classes=single_groups,
            seconds=stages.seconds,
            facts={
                "bag": AND.join(texts),
                "order": shown.order,
                "kernel": shown.kernel,
                "alignment distance of map and atlas": {
                    "normal form": shown.normal_form,
                    "lambda_a": shown.lambda_a,
                    "lambda_mu": shown.lambda_mu,
                },
                "embedding": None if loss is None else loss._asdict(),
                "threads": check_jobs(items.n_jobs),
                "random_state": items.random_state,
                "version": __version__,
                "notes": self.notes,
            },
        )
        return evaluation, shown

    def _shown(self, main: Mapping[str, Any]) -> Shown:
        """Return the setting of the main method, if that is an alignment distance, or else the usual one."""
        request = self.request
        bags = request.main_bag[1]
        if request.settings.tune and bags is not None:
            bags = bag_settings(bags, request.settings.fixed)[main["bag parameters"]]
        order = main.get("order", request.settings.usual_order)
        kernel = main.get("kernel", request.settings.usual_kernel)
        if main.get("metric") == "alignment":
            form, weights = main["normal form"], (main["lambda_a"], main["lambda_mu"])
        else:
            form = "unit-variance"
            weights = scaled_weights(self.systems.sets(form)[0].gram.rows)
        return Shown(bags, order, kernel, form, *weights)

    def methods(self) -> list[MethodSpec]:
        """The classifiers that are asked for, with all bags, and averages over time alone.

        Of several bags kernel ridge comes first.
        """
        request = self.request
        title = f"{request.main_bag[0]} systems"
        of_systems = [name for name in request.methods if name != MOMENTS]
        specs = system_methods(title, "systems", self.bags, of_systems, request.settings.grids)
        if len(self.bags) > 1:
            specs.sort(key=lambda spec: spec.classifier != "kernel-ridge")
        title = AND.join(request.bags)
        averaged = f"{title} averaged over time"
        if MOMENTS not in request.methods:
            return [*specs, *mean_methods(averaged, "averages", self.bags, ["kernel-ridge"])]
        every, kernel = [self.main.streams, *self.further], request.settings.usual_kernel
        names = list(request.bags)
        return [
            moments_method(f"{title} streams", names, every, self.items, kernel),
            *specs,
            moments_method(averaged, names, every, self.items, kernel, AVERAGES),
        ]

    def _specs(self) -> list[MethodSpec]:
        """The rows of the table, the main method first."""
        request = self.request
        name, bags = request.main_bag
        title = f"{name} systems"
        specs = self.methods()
        if request.settings.tune:
            candidates = partial(
                tuning_candidates,
                self._streams,
                self._systems,
                bags,
                self.items,
                order=request.settings.order,
                kernel=request.settings.kernel,
                grids=request.settings.grids,
                fixed=request.settings.fixed,
                note=self.notes.append,
            )
            tuned = MethodSpec(
                name=f"{title}, tuned", classifier="chosen", kind="systems", candidates=candidates
            )
            specs.insert(0, tuned)
        if request.compare:
            if len(request.settings.grids) > 1:
                for grid in request.settings.grids:
                    specs += system_methods(title, "systems", {name: self.systems}, request.methods, [grid])
            specs += baseline_methods(title, "systems", self.systems)
            specs += self._rivals(name)
        return specs

    def _rivals(self, name: str) -> list[MethodSpec]:
        """Averages over time, and other people's methods."""
        averages = [
            [np.stack([stream.mean(axis=0) for stream in version]) for version in streams]
            for streams in (self.main.streams, *self.further)
        ]
        known = () if MOMENTS in self.request.methods or self.further else ("kernel-ridge",)
        others = [each for each in CLASSIFIERS if each not in known]
        specs = mean_methods(f"{name} systems, means alone", "comparator", {name: self.systems}, others)
        title = f"{name} bags averaged over time"
        specs += vector_methods(title, averages[0], self.items, AVERAGE_CLASSIFIERS, "chi2")
        if self.further:
            specs.append(average_ridge_method(list(self.request.bags), averages, self.items))
        if self.request.main_bag[1] is None:
            self.notes.append("other people's methods were left out: they need clips, but there are streams")
            return specs
        for comparator, frames in self.request.comparators.items():
            try:
                with self.stages(comparator):
                    specs += comparator_methods(
                        comparator,
                        frames,
                        self.features,
                        self.items,
                        self.request.settings.lambda_a,
                        self.request.settings.lambda_mu,
                    )
            except (SysbagsError, ImportError) as error:
                self.notes.append(f"{comparator} was left out: {error}")
        return specs

    def systems_of(self, bags: BagTransformer) -> Systems:
        """The systems of all clips with bags that are fitted."""
        cache, n_jobs = self.features.cache, self.items.n_jobs
        (streams,) = clip_streams([bags], self.main.paths, cache, n_jobs=n_jobs)
        return self._systems(
            [[good(stream) for stream in streams]], self.request.settings.usual_kernel, self.request.orders
        )

    def _streams(self, bags: BagTransformer | None) -> Sequence[Sequence[Array]]:
        return self.main.streams if bags is None else self.features.good_streams(bags)

    def _systems(
        self, streams: Sequence[Sequence[Array]], kernel: str, orders: Sequence[int | str]
    ) -> Systems:
        identify_one = partial(identify_first, orders=orders, kernel=kernel)
        sets = [
            self._system_set(run(identify_one, version, self.items.n_jobs, "systems")) for version in streams
        ]
        return Systems(sets, self.items)

    def _system_set(self, systems: list[Any]) -> SystemSet:
        """Return systems with their CrossGram; an embedding is fitted to those of the training clips."""
        embedding, items = None, self.items
        if self.request.settings.embedding is not None:
            training = [systems[k] for k in items.training]
            embedding = fit_embedding(
                training, self.request.settings.embedding, random_state=items.random_state
            )
        cached = cached_gram(self.features.cache, systems, items.n_jobs, embedding)
        if embedding is not None:
            self._embedded.append((landmark_count(embedding), cached.lost))
        return SystemSet(systems, cached.gram)

    def details(self, shown: Shown) -> Details:
        """Compute map and class means, for one setting of the alignment distance."""
        items, stages = self.items, self.stages
        common: dict[str, Any] = {"random_state": items.random_state, "n_jobs": items.n_jobs}
        systems = self.systems
        if self.request.settings.tune:
            with stages("systems and kernel"):
                orders = descending_orders([shown.order])
                systems = self._systems(self._streams(shown.bags), shown.kernel, orders)
        sets = systems.sets(shown.normal_form)
        weights = shown.lambda_a, shown.lambda_mu
        # With codebooks, what is shown is that of the first.
        first, gram = sets[0]
        with stages("map"):
            places = relations(gram, *weights, **common)
        with stages("atlas"):
            means = atlas(first, gram, items.labels, *weights, **common)
        return Details(
            systems=tuple(first),
            relations=places,
            atlas=means,
            facts={"seconds for a pair after the kernel": _seconds_per_pair(sets[0], weights[0])},
        )


def _seconds_per_pair(system_set: SystemSet, lambda_a: float) -> float:
    """Measure what one alignment takes, on one thread."""
    indices = np.arange(min(len(system_set.systems), int(np.sqrt(2 * TIMED_PAIRS))))
    part, started = system_set.gram.subset(indices), time.perf_counter()
    alignment_matrix(part, lambda_a)
    return (time.perf_counter() - started) / max(1, len(indices) * (len(indices) - 1) // 2)


def _stride_option(bag: BagTransformer | None, order: Any) -> str | None:
    """Return the option that would give a bag more frames; None where a stride is not why they are few."""
    frames = getattr(bag, "frames", None) or {}
    if frames.get("stride", 1) == 1 or frames.get("max_frames", order + 1) <= order:
        return None
    known = CLASSES.get(type(bag).__name__)
    return "--network-stride" if known is not None and known.needs_deep else "--stride"
