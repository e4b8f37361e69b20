"""Videos that are not stored: the standard input, devices, and network addresses that FFmpeg opens."""

from __future__ import annotations

import math
import os
import re
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import av

from sysbags.errors import ParameterError, VideoError
from sysbags.video.decoding import ERRORS, MAX_PIXELS, Damage, main_stream, open_bytes, reason_of

# What FFmpeg may open for an address of each scheme. There is never a local file among it, so that a playlist
# or a redirection of a server cannot make it read one.
WEB = "http,https,httpproxy,tcp,tls,crypto"
STREAMING = "rtp,srtp,tcp,tls,udp"
PROTOCOLS = {
    "http": WEB,
    "https": WEB,
    "rtmp": "rtmp,tcp",
    "rtmps": "rtmps,tcp,tls",
    "rtsp": STREAMING,
    "rtsps": STREAMING,
    "srt": "srt",
    "tcp": "tcp",
    "udp": "udp",
}
# Cameras often send RTP packets over UDP faster than they are read, which loses some; TCP loses none.
OPTIONS = {
    "rtsp": {"rtsp_transport": "tcp"},
    "rtsps": {"rtsp_transport": "tcp"},
    "udp": {"overrun_nonfatal": "1"},
}
UNTIMED = ("mjpeg", "mpjpeg")  # FFmpeg makes up the timestamps of these formats
DEVICE_FORMAT = "video4linux2,v4l2"
STALL_SECONDS = 0.5  # a pipe without data for so long is reported, and `stop` is noticed
MOST_ANALYSIS = 5.0  # seconds of a feed that FFmpeg uses to recognise it, which is its default


def without_password(address: str) -> str:
    """Return the address of a camera for messages: without its password and those among its parameters.

    Examples
    --------
    >>> without_password("rtsp://admin:secret@10.0.0.7:554/stream?channel=1&pwd=secret")
    'rtsp://admin:***@10.0.0.7:554/stream?channel=1&pwd=***'
    >>> without_password("rtsp://10.0.0.7:554/stream@2")
    'rtsp://10.0.0.7:554/stream@2'
    """
    # the second alternative is for a password with an unescaped slash: a colon without a port number after it
    hidden = re.sub(r"(://[^/?#@:]*):(?:[^/?#]*@|(?!\d+(?:[/?#]|$)).*@)", r"\1:***@", address, count=1)
    return re.sub(r"(?i)([?&;][^=&;]*(?:pass|pwd|secret|token|key)[^=&;]*=)[^&;#]*", r"\1***", hidden)


def is_address(source: str) -> bool:
    """Return whether a source is a network address."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source) is not None


def is_device(source: str) -> bool:
    """Return whether a source is a camera of this computer: /dev/video0, or 0 for short."""
    is_number = re.fullmatch("[0-9]{1,3}", source) is not None and not os.path.exists(source)
    return is_number or source.startswith(("/dev/video", "/dev/v4l/"))


def check_feed(source: str) -> None:
    """Raise an error unless a source is an address with a known scheme, or a device that FFmpeg can open."""
    if is_device(source) and DEVICE_FORMAT not in av.formats_available:
        raise VideoError(
            f"{source} is a device, but this build of FFmpeg has no input for Video4Linux devices"
        )
    scheme = source.partition("://")[0].lower()
    if not is_device(source) and scheme not in PROTOCOLS:
        shown, known = without_password(source), ", ".join(PROTOCOLS)
        raise ParameterError(f"the scheme of {shown} is {scheme}, but it must be one of {known}")


@contextmanager
def open_feed(source: str, patience: float) -> Iterator[tuple[Any, Any]]:
    """Open a device or an address, and its main picture stream; so many seconds without data are a Damage.

    A protocol that this build of FFmpeg lacks is a `VideoError`: it is of no use to try again.
    """
    format = None
    container_options = {"analyzeduration": str(round(1e6 * min(MOST_ANALYSIS, patience / 2)))}
    if is_device(source):
        source, format = f"/dev/video{source}" if source.isdecimal() else source, DEVICE_FORMAT
    else:
        scheme = source.partition("://")[0].lower()
        container_options |= {"protocol_whitelist": PROTOCOLS[scheme], **OPTIONS.get(scheme, {})}
    with _as_damage(patience):
        container = av.open(
            source,
            format=format,
            options={"max_pixels": str(MAX_PIXELS)},
            container_options=container_options,
            metadata_errors="replace",
            timeout=patience,
        )
    with container:
        yield container, main_stream(container)


@contextmanager
def open_pipe(is_stopped: Callable[[], bool], on_stall: Callable[[], None]) -> Iterator[tuple[Any, Any]]:
    """Open the standard input, and its main picture stream; `is_stopped` ends it early."""
    if sys.stdin is None or sys.stdin.isatty():
        raise VideoError(
            "the standard input is a terminal: pipe a video into it, or name a file or an address"
        )
    with open_bytes(_Pipe(sys.stdin.fileno(), is_stopped, on_stall)) as container:
        yield container, main_stream(container)


class _Pipe:
    """Reads a pipe without blocking for long, so that signals and `is_stopped` are noticed."""

    def __init__(self, number: int, is_stopped: Callable[[], bool], on_stall: Callable[[], None]) -> None:
        self.number, self.is_stopped, self.on_stall = number, is_stopped, on_stall

    def read(self, size: int) -> bytes:
        is_first = True
        while not self.is_stopped():
            if select.select([self.number], [], [], STALL_SECONDS)[0]:
                return os.read(self.number, size)
            if is_first:
                self.on_stall()
            is_first = False
        return b""


def pictures(
    container: Any, stream: Any, clock: Callable[[], float], patience: float = math.inf
) -> Iterator[tuple[Any, bool]]:
    """Decode a feed, and yield pictures with whether some are missing before.

    Unlike a file, a feed is not left after damage: decoding continues with the next key frame. Damage is
    raised after `patience` seconds without a picture, for instance if only sound arrives. If it is finite,
    pictures of formats without timestamps have none, because they are best timed by a clock.
    """
    codec = stream.codec_context
    codec.thread_type = "SLICE"  # threads for whole frames would delay each picture by several frames
    codec.options = {"max_pixels": str(MAX_PIXELS)}
    is_made_up = patience < math.inf and container.format.name in UNTIMED
    is_broken, needs_key, heard = False, False, clock()
    with _as_damage(patience):
        for packet in container.demux():
            if clock() - heard > patience:
                raise Damage(f"no picture in {patience:g} s")
            if packet.stream_index != stream.index or (needs_key and packet.size and not packet.is_keyframe):
                continue
            decoded = None if packet.is_corrupt else _decoded(packet)
            needs_key = decoded is None or any(picture.is_corrupt for picture in decoded)
            for picture in decoded or []:
                if not picture.is_corrupt:
                    picture.pts = None if is_made_up else picture.pts
                    yield picture, is_broken
                    is_broken, heard = False, clock()
            is_broken = is_broken or needs_key


def _decoded(packet: Any) -> list[Any] | None:
    try:
        return list(packet.decode())
    except ERRORS:
        return None


@contextmanager
def _as_damage(patience: float) -> Iterator[None]:
    """Turn errors of FFmpeg into Damage, but for one that stays."""
    try:
        yield
    except av.error.ExitError:  # by the timeout
        raise Damage(f"no data in {patience:g} s") from None
    except av.error.ProtocolNotFoundError:
        raise VideoError("this build of FFmpeg lacks the protocol of the address") from None
    except ERRORS as error:
        raise Damage(reason_of(error)) from None
