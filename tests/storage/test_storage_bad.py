from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from copy import deepcopy

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open
from sklearn.pipeline import Pipeline
from test_storage import LABELS, SYSTEMS, flat

import sysbags
from helpers import make_system
from sysbags import storage
from sysbags.errors import FileError
from sysbags.storage import kinds as _kinds
from sysbags.storage.kinds import KINDS


def read(path):
    """The metadata and arrays of a file."""
    with safe_open(path, framework="numpy") as file:
        about = json.loads(file.metadata()["sysbags"])
        return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def write(path, about, arrays):
    """A file whose checksum is right, whatever is in it."""
    about = {key: value for key, value in about.items() if key != "checksum"}
    about["checksum"] = storage.files._checksum(about, arrays)
    safetensors.numpy.save_file(arrays, path, {"sysbags": json.dumps(about)})


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.sysbags"
    classify = sysbags.NearestSystem(3).fit(SYSTEMS, LABELS)
    storage.save(path, Pipeline([("systems", sysbags.SystemIdentifier()), ("classify", classify)]))
    return path


def refused(path, message):
    """Both ways of reading refuse a file with the same sentence, which names the file."""
    for function in (storage.load, storage.describe):
        with pytest.raises(FileError, match=message) as caught:
            function(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_what_is_no_file_gets_a_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    refused(tmp_path / "none", r"cannot read .*none: No such file or directory$")
    refused(tmp_path, "is a folder, but it must be a model file$")
    refused(tmp_path / "pipe", "is a device or a pipe, but it must be a model file$")
    refused(tmp_path / "empty", "is empty, but it must be a model file$")
    refused(tmp_path / "empty" / "below", "cannot read .*below: Not a directory$")
    refused("nul\0l", "cannot read nul\0l: .*embedded null")


def test_every_truncation_gets_a_sentence(tmp_path):
    path = tmp_path / "model"
    storage.save(path, make_system(0, order=1, frames=4, bins=2))
    content = path.read_bytes()
    for length in [*range(9, 60), *range(60, len(content), 7), len(content) - 1]:
        path.write_bytes(content[:length])
        refused(path, "is cut short or damaged, so copy or save it again: ")
    path.write_bytes(content + b"more")
    refused(path, "is cut short or damaged")


class Evil:
    """Its pickle makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_foreign_files_get_a_sentence_and_are_not_run(tmp_path):
    bomb = pickle.dumps(Evil(str(tmp_path / "made")))
    zipped, arrays = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("archive/data.pkl", bomb)
    np.save(arrays, np.array([Evil(str(tmp_path / "made"))]), allow_pickle=True)
    tensors = {"weight": np.ones(3)}
    for content in [
        bomb,
        zipped.getvalue(),
        arrays.getvalue(),
        b"hello",
        b"x",
        b"a line of text\n" * 100,
        b'{"format": 1, "kind": "System"}',
        bytes(1000),
        b"\xff" * 1000,
        (2).to_bytes(8, "little") + b"{}",
        safetensors.numpy.save(tensors),
        safetensors.numpy.save(tensors, {"format": "pt"}),
        safetensors.numpy.save(tensors, {"format": "pt"})[:-1],
    ]:
        (tmp_path / "model").write_bytes(content)
        refused(tmp_path / "model", "is not a model file of sysbags$")
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


def test_a_newer_format_asks_for_an_upgrade(tmp_path, model_file):
    about, arrays = read(model_file)
    write(tmp_path / "model", about | {"format": 2, "object": {"Pipe": "line"}}, arrays)
    refused(
        tmp_path / "model", r"was written by a newer sysbags \(format 2\), but this one .*: upgrade sysbags$"
    )


def test_metadata_that_are_none(tmp_path):
    for text in ["", "[]", "{}", "1", '{"format": "1"}', "[" * 100_000, '{"format":' * 50_000]:
        safetensors.numpy.save_file({}, tmp_path / "model", {"sysbags": text})
        refused(tmp_path / "model", "is not a valid model file: ")


def not_valid(path, message):
    with pytest.raises(FileError, match=f"is not a valid model file: .*{message}"):
        storage.load(path)


def test_damage_is_noticed(tmp_path, model_file):
    content = bytearray(model_file.read_bytes())
    content[-5] ^= 1
    (tmp_path / "model").write_bytes(content)
    not_valid(tmp_path / "model", "its checksum does not match its contents, so copy or save it again")


def test_nothing_but_the_known_kinds_is_made(tmp_path, monkeypatch):
    """Each of these is a file whose checksum is right, as an attacker would write it."""
    imported = []
    honest = _kinds.import_module
    monkeypatch.setattr(_kinds, "import_module", lambda name: imported.append(name) or honest(name))

    def try_tree(tree, message, kind="SystemIdentifier", arrays=None):
        write(tmp_path / "model", {"format": 1, "kind": kind, "versions": {}, "object": tree}, arrays or {})
        not_valid(tmp_path / "model", message)

    def estimator(name, parameters, **state):
        return {name: {"parameters": parameters, "kept": state}}

    folder = str(tmp_path / "made")
    for name in ["os.system", "os", "builtins.eval", "__reduce__", "sysbags.cli", "Child", ""]:
        for content in ({"parameters": {}, "kept": {}}, [folder], {"command": folder}):
            try_tree({name: content}, "which this version of sysbags cannot read", name)
    for key in ["__class__", "__init__", "__dict__", "self", "order_", "nonsense"]:
        try_tree(estimator("SystemIdentifier", {key: "os"}), f"has no parameter or attribute '{key}'")
        try_tree(estimator("SystemIdentifier", {}, **{key: "os"}), f"has no parameter or attribute '{key}'")
        try_tree(estimator("System", {}, **{key: "os"}), f"has no parameter or attribute '{key}'", "System")
    try_tree(estimator("System", {"transition": 1.0}), "", "System")
    steps = {"dict": {"one": estimator("SystemIdentifier", {})}}
    try_tree(
        estimator("Pipeline", {"steps": steps, "memory": folder}),
        "parameter or attribute 'memory'",
        "Pipeline",
    )
    for step in (3, {"dict": {}}, "os.system", [], None):
        try_tree(estimator("Pipeline", {"steps": {"dict": {"one": step}}}), "is not an estimator", "Pipeline")
    try_tree(estimator("Pipeline", {"steps": [1]}), "", "Pipeline")
    for model in ("/etc/passwd", folder + ".onnx", 3, None, ["efficientnet-lite0"]):
        try_tree(estimator("DeepActivations", {"model": model}), "model is ", "DeepActivations")
    payload = np.frombuffer(b"..\n\x08location\x12\x05other..", np.uint8)
    bomb = estimator("DeepActivations", {"model": {"bytes": "x"}})
    try_tree(bomb, "in another file", "DeepActivations", {"x": payload.copy()})
    try_tree(estimator("BagUnion", {"bags": []}, bags_=[1]), "bags_ of a BagUnion", "BagUnion")
    try_tree(estimator("SystemIdentifier", {}), "does not contain a 'System', as it says", "System")
    try_tree([1, 2], "does not contain a 'list', as it says", "list")
    try_tree({"dict": {}}, "does not contain a 'dict', as it says", "dict")
    try_tree(None, "does not contain a .NoneType., as it says", "NoneType")
    wide = {"objects": {"kind": "U", "shape": [50_000], "values": ["x" * 10_000] + ["y"] * 49_999}}
    try_tree(wide, "too large")
    try_tree({"objects": {"kind": "V", "shape": [1], "values": ["x"]}}, "")
    try_tree({"objects": {"kind": "U", "shape": [1], "values": [1]}}, "")
    try_tree({"float": "1"}, "")
    deep = json.loads("[" * 900 + "]" * 900)
    try_tree(deep, "RecursionError|does not contain a 'SystemIdentifier'")  # as deep as Python allows
    assert set(imported) <= {kind.module for kind in KINDS.values()}
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


def test_contents_that_do_not_fit(tmp_path, model_file):
    def change(message, edit):
        about, arrays = read(model_file)
        steps = about["object"]["Pipeline"]["parameters"]["steps"]["dict"]
        edit(steps["classify"]["NearestSystem"]["kept"], arrays)
        write(tmp_path / "model", about, arrays)
        not_valid(tmp_path / "model", message)

    first = "steps/classify/systems_/0"
    change("labels_ of a NearestSystem is not valid", lambda state, _: state.pop("labels_"))
    change("systems_ of a NearestSystem is not valid", lambda state, _: state.pop("systems_"))
    change("labels_ of a NearestSystem is not valid", lambda state, _: state["systems_"].pop())
    change("systems_ of a NearestSystem is not valid", lambda state, _: state["systems_"].append(1))
    for shape in ([5], [6, 1], [0]):
        change(
            "labels_ of a NearestSystem is not valid",
            lambda state, _, shape=shape: state["labels_"]["objects"].update(
                shape=shape, values=["a"] * int(np.prod(shape))
            ),
        )
    for name, value, message in [
        ("samples", np.full((24, 8), np.nan), "samples holds nan at row 0, column 0"),
        ("samples", np.ones((24, 8)), "row 0 of samples sums to 8"),
        ("samples", np.ones((24, 8), np.complex64), "has the dtype complex64"),
        ("alpha", np.zeros((23, 3)), r"alpha has shape \(23, 3\)"),
        ("transition", np.full((3, 3), np.inf), "transition holds inf"),
        ("_observer_gram", np.zeros((2, 2)), "the observer's Gram matrix has shape"),
    ]:
        change(message, lambda _, arrays, name=name, value=value: arrays.update({f"{first}/{name}": value}))
    for key, value, message in [
        ("kernel", "os.system", "kernel is 'os.system'"),
        ("kernel", {"float": "nan"}, "kernel is nan"),
        ("explained", "much", "explained of a System is not valid"),
        ("_mean_norm", {"float": "nan"}, "_mean_norm of a System is not valid"),
        ("compression_error", {"dict": {"relative": "x"}}, "compression_error of a System is not valid"),
        ("residual", -1.0, "residual is -1.0"),
        ("transition", None, "transition"),
        ("beta", {"array": f"{first}/alpha"}, "its array .* is missing|beta has shape"),
    ]:
        new = {key: value}
        change(message, lambda state, _, new=new: state["systems_"][0]["System"]["kept"].update(new))


def outcome(function, path):
    """What comes out flat, or None where a sentence says that nothing does."""
    try:
        return flat(function(path))
    except FileError as error:
        return None if str(path) in str(error) else error


def damaged(data, rng):
    """Flip a bit, overwrite some bytes, cut a piece out, put one in, or copy one over another."""
    content = bytearray(data)
    start, stop = sorted(rng.choice(len(content) - 32, 2, replace=False))
    match rng.integers(5):
        case 0:
            content[start] ^= 1 << rng.integers(8)
        case 1:
            content[start : start + 8] = rng.bytes(8)
        case 2:
            del content[start:stop]
        case 3:
            content[rng.integers(len(content)) : 0] = content[start:stop]
        case 4:
            content[start : start + 32] = content[stop : stop + 32]
    return bytes(content)


def test_a_thousand_damaged_files(tmp_path):
    """What a damaged file gives is a sentence, or what an undamaged one gives."""
    path = tmp_path / "model"
    storage.save(path, make_system(0, order=1, frames=4, bins=2))
    content, honest = path.read_bytes(), flat(storage.load(path))
    rng = np.random.default_rng(0)
    refusals = 0
    for _ in range(1000):
        path.write_bytes(damaged(content, rng))
        loaded = outcome(storage.load, path)
        assert loaded in (None, honest)
        refusals += loaded is None
        about = outcome(storage.describe, path)
        assert about is None or about[0] == "dict"
    assert refusals > 950


JUNK = [None, True, 0, -1, 2**70, 1.5, "", "chi2", "nan", [], [1], {}, {"a": 1}, {"array": "x"}]
JUNK += [
    {"tuple": [1]},
    {"dict": {}},
    {"float": "inf"},
    {"NearestMean": {"parameters": {}, "kept": {}}},
    [[]],
]


def test_truth_is_zero_or_one(tmp_path):
    path = tmp_path / "model"
    storage.save(path, sysbags.NearestMean(lambda_a=np.array([True, False, True])))
    about, _ = read(path)
    write(path, about, {"lambda_a": np.array([7, 0, 255], np.uint8).view(bool)})
    assert storage.load(path).lambda_a.tobytes() == b"\x01\x00\x01"


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.long)])
def test_malformed_trees(tmp_path, model_file, count):
    """The checksum is right and the tree is not: an object whose parts fit, or a sentence."""
    path = tmp_path / "model"
    rng = np.random.default_rng(1)

    def spots(tree):
        """Every place in a tree, as a container and a key."""
        items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
        for key, value in items:
            yield tree, key
            yield from spots(value)

    about, arrays = read(model_file)
    text = json.dumps(about)
    refusals = 0
    for _ in range(count):
        changed = json.loads(text)
        for _ in range(rng.integers(1, 3)):
            places = [*spots(changed)]
            container, key = places[rng.integers(len(places))]
            if rng.random() < 0.2:
                del container[key]
            elif rng.random() < 0.2 and isinstance(container, dict):
                container[str(JUNK[rng.integers(len(JUNK))])] = container.pop(key)
            else:
                container[key] = deepcopy(JUNK[rng.integers(len(JUNK))])
        write(path, changed, arrays)
        loaded = outcome(storage.load, path)
        assert loaded is None or isinstance(loaded, tuple)
        refusals += loaded is None
    assert count / 2 < refusals < count


@pytest.mark.parametrize("path", [None, 3, b"model", ["model"], 2.5])
def test_what_is_not_a_path(path):
    for action in (storage.load, storage.describe, lambda path: storage.save(path, make_system(0))):
        with pytest.raises(FileError, match=r"^path is .*, but it must be the path of a model file"):
            action(path)


@pytest.mark.parametrize("weights", ["scale", None, {"float": "nan"}, [0.5], [[0.25, 0.0]]])
def test_weights_that_were_learnt_are_an_array(tmp_path, model_file, weights):
    about, arrays = read(model_file)
    steps = about["object"]["Pipeline"]["parameters"]["steps"]["dict"]
    kept = steps["classify"]["NearestSystem"]["kept"]
    assert arrays[kept["weights_"]["array"]].tolist() == [[0.25, 0.0]]
    kept["weights_"] = weights
    write(tmp_path / "m", about, arrays)
    with pytest.raises(FileError, match="weights_ of a NearestSystem is not valid"):
        storage.load(tmp_path / "m")
