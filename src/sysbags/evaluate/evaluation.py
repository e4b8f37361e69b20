"""An evaluation of clips or streams: every method by the same protocol, with its cross-validated accuracy."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags._common.parallel import use_client
from sysbags._common.validation import check_choice, check_labels, check_two_classes
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import BAGS, make_bag
from sysbags.classifiers.registry import AUTO, CLASSIFIERS, MOMENTS
from sysbags.distances.projection import EmbeddingLoss
from sysbags.errors import FileError, ParameterError
from sysbags.evaluate.candidates import AND
from sysbags.evaluate.comparators import COMPARATORS
from sysbags.evaluate.experiment import Experiment, Shown
from sysbags.evaluate.file_facts import shortcut_notes
from sysbags.evaluate.methods import METHODS
from sysbags.evaluate.reading import (
    DescribedClips,
    LabelledClips,
    RunContext,
    describe_files,
    describe_streams,
)
from sysbags.evaluate.results import Details, Evaluation
from sysbags.evaluate.settings import Protocol, Request, Settings
from sysbags.evaluate.trials import check_trials, merge_trials
from sysbags.means.compilation import compiled_ahead
from sysbags.systems.identification import identify_first

BagsLike = str | BagTransformer | Sequence[str | BagTransformer] | Mapping[str, BagTransformer]


def evaluate(
    clips: Sequence[Any],
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    bags: BagsLike = "lbp",
    methods: Sequence[str] | None = None,
    settings: Settings | None = None,
    protocol: Protocol | str | None = None,
    compare: bool | Sequence[str] | Mapping[str, Mapping[str, Any]] = False,
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
    with `tune` in the settings the tuned ones. Whatever has several settings, such as the metric and
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
    methods : sequence of {"moments", "kernel-ridge", "nearest-mean", "nearest-system", "auto"}, optional
        By default all but "auto", which chooses among the classifiers of systems. "moments" is the classifier
        of streams; it is left out by default if the settings say something of systems. It leaves groups out
        in at most ten folds. Averages over time alone are always shown, classified by "moments" or by kernel
        ridge.
    settings : Settings, optional
        Order, kernel, metric, weights and whether to tune; by default metric and weights are chosen, and the
        rest is usual. With an embedding, a note and `facts["embedding"]` say what is lost.
    protocol : Protocol or str, optional
        What is left out together; a text is the name of a `Protocol`.
    compare : bool, sequence of str or mapping, default=False
        Also each metric by itself, averages of the bags over time, and, for clips, other people's methods:
        all of `sysbags.comparators`, or those named; a mapping tells how each of them reads clips, see
        `sysbags.video.frames`.
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
    >>> result = evaluate(streams, labels, settings=Settings(order=2, lambda_a=0.25, lambda_mu=0.0))
    >>> for method in result.methods:
    ...     print(method.name, method.classifier, method.rate.total)
    stream systems, alignment kernel-ridge 8
    stream systems, alignment nearest-mean 8
    stream systems, alignment nearest-system 8
    stream averaged over time kernel-ridge 8
    >>> result.predictions.shape, result.confusion.shape
    ((8,), (2, 2))
    """
    chosen = protocol if isinstance(protocol, Protocol) else Protocol(name=protocol)
    request = make_request(clips, bags, methods, settings, compare)
    given = labelled_clips(clips, labels, groups, chosen, title=title, clip_names=clip_names)
    context = RunContext.of(cache, random_state, n_jobs, stages)
    with use_client(client):
        if given.protocol == "predefined":
            outcome = _evaluate_trials(given, check_trials(chosen.trials, len(clips)), request, context)
        else:
            outcome, _ = _evaluate(given, request, context)
    if outcome.facts["embedding"] is not None:
        outcome.facts["notes"].append(EmbeddingLoss(**outcome.facts["embedding"]).sentence())
    outcome.facts["notes"].extend(shortcut_notes(given, request, n_jobs))
    return replace(outcome, label_values=dict(zip(given.labels, np.asarray(labels), strict=True)))


def make_request(
    clips: Sequence[Any],
    bags: BagsLike,
    methods: Sequence[str] | None,
    settings: Settings | None = None,
    compare: bool | Sequence[str] | Mapping[str, Mapping[str, Any]] = False,
) -> Request:
    """Check what is asked for; see `evaluate`. Streams need no bags, but a mistake in them is told."""
    settings = settings or Settings()
    if methods is None:
        methods = tuple(CLASSIFIERS) if settings.of_systems else METHODS
    for method in methods:
        check_choice(method, "methods", (MOMENTS, *CLASSIFIERS, AUTO))
    if tuple(methods) == (MOMENTS,) and settings.of_systems:
        raise ParameterError(
            "the classifier moments compares no systems: leave out order, metric, normal form, weights, "
            "embedding and tuning, or choose another classifier"
        )
    if not methods:
        raise ParameterError("methods is empty, but there must be at least one")
    names = list(COMPARATORS) if compare is True else [] if compare is False else list(compare)
    for name in names:
        check_choice(name, "compare", COMPARATORS)
    named = _named_bags(bags)
    return Request(
        bags=named if _are_paths(clips) else {"stream": None},
        methods=tuple(methods),
        settings=settings.for_clips(len(clips)),
        compare=compare is not False,
        comparators={name: compare[name] if isinstance(compare, Mapping) else {} for name in names},
    )


def labelled_clips(
    clips: Sequence[Any],
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    protocol: Protocol | None = None,
    *,
    title: str = "clips",
    clip_names: Sequence[str] | None = None,
) -> LabelledClips:
    """Check clips, labels and groups; see `evaluate`. Nothing is read."""
    if not len(clips):
        raise ParameterError("clips is empty, but there must be at least two")
    check_two_classes(check_labels(labels, len(clips))[0])
    names = [str(label) for label in np.asarray(labels)]
    sources = None if groups is None else [str(group) for group in np.asarray(groups)]
    protocol = protocol or Protocol()
    return LabelledClips(
        title=title,
        clips=clips,
        names=_clip_names(clips, names) if clip_names is None else list(clip_names),
        labels=names,
        sources=sources,
        protocol=protocol.resolved(sources),
        folds=protocol.folds,
    )


def _are_paths(clips: Sequence[Any]) -> bool:
    return all(isinstance(clip, (str, os.PathLike)) for clip in clips)


def _clip_names(clips: Sequence[Any], labels: Sequence[str]) -> list[str]:
    """Return a name for each clip: its path from the folder that holds all, or class and number."""
    if not _are_paths(clips):
        return [f"{label}/{k}" for k, label in enumerate(labels)]
    paths = [Path(os.path.abspath(clip)) for clip in clips]
    parents = {path.parent for path in paths}
    # The clips of one folder are named with it.
    root = next(iter(parents)).parent if len(parents) == 1 else Path(os.path.commonpath(parents))
    return [path.relative_to(root).as_posix() for path in paths]


def _describe(given: LabelledClips, request: Request, context: RunContext) -> DescribedClips:
    """Read the clips with every bag of a request, or check the streams; identify those of the first."""
    identify_one = partial(identify_first, orders=request.orders, kernel=request.settings.usual_kernel)
    bags = {name: bag for name, bag in request.bags.items() if bag is not None}
    if not bags:
        return describe_streams(given, request.settings.usual_kernel, identify_one, context)
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
        return Experiment(given.title, described, request, context).details(shown)

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
