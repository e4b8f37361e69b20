"""The live page of a session that watches: its state, scores, events and clips, over HTTP."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import numpy as np

from sysbags._common.files import json_text
from sysbags.errors import ParameterError
from sysbags.report.templates import render, static
from sysbags.watch.session import Report, Session

PORT = 8765
POINTS, RECORDS = 3000, 500  # that a page is given when it is opened
REFRESH = 1.0  # seconds between two states
LIMIT = 30.0  # seconds for a client that does not take what it is sent
LINES = 480  # of the last frame, at most
QUALITY = 80  # of JPEG
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TEXTS = {"learnt", "event_start", "event"}  # records that a page shows as they are
NOTES: dict[str, Callable[[dict[str, Any]], str]] = {
    "note": lambda record: str(record["text"]),
    "gap": lambda record: f"rows or frames are missing before {record['time']:.1f} s",
    "reconnect": lambda record: f"no connection ({record['reason']}), again in {record['pause']:g} s",
    "connected": lambda record: "connected",
    "skipped": lambda record: f"{record['frames']} frames skipped, as the machine is too slow",
    "end": lambda record: f"the run has ended: {record['reason']}",
}


def address_of(text: str) -> tuple[str, int]:
    """Return the host and the port of "8765" or "192.168.0.2:8765"; without a host it is this computer.

    Examples
    --------
    >>> address_of("8765"), address_of("0.0.0.0:80"), address_of("[::1]:0")
    (('127.0.0.1', 8765), ('0.0.0.0', 80), ('::1', 0))
    """
    found = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):)?([0-9]{1,5})", text.strip())
    if found is None or int(found[2]) > 65535:
        raise ParameterError(f"--view is {text!r}, but it must be a port such as {PORT}, or HOST:PORT")
    return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


class LivePage:
    """Serve the page of a session while it runs.

    Only this computer can open it, unless another host is given: there is no password.

    Parameters
    ----------
    session : Session
        It must report windows.
    report : callable
        Is called with all records, but with those of windows only if `windows`.
    host, port : str and int
        Port 0 is any that is free.
    windows : bool, default=False

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from sysbags.datasets.tables import Table
    >>> from sysbags.watch.numbers import NumberSession
    >>> rows = enumerate(np.random.default_rng(0).standard_normal((900, 6)))
    >>> session = NumberSession(Table("pump", list("abcdef"), rows, False), learn=600.0, length=20)
    >>> with LivePage(session, print, port=0) as page:
    ...     b"<h1>pump</h1>" in urlopen(page.url).read()
    True
    """

    def __init__(
        self,
        session: Session,
        report: Report,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        windows: bool = False,
    ) -> None:
        self.session, self._report, self._windows = session, report, windows
        self._messages = {"point": deque[tuple[int, str]]([], POINTS), "record": deque(maxlen=RECORDS)}
        self._messages["status"] = deque(maxlen=1)  # the last one
        self._count, self._changed, self._ended = 0, threading.Condition(), False
        self._point: dict[str, Any] | None = None
        self.clips: dict[str, Path] = {}
        self._jpeg: tuple[Any, bytes] = (None, b"")

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads, block_on_close = True, False
            page = self

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Say nothing: the client has gone."""

        try:
            self.server = Server((host, port), _Handler)
        except OSError as error:
            raise ParameterError(f"cannot serve a page at {host}:{port}: {error.strerror or error}") from None
        self.port = int(self.server.server_address[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        # A page of another site must not read this one by a name of its own that leads here.
        local = {"localhost", "127.0.0.1", "::1"}
        is_local = host in local or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)
        self.hosts = local | {host} if is_local else None

    def __enter__(self) -> LivePage:
        self._began = time.monotonic(), self.session.frames
        threading.Thread(target=self.server.serve_forever, args=(0.1,), name="page", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._send("status", self.status() | {"state": "the run has ended"})
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def report(self, record: dict[str, Any]) -> None:
        """Pass a record on, and show it."""
        if record["type"] != "window" or self._windows:
            self._report(record)
        kind = record["type"]
        if kind == "start":
            self._report({"type": "note", "text": f"the live page is {self.url}"})
        if kind == "window":
            self._add_window(record)
        elif kind in TEXTS:
            clip = record.get("clip")
            if clip is not None:
                self.clips[Path(clip).name] = Path(clip)
                record = {**record, "address": f"clips/{quote(Path(clip).name)}"}
            self._send("record", record)
        elif kind in NOTES:
            self._send("record", {"type": kind, "text": NOTES[kind](record)})

    def _add_window(self, record: dict[str, Any]) -> None:
        """Join the windows that end at the same time: the most unusual of all regions and bags counts."""
        threshold = self.session.thresholds.get((record["region"], record["bag"]))
        found = None if threshold is None else record["surprise"] / threshold
        evidence = None if threshold is None else record["evidence"]
        if self._point is not None and self._point["time"] < record["stop"]:
            self._send("point", self._point)
            self._point = None
        if self._point is None:
            self._point = {"time": record["stop"], "score": found, "evidence": evidence}
        elif found is not None and evidence is not None:
            self._point["score"] = max(found, self._point["score"] or 0.0)
            self._point["evidence"] = max(evidence, self._point["evidence"] or 0.0)

    def _send(self, name: str, data: dict[str, Any]) -> None:
        with self._changed:
            self._count += 1
            self._messages[name].append((self._count, json_text(data, indent=None)))
            self._changed.notify_all()

    def messages(self, last: int, seconds: float) -> tuple[list[tuple[int, str, str]], bool]:
        """Return the messages after one, when there are any or so many seconds later, and whether it ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._count > last or self._ended, seconds)
            new = [
                (number, name, text)
                for name, those in self._messages.items()
                for number, text in those
                if number > last
            ]
            return sorted(new), self._ended

    def status(self) -> dict[str, Any]:
        """Return what is shown at the top of the page."""
        session, (began, frames) = self.session, self._began
        state = f"learning, {100.0 * session.progress:.0f} %" if session.is_learning else "normal"
        return {
            "state": "event" if session.open_events else state,
            "frames": session.frames,
            "unit": session.unit,
            "skipped": session.skipped,
            "events": session.events + len(session.open_events),
            "speed": (session.frames - frames) / max(time.monotonic() - began, 1e-3),
            "has_picture": session.picture is not None,
        }

    def jpeg(self) -> bytes | None:
        """Return the last frame."""
        import cv2

        picture = self.session.picture
        if picture is None:
            return None
        with self._changed:
            if self._jpeg[0] is not picture:
                share = min(1.0, LINES / picture.shape[0])
                small = cv2.resize(picture, None, fx=share, fy=share, interpolation=cv2.INTER_AREA)
                shown = small if small.ndim == 2 else np.ascontiguousarray(small[..., ::-1])
                data = cv2.imencode(".jpg", shown, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()
                self._jpeg = picture, data
            return self._jpeg[1]


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Handler(BaseHTTPRequestHandler):
    """Answer the requests of a browser."""

    server_version, sys_version = "sysbags", ""
    timeout = LIMIT

    @property
    def page(self) -> LivePage:
        return self.server.page  # type: ignore[attr-defined, no-any-return]

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def end_headers(self) -> None:
        for name, value in {
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        super().end_headers()

    def do_GET(self) -> None:
        page, path = self.page, urlsplit(self.path).path
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if page.hosts is not None and host not in page.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, "This page is for this computer")
        elif path == "/":
            self._answer(render("live.html", title=page.session.video.name).encode(), "text/html")
        elif path == "/live.css":
            self._answer((static("plain.css") + static("live.css")).encode(), "text/css")
        elif path == "/live.js":
            self._answer(static("live.js").encode(), "text/javascript")
        elif path == "/stream":
            self._stream()
        elif path == "/frame.jpg" and (jpeg := page.jpeg()) is not None:
            self._answer(jpeg, "image/jpeg")
        elif path.startswith("/clips/") and (clip := page.clips.get(unquote(path[len("/clips/") :]))):
            self._clip(clip)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind + ("; charset=utf-8" if kind.startswith("text/") else ""))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        """Send what is new, as server-sent events, until the session or the client ends."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        last, next_status = 0, 0.0
        with suppress(OSError):  # the client has gone, or takes nothing
            has_ended = False
            while not has_ended:
                new, has_ended = self.page.messages(last, max(0.0, next_status - time.monotonic()))
                text = "".join(f"event: {name}\ndata: {data}\n\n" for _, name, data in new)
                last = new[-1][0] if new else last
                if time.monotonic() >= next_status and not has_ended:
                    next_status = time.monotonic() + REFRESH
                    text += f"event: status\ndata: {json_text(self.page.status(), indent=None)}\n\n"
                self.wfile.write(text.encode())
                self.wfile.flush()

    def _clip(self, path: Path) -> None:
        """Send a clip or a part of it: phones ask for parts."""
        try:
            data = path.read_bytes()
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        begin, end = 0, len(data) - 1
        if found is not None and found[1]:
            begin, end = int(found[1]), min(end, int(found[2] or end))
        elif found is not None and found[2]:
            begin = max(0, len(data) - int(found[2]))
        if begin > end:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(HTTPStatus.OK if found is None else HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", "video/mp4")
        self.send_header("Accept-Ranges", "bytes")
        if found is not None:
            self.send_header("Content-Range", f"bytes {begin}-{end}/{len(data)}")
        self.send_header("Content-Length", str(end + 1 - begin))
        self.end_headers()
        self.wfile.write(data[begin : end + 1])
