"""Decoding of a file by FFmpeg, and the timing of pictures: no other file is opened, damage is reported."""

from __future__ import annotations

import errno
import math
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import av
from av.stream import Disposition

from sysbags.errors import VideoError

MAX_PIXELS = 2**27  # 16384 x 8192: a damaged header must not exhaust the memory
ERRORS = (av.FFmpegError, MemoryError, OSError, OverflowError, ValueError)
MOST_PENDING = 1000  # maximal number of packets without a picture; no decoder delays more than 50
MAX_REPEATS = 2**20  # of one frame: damaged timestamps must not give an endless video
END: Any = object()  # in the place of a picture, because an iterator of frames may yield anything
CUT = "the file is cut off"
NO_VIDEO = "FFmpeg finds no video in it"
NO_SIZE = f"its header gives no picture size, or one above the limit of {MAX_PIXELS} pixels"


class Damage(Exception):  # noqa: N818 (a warning as often as an error)
    """The reason why a file cannot be read further."""


def decoded(path: Path, threads: int) -> Generator[av.VideoFrame, None, None]:
    """Yield the pictures of a file in the order of presentation, and raise Damage at the first damage.

    With one thread all pictures before the first damage are yielded. With several threads, 0 for the default
    of FFmpeg, the pictures that are still in the decoder are not, because the packet of an error is not
    known, and there may be no damage in spite of a Damage: try 1.
    """
    with _opened(path) as (container, stream):
        codec = stream.codec_context
        codec.thread_type, codec.thread_count = "AUTO", threads
        # Without "explode" the JPEG decoder ignores damage; with it other decoders fail on healthy files.
        strictness = {"err_detect": "explode"} if codec.name == "mjpeg" else {}
        codec.options = {"max_pixels": str(MAX_PIXELS), **strictness}
        cut = is_cut(path)
        packets = _packets(container, stream, cut)
        tally = _Tally(container, stream)
        damage, limit = "", math.inf
        while not damage:
            packet = None
            try:
                packet, is_complete = next(packets, (None, True))
                if packet is None:
                    break
                if not is_complete:
                    raise Damage(CUT if cut else "a frame is incomplete")
                pictures = packet.decode()
            except (*ERRORS, Damage) as error:
                damage = reason_of(error)
                pictures = _delayed(stream) if threads == 1 else []
                if packet is not None and packet.pts is not None:
                    limit = packet.pts
            else:
                tally.add_packet(packet)
            for picture in pictures:
                if picture.is_corrupt:
                    raise Damage("a frame is damaged")
                if picture.pts is None or picture.pts < limit:
                    tally.add_picture(picture)
                    yield picture
        damage = damage or CUT * cut or tally.missing(suspicious=threads != 1)
        if damage != CUT and not stream.width:  # FFmpeg sets a size that it does not accept to 0
            damage = f"{NO_SIZE} ({damage})" if damage else NO_SIZE
        if damage:
            raise Damage(damage)


class _Tally:
    """Compares the packets, the decoded pictures and the header of a file.

    Not all damage raises an error: demuxers skip data that they do not understand, PyAV drops an error that
    comes together with pictures, and some decoders leave out a frame without an error.
    """

    def __init__(self, container: Any, stream: Any) -> None:
        self.container, self.stream, self.codec = container, stream, stream.codec_context.name
        self.count, self.first, self.last = 0, math.inf, -math.inf
        self.pending: set[int] = set()
        self.is_interlaced = self.is_lossy = False

    def add_packet(self, packet: Any) -> None:
        if packet.size == 0:
            return
        self.count += 1
        # a VP8 packet without this bit is a reference for others and is not shown
        is_shown = self.codec != "vp8" or memoryview(packet)[0] & 0x10
        if packet.pts is not None and is_shown and not packet.is_discard:
            self.pending.add(packet.pts)
            self.last = max(self.last, packet.pts + (packet.duration or 0))

    def add_picture(self, picture: av.VideoFrame) -> None:
        self.is_interlaced = self.is_interlaced or picture.interlaced_frame
        if picture.pts is not None:
            self.first = min(self.first, picture.pts)
            self.pending.discard(picture.pts)
            if len(self.pending) > MOST_PENDING:  # the pictures of earlier packets are missing
                self.is_lossy = self.is_lossy or any(self.first < pts < picture.pts for pts in self.pending)
                self.pending.clear()

    def missing(self, suspicious: bool) -> str:
        """Return what is missing at the end of the file, or an empty string."""
        kind, rate = self.container.format.name, self.stream.average_rate
        seconds = (self.container.duration or 0) / av.time_base
        if kind == "avi" and self.count < self.stream.frames:
            return f"its header promises {self.stream.frames} frames"
        is_single = "matroska" in kind and len(self.container.streams) == 1  # else the sound may be longer
        if is_single and rate and self.last * self.stream.time_base + 1.5 / rate < seconds:
            return f"its header promises {seconds:.6g} s"
        # packets without a picture are usual in other codecs, before the first picture and for second fields
        is_sure = self.codec in ("h264", "hevc") and not self.is_interlaced
        is_lossy = self.is_lossy or any(pts > self.first for pts in self.pending)
        if is_lossy and (suspicious or is_sure):
            return "some frames cannot be decoded"
        return ""


def _packets(container: Any, stream: Any, cut: bool) -> Iterator[tuple[Any, bool]]:
    """Yield packets and whether they are complete; the last one is empty and flushes the decoder.

    Not all demuxers mark the last packet of a file that is cut off as incomplete.
    """
    previous = None
    for packet in container.demux(stream):
        if not cut:
            yield packet, not packet.is_corrupt
            continue
        if previous is not None:
            yield previous, packet.size > 0 and not previous.is_corrupt
        previous = packet


def _delayed(stream: Any) -> list[Any]:
    """Return the pictures that the decoder has delayed for the order of presentation."""
    empty = av.Packet()
    empty.stream = stream
    empty.time_base = stream.time_base
    try:
        return empty.decode()
    except ERRORS:
        return []


def reason_of(error: Exception) -> str:
    """Return the text of an error, without the name of the file."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


class _Nameless:
    """A file without its name: from a name FFmpeg could take a text for a video, or look for more files."""

    def __init__(self, file: IO[bytes]) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """Open a file and its main picture stream."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "rb", buffering=0))
        except OSError as error:
            raise Damage(f"{NO_VIDEO} ({reason_of(error)})") from None
        container = stack.enter_context(open_bytes(_Nameless(file)))
        yield container, main_stream(container)


class Ticks:
    """Counts how many times each picture is repeated if the one on screen is used every 1/rate seconds.

    The first tick is at the time `first`, by default that of the first picture. Ticks before the first
    picture are counted, but there is nothing on screen. `name` is that of the video in messages.
    """

    def __init__(self, rate: Fraction, name: str, first: Fraction | None = None) -> None:
        self.rate, self.name, self.first = rate, name, first
        self.count, self.before, self.stay = 0, Fraction(0), 1 / rate
        self.shown: Any = None

    def next(self, picture: Any) -> tuple[Any, int]:
        """Return the picture before this one, and on how many ticks it is on screen.

        END is the end of the video: the last picture stays for its duration, or for that of the previous one.
        """
        previous, times = self.shown, 0
        if picture is END:
            if previous is not None:
                stay = previous.duration * previous.time_base if previous.duration else self.stay
                times = self._until(self.before + stay)
            return previous, times
        if picture.pts is None or picture.time_base is None:
            raise VideoError(f"{self.name} has frames without timestamps: leave rate out")
        now = picture.pts * picture.time_base
        if self.first is None:
            self.first = now
        # stored times and rate are rounded, so a tick just before a frame belongs to that frame
        times = self._until(now - min(picture.time_base / 2, Fraction(1, 1000)))
        if previous is not None and now > self.before:
            self.stay = now - self.before
        self.shown, self.before = picture, now
        return previous, times if previous is not None else 0

    def _until(self, time: Fraction) -> int:
        assert self.first is not None  # there was a picture
        times = max(0, math.ceil((time - self.first) * self.rate) - self.count)
        if times > MAX_REPEATS:
            raise VideoError(
                f"{self.name} has timestamps {float(time - self.before):.3g} s apart: leave rate out"
            )
        self.count += times
        return times


def container_facts(path: Path) -> dict[str, Any]:
    r"""Return "codec", "frames_per_second", "seconds", "frames", "width" and "height" of a video file.

    They are as its header says, or None; the number of frames may be that of the rate and the seconds. A file
    that is missing, or no video, is a `VideoError`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "clip.y4m"
    >>> _ = path.write_bytes(b"YUV4MPEG2 W8 H8 F25:2 Cmono\n" + 30 * (b"FRAME\n" + bytes(64)))
    >>> container_facts(path)
    {'codec': 'rawvideo', 'frames_per_second': 12.5, 'seconds': 2.4, 'frames': 30, 'width': 8, 'height': 8}
    """
    try:
        with _opened(path) as (container, stream):
            rate = None if stream.average_rate is None else float(stream.average_rate)
            seconds = None if container.duration is None else container.duration / av.time_base
            return {
                "codec": stream.codec_context.name,
                "frames_per_second": rate,
                "seconds": seconds,
                "frames": stream.frames or (round(seconds * rate) if seconds and rate else None),
                "width": stream.width or None,
                "height": stream.height or None,
            }
    except Damage as damage:
        raise VideoError(f"{path} cannot be read: {damage}") from None


def open_bytes(file: Any) -> Any:
    """Open an object with a method `read` as a video; a playlist in it cannot open other files or hosts."""
    options = {"max_pixels": str(MAX_PIXELS)}
    forbidden = {"protocol_whitelist": "none"}
    try:
        return av.open(file, options=options, container_options=forbidden, metadata_errors="replace")
    except ERRORS as error:
        # The Y4M demuxer adds 6, the length of its mark, to the error EINVAL of a size that is too large.
        if getattr(error, "errno", None) == errno.EINVAL - 6:
            raise Damage(NO_SIZE) from None
        raise Damage(f"{NO_VIDEO} ({reason_of(error)})") from None


def main_stream(container: Any) -> Any:
    """Return the main picture stream, or raise Damage."""
    stream = container.streams.best("video")
    if stream is None or stream.disposition & Disposition.attached_pic:
        kinds = sorted({stream.type for stream in container.streams})
        raise Damage(f"it holds no moving picture, only {' and '.join(kinds) or 'a header'}")
    if stream.codec_context is None:
        raise Damage("FFmpeg has no decoder for its pictures")
    if stream.width * stream.height > MAX_PIXELS:
        raise Damage(f"{stream.height} x {stream.width} pixels are above the limit of {MAX_PIXELS}")
    return stream


def is_cut(path: Path) -> bool:
    """Return whether a file is shorter than its container says, which demuxers do not check.

    This works for MP4 and related formats, AVI and WebP, Matroska and WebM, MPEG-TS, GIF and JPEG.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(189)
        if head[:4] == b"RIFF":
            return 8 + int.from_bytes(head[4:8], "little") > size
        if head[:4] == b"\x1a\x45\xdf\xa3":
            return _segment_end(head) > size
        if head[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"):
            return _boxes_end(file, size) > size
        if head[:4] == b"GIF8":
            return _blocks_end(file, head[10]) > size
        if head[:1] == head[188:] == b"G":
            return size % 188 != 0
        file.seek(max(0, size - 2**16))
        return head[:3] == b"\xff\xd8\xff" and b"\xff\xd9" not in file.read()


def _boxes_end(file: IO[bytes], size: int) -> int:
    """Return the end of the last box at the top level of an MP4 file."""
    end = 0
    while end + 8 <= size:
        file.seek(end)
        header = file.read(16)
        length = int.from_bytes(header[:4], "big")
        if length == 1:
            length = int.from_bytes(header[8:16], "big")
        if length < 8:  # 0: up to the end of the file
            break
        end += length
    return end


def _segment_end(head: bytes) -> int:
    """Return the end of the segment of a Matroska file, or 0 if it is not given."""

    def number(at: int) -> tuple[int, int]:
        width = 9 - head[at : at + 1].rjust(1, b"\1")[0].bit_length()
        return int.from_bytes(head[at : at + width], "big") & ((1 << 7 * width) - 1), at + width

    length, at = number(4)
    at += length
    if head[at : at + 4] != b"\x18\x53\x80\x67":
        return 0
    length, at = number(at + 4)
    return 0 if length & (length + 1) == 0 else at + length


def _blocks_end(file: IO[bytes], flags: int) -> float:
    """Return the end of a GIF file, or infinity if its chain of blocks is broken."""

    def colours(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 0x80 else 0

    file.seek(13 + colours(flags))
    while (kind := file.read(1)) in (b"!", b","):
        if kind == b",":
            flags = file.read(9).ljust(9, b"\0")[8]
            file.seek(colours(flags), 1)
        file.seek(1, 1)  # the label of an extension, the code size of a picture
        while length := file.read(1).ljust(1, b"\0")[0]:
            file.seek(length, 1)
    return file.tell() if kind == b";" else math.inf
