"""``sysbags classify``: predicted classes of clips, with probabilities, prediction sets and distances."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags._common.files import saved_kind
from sysbags._common.messages import Stages
from sysbags.cli._clips import check_model, load_pipeline, note_too_short, read_clips, too_short
from sysbags.cli._options import Json, NJobs, argument, option
from sysbags.cli._output import (
    check_inputs,
    check_out,
    note,
    note_error,
    number,
    print_json,
    say,
    show_table,
)
from sysbags.errors import OrderError, ParameterError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer

NONE_OF_THESE = "none of these"


def classify(
    model: Annotated[Path, argument("MODEL...", "Models that fit has saved.")],
    clips: Annotated[
        list[Path] | None, argument("CLIP...", "Video files, folders of images, or folders to search.")
    ] = None,
    top: Annotated[
        int | None, option("Show N classes, also in --csv.", "N", min=1, default="3, in --csv 1")
    ] = None,
    coverage: Annotated[
        str | None,
        option("Also the set of classes that holds the true one so often; it may be empty.", "90%"),
    ] = None,
    table: Annotated[Path | None, option("Write a table, comma-separated values.", "FILE", "--csv")] = None,
    start: Annotated[int | None, option("First frame, counted from 0.", "N", min=0)] = None,
    stop: Annotated[int | None, option("Frame to stop before.", "N", min=1)] = None,
    max_frames: Annotated[
        int | None,
        option("Look at N frames from the first on, whatever the model was fitted with.", "N", min=1),
    ] = None,
    n_jobs: NJobs = -1,
    as_json: Json = False,
) -> None:
    """Predict the class of each clip, with probabilities.

    Several models may be named before the clips. Probabilities are calibrated by clips that were left out
    when the model was fitted. With --coverage there is also the set of classes that holds the true class with
    that probability; a clip that fits no class is none of these, and for models of systems so is one whose
    frames are all the same or too few for a system. Distances are squared, and --json has those to all
    classes; transition, observer and mean, or covariances and mean, or the bags, are their shares of the
    distance to the predicted class. A clip that cannot be read is reported and skipped, and the exit code is
    then 2.

    Example: sysbags classify scenes.model new.mp4 --coverage 90%
    """
    models, clips = [model], list(clips or [])
    while clips and saved_kind(clips[0]) is not None:
        models.append(clips.pop(0))
    for path in models:
        check_model(path)
    if not clips:
        raise ParameterError("there is no clip to classify: name clips after the models")
    check_inputs(some_of=clips)
    alpha = None if coverage is None else 1.0 - _share(coverage)
    paths = list(_searched(clips))
    check_out(table, *models, *filter(os.path.exists, paths))
    reading = {"start": start, "stop": stop, "max_frames": max_frames}
    entries = [
        {"model": path, **entry}
        for path in models
        for entry in _classified(path, paths, reading, alpha, n_jobs)
    ]
    if table is not None:
        _write(table, entries, len(models) > 1, top or 1)
    if as_json:
        print_json({"clips": [_record(entry, with_model=len(models) > 1) for entry in entries]})
    else:
        _show(models, entries, top or 3)
    errors = dict.fromkeys(entry["error"] for entry in entries if "error" in entry)
    for error in errors:
        note_error(error)
    if errors:
        raise typer.Exit(2)


def _share(text: str) -> float:
    """Return a share between 0 and 1, given as 0.9 or as 90%."""
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise ParameterError(
            f"--coverage is {text!r}, but it must be above 0 and below 1, such as 0.9 or 90%"
        )
    return value


def _searched(clips: Sequence[Path]) -> Iterator[Path]:
    """Yield clips, and those below folders that are no folders of images."""
    from sysbags.datasets.folder import clips_under, looks_like_clip

    for clip in clips:
        if clip.is_dir() and not looks_like_clip(clip):
            yield from clips_under(clip)
        else:
            yield clip


def _classified(
    path: Path, clips: Sequence[Path], reading: dict[str, int | None], alpha: float | None, n_jobs: int
) -> Iterator[dict[str, Any]]:
    """Yield what a model says about each clip."""
    from contextlib import nullcontext
    from dataclasses import asdict

    import numpy as np

    from sysbags.classifiers.calibration import prediction_sets
    from sysbags.means.compilation import compiled_for

    bags, identifier, classifier = load_pipeline(path)
    calibration = classifier.calibration_
    if alpha is not None and calibration is None:
        raise ParameterError(
            f"{path} has no calibration, but --coverage needs one: `sysbags fit FOLDER --out MODEL` saves "
            "models that have one"
        )
    if alpha is not None and calibration is not None:
        if alpha < calibration.smallest_alpha:
            few = f"{calibration.groups} clips or sources, too few for so high a coverage"
            note(f"{path} was calibrated by {few}: every set holds all classes")
        elif calibration.groups == len(calibration.weights):
            note(
                f"{path} takes each training clip for a recording of its own: if several were cut from one, "
                "sets are too small, and index.csv should name the sources"
            )
    _read_as(bags, {name: value for name, value in reading.items() if value is not None})
    with nullcontext() if identifier is None else compiled_for(classifier.metric):
        read = read_clips(clips, bags, identifier, Stages(), n_jobs, fit=False)
    found = classifier.set_params(n_jobs=n_jobs).explain(read.systems[0]) if read.paths else []
    known = dict(zip(read.paths, found, strict=True))
    notes = {}
    for place, clip in enumerate(read.paths):
        stream, system = _per_bag(read.streams[0][place]), _per_bag(read.systems[0][place])
        order = None if identifier is None else (min(one.order for one in system), identifier.order)
        known_clip = f"the shortest clip that {path} has learnt from"
        if text := too_short(
            clip, min(map(len, stream)), classifier.shortest_, known_clip, order, "its class is"
        ):
            notes[clip] = text
    note_too_short(notes.values())
    for clip in clips:
        if clip in known:
            entry = asdict(known[clip]) | ({"note": notes[clip]} if clip in notes else {})
            if alpha is not None:
                chances, fits = entry["probabilities"], entry["p_values"]
                ranked = sorted(chances, key=lambda name: -chances[name])
                inside = prediction_sets(np.array([[fits[name] for name in ranked]]), alpha)[0]
                entry["set"] = [name for name, is_inside in zip(ranked, inside, strict=True) if is_inside]
            yield {"path": clip, **entry}
        elif alpha is not None and isinstance(read.failures[clip], OrderError):
            # It can be read, and shows nothing that a system describes: no class fits.
            reason = str(read.failures[clip]).removeprefix(f"{clip}: ")
            yield {"path": clip, "label": None, "set": [], "reason": reason}
        else:
            yield {"path": clip, "error": str(read.failures[clip])}


def _per_bag(item: Any) -> tuple[Any, ...]:
    return item if isinstance(item, tuple) else (item,)


def _read_as(bags: BagTransformer, reading: dict[str, int]) -> None:
    """Set how clips are read: what is given replaces what the model has."""
    for member in bags.members() if reading else ():
        frames = {**(member.frames or {}), **reading}
        if "max_frames" in reading:  # frames of the clip: bags with a stride use fewer
            last = frames.pop("max_frames") + frames.get("start", 0)
            frames["stop"] = min(last, reading.get("stop", last))
        member.set_params(frames=frames)


def _record(entry: dict[str, Any], with_model: bool) -> dict[str, Any]:
    """Return an entry for JSON, where the names of distances say that they are squared."""
    return {
        f"squared_{name}" if name in ("distances", "parts") else name: value
        for name, value in entry.items()
        if with_model or name != "model"
    }


def _set(entry: dict[str, Any], separator: str) -> str:
    """Return the classes of a prediction set as text; empty if there is no set."""
    return separator.join(map(str, entry["set"])) or NONE_OF_THESE if "set" in entry else ""


def _ranked(entry: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the classes with their probabilities, or with their distances if there are none; best first."""
    chances = entry["probabilities"]
    if chances is None:
        return sorted(entry["distances"].items(), key=lambda item: item[1])
    return sorted(chances.items(), key=lambda item: -item[1])


def _write(path: Path, entries: list[dict[str, Any]], with_model: bool, top: int) -> None:
    """Write one row per clip and model."""
    from sysbags._common.files import write_table

    places = min(top, max([1, *(len(entry.get("distances", ())) for entry in entries)]))
    further = [f"{name}_{place}" for place in range(2, places + 1) for name in ("label", "probability")]
    rows = [["model", "clip", "label", "probability", *further, "set", "squared_distance", "error"]]
    for entry in entries:
        label = entry.get("label")
        chances = entry.get("probabilities") or {}
        others = [] if label is None else [name for name, _ in _ranked(entry) if name != label]
        shown = [] if label is None else [label, *others][:places]
        cells = [cell for name in shown for cell in (name, chances.get(name, ""))]
        rows.append(
            [
                entry["model"],
                entry["path"],
                *cells,
                *("" for _ in range(2 + len(further) - len(cells))),
                _set(entry, ";"),
                "" if label is None else entry["distances"][label],
                entry.get("error", entry.get("reason", "")),
            ]
        )
    write_table(path, rows if with_model else [row[1:] for row in rows])


def _show(models: list[Path], entries: list[dict[str, Any]], top: int) -> None:
    """Print a table for each model."""
    for path in models:
        if len(models) > 1:
            say(f"{path}:")
        own = [entry for entry in entries if entry["model"] == path and "error" not in entry]
        if own:
            parts = list(next((entry["parts"] for entry in own if "parts" in entry), ()))
            calibrated = any(entry.get("probabilities") for entry in own)
            sets = ["set"] if "set" in own[0] else []
            last = "most probable first" if calibrated else "squared distances, the nearest first"
            heads = ["clip", "label", *sets, *parts, last]
            show_table(heads, [_row(entry, parts, bool(sets), top) for entry in own])


def _row(entry: dict[str, Any], names: list[str], with_set: bool, top: int) -> list[str]:
    sets = [_set(entry, ", ")] if with_set else []
    if entry["label"] is None:
        return [str(entry["path"]), "-", *sets, *("-" for _ in names), entry["reason"]]
    parts, chances = entry["parts"], entry["probabilities"]
    total = sum(parts.values())
    shares = [f"{100 * parts[name] / total:.0f}%" if total else "-" for name in names]
    ranked = _ranked(entry)[:top]
    texts = [number(value) if chances is None else f"{100 * value:.0f}%" for _, value in ranked]
    listed = ", ".join(f"{name} {text}" for (name, _), text in zip(ranked, texts, strict=True))
    return [str(entry["path"]), str(entry["label"]), *sets, *shares, listed]
