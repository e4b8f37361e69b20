"""Train a model to deploy: settings chosen as in an evaluation, calibrated, and no larger than it need be."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.bags.base import BagTransformer
from sysbags.bags.union import BagUnion
from sysbags.classifiers.base import Item, SystemClassifier, by_bag
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.identifier import SystemIdentifier, check_classes, describe_clips
from sysbags.classifiers.registry import AUTO, CLASSIFIERS, MOMENTS
from sysbags.classifiers.scores import ScorePredictor
from sysbags.classifiers.streams import StreamClassifier, compared
from sysbags.distances.gram import CrossGram
from sysbags.errors import FileError, ParameterError, SysbagsError
from sysbags.evaluate.candidates import AND, system_candidates
from sysbags.evaluate.evaluation import (
    BagsLike,
    labelled_clips,
    make_experiment,
    make_request,
    single_group_classes,
)
from sysbags.evaluate.experiment import Experiment
from sysbags.evaluate.file_facts import shortcut_notes
from sysbags.evaluate.methods import evaluate_method, make_method
from sysbags.evaluate.reading import LabelledClips, RunContext
from sysbags.evaluate.results import Method, most_frequent_share
from sysbags.evaluate.selection import choose
from sysbags.evaluate.settings import Request, Settings
from sysbags.evaluate.splits import EvaluationSet, protocol_groups

SIZES = (10, 20, 40, 80, 160)  # samples per system
SCORE_ERROR = 0.05  # of the scores of held-out clips, relative to their spread
MOST_HELD_OUT = 40


class Compression(NamedTuple):
    """What fewer samples per system cost."""

    size: int | None  # samples per system; None if all are kept
    error: float  # root mean square change of the scores of held-out clips, relative to their spread
    changed: int  # held-out clips that are predicted otherwise
    clips: int  # held-out clips


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedModel:
    """A model, and what is known about it.

    Attributes
    ----------
    pipeline : Pipeline
        Bags, systems and classifier; `sysbags.save` writes it.
    method : Method
        The honest estimate: cross-validated, with everything that was chosen chosen anew without the clips
        that are predicted.
    averages : Method
        That of averages over time alone.
    most_frequent_accuracy : float
        Of always predicting the most frequent class, on the same clips.
    settings : dict
        What was chosen for the model.
    tried : int
        The number of settings that it was chosen from.
    chosen : tuple of str
        The names of the settings that were not the same for all of these.
    items : EvaluationSet
        The clips that could be used.
    compression : Compression
    failures : mapping
        What is wrong with each of the other clips.
    single_group_classes : tuple of str
        Classes with clips of one group only: when that is left out, they are classified wrongly.
    notes : tuple of str
        What else to know about the clips.

    Examples
    --------
    >>> import tempfile
    >>> from sysbags.datasets import make_clips
    >>> from sysbags.evaluate import Settings, train
    >>> clips, labels = make_clips(
    ...     tempfile.mkdtemp(), 3, frames=12, height=48, width=64, textures=["rain", "fire"]
    ... )
    >>> settings = Settings(order=2, lambda_a=0.25, lambda_mu=0.0)
    >>> trained = train(clips, labels, classifier="nearest-mean", settings=settings)
    >>> trained.method.rate.total, trained.settings["metric"], trained.failures  # the rate is cross-validated
    (6, 'alignment', {})
    >>> trained.pipeline.predict(clips).shape
    (6,)
    """

    pipeline: Pipeline
    method: Method
    averages: Method
    most_frequent_accuracy: float
    settings: dict[str, Any]
    tried: int
    items: EvaluationSet = field(repr=False)
    compression: Compression
    failures: Mapping[Path, SysbagsError]
    single_group_classes: tuple[str, ...]
    chosen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def train(
    clips: Sequence[Any],
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    classifier: str | None = None,
    compress: int | str | None = "auto",
    bags: BagsLike = "lbp",
    settings: Settings | None = None,
    cache: str | os.PathLike[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> TrainedModel:
    """Train a model on clips: what `evaluate` estimates with the same options is what is returned.

    By default the classifier is `sysbags.StreamClassifier`, "moments". Of the classifiers of systems, metric,
    normal form, weights and, of several bags, which to use are chosen by cross-validation with the rule of
    `evaluate`. The estimate repeats the choice without the clips that are predicted. The probabilities and
    prediction sets of the model are calibrated by scores that were computed without the group of each clip.
    What is kept of each training clip is compressed to the fewest samples that change
    the scores of clips that are held out by less than 5 % of their spread, and none of their predictions.

    Parameters
    ----------
    clips : sequence of paths
    labels : (K,) array_like
    groups : (K,) array_like, optional
        What must not be split, such as the source that a clip was cut from.
    classifier : {"moments", "auto", "kernel-ridge", "nearest-mean", "nearest-system"}, optional
        "auto" takes the most accurate of all. By default "moments", or "auto" if the settings say something
        of systems: then it chooses among the classifiers of systems.
    compress : int, "auto" or None, default="auto"
        Samples per system; None keeps all. Ignored by "moments".
    bags, settings, cache, random_state, n_jobs, stages : optional
        See `sysbags.evaluate.evaluate`.

    Returns
    -------
    TrainedModel

    Examples
    --------
    >>> import tempfile
    >>> from sysbags.datasets import make_clips
    >>> paths, labels = make_clips(
    ...     tempfile.mkdtemp(), 3, frames=12, height=48, width=64, textures=["rain", "fire"]
    ... )
    >>> settings = Settings(metric="normalized-covariance", order=2)
    >>> trained = train(paths, labels, classifier="kernel-ridge", settings=settings)
    >>> trained.method.rate.total, type(trained.pipeline[-1]).__name__
    (6, 'KernelRidgeClassifier')
    >>> trained.pipeline.predict_proba(paths[:1]).shape
    (1, 2)
    """
    settings = settings or Settings()
    usual = AUTO if settings.of_systems else MOMENTS
    given, context = labelled_clips(clips, labels, groups), RunContext.of(cache, random_state, n_jobs, stages)
    request = make_request(clips, bags, [classifier or usual], settings)
    trained = _train(given, request, context, compress)
    return replace(trained, notes=(*trained.notes, *shortcut_notes(given, request, n_jobs)))


def _train(
    given: LabelledClips, request: Request, context: RunContext, compress: int | str | None
) -> TrainedModel:
    """Train what is asked for; "auto" takes the more accurate of streams and systems."""
    if request.methods == (MOMENTS,):
        return train_moments(given, request, context)
    if request.methods != (AUTO,) or request.settings.of_systems:
        return train_systems(given, request, context, compress)
    with tempfile.TemporaryDirectory() as folder:  # clips are read once
        if context.cache.folder is None:
            context = replace(context, cache=Cache(folder))
        both = train_moments(given, request, context), train_systems(given, request, context, compress)
        return max(both, key=lambda trained: trained.method.rate.share)


def train_moments(given: LabelledClips, request: Request, context: RunContext) -> TrainedModel:
    """Train the classifier of streams; the estimate is that of its nested cross-validation.

    What is learnt without labels, an embedding or a codebook, is learnt from all clips.
    """
    started = time.perf_counter()
    members = {name: clone(bag) for name, bag in request.bags.items()}
    bag = next(iter(members.values())) if len(members) == 1 else BagUnion(list(members.items()))
    paths = [Path(clip) for clip in given.clips]
    options: Any = {"cache": context.cache, "n_jobs": context.n_jobs, "stages": context.stages}
    read = describe_clips(paths, bag, None, fit=True, **options)
    check_classes(paths, given.labels, read)
    items = given.evaluation_set(read, np.arange(len(read.paths)), None, context)
    units = np.arange(len(items.codes)) if items.sources is None else items.sources
    kernel = request.settings.usual_kernel
    with context.stages("classifier"):
        model = StreamClassifier(kernel, random_state=context.random_state, n_jobs=context.n_jobs)
        model.fit(read.systems[0], items.labels, items.sources)
    if model.estimate_ is None:
        raise FileError("all clips have one source, so none can be left out: there must be two sources")
    indices, *predicted = model.estimate_
    estimated = replace(items, clips=tuple(items.clips[k] for k in indices), groups=np.arange(len(indices)))
    settings = {"classifier": MOMENTS, "kernel": kernel, "compared": compared(model.shares_, list(members))}
    title, seconds = f"{AND.join(members)} streams", time.perf_counter() - started
    method, averages = (
        make_method(name, MOMENTS, "systems", model.classes_[codes], estimated, None, seconds, settings)
        for name, codes in zip((title, f"{title}, averages alone"), predicted, strict=True)
    )
    steps = [("bags", bag.set_params(n_jobs=None)), ("classify", model.set_params(n_jobs=None))]
    return TrainedModel(
        pipeline=Pipeline(steps),
        method=method,
        averages=averages,
        most_frequent_accuracy=most_frequent_share(estimated.labels.tolist()),
        settings=settings,
        tried=model.tried_,
        items=items,
        compression=Compression(None, 0.0, 0, 0),
        failures=read.failures,
        single_group_classes=tuple(single_group_classes(items.labels.tolist(), units.tolist())),
    )


def train_systems(
    given: LabelledClips, request: Request, context: RunContext, compress: int | str | None
) -> TrainedModel:
    """Train a classifier of systems."""
    experiment, single_groups = make_experiment(given, request, context)
    stage, items, grids = experiment.stages, experiment.items, experiment.request.settings.grids
    with stage("settings"):
        candidates = system_candidates(request.methods[0], experiment.bags, grids)
        tried, predictors = zip(*candidates, strict=True)
        best, _ = choose(predictors, items.codes, [setting.get("bags") for setting in tried])
        chosen = tried[best]
    with stage("estimate"):
        spec, alone = experiment.methods()
        method, _ = evaluate_method(replace(spec, candidates=lambda: candidates), items, None)
        averages, _ = evaluate_method(alone, items, None)
    with stage("classifier"):
        model = _classifier(chosen, items, experiment.request.settings.embedding)
        parts = _final_parts(experiment, chosen)
        systems = [part.systems for part in parts]
        training: list[Item] = systems[0] if len(parts) == 1 else list(zip(*systems, strict=True))
        units = np.arange(len(items.codes)) if items.sources is None else items.sources
        model.fit(training, items.labels, grams=[part.gram for part in parts])
        if isinstance(predictors[best], ScorePredictor):
            scores, distances = predictors[best].scores(), predictors[best].distances()
            model.calibration_ = Calibration.fit(scores, distances, items.codes, units)
    with stage("compression"):
        found = Compression(None, 0.0, 0, 0)
        if compress == "auto":
            found = choose_size(model, training, items.labels, units)
        elif compress is not None:
            found = Compression(check_integer(compress, "compress"), np.nan, 0, 0)
        if found.size is not None:
            model = model.compressed(found.size)
    most_frequent = most_frequent_share(items.labels.tolist())
    model.accuracies_ = np.array([method.rate.share, averages.rate.share, most_frequent])
    members = {name: part.bags for name, part in zip(_chosen(experiment, chosen), parts, strict=True)}
    bag = next(iter(members.values())) if len(members) == 1 else BagUnion(list(members.items()))
    if isinstance(bag, BagUnion):
        bag.bags_ = list(members.values())
    identifier = SystemIdentifier(
        experiment.request.settings.usual_order,
        experiment.request.settings.usual_kernel,
        normal_form=chosen["normal form"],
        smaller_orders=experiment.request.smaller_orders,
    )
    return TrainedModel(
        pipeline=Pipeline(
            [("bags", bag), ("systems", identifier), ("classify", model.set_params(n_jobs=None))]
        ),
        method=method,
        averages=averages,
        most_frequent_accuracy=most_frequent,
        settings=chosen,
        tried=len(tried),
        chosen=tuple(name for name in chosen if len({str(setting.get(name)) for setting in tried}) > 1),
        items=items,
        compression=found,
        failures=experiment.main.failures,
        single_group_classes=single_groups,
        notes=tuple(experiment.notes),
    )


class _Part(NamedTuple):
    """A bag of the model: fitted, the systems of all clips, and their CrossGram."""

    bags: BagTransformer
    systems: list[Any]
    gram: CrossGram


def _chosen(experiment: Experiment, settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the bags that were chosen."""
    return settings["bags"].split(AND) if "bags" in settings else list(experiment.bags)


def _final_parts(experiment: Experiment, settings: Mapping[str, Any]) -> list[_Part]:
    """Return the bags that were chosen, fitted to all clips where they learn, with their systems."""
    parts = []
    for name in _chosen(experiment, settings):
        bags, known = clone(experiment.request.bags[name]), experiment.bags[name]
        if bags.requires_fit:
            with experiment.stages("codebook"):
                bags.set_params(n_jobs=experiment.items.n_jobs).fit(experiment.main.paths)
            known = experiment.systems_of(bags.set_params(n_jobs=None))
        parts.append(_Part(bags, *known.sets(settings["normal form"])[0]))
    return parts


def _classifier(settings: Mapping[str, Any], items: EvaluationSet, embedding: int | None) -> SystemClassifier:
    """Return the classifier of some settings, not fitted."""
    estimator = CLASSIFIERS[settings["classifier"]].estimator
    parameters = {
        name: None if settings[name] == "none" else settings[name]
        for name in estimator._get_param_names()
        if name in settings
    }
    # With the seed of the experiment, its embedding is the one that the CrossGrams were computed with. It is
    # calibrated by the scores that it was chosen by.
    parameters |= {"embedding": embedding, "probability": False, "random_state": items.random_state}
    return estimator(**parameters, n_jobs=items.n_jobs)


def choose_size(
    model: SystemClassifier, systems: Sequence[Item], labels: npt.NDArray[Any], groups: IntArray
) -> Compression:
    """Choose the number of samples per system by what it changes for clips that are held out.

    A fifth of the groups is held out, at most 40 clips. The smallest size is chosen with which the scores
    change by less than 5 % of their spread, and no predicted class changes. The model gives the parameters
    alone; it is not changed.
    """
    if len(np.unique(groups)) < 2 or len(np.unique(labels)) < 2:
        return Compression(None, 0.0, 0, 0)
    folds = protocol_groups(labels, "folds", groups, folds=min(5, len(np.unique(groups))))
    held_out = np.flatnonzero(folds == 0)[:MOST_HELD_OUT].tolist()
    training = np.flatnonzero(folds != 0).tolist()
    if len(np.unique(labels[training])) < 2:
        return Compression(None, 0.0, 0, 0)
    exact = clone(model).fit([systems[k] for k in training], labels[training])
    new = [systems[k] for k in held_out]
    expected = exact.compare(new)
    largest = max(system.size for bag in by_bag(exact.members_) for system in bag)
    for size in (size for size in SIZES if size < largest):
        try:
            found = exact.compressed(size).compare(new)
        except ParameterError:  # too few samples for the order of a center
            continue
        error = _relative_error(found.scores, expected.scores)
        changed = int((found.codes != expected.codes).sum())
        if error <= SCORE_ERROR and not changed:
            return Compression(size, error, changed, len(new))
    return Compression(None, 0.0, 0, len(new))


def _relative_error(scores: Array, expected: Array) -> float:
    """Return the root mean square of the change, relative to the spread of the scores of each clip."""
    spread = np.sqrt(expected.var(axis=1).mean())
    change = scores - expected
    change = change - change.mean(axis=1, keepdims=True)  # what all classes share decides nothing
    return float(np.sqrt((change**2).mean()) / spread) if spread > 0.0 else 0.0
