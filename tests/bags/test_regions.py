"""Regions against the counts of whole frames and against crops."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import local_binary_pattern

from sysbags.bags import ColourHistogram, LocalBinaryPatterns, OpticalFlow
from sysbags.bags.regions import Regions
from sysbags.bags.streams import LiveBag
from sysbags.datasets import make_frames
from sysbags.errors import FileError, ParameterError

BAGS = [
    LocalBinaryPatterns(),
    LocalBinaryPatterns(method="ror"),
    LocalBinaryPatterns((8, 12), (1, 2.5), "uniform"),
]


def grey_frames(count, height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 7, size=(count, height, width), dtype=np.uint8)


@settings(max_examples=25, deadline=None)
@given(
    height=st.integers(5, 40),
    width=st.integers(5, 40),
    grid=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    bag=st.sampled_from(BAGS),
)
def test_the_cells_of_a_grid_sum_to_the_frame(height, width, grid, bag):
    frames = grey_frames(3, height, width)
    cells = list(Regions(bag, grid).masses(iter(frames)))
    for counts, whole in zip(cells, bag.masses(iter(frames)), strict=True):
        assert counts.shape == (grid[0] * grid[1], len(whole))
        np.testing.assert_array_equal(counts.sum(axis=0), whole)


@pytest.mark.parametrize("grid", [(3, 4), None])
def test_patterns_of_a_region_are_those_of_the_frame(grid):
    frame = grey_frames(1, 31, 45)[0]
    mask = np.random.default_rng(1).choice([0, 3, 200], size=frame.shape)
    regions = Regions(LocalBinaryPatterns(), grid, None if grid else mask)
    patterns = local_binary_pattern(frame, 8, 1).astype(np.int64)
    (counts,) = regions.masses(iter([frame]))
    if grid:
        rows = np.array_split(patterns, 3)
        parts = [part for row in rows for part in np.array_split(row, 4, axis=1)]
    else:
        parts = [patterns[mask == value] for value in (3, 200)]
        assert regions.names == ["region 3", "region 200"]
    twin = np.array([np.bincount(part.ravel(), minlength=256) for part in parts])
    np.testing.assert_array_equal(counts, twin)


@pytest.mark.parametrize("bag", [ColourHistogram(), OpticalFlow()])
def test_another_bag_describes_crops(bag):
    film = make_frames("fire", frames=6, height=70, width=90)
    mask = np.zeros((70, 90), np.uint8)
    mask[5:40, 10:50] = 1
    mask[30:70, 55:90] = 2
    stream = Regions(bag, mask=mask).stream(film)
    for cell, crop in enumerate((film[:, 5:40, 10:50], film[:, 30:70, 55:90])):
        np.testing.assert_array_equal(stream[:, cell], bag.stream(crop))


def test_names_and_boxes_cover_the_frame():
    regions = Regions(LocalBinaryPatterns(), "2x3")
    assert regions.names[:4] == ["row 1, column 1", "row 1, column 2", "row 1, column 3", "row 2, column 1"]
    covered = np.zeros((11, 16), int)
    for top, left, bottom, right in regions.boxes(11, 16):
        covered[top:bottom, left:right] += 1
    assert (covered == 1).all()


def test_a_mask_is_scaled_to_the_frames(tmp_path):
    mask = np.zeros((4, 6), np.uint8)
    mask[:2, 3:] = 9
    mask[3, 0] = 5
    cv2.imwrite(str(tmp_path / "mask.png"), mask)
    cv2.imwrite(str(tmp_path / "colours.png"), np.stack([mask] * 3, axis=-1))
    for source in (mask, tmp_path / "mask.png", str(tmp_path / "colours.png")):
        regions = Regions(LocalBinaryPatterns(), mask=source)
        assert regions.names == ["region 5", "region 9"]
        np.testing.assert_array_equal(
            regions.labels(8, 12), np.kron(2 * (mask == 9) + (mask == 5), np.ones((2, 2)))
        )
        assert regions.boxes(8, 12) == [(6, 0, 8, 2), (0, 6, 4, 12)]


@pytest.mark.parametrize("bag", [LocalBinaryPatterns(window=2, step=1), OpticalFlow()])
def test_a_live_video_has_the_same_streams(bag):
    film = make_frames("rain", frames=9, height=40, width=64)
    regions = Regions(bag, (1, 2))
    live = LiveBag(regions)
    parts = [live.update(film[begin : begin + 2]) for begin in range(0, 9, 2)]
    np.testing.assert_array_equal(np.concatenate([part for part in parts if len(part)]), regions.stream(film))


def test_a_frame_size_may_change():
    frames = [*grey_frames(2, 12, 16), *grey_frames(2, 20, 10)]
    cells = list(Regions(LocalBinaryPatterns(), (2, 2)).masses(iter(frames)))
    assert [counts.sum() for counts in cells] == [192, 192, 200, 200]


def test_bad_arguments(tmp_path):
    bag = LocalBinaryPatterns()
    for options in ({}, {"grid": (1, 2), "mask": np.ones((2, 2), int)}):
        with pytest.raises(ParameterError, match="either a grid or a mask"):
            Regions(bag, **options)
    for grid in ("3", "axb", (1, 2, 3), 4, (0, 1), (1.5, 2), (100, 100)):
        with pytest.raises(ParameterError, match="grid"):
            Regions(bag, grid)
    for mask in (np.zeros((2, 2), int), np.ones((2, 2)), np.ones((2, 2, 3), int), -np.ones((2, 2), int)):
        with pytest.raises(ParameterError, match="the mask"):
            Regions(bag, mask=mask)
    (tmp_path / "mask.png").write_text("no picture")
    for name in ("mask.png", "missing.png"):
        with pytest.raises(FileError, match=name):
            Regions(bag, mask=tmp_path / name)
    with pytest.raises(ParameterError, match="row 1, column 5 has no pixel"):
        Regions(bag, (1, 5)).boxes(8, 4)
