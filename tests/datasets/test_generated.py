from __future__ import annotations

import threading
import time
import zlib

import av
import cv2
import numpy as np
import pytest

from sysbags import video
from sysbags.datasets import TEXTURES, generated, make_clips, make_frames
from sysbags.errors import FileError, ParameterError
from sysbags.video.reading import EXACT

SMALL = {"frames": 12, "height": 48, "width": 64}


def tree(folder):
    """The decoded frames of every clip: what the file's bytes are is up to the encoder."""
    return {path.relative_to(folder).as_posix(): read(path) for path in folder.rglob("*.mp4")}


def read(path):
    return np.stack(list(video.frames(path, colour="rgb")))


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)


def decoded(path):
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray() for frame in container.decode(video=0)])


def stored(film):
    """What a lossless file of a film holds: its colours at half the resolution."""
    frames = [av.VideoFrame.from_ndarray(picture, format="rgb24") for picture in film]
    return np.stack([f.reformat(format="yuv420p", interpolation=EXACT).to_ndarray() for f in frames])


def test_there_are_eight():
    assert sorted(TEXTURES) == ["fire", "grass", "lights", "rain", "smoke", "traffic", "waves", "wheel"]


@pytest.mark.parametrize("texture", TEXTURES)
@pytest.mark.parametrize(("frames", "height", "width"), [(1, 16, 16), (3, 33, 71), (5, 90, 40)])
def test_shape(texture, frames, height, width):
    film = make_frames(texture, frames, height, width)
    assert film.shape == (frames, height, width, 3)
    assert film.dtype == np.uint8


@pytest.mark.parametrize("texture", TEXTURES)
def test_seeds(texture):
    first, again, other = (make_frames(texture, **SMALL, random_state=seed) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert np.abs(first.astype(int) - other).mean() > 5.0
    generator = make_frames(texture, **SMALL, random_state=np.random.default_rng(3))
    assert np.array_equal(first, generator)
    # A longer film begins like a shorter one.
    longer = make_frames(texture, **{**SMALL, "frames": 20}, random_state=3)
    assert np.array_equal(longer[:12], first)


@pytest.mark.parametrize("texture", TEXTURES)
@pytest.mark.parametrize("seed", range(4))
def test_something_moves_that_is_not_noise(texture, seed):
    film = make_frames(texture, 20, 96, 128, seed).astype(np.float64)
    assert 0.5 < np.abs(np.diff(film, axis=0)).mean() < 45.0
    # The camera's noise is at most 4.1 levels, so 0.3 in a block of 8 x 8 pixels of 3 colours, and its
    # differences hardly ever exceed 2.
    blocks = film.reshape(20, 12, 8, 16, 8, 3).mean(axis=(2, 4, 5))
    assert np.abs(blocks[5:] - blocks[:-5]).max() > 3.0
    # Nor is it a flash of the whole picture, or a picture that is black, white or flat.
    assert np.abs(np.diff(film.mean(axis=(1, 2, 3)))).max() < 25.0
    assert 8.0 < film.mean() < 235.0
    assert film.std(axis=(1, 2)).max() > 10.0


@pytest.mark.parametrize("texture", TEXTURES)
def test_clips_of_a_texture_vary(texture):
    films = [make_frames(texture, **SMALL, random_state=seed).astype(np.float64) for seed in range(8)]
    smooth = [np.stack([cv2.GaussianBlur(frame, (0, 0), 1.0) for frame in film]) for film in films]
    speed = [np.abs(np.diff(film, axis=0)).mean() / film.std() for film in smooth]
    contrast = [film.std() for film in smooth]
    grain = [np.abs(film - soft).mean() for film, soft in zip(films, smooth, strict=True)]
    for spread in (speed, contrast, grain):
        assert max(spread) > 1.4 * min(spread)


def test_textures_have_their_colours():
    reds = {}
    for texture in TEXTURES:
        means = [make_frames(texture, 2, 48, 64, seed).mean(axis=(0, 1, 2)) for seed in range(8)]
        reds[texture] = np.mean(means, axis=0)
    assert reds["fire"][0] > reds["fire"][1] > reds["fire"][2]
    assert reds["grass"][1] > max(reds["grass"][0], reds["grass"][2])
    assert reds["waves"][2] > reds["waves"][0]
    assert min(reds, key=lambda name: reds[name].mean()) == "lights"


def test_a_wheel_turns_as_fast_as_it_should():
    """Its pictures come again after a spoke's time: the period of the best match is that of the drawing."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        film = np.stack(list(TEXTURES["wheel"].__wrapped__(rng, 64, 64, 64))).mean(axis=3)
        centred = film - film.mean(axis=0)
        spectrum = np.abs(np.fft.rfft(centred, axis=0)).sum(axis=(1, 2))
        peak = np.argmax(spectrum) / 64
        harmonics = [0.02 - 1 / 64 <= peak / k <= 0.35 + 1 / 64 for k in (1, 2)]
        assert any(harmonics)
        # One line of the spectrum stands out, which noise and drifting scenes do not have.
        assert spectrum.max() > 4.0 * np.median(spectrum)


def test_files_hold_the_frames(tmp_path):
    paths, labels = make_clips(tmp_path / "new" / "clips", per_class=2, random_state=7, n_jobs=2, **SMALL)
    assert labels == [name for name in TEXTURES for _ in range(2)]
    assert [path.parent.name for path in paths] == labels
    assert [path.name for path in paths[:2]] == ["00.mp4", "01.mp4"]
    for number, (path, label) in enumerate(zip(paths, labels, strict=True)):
        rng = np.random.default_rng([7, zlib.crc32(label.encode()), number % 2])
        drawn = make_frames(label, **SMALL, random_state=rng)
        with av.open(str(path)) as container:
            assert container.streams.video[0].codec_context.name == "h264"
            assert container.streams.video[0].average_rate == 25
        np.testing.assert_array_equal(decoded(path), stored(drawn))
        # Half the resolution of colour costs bright small lights most, so grey is looked at.
        error = read(path).mean(axis=3) - drawn.mean(axis=3)
        assert 10 * np.log10(255**2 / np.mean(error**2)) > 28.0, label


def test_a_clip_depends_on_its_seed_texture_and_number_alone(tmp_path):
    make_clips(tmp_path / "one", per_class=2, n_jobs=1, **SMALL)
    make_clips(tmp_path / "two", per_class=2, n_jobs=2, **SMALL)
    clips = tree(tmp_path / "one")
    assert same(clips, tree(tmp_path / "two"))
    make_clips(tmp_path / "few", per_class=1, textures=["smoke", "fire"], **SMALL)
    few = tree(tmp_path / "few")
    assert sorted(few) == ["fire/00.mp4", "smoke/00.mp4"]
    assert same(few, {name: clips[name] for name in few})
    make_clips(tmp_path / "other", per_class=1, random_state=1, textures="fire", **SMALL)
    assert not same(tree(tmp_path / "other"), {"fire/00.mp4": few["fire/00.mp4"]})


def test_without_the_h264_encoder(tmp_path, monkeypatch):
    """Another encoder, the same frames."""
    (usual,), _ = make_clips(tmp_path / "usual", 1, textures=["waves"], **SMALL)
    monkeypatch.setattr(av, "codecs_available", {"ffv1"})
    (path,), _ = make_clips(tmp_path / "other", 1, textures=["waves"], **SMALL)
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.name == "ffv1"
    np.testing.assert_array_equal(decoded(path), decoded(usual))


def test_an_interruption_leaves_whole_clips_only(tmp_path, monkeypatch):
    encode = generated._encode

    def interrupted(film):
        if len(tree(tmp_path)) == 2:
            raise KeyboardInterrupt
        return encode(film)

    monkeypatch.setattr(generated, "_encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_clips(tmp_path, per_class=2, **SMALL)
    left = tree(tmp_path)
    assert sorted(left) == ["waves/00.mp4", "waves/01.mp4"]
    assert all(len(list(video.frames(tmp_path / name))) == 12 for name in left)


def test_no_thread_begins_a_file_after_an_interruption(tmp_path, monkeypatch):
    """Ctrl-C ends Python while threads are at work: what they have begun by then would stay half done."""
    started, over, ended = threading.Event(), threading.Event(), threading.Event()
    encode = generated._encode

    def encoded(film):
        if started.is_set():
            raise KeyboardInterrupt
        started.set()
        over.wait(1.0)  # until make_clips has given up, if that does not wait for this thread
        ended.set()
        return encode(film)

    monkeypatch.setattr(generated, "_encode", encoded)
    with pytest.raises(KeyboardInterrupt):
        make_clips(tmp_path, per_class=2, n_jobs=2, **SMALL)
    over.set()
    assert ended.wait(5.0)
    time.sleep(0.3)  # in which the thread would write its clip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"texture": "snow"}, "texture is 'snow', but it must be one of 'waves', 'rain'"),
        ({"frames": 0}, "frames is 0, but it must be a whole number of at least 1"),
        ({"height": 15}, "height is 15, but it must be a whole number of at least 16"),
        ({"width": 20.5}, "width is 20.5, but"),
        ({"random_state": -1}, "random_state is -1, but"),
    ],
)
def test_bad_parameters_of_frames(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make_frames(**{"texture": "fire", **options})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"per_class": 0}, "per_class is 0, but"),
        ({"frames": None}, "frames is None, but"),
        ({"height": 47}, "height is 47, but the codec needs an even number of pixels"),
        ({"width": 14}, "width is 14, but"),
        ({"random_state": "seed"}, "random_state is 'seed', but"),
        ({"n_jobs": 0}, "n_jobs is 0, but"),
        ({"textures": []}, "textures is .*, but it must be at least one texture"),
        ({"textures": ["fire", "fire"]}, "textures is .*, without repetition"),
        ({"textures": ["fire", "snow"]}, "texture is 'snow', but"),
    ],
)
def test_bad_parameters_of_clips(options, sentence, tmp_path):
    with pytest.raises(ParameterError, match=sentence):
        make_clips(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileError, match=r"cannot write .*taken"):
        make_clips(tmp_path / "taken", 1, **SMALL)
