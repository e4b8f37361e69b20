"""The figure of ``sysbags inspect --plot``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from sysbags._common.files import atomic_write
from sysbags.errors import FileError, ParameterError

if TYPE_CHECKING:
    from sysbags.systems.system import System

Named = Sequence[tuple[str, "System"]]

LEGEND_LIMIT = 20  # names in a legend; more could not be read
TITLE_LENGTH = 40  # letters in a line of the title for each panel below it


def draw(systems: Named, path: Path, title: str, **metric: Any) -> None:
    """Draw the spectra of the transitions of named systems.

    Beside them are the eigenvalues and states of a single system, if it has them, or the distances between
    several, with a metric and its weights as for `pairwise_distances`. Lists of weights are those of several
    bags: the systems are given bag by bag, and each bag has its own row.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ParameterError("--plot needs matplotlib: pip install 'sysbags[plot]'") from None
    if not systems:
        raise ParameterError("there is no system to draw")
    bags = [metric]
    if isinstance(metric.get("lambda_a"), list):
        weights = zip(metric["lambda_a"], metric["lambda_mu"], strict=True)
        bags = [{**metric, "lambda_a": lambda_a, "lambda_mu": lambda_mu} for lambda_a, lambda_mu in weights]
    count = len(systems) // len(bags)
    rows = [_panels(systems[k * count : (k + 1) * count], own) for k, own in enumerate(bags)]
    columns = max(map(len, rows))
    figure = Figure(figsize=(5.2 * columns, 4.6 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(fill(title, TITLE_LENGTH * columns))
    for row, panels in enumerate(rows):
        for column, panel in enumerate(panels, start=1):
            panel(figure.add_subplot(len(rows), columns, row * columns + column))
    with atomic_write(path) as temporary:
        try:
            figure.savefig(temporary, format=path.suffix[1:] or "png", dpi=120)
        except ValueError:
            formats = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
            raise FileError(f"{path} must end in one of {formats}, but it ends in {path.suffix!r}") from None


def _panels(systems: Named, metric: dict[str, Any]) -> list[Any]:
    """Return the functions that draw the panels of the systems of one bag."""
    drawn: list[Any] = [_spectra]
    if len(systems) > 1:
        drawn.append(partial(_distances, metric=metric))
    else:
        _, single = systems[0]
        drawn += [_eigenvalues] if single.eigenvalues is not None else []
        drawn += [_states] if single.states is not None else []
    return [partial(panel, systems=systems) for panel in drawn]


def _spectra(axes: Any, systems: Named) -> None:
    circle = np.exp(2j * np.pi * np.linspace(0.0, 1.0, 361))
    axes.plot(circle.real, circle.imag, color="0.6", linewidth=1.0)
    axes.axhline(0.0, color="0.9", linewidth=0.8, zorder=0)
    axes.axvline(0.0, color="0.9", linewidth=0.8, zorder=0)
    names = list(dict.fromkeys(name for name, _ in systems))
    for k, name in enumerate(names):
        values = np.concatenate(
            [np.linalg.eigvals(system.transition) for system_name, system in systems if system_name == name]
        )
        colour, marker = f"C{k % 10}", "osv^D"[k // 10 % 5]
        axes.scatter(values.real, values.imag, s=34, color=colour, marker=marker, alpha=0.8, label=name)
    if 1 < len(names) <= LEGEND_LIMIT:
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal", xlabel="real", ylabel="imaginary")
    axes.set_title("Spectrum of the transition", fontsize="medium")


def _eigenvalues(axes: Any, systems: Named) -> None:
    _, system = systems[0]
    assert system.eigenvalues is not None
    orders = np.arange(1, len(system.eigenvalues) + 1)
    axes.bar(orders, system.eigenvalues, color="C0")
    axes.set_xticks(orders if len(orders) <= 12 else orders[:: len(orders) // 6])
    axes.set(xlabel="state", ylabel="eigenvalue of the centred kernel")
    share = "" if system.explained is None else f", {100 * system.explained:.0f} % of the variance"
    axes.set_title(f"Eigenvalues{share}", fontsize="medium")


def _states(axes: Any, systems: Named) -> None:
    states = systems[0][1].states
    assert states is not None
    shown = min(states.shape[1], 5)
    # One above the other, the first on top, as their sizes and crossings would hide each other.
    step = 1.2 * float(np.ptp(states[:, :shown], axis=0).max())
    for k in range(shown):
        axes.plot(states[:, k] - k * step, color=f"C{k}", linewidth=1.2)
    axes.set_yticks([-k * step for k in range(shown)], [f"{k + 1}" for k in range(shown)])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="bag", ylabel="state")
    axes.set_title("States over time", fontsize="medium")


def _distances(axes: Any, systems: Named, metric: dict[str, Any]) -> None:
    from sysbags.distances.pairwise import pairwise_distances

    ordered = sorted(range(len(systems)), key=lambda k: systems[k][0])
    name, weights = metric.pop("metric", "alignment"), {"lambda_a": 0.25, "lambda_mu": 0.0, **metric}
    distances = pairwise_distances([systems[k][1] for k in ordered], metric=name, **weights, n_jobs=-1)
    picture = axes.imshow(np.sqrt(distances), cmap="viridis")
    axes.figure.colorbar(picture, ax=axes, shrink=0.8)
    names = [systems[k][0] for k in ordered]
    first = [k for k, name in enumerate(names) if k == 0 or names[k - 1] != name]
    if len(first) <= LEGEND_LIMIT:
        axes.set_xticks(first, [names[k] for k in first], rotation=90, fontsize="x-small")
        axes.set_yticks(first, [names[k] for k in first], fontsize="x-small")
    named = ", ".join(f"{key} = {weight:.4g}" for key, weight in weights.items())
    axes.set_title(f"Roots of the squared {name} distances\n{named}", fontsize="medium")
