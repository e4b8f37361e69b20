"""The list of bags: one place that knows them all."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from sysbags import bags
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import (
    BAGS,
    CLASSES,
    PRESETS,
    check_option,
    make_bag,
    names_with_option,
    preset_bags,
)
from sysbags.cli._options import Settings
from sysbags.errors import ParameterError
from sysbags.storage.kinds import KINDS

COMMON = {"window", "step", "frames", "n_jobs"}


def children(cls):
    return {child for direct in cls.__subclasses__() for child in {direct} | children(direct)}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_where_the_list_says(name):
    bag_class = CLASSES[name]
    cls = getattr(import_module(bag_class.module), name)
    assert issubclass(cls, BagTransformer)
    assert getattr(bags, name) is cls
    parameters = set(inspect.signature(cls).parameters)
    assert set(bag_class.options).union(*bag_class.tuning) <= parameters | COMMON
    assert bag_class.tuning[0] == {}
    assert all(attribute.endswith("_") for attribute in bag_class.learnt)
    assert (KINDS[name].module, KINDS[name].state) == (bag_class.module, bag_class.learnt)


def test_no_class_is_missing():
    for path in Path(bags.__file__).parent.glob("*.py"):
        import_module(f"sysbags.bags.{path.stem}")
    found = [cls for cls in children(BagTransformer) if cls.__module__.startswith("sysbags.")]
    names = {cls.__name__ for cls in found if not inspect.isabstract(cls)}
    assert names == set(CLASSES) == set(bags.__all__)


def test_type_checkers_see_every_class():
    """The imports of `bags/__init__.py` that are for them alone name the same classes."""
    tree = ast.parse(Path(bags.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    names = {f"{node.module}.{alias.name}" for node in block.body for alias in node.names}
    assert names == {f"{bag_class.module}.{name}" for name, bag_class in CLASSES.items()}


@pytest.mark.parametrize("name", BAGS)
def test_each_name_makes_its_bag(name):
    bag = BAGS[name]
    transformer = make_bag(name, window=2, frames={"stride": 3})
    assert type(transformer) is getattr(bags, bag.bag_class.name)
    assert transformer.get_params(deep=False).items() >= {**bag.arguments, "window": 2}.items()
    assert transformer.requires_fit == bool(bag.bag_class.learnt)
    assert Settings(bags=name).names() == [name]


def test_the_command_line_has_these_names_and_tables_tell_them_apart():
    plain = [name for name, bag in BAGS.items() if not bag.bag_class.needs_deep]
    bags_by_title = Settings(bags=",".join(plain)).make_all_bags()
    assert list(bags_by_title) == [BAGS[name].title for name in plain]
    assert BAGS["deep-words"].title == "deep word"
    assert len({bag.title for bag in BAGS.values()}) == len(BAGS)


def test_options_of_some_bags_are_refused_by_others():
    assert make_bag("surf", words=7, random_state=3).get_params()["words"] == 7
    assert make_bag("deep-words", size=64, keep_aspect=True).size == 64
    assert names_with_option("words") == ["surf", "sift", "patch-words"]
    assert make_bag("patch-words", words=7, model="dinov2-small").get_params()["model"] == "dinov2-small"
    assert make_bag("deep", model="dinov2-small").model == "dinov2-small"
    with pytest.raises(
        ParameterError,
        match=r"^model is for the bags deep, deep-patches and patch-words, but the bag is deep-words$",
    ):
        make_bag("deep-words", model="dinov2-small")
    with pytest.raises(
        ParameterError,
        match=r"^keep_aspect is for the bags deep, deep-words, deep-patches and patch-words, but",
    ):
        make_bag("flow", keep_aspect=True)
    with pytest.raises(ParameterError, match=r"^--words is for the bags surf, sift and patch-words, but"):
        check_option("lbp", "words", "--words")
    with pytest.raises(
        ParameterError, match="the bag is 'nothing', but it must be one of 'lbp', 'lbp-top', 'surf'"
    ):
        make_bag("nothing")


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name, tmp_path, monkeypatch):
    """The bags by their titles; of networks the first that is there, at its own stride."""
    preset = PRESETS[name]
    for variable in ("SYSBAGS_MODELS", "XDG_DATA_HOME"):  # no networks but those in packages are found
        monkeypatch.setenv(variable, str(tmp_path))
    made, members = preset_bags(name, start=3), preset.bag_names(preset.network())
    assert list(made) == [BAGS[member].title for member in members]
    for member, bag in zip(members, made.values(), strict=True):
        assert type(bag).__name__ == BAGS[member].bag_class.name
        stride = {"stride": preset.network_stride} if BAGS[member].bag_class.needs_deep else {}
        assert bag.frames == {"start": 3, **stride}
        if stride:
            assert bag.model == BAGS[member].arguments.get("model", preset.network())
    assert (preset.network() is None) == (not preset.networks)
    assert preset.network() in (None, *preset.networks)


def test_the_network_of_a_preset_is_the_first_that_is_found(monkeypatch):
    from sysbags.bags import network_files

    preset = PRESETS["best"]
    for found in preset.networks:
        there = {found: Path("network.onnx")}
        monkeypatch.setattr(network_files, "network_path", lambda entry, there=there: there.get(entry.name))
        assert preset.network() == found
    monkeypatch.setattr(network_files, "network_path", lambda entry: None)
    assert preset.network() == list(preset.networks)[-1]
    assert preset.bag_names("network of my own") == preset.bag_names("dinov2-small")


def test_presets_that_are_not_there():
    with pytest.raises(ParameterError, match="the preset is 'slow', but it must be one of 'fast', 'best'"):
        preset_bags("slow")
