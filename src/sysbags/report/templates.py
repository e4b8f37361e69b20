"""The templates of the pages, and how numbers and pictures are written in them."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sysbags._common.files import atomic_write

SPACE = "\N{NO-BREAK SPACE}"
# Okabe and Ito's colours, which colour-blind people can distinguish; their black is the text's colour.
COLOURS = ("#1F7FC0", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "currentColor", "#A0714F")


def render(name: str, **values: Any) -> str:
    """Return a page from its template in the folder ``templates``, which needs all `values`.

    Every value is escaped, except those that are `Markup`.
    """
    return _environment().get_template(name).render(values)


def static(name: str) -> Markup:
    """Return a style sheet or a script of the folder ``static``, which is put into pages as it is."""
    return Markup(resources.files("sysbags.report").joinpath("static", name).read_text(encoding="utf-8"))


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page. If this fails, a file that was there before is left as it was."""
    with atomic_write(path) as temporary:
        # A file name need not be valid text: what cannot be encoded becomes a question mark.
        temporary.write_bytes(text.encode("utf-8", "replace"))


def percent(share: float) -> str:
    """Return a share in per cent: 0.308 is "30.8 %"."""
    return f"{100 * share:.1f} %"


def p_value(value: float, equals: str = "") -> str:
    """Return a p-value with three decimals, after `equals` unless it is too small for them."""
    return f"<{SPACE}0.001" if value < 0.001 else f"{equals}{value:.3f}"


def seconds(value: float) -> str:
    """Return seconds with about three digits.

    >>> seconds(0.842), seconds(12.34), seconds(140.2)
    ('0.84', '12.3', '140')
    """
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def words(value: Any) -> str:
    """Return a setting as text.

    >>> words({"order": [2, 3], "lambda_a": 0.25})
    'order 2, 3, lambda_a 0.25'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {words(part)}" for key, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(words, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def data_uri(picture: bytes, kind: str = "jpeg") -> str:
    """Return a picture as an address that holds it."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sysbags.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (percent, p_value, seconds, words, data_uri):
        environment.filters[function.__name__] = function
    return environment
