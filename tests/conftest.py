"""Fixtures that several files share."""

from __future__ import annotations

import pytest

from clips import moving_frames, write_clip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="module")
def lossless(folder):
    return write_clip(folder / "lossless.mkv", moving_frames(12, 17, 23), pixel_format="gray")
