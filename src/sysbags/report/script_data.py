"""The data for the script of the report: an evaluation as JSON with short numbers."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags.report.results import ClassMean, Evaluation
from sysbags.systems.system import System

__all__ = ["compact"]

STATES = 3  # of a system that are drawn
STEPS = 600  # of them at most
BARS = 256  # of a histogram: in longer ones, neighbouring bins are added
BINS = 24  # of the dynamics: those that vary most
NEAREST = 6  # clips nearest to the mean of a class
LEVELS = 127  # enough for a drawing of a hundred pixels


def compact(evaluation: Evaluation) -> dict[str, Any]:
    """Return the data for the script of the report, ready for JSON: no NaN, classes as numbers.

    Parameters
    ----------
    evaluation : Evaluation

    Returns
    -------
    dict
    """
    code = {name: k for k, name in enumerate(evaluation.classes)}
    relations, confidence = evaluation.relations, evaluation.confidence_summary
    return {
        "classes": list(evaluation.classes),
        "clips": [{"name": clip.name, "source": clip.source} for clip in evaluation.clips],
        "truth": [code[clip.label] for clip in evaluation.clips],
        "methods": [f"{method.name}, {method.classifier}" for method in evaluation.methods],
        "main": evaluation.main,
        "predictions": [[code[name] for name in method.predictions] for method in evaluation.methods],
        "curves": [
            {
                "weight": curve.weight,
                "classifier": curve.classifier,
                "values": numbers(curve.values),
                "accuracies": numbers(curve.accuracies, 4),
                "fixed": curve.fixed,
            }
            for curve in evaluation.curves
        ],
        "reliability": None if confidence is None else confidence["reliability"],
        "lambda_a": relations.lambda_a,
        "lambda_mu": relations.lambda_mu,
        "plane": numbers(relations.plane, 4),
        "neighbours": relations.neighbours.tolist(),
        "neighbour_parts": numbers(relations.neighbour_parts),
        "class_parts": numbers(relations.class_parts),
        "systems": [_system(system) for system in evaluation.systems],
        "atlas": [{"code": code[mean.label]} | _mean(mean) for mean in evaluation.atlas],
    }


def numbers(values: npt.ArrayLike, digits: int = 3) -> Any:
    """Return nested lists of numbers with few significant digits, None for those that are not finite.

    Examples
    --------
    >>> numbers([[0.123456, float("nan")], [1234.5, -0.0]])
    [[0.123, None], [1230.0, 0]]
    """
    array = np.asarray(values)
    if array.ndim:
        return [numbers(part, digits) for part in array]
    if not np.isfinite(array):
        return None
    return float(f"{array:.{digits}g}") or 0


def quantised(values: Array) -> dict[str, Any]:
    """Return an array as signed bytes in base64, and the factor to multiply them with.

    Examples
    --------
    >>> quantised(np.array([0.0, 0.5, -1.0]))
    {'scale': 0.00787, 'bytes': 'AECB'}
    """
    largest = float(np.abs(values).max(initial=0.0))
    levels = np.rint(values * (LEVELS / largest if largest else 0.0)).astype(np.int8)
    return {"scale": numbers(largest / LEVELS), "bytes": base64.b64encode(levels.tobytes()).decode()}


def _plane(values: npt.NDArray[np.complex128]) -> list[list[float]]:
    return [[round(value.real, 3), round(value.imag, 3)] for value in values.tolist()]


def _system(system: System) -> dict[str, Any]:
    result: dict[str, Any] = {"eigenvalues": _plane(np.linalg.eigvals(system.transition).astype(complex))}
    if system.states is not None:
        shown = system.states[:STEPS, :STATES]
        result |= {"steps": len(shown), "frames": len(system.states), "states": quantised(shown.T)}
    return result


def _mean(mean: ClassMean) -> dict[str, Any]:
    bins = len(mean.histogram)
    bars = min(bins, BARS)
    varying = np.sort(np.argsort(-mean.dynamics.std(axis=0), kind="stable")[:BINS])
    course = mean.dynamics[:, varying]
    return {
        "nearest": list(mean.members[:NEAREST]),
        "distances": numbers(mean.distances[:NEAREST]),
        "size": len(mean.members),
        "eigenvalues": _plane(mean.eigenvalues),
        "length": bins,
        "histogram": quantised(np.add.reduceat(mean.histogram, np.arange(bars) * bins // bars)),
        "bins": varying.tolist(),
        "steps": len(course),
        "dynamics": quantised((course - course.mean(axis=0)).T),
    }
