"""The parts of the report that are plain HTML: summary, table of methods, runtimes and facts."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sysbags.report.results import Evaluation, Method, Published, Rate

__all__ = ["facts", "methods", "seconds", "summary"]

SPACE = "\N{NO-BREAK SPACE}"


def summary(evaluation: Evaluation) -> str:
    """Return the head of the report: what was asked, what came out, and what it is compared with."""
    main = evaluation.methods[evaluation.main]
    count, classes = len(evaluation.clips), len(evaluation.classes)
    commonest = Counter(clip.label for clip in evaluation.clips).most_common(1)[0][1]
    low, high = (f"{100 * bound:.1f}" for bound in (main.rate.low, main.rate.high))
    return f"""<h1>{_text(evaluation.title)}</h1>
<p class="lead">{count} clips in {classes} classes, {_text(evaluation.protocol)}.
To name the commonest class every time would be right for {_percent(commonest / count)}.</p>
<div class="tiles">
<div class="tile first">
<h2>{_text(main.name)}, {_text(main.classifier)}</h2>
<p class="big">{_percent(main.rate.share)}</p>
{_bar(main.rate)}
<p>{low} to {high} with 95 % confidence; {main.rate.right} of {main.rate.total} clips right</p>
</div>
{_rivals(evaluation, main)}</div>
"""


def _rivals(evaluation: Evaluation, main: Method) -> str:
    """Tiles of the best of each other kind."""
    tiles = ""
    for kind, title in (("systems", "Best other systems"), ("comparator", "Best comparator")):
        others = [m for k, m in enumerate(evaluation.methods) if m.kind == kind and k != evaluation.main]
        if not others:
            continue
        best = max(others, key=lambda method: method.rate.share)
        points = 100 * (best.rate.share - main.rate.share)
        told = f"{abs(points):.1f} points {'above' if points > 0 else 'below'}" if points else "the same rate"
        chance = "" if best.p_value is None else f", p{SPACE}{_p(best.p_value, f'={SPACE}')}"
        tiles += _tile(title, _percent(best.rate.share), f"{best.name}, {best.classifier}", told + chance)
    if evaluation.published:
        figure = max(evaluation.published, key=lambda published: published.rate)
        name = f"{figure.name}, {figure.classifier}"
        tiles += _tile("Best published", f"{figure.rate:.1f} %", name, f"as stated by {figure.source}")
    return tiles


def _tile(title: str, rate: str, name: str, note: str) -> str:
    return (
        f'<div class="tile">\n<h2>{title}</h2>\n<p class="big">{rate}</p>\n'
        f"<p>{_text(name)}</p>\n<p>{_text(note)}</p>\n</div>\n"
    )


def methods(evaluation: Evaluation) -> str:
    """Return the table of all methods, and after them the published figures."""
    heads = (
        ("Method", "text"),
        ("Classifier", "text"),
        ("Rate", "falling"),
        ("95 % interval, from 0 to 100 %", ""),
        ("p against the main method", "rising"),
        ("Seconds", "rising"),
    )
    cells = "".join(f'<th scope="col" data-sort="{sort}">{name}</th>' for name, sort in heads)
    main = evaluation.methods[evaluation.main].rate.share
    rows = "".join(_method(m, k == evaluation.main, main) for k, m in enumerate(evaluation.methods))
    text = f"<thead><tr>{cells}</tr></thead>\n<tbody>\n{rows}</tbody>\n"
    if evaluation.published:
        text += (
            '<tbody class="heading"><tr><th colspan="6" scope="rowgroup"><span>Published figures: '
            "as their sources state them, not measured here</span></th></tr></tbody>\n"
            f'<tbody class="published">\n{"".join(map(_published, evaluation.published))}</tbody>\n'
        )
    return (
        f'<table class="methods">\n<caption class="hidden">Rates of all methods</caption>\n{text}</table>\n'
    )


def _method(method: Method, is_main: bool, main: float) -> str:
    settings = ""
    if method.settings:
        lines = "".join(f"<li>{_text(key)}: {_words(value)}</li>" for key, value in method.settings.items())
        settings = f"<details><summary>settings</summary><ul>{lines}</ul></details>"
    tag = ' <span class="tag">main</span>' if is_main else ""
    p = ("", "–") if method.p_value is None else (f"{method.p_value:.6g}", _p(method.p_value))
    took = _seconds(method.seconds)
    return (
        f'<tr{" class=main" if is_main else ""}><th scope="row" data-value="{_text(method.name)}">'
        f"{_text(method.name)}{tag}{settings}</th>"
        f'<td data-value="{_text(method.classifier)}">{_text(method.classifier)}</td>'
        f'<td class="number" data-value="{method.rate.share:.6f}">{_percent(method.rate.share)}</td>'
        f"<td>{_bar(method.rate, main)}</td>"
        f'<td class="number" data-value="{p[0]}">{_text(p[1])}</td>'
        f'<td class="number" data-value="{method.seconds:.6g}">{took}</td></tr>\n'
    )


def _published(figure: Published) -> str:
    return (
        f'<tr><th scope="row" data-value="{_text(figure.name)}">{_text(figure.name)} '
        '<span class="tag">published</span></th>'
        f'<td data-value="{_text(figure.classifier)}">{_text(figure.classifier)}</td>'
        f'<td class="number" data-value="{figure.rate / 100:.6f}">{figure.rate:.1f} %</td>'
        f'<td colspan="3" class="source">{_text(figure.source)}</td></tr>\n'
    )


def _bar(rate: Rate, main: float | None = None) -> str:
    """An interval drawn to scale, from 0 to 100 %, with the main method's rate for comparison."""
    low, share, high = (100 * x for x in (rate.low, rate.share, rate.high))
    line = "" if main is None else f'<i class="of-main" style="left: {100 * main:.2f}%"></i>'
    return (
        f'<span class="interval" role="img" aria-label="{low:.1f} to {high:.1f} %">{line}'
        f'<i class="range" style="left: {low:.2f}%; width: {high - low:.2f}%"></i>'
        f'<i class="dot" style="left: {share:.2f}%"></i></span>'
    )


def seconds(stages: Mapping[str, float]) -> str:
    """Return the table of what each stage took, with bars, and their sum."""
    total = sum(stages.values())
    longest = max(stages.values(), default=0.0) or 1.0
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td class="number">{_seconds(took)} s</td><td class="wide">'
        f'<span class="length" style="width: {100 * took / longest:.1f}%"></span></td></tr>\n'
        for name, took in stages.items()
    )
    end = f'<tr><th scope="row">in all</th><td class="number">{_seconds(total)} s</td><td></td></tr>'
    return f'<table class="seconds"><tbody>\n{rows}</tbody>\n<tfoot>{end}</tfoot></table>\n'


def facts(lines: Mapping[str, Any]) -> str:
    """Return the further lines, as a list of terms."""
    return "".join(
        f"<div><dt>{_text(key)}</dt><dd>{_words(value)}</dd></div>\n" for key, value in lines.items()
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _words(value: Any) -> str:
    """A setting as people would say it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{_text(key)} {_words(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_words, value))
    return f"{value:.6g}" if isinstance(value, float) else _text(value)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _p(value: float, equal: str = "") -> str:
    return f"<{SPACE}0.001" if value < 0.001 else f"{equal}{value:.3f}"


def _seconds(value: float) -> str:
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"
