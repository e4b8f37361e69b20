"""The four data sets as folders: what their classes are called, and what is missing or surplus."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sysbags.datasets.layouts import LAYOUTS, Layout
from sysbags.errors import FileError

SMALL = Layout("small", "Small", {"Sea": 2, "Calm water": 1}, {"Calm water": ("Pond",)})


def fill(root, counts):
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for k in range(count):
            (root / name / f"{k}.avi").touch()
    return root


@pytest.mark.parametrize(
    ("name", "clips", "classes"),
    [("dyntex-alpha", 60, 3), ("dyntex-beta", 162, 10), ("dyntex-gamma", 264, 10), ("yupenn", 420, 14)],
)
def test_sizes_are_the_papers(name, clips, classes):
    layout = LAYOUTS[name]
    assert (layout.name, layout.total, len(layout.counts)) == (name, clips, classes)


@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("dyntex-alpha", {"sea": "Sea", "GRASS": "Grass", "tree": "Trees", "dyntex_alpha_Trees": "Trees"}),
        (
            "dyntex-beta",
            {
                "calm_water": "Calm water",
                "CalmWater": "Calm water",
                "05-calm-waters": "Calm water",
                "calmwater": "Calm water",
                "fountain": "Fountains",
                "Escalators": "Escalator",
                "Beta Flags": "Flags",
                "class 10 rotation": "Rotation",
            },
        ),
        ("dyntex-gamma", {"NakedTrees": "Naked trees", "naked tree": "Naked trees", "flower": "Flowers"}),
        (
            "yupenn",
            {
                "BeachScenes": "Beach",
                "beachscenes": "Beach",
                "SkyClouds": "Clouds",
                "sky-clouds": "Clouds",
                "clouds": "Clouds",
                "Street": "City street",
                "city_street": "City street",
                "Waterfall": "Waterfalls",
                "ForestFire": "Forest fire",
                "LightningStorm": "Lightning storm",
                "RushingRiver": "Rushing river",
                "WindmillFarm": "Windmill farm",
                "Snowing": "Snowing",
                "YUPENN_ocean": "Ocean",
            },
        ),
    ],
)
def test_folders_stand_for_classes(name, folders):
    assert {folder: LAYOUTS[name].class_of(folder) for folder in folders} == folders


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_class_is_known_by_its_name_alone(name):
    layout = LAYOUTS[name]
    assert [layout.class_of(label) for label in layout.counts] == list(layout.counts)
    assert layout.class_of("Birds") is None
    assert layout.class_of("2017") is None


def test_no_name_stands_for_two_classes():
    # Of Beta, Trees and Vegetation are two classes; of Gamma, Naked trees is not Trees.
    assert LAYOUTS["dyntex-gamma"].class_of("Trees") is None
    assert LAYOUTS["dyntex-alpha"].class_of("Naked trees") is None


def test_the_whole_set(tmp_path):
    clips = SMALL.find(fill(tmp_path, {"pond": 1, "SEA": 2}))
    assert clips.differences == []
    assert [path.relative_to(tmp_path).as_posix() for path in clips.paths] == [
        "SEA/0.avi",
        "SEA/1.avi",
        "pond/0.avi",
    ]
    assert clips.labels == ["Sea", "Sea", "Calm water"]  # in the order of the paper


def test_clips_may_be_folders_of_images(tmp_path):
    for clip in ("sea/a", "sea/b", "pond/c"):
        (tmp_path / clip).mkdir(parents=True)
        (tmp_path / clip / "1.png").touch()
    assert [path.name for path in SMALL.find(tmp_path).paths] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ({"sea": 2}, "the class Calm water is missing (1 clip)"),
        ({"sea": 1, "pond": 1}, "Sea has 1 clip, 1 fewer than 2"),
        ({"sea": 2, "pond": 3}, "Calm water has 3 clips, 2 more than 1"),
        ({"sea": 2, "pond": 1, "Birds": 4}, "the folder Birds (4 clips) is none of its classes"),
        (
            {"sea": 1, "Birds": 1},
            "Sea has 1 clip, 1 fewer than 2; the class Calm water is missing (1 clip); the folder Birds "
            "(1 clip) is none of its classes",
        ),
    ],
)
def test_a_difference_is_told_in_one_sentence(tmp_path, counts, sentence):
    with pytest.raises(FileError) as caught:
        SMALL.find(fill(tmp_path, counts))
    assert str(caught.value) == (
        f"{tmp_path} is not Small as in the paper, 3 clips in 2 classes: {sentence} "
        "(--allow-incomplete uses the clips that are there)"
    )


def test_partial_goes_on_with_what_is_there(tmp_path):
    clips = SMALL.find(fill(tmp_path, {"sea": 3, "pond": 1, "Birds": 2}), allow_incomplete=True)
    assert clips.labels == ["Sea"] * 3 + ["Calm water"]  # all of a class, nothing of a stranger
    assert clips.unknown_folders == {"Birds": 2}
    assert clips.differences == [
        "Sea has 3 clips, 1 more than 2",
        "the folder Birds (2 clips) is none of its classes",
    ]


def test_an_empty_class_folder_counts_as_missing(tmp_path):
    counts = {"Sea": 2, "Calm water": 1, "Grass": 1}
    layout = replace(SMALL, counts=counts)
    clips = layout.find(fill(tmp_path, {"sea": 2, "pond": 1, "grass": 0}), allow_incomplete=True)
    assert clips.differences == ["the class Grass is missing (1 clip)"]


def test_less_than_two_classes_are_refused(tmp_path):
    with pytest.raises(FileError, match=r"fewer than two classes of Small.*at least two of its 2: Sea, Calm"):
        SMALL.find(fill(tmp_path, {"sea": 2, "Birds": 2}), allow_incomplete=True)


@pytest.mark.parametrize("partial", [False, True])
def test_two_folders_for_one_class_are_refused(tmp_path, partial):
    with pytest.raises(
        FileError, match=r"the folders (pond and calm|calm water and pond).* a class has one folder"
    ):
        SMALL.find(fill(tmp_path, {"pond": 1, "calm water": 1, "sea": 2}), allow_incomplete=partial)


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileError, match="there is no folder"):
        LAYOUTS["yupenn"].find(tmp_path / "nowhere")


def test_a_miniature_is_a_layout_too(tmp_path):
    layout = LAYOUTS["dyntex-alpha"]
    small = replace(layout, counts=dict.fromkeys(layout.counts, 1))
    assert small.find(fill(tmp_path, dict.fromkeys(layout.counts, 1))).differences == []
