"""Video files and frames that several test files share."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from sysbags.errors import VideoWarning
from sysbags.video import frames as read_frames

FASTSTART = {"container_movflags": "+faststart"}
FRAGMENTED = {"container_movflags": "+frag_keyframe+empty_moov", "g": 6}

CODECS = {
    ".mp4": ("libx264", "mpeg4"),
    ".mov": ("libx264", "mpeg4"),
    ".mkv": ("ffv1",),
    ".avi": ("mpeg4", "mjpeg"),
    ".webm": ("libvpx-vp9", "libvpx"),
    ".gif": ("gif",),
    ".ts": ("mpeg2video",),
}


def moving_frames(count=30, height=48, width=64, seed=0, colour=False):
    """Waves that travel over a fixed grain: (count, height, width[, 3]) uint8, no two frames equal."""
    rng = np.random.default_rng(seed)
    shape = (height, width, 3) if colour else (height, width)
    grain = rng.normal(0.0, 12.0, shape)
    rows, columns = np.mgrid[:height, :width]
    angle, pitch = rng.uniform(0.0, np.pi), rng.uniform(0.25, 0.5)
    phase = pitch * (np.cos(angle) * columns + np.sin(angle) * rows)
    shift = 0.4 * np.arange(count)[:, None, None] + rng.uniform(0.0, 6.0)
    if colour:
        phase, shift = phase[..., None] + np.array([0.0, 1.0, 2.0]), shift[..., None]
    waves = 128.0 + 70.0 * np.sin(phase - shift) + grain
    return np.clip(waves, 0.0, 255.0).astype(np.uint8)


def write_clip(
    path, frames, *, codec=None, fps=25, pixel_format="yuv420p", times=None, format=None, **options
):
    """Write (T, H, W) or (T, H, W, 3) uint8 frames; give back the path.

    The codec follows from the suffix; `times` are ticks of 1/fps, for a variable rate; `format` is the
    container, if the suffix is not to say it; further options go to the encoder, those that begin with
    `container_` to the container. GIF has its own pixel format; sizes that the pixel format cannot hold
    (odd ones in 4:2:0 for some encoders) are the caller's business.
    """
    path = Path(path)
    frames = np.asarray(frames, dtype=np.uint8)
    if codec is None:
        codec = next(name for name in CODECS[path.suffix.lower()] if name in av.codecs_available)
    if codec == "gif":
        pixel_format = "rgb8"
    elif codec == "mjpeg":
        pixel_format = pixel_format.replace("yuv4", "yuvj4")
    container_options = {
        key.removeprefix("container_"): str(options.pop(key))
        for key in list(options)
        if key.startswith("container_")
    }
    with av.open(str(path), "w", format=format, container_options=container_options) as container:
        stream = container.add_stream(codec, rate=fps, options={k: str(v) for k, v in options.items()})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pixel_format
        stream.codec_context.time_base = Fraction(1, fps)
        stream.codec_context.thread_count = 1  # the same bytes on every machine
        for index, array in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(array, format="gray" if array.ndim == 2 else "rgb24")
            if frame.format.name != pixel_format:
                frame = frame.reformat(format=pixel_format)
            frame.pts = index if times is None else int(times[index])
            frame.time_base = Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_sound(path, seconds=1.0, codec="aac"):
    """Write a soundtrack without any picture; give back the path."""
    path = Path(path)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=16000, layout="mono")
        tone = np.sin(np.arange(int(16000 * seconds)) / 10.0).astype(np.float32)
        for start in range(0, len(tone) - 1023, 1024):
            frame = av.AudioFrame.from_ndarray(tone[None, start : start + 1024], format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def image_bytes(array, codec="png", pixel_format=None):
    """A picture as the bytes of an image file."""
    source = "gray" if array.ndim == 2 else "rgb24"
    encoder = av.CodecContext.create(codec, "w")
    encoder.height, encoder.width = array.shape[:2]
    encoder.pix_fmt, encoder.time_base = pixel_format or source, Fraction(1, 25)
    picture = av.VideoFrame.from_ndarray(array, format=source).reformat(format=encoder.pix_fmt)
    return b"".join(bytes(packet) for packet in encoder.encode(picture) + encoder.encode(None))


def read(source, **options):
    """All frames as one array, with warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return np.stack(list(read_frames(source, **options)))


def read_broken(source, **options):
    """The frames before the break, with the one warning that belongs to it."""
    with pytest.warns(VideoWarning, match=r"breaks off after \d+ frames?, used without the rest: ") as caught:
        result = list(read_frames(source, **options))
    assert len(caught) == 1
    assert caught[0].filename == __file__  # it points at who asked for the frames
    return result
