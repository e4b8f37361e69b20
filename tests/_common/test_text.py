from __future__ import annotations

import os

import pytest

from sysbags._common.text import printable


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("\x1b[31mred\x1b[0m.mp4", r"\x1b[31mred\x1b[0m.mp4"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\0\x07\x7f\x9b", r"\x00\x07\x7f\x9b"),
        (os.fsdecode(b"\xff.avi"), r"\udcff.avi"),
    ],
)
def test_control_characters_become_visible(text, visible):
    assert printable(text) == visible
    assert printable(text).encode("utf-8").isascii()


@pytest.mark.parametrize("text", ["", "plain name.mp4", "été 波 \N{RAINBOW}", r"C:\x1b", "\xa0"])
def test_other_text_stays(text):
    assert printable(text) == text
