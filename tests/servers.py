"""Servers on the loopback interface that send videos, break off, and come back."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from fractions import Fraction

import av

SDP = (
    "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=test\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
    "m=video 0 RTP/AVP 32\r\na=control:0\r\n"  # 32 is MPEG-2 video
)
RTSP_HEADERS = {
    "OPTIONS": "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n",
    "DESCRIBE": f"Content-Type: application/sdp\r\nContent-Length: {len(SDP)}\r\n",
    "SETUP": "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n",
}


class Clock:
    """Time that passes only while something sleeps; `pauses` are the sleeps."""

    def __init__(self, at_pause=None):
        self.now, self.pauses, self.at_pause = 100.0, [], at_pause

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.pauses.append(seconds)
        if self.at_pause is not None:
            self.at_pause(len(self.pauses))


@contextmanager
def server(*scripts):
    """Run one script for each connection in turn, with its file; later connections are closed at once.

    Yield the port. A script that waits is given an event that is set at the end.
    """
    released, connections = threading.Event(), []

    def accept():
        left = iter(scripts)
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            script = next(left, None)
            thread = threading.Thread(target=answer, args=(connection, script), name="server")
            connections.append((connection, thread))
            thread.start()

    def answer(connection, script):
        with suppress(OSError), connection, connection.makefile("rwb") as file:  # the client may close it
            if script is not None:
                script(file, released)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept, name="server")
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            released.set()
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for connection, thread in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                thread.join()


def http(body, *, kind="video/mp2t", length=None, then_wait=False):
    """A script that sends a body by HTTP, and then closes the connection or waits."""

    def script(file, released):
        _request(file)
        size = "" if length is None else f"Content-Length: {length}\r\n"
        file.write(f"HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\n{size}\r\n".encode() + body)
        file.flush()
        if then_wait:
            released.wait()

    return script


def silence(file, released):
    """A script that never answers."""
    released.wait()


def rtsp(packets, *, then_wait=False):
    """A script that sends RTP packets by RTSP over TCP."""

    def script(file, released):
        while lines := _request(file):
            method = lines[0].split()[0]
            number = next(line for line in lines if line.lower().startswith("cseq"))
            headers = RTSP_HEADERS.get(method, "Session: 1\r\n")
            body = SDP if method == "DESCRIBE" else ""
            file.write(f"RTSP/1.0 200 OK\r\n{number}\r\n{headers}\r\n{body}".encode())
            if method == "PLAY":
                for packet in packets:
                    is_control = 72 <= packet[1] & 0x7F <= 76
                    file.write(b"$" + bytes([is_control]) + len(packet).to_bytes(2, "big") + packet)
                file.flush()
                if then_wait:
                    released.wait()
                return
            file.flush()

    return script


def _request(file):
    """The lines of a request, or none at the end of the connection."""
    lines = []
    while line := file.readline().strip():
        lines.append(line.decode())
    return lines


def rtp_packets(frames, fps=25):
    """(T, H, W) frames as RTP packets of MPEG-2 video."""
    packets = []

    class Sink:
        def write(self, data):
            packets.append(bytes(data))
            return len(data)

    with av.open(Sink(), "w", format="rtp", options={"packetsize": "1200"}) as container:
        stream = container.add_stream("mpeg2video", rate=fps)
        stream.height, stream.width = frames.shape[1:]
        stream.pix_fmt, stream.codec_context.thread_count = "yuv420p", 1
        for index, array in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(array, "gray").reformat(format="yuv420p")
            picture.pts, picture.time_base = index, Fraction(1, fps)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return packets
