"""Codebooks by folds, of descriptors and of the patches of a network."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from evaluations import evaluate, train
from sysbags import NearestSystem, identify
from sysbags._common.cache import Cache
from sysbags.bags import DeepActivations, LocalBinaryPatterns, PatchWords, VisualWords, networks
from sysbags.datasets import make_clips
from sysbags.errors import ParameterError, SysbagsError
from sysbags.evaluate.features import ClipFeatures, fitted_by_folds
from sysbags.evaluate.splits import codebook_folds
from tiny_networks import tiny_onnx, write_network

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

FRAMES, TEXTURES = 10, ["waves", "rain", "fire"]
FIXED = {"order": 2, "lambda_a": 0.25, "lambda_mu": 10.0}
PREPROCESSING = {"size": 8, "std": 50.0, "output": "tokens"}


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Nine clips of three classes."""
    paths, labels = make_clips(tmp_path_factory.mktemp("clips"), 3, FRAMES, 48, 64, textures=TEXTURES)
    return paths, np.array(labels)


@pytest.fixture(autouse=True)
def tiny(tmp_path, monkeypatch):
    """A network with the name tiny."""
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("SYSBAGS_MODELS", str(tmp_path / "models"))
    return write_network(tmp_path / "models")


@pytest.fixture
def frames_seen(monkeypatch):
    """How many frames each pass of a network had, one entry per call."""
    sizes, usual = [], networks._session_network

    def counting(session, values):
        run = usual(session, values)
        return lambda batch: sizes.append(len(batch)) or run(batch)

    monkeypatch.setattr(networks, "_session_network", counting)
    return sizes


@pytest.mark.parametrize(
    "make",
    [
        lambda: PatchWords(4, "tiny"),
        lambda: PatchWords(4, "tiny", temperature=None, window=3, step=2, fit_stride=2),
        lambda: PatchWords(4, tiny_onnx(), **PREPROCESSING),
        lambda: VisualWords(4, sampling="grid", assignment="soft"),
    ],
    ids=["soft", "hard", "bytes", "descriptors"],
)
def test_streams_are_those_of_bags_fitted_without_the_fold(clips, make):
    paths, labels = clips
    folds, bags = codebook_folds(labels, range(9)), make()
    fitted = fitted_by_folds(Cache(None), bags, paths, folds)
    assert not hasattr(bags, "words_")  # what is given is left as it was
    assert len(fitted) == 3
    streams = ClipFeatures(paths, folds, Cache(None)).streams(bags)
    for own, version in zip(fitted, streams, strict=True):
        for path, stream in list(zip(paths, version, strict=True))[:3]:
            np.testing.assert_array_equal(stream, own.stream(path))
    # The sample is larger than the clips, so that it is all patches of the other folds.
    words = clone(bags).fit([path for path, fold in zip(paths, folds, strict=True) if fold != 1]).words_
    np.testing.assert_array_equal(fitted[1].words_, words)


@pytest.mark.parametrize("model", ["tiny", "path", "bytes"])
def test_a_clip_is_described_twice_for_all_codebooks(clips, frames_seen, tiny, model):
    paths, labels = clips
    networks_by = {"tiny": "tiny", "path": tiny, "bytes": tiny_onnx()}
    bags = PatchWords(4, networks_by[model], **PREPROCESSING)
    ClipFeatures(paths, codebook_folds(labels, range(9)), Cache(None)).streams(bags)
    assert frames_seen == [FRAMES] * 9 * 2


def test_bags_of_one_network_share_the_pass_that_counts(clips, frames_seen, tmp_path):
    paths, labels = clips
    bags = [DeepActivations("tiny"), PatchWords(4, "tiny"), LocalBinaryPatterns(), PatchWords(3, "tiny")]
    features = ClipFeatures(paths, codebook_folds(labels, range(9)), Cache(tmp_path / "cache"), 2)
    streams = features.streams_of_several(bags)
    assert frames_seen == [FRAMES] * 9 * 3  # a sample for each codebook, and once for all streams
    assert [len(versions) for versions in streams] == [1, 3, 1, 3]
    for bag, versions in zip(bags, streams, strict=True):
        for alone, version in zip(features.streams(bag), versions, strict=True):
            for first, second in zip(alone, version, strict=True):
                np.testing.assert_array_equal(first, second)
    assert len(frames_seen) == 9 * 3  # all were in the cache


def test_a_bad_clip_takes_its_place(clips, tmp_path):
    paths, labels = clips
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"no video")
    some, folds = [bad, *paths[1:]], codebook_folds(labels, range(9))
    for version in ClipFeatures(some, folds, Cache(None)).streams(PatchWords(4, "tiny")):
        assert [isinstance(stream, SysbagsError) for stream in version] == [True] + 8 * [False]


def test_more_words_than_patches(clips):
    paths, labels = clips
    with pytest.raises(
        ParameterError,
        match=r"^words is 999, but two thirds of the clips have only \d+ distinct patches",
    ):
        ClipFeatures(paths, codebook_folds(labels, range(9)), Cache(None)).streams(PatchWords(999, "tiny"))


def test_evaluation_by_hand(clips):
    """Each clip is predicted with the codebook of its fold, which has not seen it."""
    paths, labels = clips
    bags = PatchWords(4, "tiny")
    result = evaluate(paths, labels, bags={"patch": bags}, methods=["nearest-system"], **FIXED)
    folds, expected = codebook_folds(labels, range(9)), [None] * 9
    for fold in range(3):
        others = [path for path, own in zip(paths, folds, strict=True) if own != fold]
        fitted = clone(bags).fit(others)
        systems = [identify(stream, 2) for stream in fitted.transform(paths)]
        for k in np.flatnonzero(folds == fold):
            train_indices = [j for j in range(9) if j != k]
            model = NearestSystem(lambda_a=0.25, lambda_mu=10.0)
            model.fit([systems[j] for j in train_indices], labels[train_indices])
            expected[k] = model.predict([systems[k]])[0]
    assert not result.failures
    assert list(result.methods[0].predictions) == expected
    assert result.methods[0].name == "patch systems, alignment"


def test_several_bags_of_a_network(clips, frames_seen, tmp_path):
    paths, labels = clips
    bags = {"deep": DeepActivations("tiny"), "patch": PatchWords(4, "tiny")}
    options = {"bags": bags, "cache": tmp_path / "cache", "methods": ["kernel-ridge"], **FIXED}
    result = evaluate(paths, labels, **options)
    assert frames_seen == [FRAMES] * 9 * 2  # a sample of patches, and all streams
    assert result.methods[0].name == "deep + patch systems, alignment"
    assert not result.failures
    again = evaluate(paths, labels, **options)
    assert frames_seen == [FRAMES] * 9 * 2
    assert [method.predictions for method in again.methods] == [m.predictions for m in result.methods]


def test_a_model_is_trained_with_all_clips(clips):
    paths, labels = clips
    bags = {"patch": PatchWords(4, "tiny")}
    trained = train(
        paths, labels, bags=bags, classifier="nearest-system", metric="alignment", compress=None, **FIXED
    )
    expected = PatchWords(4, "tiny").fit(paths)
    np.testing.assert_array_equal(trained.pipeline[0].words_, expected.words_)
    systems = [identify(stream, 2) for stream in expected.transform(paths)]
    model = NearestSystem(lambda_a=0.25, lambda_mu=10.0).fit(systems, labels)
    np.testing.assert_array_equal(trained.pipeline.predict(paths), model.predict(systems))
