"""An evaluation of clips or streams: every method by the same protocol, with its cross-validated accuracy."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags._common.parallel import use_client
from sysbags._common.validation import check_choice, check_integer, check_labels, seed_of
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import BAGS, make_bag
from sysbags.classifiers.registry import AUTO, CLASSIFIERS
from sysbags.distances.projection import EmbeddingLoss
from sysbags.errors import FileError, ParameterError
from sysbags.evaluate.candidates import AND, matching_grids
from sysbags.evaluate.comparators import COMPARATORS
from sysbags.evaluate.experiment import Experiment, Request, Shown
from sysbags.evaluate.methods import METHODS
from sysbags.evaluate.reading import (
    DescribedClips,
    LabelledClips,
    RunContext,
    describe_files,
    describe_streams,
)
from sysbags.evaluate.results import Details, Evaluation
from sysbags.evaluate.splits import PROTOCOLS
from sysbags.evaluate.trials import check_trials, merge_trials
from sysbags.means.compilation import compiled_ahead
from sysbags.systems.identification import identify_first

__all__ = ["METHODS", "Prepared", "evaluate", "make_experiment", "prepare", "single_group_classes"]

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
    trials: Mapping[str, Sequence[str]] | None = None,
    order: int | str | None = None,
    kernel: str | None = None,
    metric: str | None = None,
    normal_form: str | None = None,
    lambda_a: float | None = None,
    lambda_mu: float | None = None,
    compare: bool | Sequence[str] = False,
    compare_frames: Mapping[str, Any] | None = None,
    tune: bool = False,
    fixed: Sequence[str] = (),
    embedding: int | None = None,
    title: str = "clips",
    clip_names: Sequence[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    client: Any = None,
    stages: Stages | None = None,
) -> Evaluation:
    """Evaluate how well clips or streams are classified, each by others alone.

    The first row of the table is the main method: the first of `methods`; with several bags kernel ridge;
    with `tune` the tuned ones. Whatever has several settings, such as the metric and
    its weights, is chosen by nested selection, never by the clips that are predicted. Codebooks are learnt
    without them too. The units of weights, ridge and width are averages over all clips, without labels; in
    trials they are those of the training set.

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
        are what tables call them. With several, distances are sums over all or some of them, which is chosen
        too. Ignored for streams.
    methods : sequence of {"kernel-ridge", "nearest-mean", "nearest-system", "auto"}
        Classifiers of systems; "auto" chooses among the others.
    protocol : {"leave-one-out", "folds", "by-source", "predefined"}, optional
        What is left out together; by default the trials, where there are any, or else the groups, where there
        are two of them, or else each clip.
    folds : int, default=10
        For the protocol "folds", and inside the training set of a trial.
    trials : mapping of str to sequence of {"train", "test", ""}, optional
        For the protocol "predefined": official splits by name, each with a word for each clip; "" if the clip
        is not used. Settings are chosen inside each training set.
    order, kernel : optional
        By default 5, or less for a clip that is too short or too still for it, and "chi2"; with `tune` they
        are chosen.
    metric : {"alignment", "covariance", "normalized-covariance"}, optional
        Distance between systems, see `sysbags.pairwise_distances`. By default it is chosen.
    normal_form : {"orthonormal", "unit-variance"}, optional
        Unit of the states, see `sysbags.identify`. By default it is chosen.
    lambda_a, lambda_mu : float, optional
        Weights of the transition and of the mean; by default chosen. If one is given without a metric, the
        metric is the alignment distance in the orthonormal form, the paper's.
    compare : bool or sequence of str, default=False
        Also each metric by itself, averages of the bags over time, and, for clips, other people's methods:
        all of `sysbags.comparators`, or those named.
    compare_frames : mapping, optional
        How other people's methods read clips, see `sysbags.video.frames`.
    tune : bool, default=False
        Choose order, kernel, weights, neighbours and parameters of the bags.
    fixed : sequence of str
        Parameters of the bags that are not tuned.
    embedding : int, optional
        Approximate distances, which are faster for many clips: the number of landmarks of an `Embedding` of
        each bag, which is fitted to all systems without labels, in trials to those of the training set. A
        note and `facts["embedding"]` say what is lost. By default distances are exact; those of other
        people's methods always are.
    title : str, default="clips"
    clip_names : sequence of str, optional
        By default the paths of clips from the folder that holds them all, or class and number of streams.
    cache : path, optional
        Folder for results that another run can use again.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.
    client : distributed.Client, optional
        Read clips and evaluate kernels on the cluster of this client; the result does not depend on it.
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
    stream systems, alignment kernel-ridge 8
    stream systems, alignment nearest-mean 8
    stream systems, alignment nearest-system 8
    >>> result.predictions.shape, result.confusion.shape
    ((8,), (2, 2))
    """
    given, request, context = prepare(**locals())
    values = dict(zip(given.labels, np.asarray(labels), strict=True))
    with use_client(client):
        if given.protocol == "predefined":
            outcome = _evaluate_trials(given, check_trials(trials, len(clips)), request, context)
        else:
            outcome, _ = _evaluate(given, request, context)
    if outcome.facts["embedding"] is not None:
        outcome.facts["notes"].append(EmbeddingLoss(**outcome.facts["embedding"]).sentence())
    return replace(outcome, label_values=values)


class Prepared(NamedTuple):
    """Arguments of `evaluate`, checked."""

    given: LabelledClips
    request: Request
    context: RunContext


def prepare(
    clips: Sequence[Any], labels: npt.ArrayLike, groups: npt.ArrayLike | None = None, **options: Any
) -> Prepared:
    """Check the arguments of `evaluate`, which has the defaults of all options; nothing is read."""
    bound = signature(evaluate).bind(clips, labels, groups, **options)
    bound.apply_defaults()
    chosen = SimpleNamespace(**bound.arguments)
    for method in chosen.methods:
        check_choice(method, "methods", (*CLASSIFIERS, AUTO))
    if chosen.protocol is not None:
        check_choice(chosen.protocol, "protocol", PROTOCOLS)
    if not chosen.methods:
        raise ParameterError("methods is empty, but there must be at least one")
    count = len(clips)
    if not count:
        raise ParameterError("clips is empty, but there must be at least two")
    check_labels(labels, count)
    grids = matching_grids(chosen.metric, chosen.normal_form, chosen.lambda_a, chosen.lambda_mu)
    names = [str(label) for label in np.asarray(labels)]
    sources = None if groups is None else [str(group) for group in np.asarray(groups)]
    request = Request(
        bags=_named_bags(chosen.bags),
        methods=tuple(chosen.methods),
        order=chosen.order,
        kernel=chosen.kernel,
        grids=tuple(grids),
        lambda_a=chosen.lambda_a,
        lambda_mu=chosen.lambda_mu,
        compare=bool(chosen.compare) or not isinstance(chosen.compare, bool),
        comparators=_comparator_names(chosen.compare),
        compare_frames=dict(chosen.compare_frames or {}),
        tune=chosen.tune,
        fixed=tuple(chosen.fixed),
        embedding=None if chosen.embedding is None else check_integer(chosen.embedding, "embedding"),
    )
    if len(set(names)) < 2:
        raise ParameterError(f"all clips have the class {names[0]}, but there must be at least two classes")
    several = sources is not None and len(set(sources)) > 1
    usual = "predefined" if chosen.trials else "by-source" if several else "leave-one-out"
    if not all(isinstance(clip, (str, os.PathLike)) for clip in clips):
        request = replace(request, bags={"stream": None})
    given = LabelledClips(
        title=chosen.title,
        clips=clips,
        names=_clip_names(clips, names) if chosen.clip_names is None else list(chosen.clip_names),
        labels=names,
        sources=sources,
        protocol=usual if chosen.protocol is None else chosen.protocol,
        folds=chosen.folds,
    )
    context = RunContext(
        cache=Cache(chosen.cache),
        stages=chosen.stages or Stages(),
        random_state=seed_of(chosen.random_state),
        n_jobs=chosen.n_jobs,
    )
    return Prepared(given, request, context)


def _clip_names(clips: Sequence[Any], labels: Sequence[str]) -> list[str]:
    """Return a name for each clip: its path from the folder that holds all, or class and number."""
    if not all(isinstance(clip, (str, os.PathLike)) for clip in clips):
        return [f"{label}/{k}" for k, label in enumerate(labels)]
    paths = [Path(os.path.abspath(clip)) for clip in clips]
    parents = {path.parent for path in paths}
    # The clips of one folder are named with it.
    root = next(iter(parents)).parent if len(parents) == 1 else Path(os.path.commonpath(parents))
    return [path.relative_to(root).as_posix() for path in paths]


def _describe(given: LabelledClips, request: Request, context: RunContext) -> DescribedClips:
    """Read the clips with every bag of a request, or check the streams; identify those of the first."""
    identify_one = partial(identify_first, orders=request.orders, kernel=request.kernel_name)
    bags = {name: bag for name, bag in request.bags.items() if bag is not None}
    if not bags:
        return describe_streams(given, request.kernel_name, identify_one, context)
    with compiled_ahead("metrics"):
        return describe_files(given, bags, identify_one, context)


def make_experiment(
    given: LabelledClips, request: Request, context: RunContext
) -> tuple[Experiment, tuple[str, ...]]:
    """Read clips by one protocol, or one trial; also return the classes that have a single group."""
    described = _describe(given, request, context)
    labels_read = [clip.label for clip in described.items.clips]
    isolated_classes = single_group_classes(labels_read, described.items.groups.tolist())
    if given.parts is None and len(isolated_classes) == len(set(labels_read)):
        raise FileError(
            "each class has a single clip, or clips of a single source, so none can be left out: "
            "at least one class must have two"
        )
    single_groups = () if given.parts is not None else tuple(isolated_classes)
    experiment = Experiment(given.title, described, request, context)
    if given.parts is not None:
        items = described.items
        for name in sorted(set(items.labels[items.tested]) - set(items.labels[items.training])):
            experiment.notes.append(f"the class {name} is tested, but a training set has no clip of it")
    return experiment, single_groups


def _evaluate(given: LabelledClips, request: Request, context: RunContext) -> tuple[Evaluation, Shown]:
    """Evaluate clips by one protocol, or one trial."""
    experiment, single_groups = make_experiment(given, request, context)
    return experiment.run(single_groups)


def _evaluate_trials(
    given: LabelledClips, trials: Mapping[str, list[str]], request: Request, context: RunContext
) -> Evaluation:
    """Evaluate official splits one after the other."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        # Clips are read for each trial, so they are cached in any case.
        cached = context if context.cache.folder else replace(context, cache=Cache(folder))
        for name, parts in trials.items():
            used = [k for k, part in enumerate(parts) if part]
            trial = given.subset(used, [parts[k] for k in used])
            results[name] = _evaluate(trial, request, cached)
    merged = merge_trials({name: evaluation for name, (evaluation, _) in results.items()})
    _, shown = next(iter(results.values()))

    def details() -> Details:
        """Show all tested clips; each test set is left out, or each clip where test sets overlap."""
        tested = [(k, name) for name in trials for k, part in enumerate(trials[name]) if part == "test"]
        indices, names = zip(*tested, strict=True)
        shown_clips = given.subset(indices)
        if len(trials) > 1 and len(set(indices)) == len(indices):
            shown_clips = replace(shown_clips, sources=names, protocol="by-source")
        else:
            shown_clips = replace(shown_clips, protocol="leave-one-out")
        described = _describe(shown_clips, request, context)
        found = Experiment(given.title, described, request, context).details(shown)
        # A class that is not tested has no mean.
        places = np.searchsorted(merged.classes, np.unique(described.items.labels))
        parts = np.full((len(described.items.clips), len(merged.classes), 3), np.nan)
        parts[:, places] = found.relations.class_parts
        return replace(found, relations=replace(found.relations, class_parts=parts))

    return replace(merged, make_details=details)


def single_group_classes(labels: Sequence[str], groups: Sequence[Any]) -> list[str]:
    """Return the classes that have all their clips in one group: none of them can be predicted correctly.

    Parameters
    ----------
    labels : sequence of str
        The class of each clip.
    groups : sequence
        What each clip is left out with.

    Returns
    -------
    list of str
        In the order of the labels.

    Examples
    --------
    >>> single_group_classes(["sea", "sea", "fire", "fire"], [0, 1, 2, 2])
    ['fire']
    """
    pairs = set(zip(labels, groups, strict=True))
    return [name for name in dict.fromkeys(labels) if sum(label == name for label, _ in pairs) < 2]


def _comparator_names(compare: bool | Sequence[str]) -> tuple[str, ...]:
    if isinstance(compare, bool):
        return tuple(COMPARATORS) if compare else ()
    return tuple(check_choice(name, "compare", COMPARATORS) for name in compare)


def _named_bags(bags: BagsLike) -> dict[str, BagTransformer | None]:
    """Return bags by what tables call them."""
    if not isinstance(bags, (str, BagTransformer)) and not bags:
        raise ParameterError("bags is empty, but there must be at least one")
    if isinstance(bags, Mapping):
        for name in bags:
            if AND in name:
                raise ParameterError(f"a bag is called {name!r}, but a name must not have {AND!r} in it")
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
