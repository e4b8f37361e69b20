"""The page of the demonstration: its content, and that it needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import re

import numpy as np
import pytest

from evaluations import EVIL
from pages import Page
from sysbags.datasets import TEXTURES
from sysbags.evaluate import demo
from sysbags.evaluate.demo import Settings
from sysbags.report import demo_page


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return demo.experiment(Settings(out, per_class=2, frames=16, random_state=0, n_jobs=2))


def test_page(outcome):
    text = demo_page.page(outcome)
    page = Page(text)
    # No request, no script; it fits a phone and has dark colours.
    assert not re.search(r"""(src|href)=|@import|url\((?!data:image/jpeg;base64,)""", text)
    assert not page.all("script")
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    assert "prefers-color-scheme: dark" in text
    films = re.findall(r"url\(data:image/jpeg;base64,([^)]+)\)", text)
    assert len(films) == 2 * len(TEXTURES)
    assert all(base64.b64decode(film).startswith(b"\xff\xd8") for film in films)
    for row in outcome.table()[1]:
        assert all(cell in page.text for cell in row)
    assert page.text.count("✗") == sum(np.array(outcome.predictions) != outcome.new_labels)
    assert page.text.count("✓") == sum(np.array(outcome.predictions) == outcome.new_labels)
    for name in (*TEXTURES, *outcome.seconds):
        assert name in page.text
    # A mark for each clip of the map, and a count for each clip in the matrix.
    assert text.count("<title>") == 1 + len(outcome.clips)
    shaded = re.findall(r'<td style="background[^"]*">(\d+)</td>', text)
    assert sum(map(int, shaded)) == len(outcome.clips)
    assert f"sysbags classify {outcome.settings.model}" in page.text


def test_names_cannot_break_out(outcome):
    seconds = {EVIL[0]: 1.0}
    settings = dataclasses.replace(outcome.settings, out=outcome.settings.out / EVIL[1])
    page = Page(demo_page.page(dataclasses.replace(outcome, seconds=seconds, settings=settings)))
    assert not page.all("script")
    assert not page.all("img")
    assert EVIL[0] in page.text
    assert "<!--<img" in page.text
