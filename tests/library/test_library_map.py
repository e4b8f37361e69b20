"""The map of a library: the same plane as from all distances, few clips or many, and the nearest clips."""

from __future__ import annotations

import numpy as np
import pytest

from libraries import HALF, IDENTIFIER, small_clips
from sysbags import pairwise_distances
from sysbags.distances.pairwise import classical_scaling
from sysbags.errors import FileError
from sysbags.library import Library
from sysbags.library import search as library_maps
from sysbags.library.search import library_map, placed


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("map")
    small_clips(folder / "clips")
    with Library(folder / "clips.library") as library:
        library.add([folder / "clips"], identifier=IDENTIFIER)
        yield library


def test_the_plane_is_that_of_all_distances_in_the_embedding(library):
    found = library_map(library)
    squared = pairwise_distances(library.systems, embedding=library.embedding)
    expected = classical_scaling(squared)
    assert np.abs(found.plane - expected).max() < 2.0 * HALF * np.abs(expected).max()
    assert [clip.path for clip in found.clips] == [clip.path for clip in library.clips()]


def test_neighbours_are_the_nearest_others(library):
    squared = pairwise_distances(library.systems)
    np.fill_diagonal(squared, np.inf)
    found = library_map(library)
    rows = np.arange(len(squared))[:, None]
    assert np.allclose(found.distances, np.sort(squared, axis=1)[:, :8], rtol=1e-6)
    assert np.allclose(squared[rows, found.neighbours], found.distances, rtol=1e-6)


def test_the_number_of_threads_changes_nothing(library, monkeypatch):
    monkeypatch.setattr(library_maps, "BLOCK", 5)
    one, two = (library_map(library, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert (one.plane == two.plane).all()
    assert (one.neighbours == two.neighbours).all()


def test_many_clips_are_placed_by_their_distances_to_some(library, monkeypatch):
    monkeypatch.setattr(library_maps, "FITTED", 6)
    fitted = [0, 2, 4, 6, 8, 11]
    squared = pairwise_distances(library.systems, embedding=library.embedding)
    expected = classical_scaling(squared[np.ix_(fitted, fitted)])
    found = library_map(library).plane
    assert found.shape == (12, 2)
    assert np.abs(found[fitted] - expected).max() < 2.0 * HALF * np.abs(expected).max()


def test_points_of_a_plane_are_found_from_their_distances_to_any_of_them():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 2)) * [3.0, 1.0]
    squared = ((points[:, None] - points) ** 2).sum(axis=-1)
    for fitted in (np.arange(40), np.array([1, 5, 9, 20, 33])):
        plane = placed(squared[:, fitted], fitted)
        again = ((plane[:, None] - plane) ** 2).sum(axis=-1)
        assert np.allclose(again, squared, atol=1e-9)
    assert np.allclose(placed(squared, np.arange(40)), classical_scaling(squared))


def test_equal_clips_are_at_one_place():
    assert (placed(np.zeros((4, 3)), np.arange(3)) == 0.0).all()


def test_one_clip_has_no_neighbours_and_none_has_no_map(tmp_path):
    clips = small_clips(tmp_path / "clips", per_class=1)
    with Library(tmp_path / "one.library") as library:
        library.add(clips[:1], identifier=IDENTIFIER)
        found = library_map(library)
        assert found.plane.tolist() == [[0.0, 0.0]]
        assert found.neighbours.shape == found.distances.shape == (1, 0)
        library.remove(clips[:1])
        with pytest.raises(FileError, match="has no clips"):
            library_map(library)
