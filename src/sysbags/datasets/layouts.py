"""The four data sets of the paper as folders: their classes, and the number of clips of each."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sysbags.datasets.folder import class_folders
from sysbags.errors import FileError

# Words in the names of class folders that do not name the class.
_NOISE = frozenset({"alpha", "beta", "class", "dyntex", "gamma", "yupenn"})


@dataclass(frozen=True)
class Layout:
    """The classes of a data set, with the number of clips of each in the paper.

    `name` is its name at the command line, `aliases` are further names for the folder of a class. Capitals,
    digits, plurals, spaces, hyphens, underscores and the name of the data set are ignored:
    "03_calm-waters" is "Calm water".
    """

    name: str
    title: str
    counts: Mapping[str, int]
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of clips of all classes."""
        return sum(self.counts.values())

    def class_of(self, folder: str) -> str | None:
        """Return the class that a folder's name stands for, or None."""
        plain = _plain(folder)
        for label in self.counts:
            if plain in {_plain(name) for name in (label, *self.aliases.get(label, ()))}:
                return label
        return None

    def find(self, folder: str | os.PathLike[str], *, allow_incomplete: bool = False) -> LayoutClips:
        """Find the clips of the set, video files or folders of images, in a folder with one folder per class.

        The paper does not name the clips; it only gives the number of clips of each class, so only these
        numbers are compared. With `allow_incomplete` missing and surplus clips are accepted, and folders that
        are none of the classes are ignored; fewer than two classes, or two folders for one, are an error.
        """
        folders = class_folders(folder)
        named: dict[str, str] = {}
        paths: dict[str, list[Path]] = {label: [] for label in self.counts}
        unknown_folders: dict[str, int] = {}
        for path, name in zip(folders.paths, folders.labels, strict=True):
            label = self.class_of(name)
            if label is None:
                unknown_folders[name] = unknown_folders.get(name, 0) + 1
                continue
            if named.setdefault(label, name) != name:
                raise FileError(
                    f"the folders {named[label]} and {name} in {folder} both stand for the class {label} of "
                    f"{self.title}, but a class has one folder"
                )
            paths[label].append(path)
        clips = LayoutClips(self, paths, unknown_folders)
        if clips.differences and not allow_incomplete:
            raise FileError(
                f"{folder} is not {self.title} as in the paper, {self.total} clips in {len(self.counts)} "
                f"classes: {'; '.join(clips.differences)} (--allow-incomplete uses the clips that are there)"
            )
        if sum(bool(class_paths) for class_paths in paths.values()) < 2:
            raise FileError(
                f"{folder} holds fewer than two classes of {self.title}, but there must be at least two of "
                f"its {len(self.counts)}: {', '.join(self.counts)}"
            )
        return clips


@dataclass(frozen=True)
class LayoutClips:
    """The result of `Layout.find`.

    `members` are the clips of each class, in natural order; an empty list where the class is missing.
    `unknown_folders` are folders that are none of the classes, and their number of clips.
    """

    layout: Layout
    members: Mapping[str, list[Path]]
    unknown_folders: Mapping[str, int]

    @property
    def paths(self) -> list[Path]:
        """All clips of the set."""
        return [path for paths in self.members.values() for path in paths]

    @property
    def labels(self) -> list[str]:
        """The class of each clip."""
        return [label for label, paths in self.members.items() for _ in paths]

    @property
    def differences(self) -> list[str]:
        """What is missing or surplus, one phrase each."""
        phrases = []
        for label, paths in self.members.items():
            expected, count = self.layout.counts[label], len(paths)
            if not count:
                phrases.append(f"the class {label} is missing ({_clips(expected)})")
            elif count < expected:
                phrases.append(f"{label} has {_clips(count)}, {expected - count} fewer than {expected}")
            elif count > expected:
                phrases.append(f"{label} has {_clips(count)}, {count - expected} more than {expected}")
        phrases += [
            f"the folder {name} ({_clips(count)}) is none of its classes"
            for name, count in self.unknown_folders.items()
        ]
        return phrases


def _clips(count: int) -> str:
    return "1 clip" if count == 1 else f"{count} clips"


def _plain(name: str) -> str:
    """Return a name without capitals, digits, plurals, separators and words of `_NOISE`."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    joined = "".join(word.removesuffix("s") for word in words if word not in _NOISE)
    return joined.removesuffix("scene")


# Classes and counts: Section "Database" of the paper's two experiments. The aliases of YUPENN are the names
# that its authors use (Derpanis et al., CVPR 2012), also for the folders of its successor YUP++.
YUPENN = (
    *("Beach", "Elevator", "Forest fire", "Fountain", "Highway", "Lightning storm", "Ocean", "Railway"),
    *("Rushing river", "Clouds", "Snowing", "City street", "Waterfalls", "Windmill farm"),
)
LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("dyntex-alpha", "DynTex Alpha", {"Sea": 20, "Grass": 20, "Trees": 20}),
        Layout(
            "dyntex-beta",
            "DynTex Beta",
            dict.fromkeys(("Sea", "Vegetation", "Trees", "Flags", "Calm water", "Fountains"), 20)
            | {"Smoke": 16, "Escalator": 7, "Traffic": 9, "Rotation": 10},
        ),
        Layout(
            "dyntex-gamma",
            "DynTex Gamma",
            {"Flowers": 29, "Sea": 38, "Naked trees": 25, "Foliage": 35, "Escalator": 7}
            | {"Calm water": 30, "Flags": 31, "Grass": 23, "Traffic": 9, "Fountains": 37},
        ),
        Layout(
            "yupenn",
            "YUPENN",
            dict.fromkeys(YUPENN, 30),
            {
                "Clouds": ("Sky-clouds", "Sky"),
                "City street": ("Street",),
                "Lightning storm": ("Lightning",),
                "Snowing": ("Snow",),
                "Windmill farm": ("Windmill",),
            },
        ),
    )
}
