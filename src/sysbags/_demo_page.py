"""The page and the picture of the demonstration."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from sysbags._types import Array

if TYPE_CHECKING:
    from sysbags.demo import Outcome

__all__ = ["draw", "page"]

# Okabe and Ito's colours, which colour-blind people can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>sysbags demonstration</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; }}
th, td {{ text-align: left; padding: 0.2rem 1.5rem 0.2rem 0; border-bottom: 1px solid #ddd; }}
img {{ max-width: 100%; }}
</style></head><body>
<h1>sysbags: {streams} generated streams of {classes} classes</h1>
<p>Each stream was classified by all the others. Classes 0 and 1, 2 and 3 and so on emit the same
histograms on average, one of them slowly and the other fast, so that averages cannot tell them apart.
Chance is {chance:.1f} %.</p>
<h2>Right verdicts</h2>
<table>{rates}</table>
{picture}
<h2>Seconds</h2>
<p>The kernel is evaluated once; every distance and every mean comes from its blocks.</p>
<table>{seconds}</table>
<h2>Settings</h2>
<table>{settings}</table>
</body></html>
"""


def page(outcome: Outcome) -> str:
    """Return the report as one HTML page that needs no other file."""
    try:
        encoded = base64.b64encode(draw(outcome)).decode()
        picture = f'<img alt="Map of the systems, and states" src="data:image/png;base64,{encoded}">'
    except ImportError:
        picture = "<p>The picture needs matplotlib, which is not installed: pip install 'sysbags[plot]'.</p>"
    heads, rows = outcome.table()
    return PAGE.format(
        streams=len(outcome.labels),
        classes=outcome.settings.classes,
        chance=100 / outcome.settings.classes,
        rates=_row("th", *heads) + "".join(_row("td", *cells) for cells in rows),
        picture=picture,
        seconds="".join(_row("td", name, f"{value:.3f}") for name, value in outcome.seconds.items()),
        settings="".join(_row("td", name, str(value)) for name, value in asdict(outcome.settings).items()),
    )


def _row(tag: str, *cells: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>\n"


def draw(outcome: Outcome) -> bytes:
    """Draw a map of the systems and the states of two streams of a pair; return a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), dpi=130, layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1.1, 1])
    chart = figure.add_subplot(grid[:, 0])
    points = _map(outcome.distances)
    labels = np.unique(outcome.labels)
    for label in labels:
        colour, fast = COLOURS[label // 2 % len(COLOURS)], label % 2 == 1
        x, y = points[outcome.labels == label].T
        chart.scatter(
            x,
            y,
            s=26,
            marker="o" if fast else "s",
            facecolors="none" if fast else colour,
            edgecolors=colour,
            label=f"class {label}, {'fast' if fast else 'slow'}",
        )
    chart.set_title("Map of the alignment metric", loc="left")
    chart.set_aspect("equal", adjustable="datalim")
    chart.set_xticks([])
    chart.set_yticks([])
    if len(labels) <= 2 * len(COLOURS):
        columns = min(3, (len(labels) + 1) // 2)
        chart.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=columns)
    upper = None
    for label in (0, 1):
        axes = figure.add_subplot(grid[label, 1], sharex=upper, sharey=upper)
        states = outcome.systems[int(np.argmax(outcome.labels == label))].states
        assert states is not None
        for column, shade in zip(states[:, 1::-1].T, ("0.65", "black")[-states.shape[1] :], strict=True):
            axes.plot(column, color=shade)
        which = "States 1 (black) and 2 (grey)" if states.shape[1] > 1 else "State"
        axes.set_title(f"{which} of class {label}, {'fast' if label else 'slow'}", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelbottom=label == 1)
        upper = axes
    axes.set_xlabel("frame")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _map(distances: Array) -> Array:
    """Classical multidimensional scaling of squared distances to the plane."""
    centred = distances - distances.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(-0.5 * centred)
    return np.asarray(vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0)))
