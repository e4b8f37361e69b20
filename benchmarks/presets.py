"""What the presets of `sysbags fit` reach on real data, beside the strongest rivals on the same network.

`python -m benchmarks.presets SET FOLDER [--preset fast|best] [--cache DIR] [--unknown]`, where SET is

* wild-scenes: a folder with one folder of clips per class, and sources in index.csv, one of which is left out
  at a time;
* traffic: the UCSD highway traffic database, with its four official trials in index.csv.

The first row is what `sysbags fit --preset` saves: classifier, metric, weights and which bags to use are
chosen inside the training sets. The rivals see the same frames of the same network, averaged over time. With
--unknown, each class is left out in turn and must be told from the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import command_parser, facts
from sysbags import video
from sysbags._common.cache import Cache
from sysbags._common.types import Array, IntArray
from sysbags.bags.networks import NetworkRunner, patch_features
from sysbags.bags.registry import PRESETS, preset_bags
from sysbags.bags.streams import clip_records, good
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.registry import AUTO, CLASSIFIERS
from sysbags.datasets.folder import ClipFolder, class_folders
from sysbags.evaluate import Evaluation, Protocol, evaluate
from sysbags.evaluate.candidates import GRIDS, Systems, system_candidates
from sysbags.evaluate.evaluation import labelled_clips, make_experiment, make_request
from sysbags.evaluate.experiment import Experiment
from sysbags.evaluate.methods import METHODS, evaluate_method, vector_methods
from sysbags.evaluate.reading import LabelledClips, RunContext
from sysbags.evaluate.results import Clip, Method
from sysbags.evaluate.selection import nested_choice
from sysbags.evaluate.splits import EvaluationSet, protocol_groups
from sysbags.statistics.rates import mcnemar, rate

RIVALS = ("logistic regression", "linear SVM", "kernel-ridge")
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
BATCH = 16


def averaged_tokens(
    clips: ClipFolder, network: str, frames: dict[str, Any], cache: Cache
) -> dict[str, Array]:
    """The outputs of a network averaged over time, one vector per clip."""
    runner = NetworkRunner(network)

    def make(path: Path) -> dict[str, Array]:
        rows: list[list[Array]] = [[], []]
        source = video.frames(path, colour="rgb", size=runner.size, **frames)
        while batch := list(islice(source, BATCH)):
            for activations in runner(batch).values():
                patches = patch_features(activations, runner.output).mean(axis=(1, 2))
                whole = activations[:, 0] if runner.output == "tokens" else patches
                rows[0] += list(whole)
                rows[1] += list(patches)
        return {"vector": np.array([np.mean(part, axis=0) for part in rows], dtype=np.float64)}

    key = {"rival": network, "frames": frames}
    records = clip_records(cache, "vector", key, make, clips.paths, -1)
    vectors = [good(record)["vector"] for record in records]
    whole, patches = np.stack(vectors, axis=1)
    if runner.output != "tokens":
        return {"averaged channels": whole}
    return {
        "averaged class token": whole,
        "averaged patch tokens": patches,
        "both": np.hstack([whole, patches]),
    }


def rivals(clips: ClipFolder, points: dict[str, Array], folds: int = 10) -> list[Method]:
    """Linear models and kernel ridge on vectors, by the protocol of the evaluation."""
    found: list[list[Method]] = []
    for trial in clips.trials or {"": ["train"] * len(clips.paths)}:
        parts = clips.trials.get(trial) if clips.trials else None
        used = [k for k, part in enumerate(parts or clips.paths) if part]
        given = LabelledClips(
            title="clips",
            clips=[clips.paths[k] for k in used],
            names=[str(clips.paths[k]) for k in used],
            labels=[clips.labels[k] for k in used],
            sources=None if clips.sources is None else [clips.sources[k] for k in used],
            protocol="by-source",
            folds=folds,
            parts=None if parts is None else [parts[k] for k in used],
        )
        groups = given.groups(range(len(used)), 0)
        items = EvaluationSet(
            clips=tuple(
                Clip(name, None, label, None if given.sources is None else given.sources[k])
                for k, (name, label) in enumerate(zip(given.names, given.labels, strict=True))
            ),
            groups=groups,
            codebook_folds=None,
            protocol="",
            n_jobs=-1,
            test_group=None if parts is None else int(groups.max()),
        )
        specs = [
            spec
            for name, vectors in points.items()
            for spec in vector_methods(name, [vectors[used]], items, RIVALS, "euclidean")
        ]
        found.append([evaluate_method(spec, items, None)[0] for spec in specs])
    return [_joined(rows) for rows in zip(*found, strict=True)]


def _joined(rows: tuple[Method, ...]) -> Method:
    """One row from those of all trials: the predictions one after the other."""
    return replace(rows[0], predictions=tuple(label for row in rows for label in row.predictions))


def table(outcome: Evaluation, others: list[Method]) -> Iterator[str]:
    """All methods with McNemar's test against the first, then the rivals."""
    labels = np.array([clip.label for clip in outcome.clips])
    main = np.array(outcome.methods[0].predictions) == labels
    yield "| method | classifier | accuracy | 95 % interval | McNemar p |"
    yield "| --- | --- | ---: | ---: | ---: |"
    sources = [clip.source or str(clip.path) for clip in outcome.clips]
    for k, method in enumerate([*outcome.methods, *others]):
        right = np.array(method.predictions) == labels
        share = rate(right, np.unique(sources, return_inverse=True)[1])
        p = "" if k == 0 else f"{mcnemar(main, right):.3f}"
        figure = f"{100 * share.share:.1f} %"
        interval = f"{100 * share.low:.1f} to {100 * share.high:.1f}"
        cells = (method.name, method.classifier, f"**{figure}**" if k == 0 else figure, interval, p)
        yield f"| {' | '.join(cells)} |"
    yield ""
    for method in outcome.methods:
        chosen = {
            name: value for name, value in method.settings.items() if name in ("bags", "metric", "classifier")
        }
        yield f"Chosen for {method.classifier}: {chosen}."


def confidence(outcome: Evaluation) -> Iterator[str]:
    """Calibration error and coverage of every method."""
    yield "| classifier | calibration error | coverage of sources at 80 / 90 / 95 % | classes per set |"
    yield "| --- | ---: | ---: | ---: |"
    for k, method in enumerate(outcome.methods):
        summary = replace(outcome, main=k).confidence_summary
        if summary is None:
            continue
        covered = " / ".join(f"{100 * row['sources']:.1f}" for row in summary["coverage"])
        sizes = " / ".join(f"{row['size']:.2f}" for row in summary["coverage"])
        yield f"| {method.classifier} | {summary['expected_calibration_error']:.3f} | {covered} | {sizes} |"


def unknown_classes(experiment: Experiment, points: Array) -> Iterator[str]:
    """Tell a class that was left out from all others: area under the ROC curve, each class in turn.

    Kernel ridge with the default metric; bags, ridge and width are chosen inside the known classes. Known
    clips are scored without their source.
    """
    from sklearn.metrics import roc_auc_score

    codes, sources = experiment.items.codes, experiment.items.groups
    areas: dict[str, list[float]] = {"largest p-value": [], "largest score": [], "maximum softmax": []}
    for code, name in enumerate(np.unique(experiment.items.labels)):
        unknown = codes == code
        groups = np.unique(np.where(unknown, sources.max() + 1, sources), return_inverse=True)[1]
        left_out = int(groups.max())
        items = replace(experiment.items, groups=groups, test_group=left_out)
        bags = {
            title: Systems(systems.sets("orthonormal"), items) for title, systems in experiment.bags.items()
        }
        settings, predictors = zip(*system_candidates("kernel-ridge", bags, GRIDS[:1]), strict=True)
        families = [setting["bags"] for setting in settings]
        (chosen,) = nested_choice(predictors, codes, groups, families, wanted=[left_out], n_jobs=-1)
        ridge = predictors[chosen]
        scores = np.where(unknown[:, None], ridge.scores(), ridge.scores(left_out))
        distances = np.where(unknown[:, None], ridge.distances(), ridge.distances(left_out))
        scores[:, code], distances[:, code] = -np.inf, np.inf
        known = np.flatnonzero(~unknown)
        calibration = Calibration.fit(scores[known], distances[known], codes[known], sources[known])
        fits = calibration.p_values(scores, distances)
        fits[:, code] = 0.0
        values = {
            "largest p-value": fits.max(axis=1),
            "largest score": scores.max(axis=1),
            "maximum softmax": _softmax(points, codes, sources, unknown),
        }
        for what, value in values.items():
            areas[what].append(float(roc_auc_score(~unknown, value)))
        row = " | ".join(f"{values[-1]:.3f}" for values in areas.values())
        yield f"| {name} | {row} | {settings[chosen]['bags']} |"
    yield f"| **mean** | {' | '.join(f'{np.mean(values):.3f}' for values in areas.values())} | |"


def _softmax(points: Array, codes: IntArray, sources: IntArray, unknown: Any) -> Array:
    """Largest probability of logistic regression: known clips in ten folds by source, unknown ones by all.

    The penalty is chosen once by all known clips, which favours it.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, GroupKFold

    known = np.flatnonzero(~unknown)
    center = points[known].mean(axis=0)
    basis, _ = np.linalg.qr((points[known] - center).T)  # all that is orthogonal to these has no say
    within = (points - center) @ basis
    within /= np.sqrt((within[known] ** 2).sum(axis=1).mean())
    model = LogisticRegression(max_iter=3000, tol=1e-3)
    search = GridSearchCV(model, {"C": PENALTIES}, cv=GroupKFold(3), refit=False)
    search.fit(within[known], codes[known], groups=sources[known])
    model.set_params(**search.best_params_)
    folds = protocol_groups(codes[known], "folds", sources[known], folds=10)
    result = np.empty(len(codes))
    for fold in range(-1, 10):
        train = known if fold < 0 else known[folds != fold]
        test = np.flatnonzero(unknown) if fold < 0 else known[folds == fold]
        result[test] = model.fit(within[train], codes[train]).predict_proba(within[test]).max(axis=1)
    return result


def main() -> None:
    """Print the tables as Markdown."""
    parser = command_parser("python -m benchmarks.presets", __doc__)
    parser.add_argument("set", choices=("wild-scenes", "traffic"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", choices=PRESETS, default="best")
    parser.add_argument("--cache", type=Path, default=Path(".sysbags-cache"))
    parser.add_argument("--unknown", action="store_true")
    parser.add_argument("--methods", nargs="+", default=[AUTO, *CLASSIFIERS])
    arguments = parser.parse_args()
    clips = class_folders(arguments.folder)
    frames: dict[str, Any] = {"start": 1} if arguments.set == "traffic" else {}  # its first frame is damaged
    preset = PRESETS[arguments.preset]
    options: dict[str, Any] = {
        "bags": preset_bags(arguments.preset, **frames),
        "cache": arguments.cache,
        "n_jobs": -1,
    }
    network, stride = preset.network(), {"stride": preset.network_stride}
    points = {}
    if network is not None:
        points = averaged_tokens(clips, network, {**frames, **stride}, Cache(arguments.cache))
    command = f"python -m benchmarks.presets {arguments.set} FOLDER --preset {arguments.preset}"
    print(f"#### {arguments.set}, preset {arguments.preset}{f', {network}' if network else ''}\n")
    print("\n".join(facts(command, ("numpy", "scikit-learn", "numba", "av", "onnxruntime"))), end="\n\n")
    if arguments.unknown:
        experiment, _ = make_experiment(
            labelled_clips(clips.paths, clips.labels, clips.sources),
            make_request(clips.paths, options["bags"], METHODS),
            RunContext.of(options["cache"], 0, options["n_jobs"], None),
        )
        print(
            "| class left out | largest p-value | largest score | maximum softmax of logistic regression "
            "| bags |\n| --- | ---: | ---: | ---: | --- |",
            flush=True,
        )
        for line in unknown_classes(experiment, list(points.values())[-1]):
            print(line, flush=True)
        return
    sources = clips.sources
    outcome = evaluate(
        clips.paths,
        clips.labels,
        sources,
        methods=arguments.methods,
        protocol=Protocol(trials=clips.trials or None),
        **options,
    )
    print(f"{len(outcome.clips)} clips tested, {len(outcome.failures)} skipped; {outcome.protocol}.\n")
    others = rivals(clips, points)
    print("\n".join(table(outcome, others)), end="\n\n")
    print("\n".join(confidence(outcome)), end="\n\n", flush=True)
    print(f"Seconds: { {name: round(seconds, 1) for name, seconds in outcome.seconds.items()} }")


if __name__ == "__main__":
    main()
