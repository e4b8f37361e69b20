"""``python -m sysbags.demo --out demo``: streams to systems to distances to verdicts, in one page.

Known systems emit streams of histograms (`sysbags.datasets.make_streams`); each stream is identified,
all are compared once, and each is classified by the others under three distances.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._types import Array, IntArray

__all__ = ["main", "measure"]

METRICS = {"alignment": "Alignment", "martin": "Martin", "max-singular-value": "Max. singular value"}
CLASSIFIERS = {"nearest-system": "Nearest system", "nearest-mean": "Nearest mean"}
# The classes differ in dynamics or in average, not only in what moves: both weigh more than by default.
LAMBDA_A, LAMBDA_MU = 2.0, 100.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments of the command line.

    Returns
    -------
    int
        Exit code: 0, or 2 for a mistake of the user's (told in one sentence on stderr).
    """
    arguments = _parser().parse_args(argv)
    try:
        folder = _folder(arguments.out)
        result, systems, labels, distances = measure(
            arguments.classes, arguments.per_class, arguments.frames, arguments.order, arguments.seed
        )
        with _timed(result["seconds"], "report"):
            page = _page(result, _picture(systems, labels, distances))
            report = folder / "report.html"
            report.write_text(page, encoding="utf-8")
    except (ValueError, OSError) as error:
        print(f"sysbags.demo: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        _print_tables(result, report)
    return 0


def measure(
    classes: int = 6, per_class: int = 10, frames: int = 80, order: int = 5, seed: int = 0
) -> tuple[dict[str, Any], list[Any], IntArray, Array]:
    """Work everything out.

    Parameters
    ----------
    classes, per_class, frames, order, seed : int

    Returns
    -------
    result : dict
        "settings", "rates" (metric -> classifier -> right, total, rate) and "seconds" of each stage.
    systems : list of System
    labels : (K,) array of int
    distances : (K, K) array
        Squared alignment distances.
    """
    seconds: dict[str, float] = {}
    with _timed(seconds, "import and compile"):
        _warm_up(order)
    from sysbags import SystemIdentifier, cross_gram
    from sysbags.datasets import make_streams
    from sysbags.errors import ParameterError
    from sysbags.evaluate import leave_one_out
    from sysbags.pairwise import distance_matrix

    if classes < 2 or per_class < 2:
        raise ParameterError("there must be at least 2 classes of at least 2 streams, or nothing can be classified")
    with _timed(seconds, "make streams"):
        streams, labels = make_streams(classes, per_class, frames, random_state=seed)
    with _timed(seconds, "identify systems"):
        systems = SystemIdentifier(order=order).fit_transform(streams)
    with _timed(seconds, "kernel between all streams"):
        gram = cross_gram(systems)
    weights = {"lambda_a": LAMBDA_A, "lambda_mu": LAMBDA_MU}
    rates: dict[str, dict[str, Any]] = {}
    for metric in METRICS:
        rates[metric] = {}
        for classifier in CLASSIFIERS:
            with _timed(seconds, f"{METRICS[metric].lower()}, {CLASSIFIERS[classifier].lower()}"):
                found = leave_one_out(gram, labels, classifier=classifier, metric=metric, **weights)
            right = int(np.sum(found.labels == found.predictions))
            rates[metric][classifier] = {"right": right, "total": len(labels), "rate": found.accuracy}
    distances = distance_matrix(gram, "alignment", **weights)
    settings = {
        "classes": classes,
        "per_class": per_class,
        "frames": frames,
        "bins": streams[0].shape[1],
        "order": order,
        "seed": seed,
        **weights,
    }
    return {"settings": settings, "rates": rates, "seconds": seconds}, systems, labels, distances


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sysbags.demo", description=__doc__)
    parser.add_argument("--out", default="demo", metavar="FOLDER", help="where report.html goes (default: demo)")
    parser.add_argument("--classes", type=int, default=6, help="kinds of systems (default: 6)")
    parser.add_argument("--per-class", type=int, default=10, help="streams of each (default: 10)")
    parser.add_argument("--frames", type=int, default=80, help="histograms in a stream (default: 80)")
    parser.add_argument("--order", type=int, default=5, help="dimension of the state space (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same rates (default: 0)")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead of tables")
    return parser


def _folder(name: str) -> Path:
    folder = Path(name)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--out {name} is a file, but it must be a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - started


def _warm_up(order: int) -> None:
    """Compile (or load from the cache) what is timed later, on a task too small to matter."""
    from sysbags import SystemIdentifier, cross_gram
    from sysbags.datasets import make_streams
    from sysbags.evaluate import leave_one_out

    streams, labels = make_streams(classes=2, per_class=3, frames=12, bins=8)
    gram = cross_gram(SystemIdentifier(order=min(max(order, 2), 4)).fit_transform(streams))
    for metric in METRICS:
        for classifier in CLASSIFIERS:
            leave_one_out(gram, labels, classifier=classifier, metric=metric)


def _print_tables(result: dict[str, Any], report: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console, settings = Console(), result["settings"]
    table = Table(title="Leave one out: how many of the streams are told rightly")
    table.add_column("distance")
    for name in CLASSIFIERS.values():
        table.add_column(name.lower(), justify="right")
    for metric, name in METRICS.items():
        table.add_row(name.lower(), *(_rate(result["rates"][metric][c]) for c in CLASSIFIERS))
    stages = Table(title="Seconds of each stage")
    stages.add_column("stage")
    stages.add_column("seconds", justify="right")
    for stage, taken in result["seconds"].items():
        stages.add_row(stage, f"{taken:.3f}")
    console.print(_sentence(settings))
    console.print(table)
    console.print(stages)
    console.print(f"The report is in {report}", soft_wrap=True)


def _rate(entry: dict[str, Any]) -> str:
    return f"{100 * entry['rate']:.1f} %  ({entry['right']}/{entry['total']})"


def _sentence(settings: dict[str, Any]) -> str:
    return (
        f"{settings['classes']} classes of {settings['per_class']} generated streams, {settings['frames']} histograms "
        f"of {settings['bins']} bins each; order {settings['order']}, chi-squared kernel; chance is "
        f"{100 / settings['classes']:.1f} %."
    )


def _picture(systems: Sequence[Any], labels: IntArray, distances: Array) -> str | None:
    """A PNG in base64: a map of the metric and the states of one stream a class. None without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    points = classical_scaling(distances)
    classes = np.unique(labels)
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    colours = [f"C{k % 10}" for k in range(len(classes))]
    for label, colour in zip(classes, colours, strict=True):
        own = labels == label
        axes.scatter(*points[own].T, s=38, color=colour, label=f"class {label}", edgecolor="white", linewidth=0.5)
    axes.set_title("The streams as points of the alignment metric", fontsize=11)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.legend(fontsize=8, ncols=2, loc="best")
    rows = -(-len(classes) // 3)
    grid = np.atleast_1d(right.subplots(rows, min(3, len(classes)), squeeze=False)).ravel()
    right.suptitle("Paths of the first two states, one stream a class", fontsize=11)
    for axis in grid:
        axis.set_axis_off()
    for label, colour, axis in zip(classes, colours, grid, strict=False):
        states = systems[int(np.flatnonzero(labels == label)[0])].states
        path = states[:, :2] if states.shape[1] > 1 else np.column_stack([np.arange(len(states)), states])
        axis.plot(*path.T, color=colour, linewidth=1)
        axis.set_title(f"class {label}", fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def classical_scaling(distances: Array) -> Array:
    """Points of the plane whose squared distances are near those given (classical multidimensional scaling).

    Parameters
    ----------
    distances : (K, K) array
        Squared.

    Returns
    -------
    (K, 2) array

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[0.0, 1.0, 2.0, 1.0], [1.0, 0.0, 1.0, 2.0], [2.0, 1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 0.0]])
    >>> points = classical_scaling(square)
    >>> bool(np.allclose(((points[:, None] - points) ** 2).sum(axis=2), square))
    True
    """
    centred = distances - distances.mean(axis=0)
    centred = -0.5 * (centred - centred.mean(axis=1, keepdims=True))
    eigenvalues, vectors = np.linalg.eigh(0.5 * (centred + centred.T))
    return np.asarray(vectors[:, :-3:-1] * np.sqrt(np.maximum(eigenvalues[:-3:-1], 0.0)))


STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .9rem;border-bottom:1px solid #ddd;text-align:left}
td+td,th+th{text-align:right}img{max-width:100%}"""


def _page(result: dict[str, Any], picture: str | None) -> str:
    """The report: one file that needs nothing else."""
    rates = [
        [METRICS[metric], *(_rate(result["rates"][metric][c]) for c in CLASSIFIERS)] for metric in METRICS
    ]
    seconds = [[stage, f"{taken:.3f}"] for stage, taken in result["seconds"].items()]
    settings = [[name, str(value)] for name, value in result["settings"].items()]
    if picture is None:
        shown = "<p>There is no picture because matplotlib is not installed: pip install 'sysbags[plot]'.</p>"
    else:
        shown = f'<img alt="Map of the streams and paths of states" src="data:image/png;base64,{picture}">'
    escape: Callable[[str], str] = html.escape
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>sysbags demo</title><style>{STYLE}</style></head><body>
<h1>Streams of histograms, told apart</h1>
<p>{escape(_sentence(result["settings"]))} Classes come in families of three: the second differs from the
first in its dynamics alone, the third in its average histogram alone. Each stream is classified by the others.</p>
{_table(["Distance", *CLASSIFIERS.values()], rates)}
<p>The alignment distance weighs the average histogram; the other two ignore it. Generated streams show how
the parts work together; they do not say which distance is best for your data.</p>
{shown}
<h2>Seconds</h2>
{_table(["Stage", "Seconds"], seconds)}
<h2>Settings</h2>
{_table(["Name", "Value"], settings)}
</body></html>
"""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


if __name__ == "__main__":
    sys.exit(main())
