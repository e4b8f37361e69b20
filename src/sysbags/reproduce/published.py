"""The published results: accuracies, runtimes and a confusion matrix, with their sources in the paper."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from sysbags.evaluate.results import Published

MEDOIDS = ("SoB + Martin", "SoB + Max SV")  # these distances have no means


@cache
def figures() -> dict[str, Any]:
    """Return the content of ``published.json``."""
    text = files("sysbags.reproduce").joinpath("published.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def rates(name: str) -> tuple[Published, ...]:
    """Return the published accuracies for a data set, in the order of the paper's tables.

    Classifiers of systems have the names of `sysbags.classifiers.registry.CLASSIFIERS`, but "nearest medoid"
    for distances that have no means.

    Examples
    --------
    >>> for row in rates("yupenn")[:2]:
    ...     print(row.name, row.classifier, row.rate)
    SoB + Martin nearest-system 83.3
    SoB + Max SV nearest-system 80.7
    """
    return tuple(Published(row["method"], _classifier(row), row["rate"], _source(row)) for row in _rows(name))


def figure(name: str, method: str, classifier: str) -> float:
    """Return one published accuracy, in per cent; `classifier` is "1-NN" or "NCC", as in the paper.

    Examples
    --------
    >>> figure("dyntex-beta", "SoB + Align", "NCC")
    75.3
    """
    (rate,) = (
        row["rate"] for row in _rows(name) if (row["method"], row["classifier"]) == (method, classifier)
    )
    return float(rate)


def runtimes(name: str) -> dict[str, float]:
    """Return the published runtimes of a data set in seconds: per pair, "1-NN" and (DynTex) "NCC".

    Examples
    --------
    >>> runtimes("dyntex-alpha")["1-NN"]
    112.8
    """
    return dict(figures()["runtimes"][name])


def confusion(name: str) -> dict[str, Any] | None:
    """Return the published confusion matrix ("classes", "counts", "note", ...); None if there is none."""
    matrix: dict[str, Any] | None = figures()["confusion"].get(name)
    return matrix


def _rows(name: str) -> list[dict[str, Any]]:
    return [row for row in figures()["rates"] if row["set"] == name and row["rate"] is not None]


def _classifier(row: dict[str, Any]) -> str:
    if row["classifier"] == "NCC":
        return "nearest medoid" if row["method"] in MEDOIDS else "nearest-mean"
    is_ours = row["classifier"] == "1-NN" and row["method"].startswith("SoB")
    return "nearest-system" if is_ours else str(row["classifier"])


def _source(row: dict[str, Any]) -> str:
    works = [figures()["works"][key] for key in row["from"].split(", ")] if "from" in row else []
    origin = f", as cited in the paper ({'; '.join(works)})" if works else ""
    note = f"; {row['note']}" if "note" in row else ""
    return f"{figures()['tables'][row['table']]} of {figures()['paper']}{origin}{note}"
