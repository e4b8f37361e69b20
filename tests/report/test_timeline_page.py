"""The page of a timeline: missing pictures, and how it looks in a browser."""

from __future__ import annotations

import numpy as np
import pytest

import browser as chromium
from pages import Page
from sysbags.datasets import make_streams
from sysbags.report.timeline_page import colour, timeline_page, typical_frames
from sysbags.watch.timeline import Clock, timecode, timeline

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def result():
    a, b = make_streams(classes=2, per_class=1, frames=400, bins=8)[0]
    still = np.repeat(a[:1], 60, axis=0)
    return timeline(np.concatenate([a, b[:200], still]), length=40, step=10, order=2, rate=25.0)


def test_page_without_a_video(result):
    page = Page(timeline_page(result, Clock(25.0), {}, title=EVIL))
    assert not page.all("script")
    assert page.text.count(EVIL) >= 2  # as text: the titles
    assert [image["src"][:14] for image in page.all("img")] == ["data:image/png"]


def test_typical_frames_are_those_of_the_window(result):
    import cv2

    shades = (np.full((8, 8, 3), k % 256, dtype=np.uint8) for k in range(2000))
    shots = typical_frames(shades, result, Clock(25.0, start=5, frames_per_row=2))
    assert list(shots) == [kind.label for kind in result.kinds]
    for kind in result.kinds:
        window = result.windows[kind.medoid]
        decoded = [cv2.imdecode(np.frombuffer(shot, np.uint8), 1) for shot in shots[kind.label]]
        expected = [5 + 2 * window.start, 5 + 2 * (window.stop - 1)]
        found = [int(decoded[0].mean()), int(decoded[-1].mean())]
        # JPEG is exact to a level or two for a picture of one shade.
        assert np.abs(np.array(found) - np.array(expected) % 256).max() <= 2


def test_a_clip_that_breaks_off_has_fewer_pictures(result):
    shots = typical_frames(iter(np.zeros((3, 8, 8, 3), np.uint8)), result, Clock(25.0))
    assert sum(map(len, shots.values())) <= 3


def test_times_and_colours():
    assert timecode(59.9996) == "00:01:00.000"
    assert timecode(90_000.25) == "25:00:00.250"
    assert Clock(24.0).span(24, 60)["length_seconds"] == 1.5
    assert len({colour(label) for label in range(-1, 8)}) == 9


@pytest.mark.skipif(chromium.executable() is None, reason="no Chromium is installed")
def test_page_in_a_browser(result, tmp_path):
    path = tmp_path / "page.html"
    text = timeline_page(result, Clock(25.0), {}, title="clip")
    path.write_text(text, encoding="utf-8")
    with chromium.Browser(tmp_path / "profile") as browser:
        for width in (1400, 390):
            for scheme in ("light", "dark"):
                browser.open(path, width=width, scheme=scheme)
                assert not browser.complaints()
                assert len(browser.requests()) == 1
                assert browser.evaluate("document.documentElement.scrollWidth") <= width
                heights = browser.evaluate(
                    "[...document.querySelectorAll('.chart:not(.strip) svg')].map(e => e.clientHeight)"
                )
                assert len(heights) == 3
                assert min(heights) > 100
