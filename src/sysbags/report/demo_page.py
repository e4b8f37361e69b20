"""The report of the demonstration: one HTML page that needs no other file and no script."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from sysbags._common.types import IntArray
from sysbags._common.version import __version__
from sysbags.datasets.generated import RATE
from sysbags.distances.scaling import classical_scaling
from sysbags.report.demo import LAMBDA_A, LAMBDA_MU, ORDER, Outcome
from sysbags.video import frames

__all__ = ["page"]

# Okabe and Ito's colours, which colour-blind people can tell apart; their black is the text's colour.
COLOURS = ("#1F7FC0", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "currentColor", "#A0714F")
MARKS = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    "M-4.5 -4.5h9v9h-9z",
    "M0 -6l5.5 10h-11z",
    "M0 -6l6 6l-6 6l-6 -6z",
)
SHOTS, SKIPPED = 16, 2  # frames of a moving picture, and every which frame it shows

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sysbags demonstration</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --soft: #8882; --good: #0072B2; --bad: #D55E00; }}
@media (prefers-color-scheme: dark) {{ :root {{ --good: #56B4E9; --bad: #ff9a4d; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; }}
h1 {{ line-height: 1.2; }}
h2 {{ margin-top: 2.2rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: 0.25rem 1.2rem 0.25rem 0; border-bottom: 1px solid var(--line); }}
th {{ font-weight: 600; }}
.matrix th, .matrix td {{ padding: 0.25rem 0.5rem; text-align: center; }}
.matrix th:first-child {{ text-align: left; }}
.films {{ display: grid; gap: 0.8rem; }}
.films {{ grid-template-columns: repeat(auto-fill, minmax(min(13rem, 45%), 1fr)); }}
figure {{ margin: 0; }}
.film {{ aspect-ratio: 4 / 3; border-radius: 4px; background-size: {strip}% 100%; }}
.film {{ animation: play {duration:.2f}s steps({shots}, jump-none) infinite; }}
@keyframes play {{ from {{ background-position: 0 0; }} to {{ background-position: 100% 0; }} }}
@media (prefers-reduced-motion: reduce) {{ .film {{ animation: none; }} }}
.small {{ font-size: 0.88rem; opacity: 0.8; }}
.right {{ color: var(--good); }}
.wrong {{ color: var(--bad); font-weight: 600; }}
svg {{ width: 100%; max-width: 44rem; height: auto; display: block; }}
.time td:last-child {{ white-space: nowrap; }}
.key {{ display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; list-style: none; padding: 0; }}
.key svg {{ display: inline-block; width: 12px; height: 12px; }}
pre {{ background: var(--soft); padding: 0.8rem; border-radius: 4px; overflow-x: auto; }}
</style>
</head>
<body>
<h1>sysbags: {count} generated clips of {classes} moving textures</h1>
<p>Each clip is an MP4 file of {frames} frames. It became a stream of local binary patterns, one histogram
a frame, and the stream a linear dynamic system of order {order}. The kernel between all systems was
evaluated once; every distance and every mean below comes from its blocks.</p>

<h2>Right verdicts</h2>
<p>Each clip was classified by all the others: by the nearest of them, or by the nearest of the eight class
means, its own worked out without it. For Martin and maximum singular value, which have no means, it is the
medoid. "Averages over time" forgets all motion and compares the average histograms of the clips.</p>
<div class="wide"><table>{rates}</table></div>
<p class="small">The weights were fixed beforehand: {weights}. With {count} clips one verdict is worth
{worth:.1f} points, so small differences mean little.</p>

<h2>The textures</h2>
<p>One clip of each. Within a texture the clips differ in speed, scale, direction, contrast, colour, noise
and background.</p>
<div class="films">{films}</div>

<h2>New clips</h2>
<p>A model of all {count} clips was saved, loaded again and asked about clips that it had never seen. It is
right about {right} of {asked}.</p>
<div class="films">{verdicts}</div>

<h2>What is taken for what</h2>
<p>Nearest mean with the alignment distance: rows are true textures, columns verdicts.</p>
<div class="wide"><table class="matrix">{confusion}</table></div>

<h2>Map</h2>
<p>The alignment distances between all clips, as well as a plane can show them (classical multidimensional
scaling). Point at a mark to see which clip it is.</p>
{map}

<h2>States</h2>
<p>The first three states of the systems of two clips: what moves in the histograms, frame by frame.</p>
{states}

<h2>Time</h2>
<div class="wide"><table class="time">{seconds}</table></div>
<p class="small">The very first run also compiles; its time is in the stages where it fell.</p>

<h2>Settings</h2>
<div class="wide"><table>{settings}</table></div>

<h2>Go on</h2>
<pre>{commands}</pre>
</body>
</html>
"""


def page(outcome: Outcome) -> str:
    """Return the report."""
    s, classes = outcome.settings, [str(name) for name in outcome.means.classes]
    heads, rows = outcome.table()
    pairs = list(zip(outcome.new_labels, outcome.verdicts, strict=True))
    samples = [outcome.clips[outcome.labels.index(name)] for name in outcome.new_labels]
    settings = {
        "clips of a texture": s.per_class,
        "frames of a clip": s.frames,
        "seed": s.seed,
        "seed of the new clips": s.seed + 1,
        "order of the systems": ORDER,
        "lambda_a": LAMBDA_A,
        "lambda_mu": LAMBDA_MU,
        "sysbags": __version__,
    }
    model, fire, smoke = (
        _shell(path) for path in (s.model, s.out / "new/fire/00.mp4", s.out / "clips/smoke/00.mp4")
    )
    commands = [
        f"sysbags classify {model} {fire}",
        f"sysbags inspect {model}",
        f"sysbags distance {fire} {smoke}",
        f"sysbags fit {_shell(s.out / 'clips')} --out my.model --bag sift",
    ]
    return PAGE.format(
        count=len(outcome.clips),
        classes=len(classes),
        frames=s.frames,
        order=ORDER,
        worth=100 / len(outcome.clips),
        weights=f"{LAMBDA_A:g} for the transition, {LAMBDA_MU:g} for the mean",
        rates=_row("th", heads) + "".join(_row("td", row) for row in rows),
        shots=SHOTS,
        strip=100 * SHOTS,
        duration=SHOTS * SKIPPED / RATE,
        films="".join(_film(path, name) for path, name in zip(samples, outcome.new_labels, strict=True)),
        right=sum(label == verdict for label, verdict in pairs),
        asked=len(pairs),
        verdicts="".join(_film(path, *pair) for path, pair in zip(outcome.new_clips, pairs, strict=True)),
        confusion=_confusion(classes, outcome.means.confusion),
        map=_map(outcome, classes),
        states=_states(outcome),
        seconds="".join(_row("td", (name, f"{took:.2f} s")) for name, took in outcome.seconds.items()),
        settings="".join(_row("td", (name, str(value))) for name, value in settings.items()),
        commands=html.escape("\n".join(commands)),
    )


def _shell(path: Path) -> str:
    import shlex

    return shlex.quote(os.fspath(path))


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>\n"


def _film(path: Path, label: str, verdict: str | None = None) -> str:
    """A clip as a moving picture: its frames side by side, of which the style sheet shows one at a time."""
    import cv2

    shots = list(frames(path, colour="rgb", stride=SKIPPED, max_frames=SHOTS))
    strip = np.concatenate(shots + shots[-1:] * (SHOTS - len(shots)), axis=1)
    jpeg = cv2.imencode(".jpg", strip[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 70])[1].tobytes()
    said = ""
    if verdict is not None:
        kind, word = ("right", "✓") if label == verdict else ("wrong", f"✗ taken for {verdict}")
        said = f' <span class="{kind}">{html.escape(word)}</span>'
    style = f"background-image: url(data:image/jpeg;base64,{base64.b64encode(jpeg).decode()})"
    return (
        f'<figure><div class="film" role="img" aria-label="{label}" style="{style}"></div>'
        f"<figcaption>{label}{said}</figcaption></figure>\n"
    )


def _confusion(classes: Sequence[str], counts: IntArray) -> str:
    text = _row("th", ["", *classes])
    for name, row in zip(classes, counts, strict=True):
        cells = []
        for other, count in zip(classes, row, strict=True):
            share = round(70 * count / max(row.sum(), 1))
            tint = f"color-mix(in srgb, var(--{'good' if name == other else 'bad'}) {share}%, transparent)"
            cells.append(f'<td style="background: {tint}">{count}</td>' if count else "<td>·</td>")
        text += f"<tr><th>{html.escape(name)}</th>{''.join(cells)}</tr>\n"
    return text


def _mark(code: int) -> str:
    return f'<path d="{MARKS[code % 4]}" fill="{COLOURS[code]}" stroke="none"/>'


def _map(outcome: Outcome, classes: Sequence[str]) -> str:
    points = classical_scaling(outcome.distances)
    points -= (points.max(axis=0) + points.min(axis=0)) / 2.0
    reach = max(float(np.abs(points).max()), 1e-12)
    points *= 290.0 / reach
    height = 2.0 * float(np.abs(points[:, 1]).max()) + 24.0
    marks = ""
    for (x, y), label, clip in zip(points, outcome.labels, outcome.clips, strict=True):
        title = html.escape(f"{label}/{clip.name}")
        place = f"translate({x + 300:.1f} {height / 2 - y:.1f})"
        marks += f'<g transform="{place}"><title>{title}</title>{_mark(classes.index(label))}</g>\n'
    drawing = f'<svg viewBox="0 0 600 {height:.0f}" role="img" aria-label="Map of the clips">{marks}</svg>'
    return drawing + _key((_mark(code), name) for code, name in enumerate(classes))


def _key(entries: Iterable[tuple[str, str]]) -> str:
    marks = ((f'<svg viewBox="-6 -6 12 12" aria-hidden="true">{mark}</svg>', name) for mark, name in entries)
    return f'<ul class="key">{"".join(f"<li>{mark} {name}</li>" for mark, name in marks)}</ul>\n'


def _states(outcome: Outcome) -> str:
    text = _key(
        (f'<path d="M-6 0h12" stroke="{COLOURS[k]}" stroke-width="3"/>', f"state {k + 1}") for k in range(3)
    )
    for name in ("wheel", "rain"):
        item = outcome.labels.index(name)
        states = outcome.systems[item].states
        assert states is not None
        shown = states[:, :3] / np.abs(states[:, :3]).max()
        lines = ""
        for k, column in enumerate(shown.T):
            path = " ".join(
                f"{600 * t / (len(column) - 1):.1f},{70 - 62 * x:.1f}" for t, x in enumerate(column)
            )
            lines += f'<polyline points="{path}" fill="none" stroke="{COLOURS[k]}" stroke-width="1.6"/>'
        label = f"{name}/{outcome.clips[item].name}"
        text += (
            f'<figure><svg viewBox="0 0 600 140" role="img" aria-label="States of {label}">'
            f'<path d="M0 70h600" stroke="currentColor" opacity="0.3"/>{lines}</svg>'
            f"<figcaption>{label}</figcaption></figure>\n"
        )
    return text
