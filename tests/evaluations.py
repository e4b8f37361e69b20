"""Small but whole evaluations, made from generated streams by simple loops, and the choice of settings."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import sysbags.evaluate
from sysbags import align, cross_gram, frechet_mean, identify, pairwise_distances
from sysbags.classifiers.base import Explanation
from sysbags.classifiers.calibration import Calibration
from sysbags.datasets import TEXTURES, make_frames, make_streams
from sysbags.evaluate.candidates import Systems, SystemSet, matching_grids, system_candidates
from sysbags.evaluate.results import (
    ClassMean,
    Clip,
    Confidence,
    Curve,
    Details,
    Evaluation,
    Method,
    Published,
    Rate,
    Relations,
)
from sysbags.evaluate.selection import choose
from sysbags.evaluate.settings import Protocol, Settings
from sysbags.evaluate.splits import EvaluationSet

LAMBDA_A, LAMBDA_MU = 0.25, 2.0
NAMES = ("calm water", "escalator", "flags", "fountain", "grass", "naked trees", "sea", "traffic")
EVIL = '</script><script>alert("x")</script>', "<!--<img src=x onerror='boom()'>", "$style & {braces}"


def make_evaluation(
    classes=4, per_class=5, *, frames=40, bins=32, names=NAMES, neighbours=4, paths=None, seed=0, noise=1.0
):
    """An evaluation of `classes * per_class` clips, two sources in each class; its clips need not exist.

    The main method is a 1-NN that does not ask the tested clip's own source; the others are right by lot.
    """
    streams, codes = make_streams(classes, per_class, frames, bins, noise, random_state=seed)
    systems = [identify(stream, order=3) for stream in streams]
    used = sorted(names[:classes])
    clips = []
    for k, code in enumerate(codes):
        name = f"{used[code]}/{k % per_class:02d}.mp4"
        path = Path("clips", name) if paths is None else paths[k]
        clips.append(Clip(name, path, used[code], f"source {2 * code + k % 2}"))
    distances = pairwise_distances(systems, lambda_a=LAMBDA_A, lambda_mu=LAMBDA_MU)
    between = distances.copy()
    between[[[first.source == second.source for second in clips] for first in clips]] = np.inf
    main = [clips[k].label for k in between.argmin(axis=1)]
    confidence = _confidence(between, clips, used)
    rng = np.random.default_rng(seed)
    methods = (
        _method("LBP systems, alignment", "nearest-mean", "systems", _by_lot(clips, used, rng), clips, 0.031),
        _method("LBP systems, alignment", "nearest-system", "systems", main, clips, None),
        _method("LBP systems, Martin", "nearest medoid", "systems", _by_lot(clips, used, rng), clips, 0.4),
        _method("LBP-TOP", "1-NN", "comparator", _by_lot(clips, used, rng), clips, 0.0002),
    )
    explanations = _explanations(main, between, clips, confidence)
    explained = replace(
        methods[1], make_confidence=lambda: confidence, make_explanations=lambda: explanations
    )
    methods = (methods[0], explained, *methods[2:])
    details = Details(
        curves=_curves(rng),
        systems=tuple(systems),
        relations=_relations(systems, distances, neighbours),
        atlas=tuple(_mean(label, systems, clips, rng) for label in used),
    )
    return Evaluation(
        title="Generated streams",
        protocol=f"one source left out at a time ({2 * classes} sources)",
        clips=tuple(clips),
        classes=tuple(used),
        methods=methods,
        main=1,
        published=(
            Published("SoB + Align", "nearest-system", 90.1, "Sagel and Kleinsteuber, Table I"),
            Published("st-TCoF", "1-NN", 98.2, "Qi et al. 2016"),
        ),
        groups=tuple(range(len(clips))),
        make_details=lambda: details,
        seconds={"reading": 12.3, "systems": 0.84, "kernel": 140.0, "distances": 0.05},
        facts={"bag": "LocalBinaryPatterns", "order": 3, "seconds per pair": 0.00123456, "cores": [1, 2]},
    )


def changed(evaluation, **changes):
    """The same evaluation with other values, also of its details."""
    names = {field.name for field in fields(Details)} - {"facts"}  # the evaluation has facts too
    details = replace(evaluation.details, **{name: changes.pop(name) for name in names & set(changes)})
    return replace(evaluation, **changes, make_details=lambda: details)


def make_pictures(evaluation, height=60, width=80):
    """A JPEG for each clip: those of a class show one texture, each its own clip of it."""
    import cv2

    textures, shots = list(TEXTURES), []
    for k, clip in enumerate(evaluation.clips):
        texture = textures[evaluation.classes.index(clip.label) % len(textures)]
        [shot] = make_frames(texture, 1, height, width, random_state=k)
        shots.append(cv2.imencode(".jpg", shot[..., ::-1])[1].tobytes())
    return shots


def with_evil_names(evaluation):
    """The same of four classes, with names that would be markup if they were let."""
    names = dict(zip(evaluation.classes, [*sorted(EVIL), "zebra"], strict=True))
    clips = (
        Clip(f'{EVIL[k % 3]}/"{k}"', clip.path, names[clip.label], EVIL[0])
        for k, clip in enumerate(evaluation.clips)
    )
    confidence = replace(evaluation.methods[1].confidence, classes=tuple(names.values()))
    methods = (
        replace(
            method,
            make_confidence=lambda: confidence,
            make_explanations=None,
            name=EVIL[1],
            classifier=EVIL[0],
            predictions=tuple(names[name] for name in method.predictions),
            settings={EVIL[0]: {EVIL[1]: [EVIL[2], 0.5]}},
        )
        for method in evaluation.methods
    )
    return changed(
        evaluation,
        title=EVIL[0],
        protocol=EVIL[1],
        clips=tuple(clips),
        classes=tuple(names.values()),
        methods=tuple(methods),
        curves=tuple(replace(curve, classifier=EVIL[1]) for curve in evaluation.details.curves),
        published=tuple(replace(figure, name=EVIL[0], source=EVIL[1]) for figure in evaluation.published),
        atlas=tuple(replace(mean, label=names[mean.label]) for mean in evaluation.details.atlas),
        seconds={EVIL[0]: 1.0},
        facts={EVIL[1]: EVIL[0]},
    )


def _confidence(between, clips, classes):
    """That of the nearest clip of another source, calibrated by all clips."""
    labels = np.array([clip.label for clip in clips])
    squared = np.stack([between[:, labels == label].min(axis=1) for label in classes], axis=1)
    codes = np.searchsorted(classes, labels)
    calibration = Calibration.fit(-squared, squared, codes, [clip.source for clip in clips])
    return Confidence(
        classes=tuple(classes),
        probabilities=calibration.probabilities(-squared),
        p_values=calibration.p_values(-squared, squared),
        smallest_alpha=calibration.smallest_alpha,
    )


def _explanations(main, between, clips, confidence):
    """Those of the nearest clip of another source; the distance to the predicted class has two parts."""
    labels = np.array([clip.label for clip in clips])
    found = []
    for label, row, probabilities in zip(main, between, confidence.probabilities, strict=True):
        distances = {name: row[labels == name].min() for name in confidence.classes}
        parts = {"averages": 0.25 * distances[label], "covariances": 0.75 * distances[label]}
        likely = dict(zip(confidence.classes, probabilities.tolist(), strict=True))
        found.append(Explanation(label=label, distances=distances, parts=parts, probabilities=likely))
    return tuple(found)


def _by_lot(clips, classes, rng, share=0.7):
    return [clip.label if rng.random() < share else str(rng.choice(classes)) for clip in clips]


def _method(name, classifier, kind, predictions, clips, p_value):
    right = sum(prediction == clip.label for prediction, clip in zip(predictions, clips, strict=True))
    share, half = right / len(clips), 1 / np.sqrt(len(clips))  # a simple interval, wide enough to be seen
    rate = Rate(right, len(clips), max(0.0, share - half), min(1.0, share + half))
    settings = {"lambda_a": LAMBDA_A, "order": 3}
    return Method(
        name=name,
        classifier=classifier,
        kind=kind,
        predictions=tuple(predictions),
        rate=rate,
        p_value=p_value,
        seconds=0.5 * len(clips),
        settings=settings,
    )


def _curves(rng):
    grids = {"lambda_a": np.arange(0.15, 2.0, 0.2), "lambda_mu": np.arange(0.0, 101.0, 10.0)}
    return tuple(
        Curve(
            weight=weight,
            classifier=classifier,
            values=tuple(grid),
            accuracies=tuple(0.8 + 0.01 * rng.standard_normal(len(grid)).cumsum()),
            fixed=fixed,
        )
        for (weight, grid), fixed in zip(grids.items(), (0.0, 0.25), strict=True)
        for classifier in ("nearest-system", "nearest-mean")
    )


def _parts(first, second):
    parts = align(first, second, LAMBDA_A, LAMBDA_MU).parts
    return [parts["transition"], parts["observer"], parts["mean"]]


def _relations(systems, distances, count):
    centred = distances - distances.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    plane = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0))
    others = distances + np.diag(np.full(len(systems), np.inf))
    nearest = others.argsort(axis=1)[:, :count]
    to_neighbours = [[_parts(systems[k], systems[j]) for j in row] for k, row in enumerate(nearest)]
    return Relations(
        lambda_a=LAMBDA_A,
        lambda_mu=LAMBDA_MU,
        distances=distances,
        plane=plane,
        neighbours=nearest,
        neighbour_parts=np.array(to_neighbours),
    )


def _mean(label, systems, clips, rng, frames=30):
    members = [k for k, clip in enumerate(clips) if clip.label == label]
    mean = frechet_mean([systems[k] for k in members], LAMBDA_A, LAMBDA_MU).system
    away = {k: sum(_parts(systems[k], mean)) for k in members}
    ordered = sorted(members, key=away.__getitem__)
    histogram = np.mean([systems[k].samples.mean(axis=0) for k in members], axis=0)
    swing = np.sin(np.arange(frames)[:, None] * rng.uniform(0.1, 1.0, len(histogram)))
    return ClassMean(
        label=label,
        members=tuple(ordered),
        distances=tuple(away[k] for k in ordered),
        eigenvalues=np.linalg.eigvals(mean.transition).astype(complex),
        histogram=histogram,
        dynamics=histogram * (1.0 + 0.5 * swing),
    )


def chosen_settings(systems, labels, *, groups=None, classifier="nearest-mean", n_jobs=None, **given):
    """What training chooses for some systems, in the orthonormal form, and what it chooses from."""
    units = np.unique(np.arange(len(labels)) if groups is None else groups, return_inverse=True)[1]
    items = EvaluationSet(
        clips=tuple(Clip(str(k), None, label) for k, label in enumerate(labels)),
        groups=units,
        codebook_folds=None,
        protocol="",
        n_jobs=n_jobs,
    )
    known = Systems([SystemSet(list(systems), cross_gram(systems))], items)
    alternatives = system_candidates(classifier, {"systems": known}, matching_grids(**given))
    tried, predictors = zip(*alternatives, strict=True)
    best, accuracies = choose(predictors, items.codes)
    return SimpleNamespace(
        settings={name: value for name, value in tried[best].items() if name != "classifier"},
        tried=tried,
        accuracies=accuracies,
        accuracy=accuracies[best],
        predictions=np.unique(labels)[predictors[best].predict()],
        distances=predictors[best].distances(),
        sets=known.sets(tried[best]["normal form"]),
    )


def class_size(labels):
    """Clips per class: the weight of each class in the sum of squares."""
    return len(labels) / len(np.unique(labels))


SETTINGS = {each.name for each in fields(Settings)}


def _grouped(options):
    """Options by their names, in the dataclasses that `evaluate` and `train` take."""
    settings = Settings(**{name: options.pop(name) for name in SETTINGS & set(options)})
    splits = {name: options.pop(name) for name in ("folds", "trials") if name in options}
    if "protocol" in options or splits:
        options["protocol"] = Protocol(name=options.pop("protocol", None), **splits)
    return options | {"settings": settings}


def evaluate(clips, labels, groups=None, **options):
    """`sysbags.evaluate.evaluate` with all options by their names."""
    return sysbags.evaluate.evaluate(clips, labels, groups, **_grouped(options))


def train(clips, labels, groups=None, **options):
    """`sysbags.evaluate.train` with all options by their names."""
    return sysbags.evaluate.train(clips, labels, groups, **_grouped(options))
