"""What the paper prints: rates, runtimes and one confusion matrix, from one file with their sources."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from sysbags.report.results import Published

__all__ = ["confusion", "figure", "figures", "rates", "runtimes"]


@cache
def figures() -> dict[str, Any]:
    """Return all that ``published.json`` holds."""
    text = files("sysbags.reproduce").joinpath("published.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def rates(name: str) -> tuple[Published, ...]:
    """Return the published rates for a data set, in the order of the paper's tables.

    Examples
    --------
    >>> for row in rates("yupenn")[:2]:
    ...     print(row.name, row.classifier, row.rate)
    SoB + Martin 1-NN 83.3
    SoB + Max SV 1-NN 80.7
    """
    return tuple(
        Published(row["method"], row["classifier"], row["rate"], _source(row))
        for row in figures()["rates"]
        if row["set"] == name and row["rate"] is not None
    )


def figure(name: str, method: str, classifier: str) -> float:
    """Return one published rate, in per cent.

    Examples
    --------
    >>> figure("dyntex-beta", "SoB + Align", "NCC")
    75.3
    """
    (rate,) = (row.rate for row in rates(name) if (row.name, row.classifier) == (method, classifier))
    return rate


def runtimes(name: str) -> dict[str, float]:
    """Return the paper's seconds for a data set: "pair", and in all "1-NN" and, for DynTex, "NCC".

    Examples
    --------
    >>> runtimes("dyntex-alpha")["1-NN"]
    112.8
    """
    return dict(figures()["runtimes"][name])


def confusion(name: str) -> dict[str, Any] | None:
    """Return the printed confusion matrix ("classes", "counts", "note", ...); None if there is none."""
    found: dict[str, Any] | None = figures()["confusion"].get(name)
    return found


def _source(row: dict[str, Any]) -> str:
    taken = f", from {row['from']}" if "from" in row else ""
    remark = f"; {row['note']}" if "note" in row else ""
    return f"{row['table']} of {figures()['paper']}{taken}{remark}"
