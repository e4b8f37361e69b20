"""One video, several readers: each has the frames that it would have alone, and pictures are decoded once."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clips import image_bytes, moving_frames, write_clip
from sysbags.errors import ParameterError, VideoError, VideoWarning
from sysbags.video import SharedVideo, frames, reading

CLIP = moving_frames(14, 24, 32, colour=True)
REQUESTS = [
    {},
    {"colour": "rgb", "stride": 3, "size": (10, 12)},
    {"start": 4, "stop": 11, "stride": 2, "size": 12},
    {"colour": "rgb", "max_frames": 2},
    {"start": 13},
]


def frames_of_several(video, requests):
    """The frames of one video, read with several options at once."""
    shared = SharedVideo(video)
    return [frames(shared, **request) for request in requests]


class Counted:
    """Frames that count how many of them were taken."""

    def __init__(self, pictures):
        self.pictures, self.taken = pictures, 0

    def __iter__(self):
        for picture in self.pictures:
            self.taken += 1
            yield picture


@pytest.fixture(scope="module")
def sources(folder):
    images = folder / "images"
    images.mkdir()
    for k, picture in enumerate(CLIP):
        (images / f"{k}.png").write_bytes(image_bytes(picture))
    return {
        "file": write_clip(folder / "shared.mp4", CLIP, bf=2),
        "folder": images,
        "array": CLIP,
        "list": list(CLIP),
    }


def assert_equal(result, expected):
    assert len(result) == len(expected)
    for a, b in zip(result, expected, strict=True):
        assert a.dtype == np.uint8
        assert a.flags.c_contiguous
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("kind", ["file", "folder", "array", "list"])
def test_each_reader_has_its_own_frames(sources, kind, order):
    source = sources[kind]
    requests = REQUESTS[::order] + ([{"rate": 60, "stride": 2}, {"rate": 7}] if kind == "file" else [])
    for result, request in zip(frames_of_several(source, requests), requests, strict=True):
        assert_equal(list(result), list(frames(source, **request)))


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_readers_may_take_frames_in_any_order(data):
    options = st.fixed_dictionaries(
        {"start": st.integers(0, 4), "stride": st.integers(1, 5)},
        optional={"stop": st.integers(5, 20), "max_frames": st.integers(1, 9), "size": st.just(9)},
    )
    requests = data.draw(st.lists(options, min_size=1, max_size=4))
    source = Counted(CLIP[:12])
    readers = frames_of_several(iter(source), requests)
    results = [[] for _ in requests]
    left = set(range(len(requests)))
    while left:
        k = data.draw(st.sampled_from(sorted(left)))
        frame = next(readers[k], None)
        if frame is None:
            left.remove(k)
        else:
            results[k].append(frame)
    for result, request in zip(results, requests, strict=True):
        assert_equal(result, list(frames(CLIP[:12], **request)))

    def last(request):
        indices = range(request["start"], request.get("stop", 99), request["stride"])
        return indices[: request.get("max_frames", 99)][-1]

    assert source.taken == min(12, 1 + max(map(last, requests)))


def test_frames_belong_to_one_reader():
    first, second = frames_of_several(CLIP[:2, ..., 0], [{}, {}])
    next(first)[:] = 0
    np.testing.assert_array_equal(next(second), CLIP[0, ..., 0])
    repeated, _ = frames_of_several(CLIP[:2, ..., 0], [{}, {}])
    assert not np.shares_memory(next(repeated), CLIP)


def test_repeated_frames_are_new_arrays(sources):
    (reader,) = frames_of_several(sources["file"], [{"rate": 75}])
    first, second, third = next(reader), next(reader), next(reader)
    first[:] = 0
    np.testing.assert_array_equal(second, third)
    assert second.max() > 0
    second[:] = 0
    assert third.max() > 0


def test_only_wanted_pictures_are_converted():
    """A picture that no reader wants is not even looked at."""
    pictures = [*CLIP[:3], "no picture", *CLIP[4:8]]
    every_second, every_third = frames_of_several(pictures, [{"stride": 2}, {"start": 1, "stride": 3}])
    assert len(list(every_second)) == 4
    assert len(list(every_third)) == 3


def test_readers_end_on_their_own():
    """What is wrong for one reader is not wrong for the others, and comes after the frames before it."""
    changing = [*CLIP[:3], *moving_frames(3, 20, 20, colour=True)]
    strict, scaled = frames_of_several(changing, [{}, {"size": (8, 8)}])
    assert len(list(scaled)) == 6
    assert len([next(strict) for _ in range(3)]) == 3
    with pytest.raises(VideoError, match="frame 3 of the iterable has 20 x 20 pixels"):
        next(strict)
    assert list(strict) == []
    late, whole = frames_of_several(CLIP, [{"start": 50}, {}])
    with pytest.raises(VideoError, match="start=50 leaves no frame of the array, which has 14 frames"):
        next(late)
    assert len(list(whole)) == 14


def test_an_error_of_the_iterator_reaches_every_reader():
    def failing():
        yield from CLIP[:2]
        raise KeyError("disk")

    for reader in frames_of_several(failing(), [{}, {"stride": 2}]):
        next(reader)
        with pytest.raises(KeyError, match="disk"):
            list(reader)


@pytest.fixture
def cut(folder):
    whole = write_clip(folder / "whole.mp4", CLIP, g=3, container_movflags="+faststart")
    path = folder / "cut.mp4"
    content = whole.read_bytes()
    path.write_bytes(content[: -len(content) // 5])
    return path


def test_a_video_that_breaks_off_warns_once(cut):
    with pytest.warns(VideoWarning, match="breaks off") as caught:
        alone = list(frames(cut))
    assert 0 < len(alone) < 14
    shared = SharedVideo(cut)
    readers = [frames(shared), frames(shared, stride=2), frames(shared, stop=1), frames(shared, strict=True)]
    with pytest.warns(VideoWarning, match="breaks off") as once:
        first, second, third = (list(reader) for reader in readers[:3])
    assert [str(item.message) for item in once] == [str(item.message) for item in caught]
    assert_equal(first, alone)
    assert_equal(second, alone[::2])
    assert_equal(third, alone[:1])
    text = str(caught[0].message)
    assert [reader.warning for reader in shared.readers[:3]] == [text, text, None]
    with pytest.raises(VideoError, match=rf"breaks off after {len(alone)} frames"):
        list(readers[3])


def test_a_reader_that_needs_the_beginning_only_does_not_warn(cut):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for reader in frames_of_several(cut, [{"stop": 2}, {"max_frames": 1}]):
            list(reader)


def test_the_same_errors_as_alone(tmp_path):
    for source, options in [
        (tmp_path / "gone.mp4", {}),
        (CLIP, {"rate": 5}),
        (CLIP, {"stride": 0}),
        (CLIP[:0], {}),
        (b"bytes", {}),
    ]:
        with pytest.raises((VideoError, ParameterError)) as alone:
            frames(source, **options)
        with pytest.raises(alone.type) as shared:
            frames_of_several(source, [options, {}])
        assert str(shared.value) == str(alone.value)


def test_no_reader_may_come_late():
    shared = SharedVideo(CLIP)
    next(frames(shared))
    with pytest.raises(ParameterError, match="already being read: add all readers before"):
        frames(shared)


def test_readers_that_stop_early_do_not_keep_frames():
    source = Counted(CLIP)
    shared = SharedVideo(source)
    first, second = frames(shared), frames(shared)
    next(first)
    assert [reader.waiting for reader in shared.readers] == [0, 1]
    second.close()
    shared.readers[1].close()  # the generator had not started
    assert len(list(first)) == 13
    assert [reader.waiting for reader in shared.readers] == [0, 0]
    assert source.taken == 14


def test_the_video_is_closed_with_its_last_reader(sources, monkeypatch):
    opened, usual = [], reading.decoded

    def decoded(*arguments):
        opened.append(usual(*arguments))
        return opened[-1]

    monkeypatch.setattr(reading, "decoded", decoded)
    first, second = frames_of_several(sources["file"], [{}, {"max_frames": 1}])
    next(first)
    list(second)
    assert [inspect.getgeneratorstate(item) for item in opened] == [inspect.GEN_SUSPENDED]
    del first
    assert [inspect.getgeneratorstate(item) for item in opened] == [inspect.GEN_CLOSED]
