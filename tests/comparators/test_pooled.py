import json

import numpy as np
import pytest
from sklearn.base import clone

from clips import moving_frames, write_clip
from sysbags import video
from sysbags.bags import DeepActivations
from sysbags.comparators import PooledActivations
from sysbags.errors import ParameterError, StreamError, VideoError
from tiny_networks import convolutions, operators, tiny_module

torch = pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite_pytorch")

CLIP = moving_frames(14, 40, 56, colour=True)


def pooled(**options):
    return PooledActivations(**{"model": convolutions(), "size": 16, **options})


def by_definition(clip, picked, mean=127.0, std=128.0):
    """Both streams, one picture after the other."""
    frames = np.stack(list(video.frames(clip, colour="rgb", size=(16, 16)))).astype(np.float64)
    sees = {"spatial": [(frames[k] - mean) / std for k in picked]}
    sees["temporal"] = [(frames[k + 1] - frames[k]) / std for k in picked if k + 1 < len(frames)]
    vectors = []
    for pictures in sees.values():
        rows = []
        for picture in pictures:
            batch = torch.from_numpy(picture.transpose(2, 0, 1)[None]).float()
            with torch.no_grad():
                rows.append(tiny_module()(batch).double().clamp(min=0).mean(dim=(2, 3))[0].numpy())
        average = np.mean(rows, axis=0)
        vectors.append(average / np.sqrt((average**2).sum()))
    return vectors


def assert_same(vector, streams):
    # the network is in single precision, in which sums of its 100 products lose some 1e-6
    np.testing.assert_allclose(vector, np.concatenate(streams), rtol=0, atol=1e-5)


def test_the_definition():
    assert_same(pooled().vector(CLIP), by_definition(CLIP, range(14)))
    spatial, temporal = by_definition(CLIP, range(14))
    assert np.abs(spatial - temporal).max() > 0.01


def test_the_preprocessing_of_a_network(tmp_path):
    mean, std = [100.0, 110.0, 120.0], [50.0, 60.0, 70.0]
    (tmp_path / "net.onnx").write_bytes(convolutions())
    (tmp_path / "net.json").write_text(json.dumps({"size": 16, "mean": mean, "std": std}))
    vector = PooledActivations(tmp_path / "net.onnx").vector(CLIP)
    assert_same(vector, by_definition(CLIP, range(14), np.array(mean), np.array(std)))


@pytest.mark.parametrize(
    ("frames", "picked"),
    [
        ({"stride": 6}, [0, 6, 12]),
        ({"stride": 13}, [0, 13]),  # the last frame has none after it
        ({"stride": 4, "max_frames": 2}, [0, 4]),
        ({"max_frames": 3}, [0, 1, 2]),
        ({"start": 3, "stride": 5}, [3, 8, 13]),
    ],
)
def test_differences_are_of_adjacent_frames_whatever_the_stride(frames, picked, tmp_path):
    expected = by_definition(CLIP, picked)
    assert_same(pooled(frames=frames).vector(CLIP), expected)
    strided = [CLIP[k] for k in picked]
    assert np.abs(pooled().vector(np.stack(strided))[6:] - expected[1]).max() > 1e-3  # not of those taken
    path = write_clip(tmp_path / "clip.mkv", CLIP, pixel_format="bgr0")
    np.testing.assert_array_equal(pooled(frames=frames).vector(path), pooled(frames=frames).vector(CLIP))


def test_no_more_is_read_than_needed():
    def endless():
        yield from CLIP
        raise AssertionError("read on")

    assert_same(
        pooled(frames={"stride": 6, "max_frames": 3}).vector(endless()), by_definition(CLIP, [0, 6, 12])
    )


def test_nothing_after_the_stop_is_used():
    np.testing.assert_array_equal(pooled(frames={"stop": 5}).vector(CLIP), pooled().vector(CLIP[:5]))


@pytest.mark.parametrize("batch_size", [1, 3, 14, 100])
def test_batch_size_does_not_matter(batch_size):
    assert_same(pooled(batch_size=batch_size).vector(CLIP), by_definition(CLIP, range(14)))


def test_turned_round_in_time_the_frames_say_the_same():
    forward, backward = pooled().vector(CLIP), pooled().vector(CLIP[::-1])
    np.testing.assert_allclose(backward[:6], forward[:6], rtol=0, atol=1e-6)
    assert np.abs(backward[6:] - forward[6:]).max() > 1e-3


def test_a_transformer():
    method = pooled(n_jobs=2)
    vectors = method.fit_transform([CLIP, iter(CLIP), CLIP[:5]])
    assert vectors.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(vectors.reshape(3, 2, 6), axis=2), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(vectors[1], vectors[0])
    copy = clone(PooledActivations(frames={"stride": 6}))
    assert copy.get_params()["frames"] == {"stride": 6}


def test_the_real_network_beside_its_bags():
    """The spatial stream of one frame has the direction of its bag."""
    options = {"size": 96}
    bag = DeepActivations(**options).stream(CLIP[:1])[0]
    vector = PooledActivations(**options).vector(CLIP[:2])
    assert vector.shape == (2560,)
    spatial = PooledActivations(**options, frames={"max_frames": 1}).vector(CLIP)[:1280]
    np.testing.assert_allclose(spatial, bag / np.linalg.norm(bag), rtol=0, atol=1e-6)
    assert np.abs(vector[1280:] - vector[:1280]).max() > 0.01


def test_a_single_frame():
    with pytest.raises(VideoError, match=r"^video 1: the video has a single frame, but the temporal stream"):
        pooled().transform([CLIP, CLIP[:1]])


def test_what_a_network_may_say():
    with pytest.raises(ParameterError, match=r"^the output of the model has the shape .* one row per frame"):
        pooled(model=operators("ReduceMean", axes=[0], keepdims=1)).vector(CLIP)
    with pytest.raises(StreamError, match=r"^the activations for the video are not finite"):
        pooled(model=operators("Exp", "Exp", "Exp", "Exp")).vector(CLIP)
    np.testing.assert_array_equal(pooled(model=operators("Relu", "Neg")).vector(CLIP), np.zeros(6))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 0}, r"^batch_size is 0, but"),
        (
            {"frames": {"size": 100}},
            r"^frames is .* without 'size', which is a parameter of PooledActivations$",
        ),
        ({"frames": {"stride": 0}}, r"^stride is 0, but"),
        ({"frames": {"max_frames": 0}}, r"^max_frames is 0, but"),
        ({"frames": {"step": 2}}, r"^frames is .* for reading: start,"),
        ({"frames": 6}, r"^frames is 6, but it must be a mapping"),
        ({"model": "vgg"}, r"^model is 'vgg', but it must be 'efficientnet-lite0'"),
    ],
)
def test_senseless_options(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        pooled(**options).transform([CLIP, CLIP])
