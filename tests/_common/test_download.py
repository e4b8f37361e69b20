"""Downloads from a server on this machine: complete, continued, restarted, refused, broken off, damaged."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from sysbags._common.download import CHUNK, download
from sysbags.errors import FileError

DATA = np.random.default_rng(0).bytes(3 * CHUNK + 17)
SHA256 = hashlib.sha256(DATA).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves DATA; `server.mode` says how."""

    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if server.mode == "missing":
            self.send_error(404)
            return
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if server.mode == "ignore":
            first = 0
        if first >= len(DATA):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        if first:
            shown = first + 1 if server.mode == "shifted" else first
            self.send_header("Content-Range", f"bytes {shown}-{len(DATA) - 1}/{len(DATA)}")
        self.send_header("Content-Length", str(len(DATA) - first))
        self.end_headers()
        rest = DATA[first:]
        if server.mode == "closed":
            rest = rest[:CHUNK]
        if server.mode == "damaged":
            rest = bytes(len(rest))
        self.wfile.write(rest)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.mode, server.asked = "usual", []
        server.url = f"http://127.0.0.1:{server.server_port}/net.onnx"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "new" / "net.onnx"


def part_of(target):
    return target.with_name(f"net.onnx.{SHA256[:12]}.part")


def names(target):
    return [path.name for path in target.parent.iterdir()]


def test_a_whole_file(server, target, capfd):
    download(server.url, target, SHA256)
    assert target.read_bytes() == DATA
    assert names(target) == ["net.onnx"]
    assert capfd.readouterr() == ("", "")  # not a terminal


def test_a_broken_connection_is_continued(server, target):
    server.mode = "closed"
    with pytest.raises(FileError, match=rf"broke off \({CHUNK} of {len(DATA)} bytes\), but .*part keeps"):
        download(server.url, target, SHA256)
    assert not target.exists()
    assert part_of(target).read_bytes() == DATA[:CHUNK]
    with pytest.raises(FileError, match=rf"broke off \({2 * CHUNK} of {len(DATA)} bytes\)"):
        download(server.url, target, SHA256)
    server.mode = "usual"
    download(server.url, target, SHA256)
    assert target.read_bytes() == DATA
    assert names(target) == ["net.onnx"]
    assert server.asked == [None, f"bytes={CHUNK}-", f"bytes={2 * CHUNK}-"]


def test_a_server_that_ignores_the_range(server, target):
    target.parent.mkdir()
    part_of(target).write_bytes(DATA[:100])
    server.mode = "ignore"
    download(server.url, target, SHA256)
    assert server.asked == ["bytes=100-"]
    assert target.read_bytes() == DATA


def test_a_server_that_sends_another_part(server, target):
    target.parent.mkdir()
    part_of(target).write_bytes(DATA[:100])
    server.mode = "shifted"
    with pytest.raises(FileError, match="the server sent another part, so run the command again"):
        download(server.url, target, SHA256)
    assert names(target) == []


def test_a_part_that_is_complete(server, target):
    target.parent.mkdir()
    part_of(target).write_bytes(DATA)
    download(server.url, target, SHA256)
    assert target.read_bytes() == DATA


@pytest.mark.parametrize("have", [0, 100, len(DATA) + 5])
def test_another_checksum_removes_the_part(server, target, have):
    if have:
        target.parent.mkdir()
        part_of(target).write_bytes(bytes(have))
    server.mode = "damaged"
    with pytest.raises(FileError, match=f"has the checksum .*, but it must have {SHA256[:12]}: it was rem"):
        download(server.url, target, SHA256)
    assert names(target) == []
    server.mode = "usual"
    download(server.url, target, SHA256)
    assert target.read_bytes() == DATA


def test_a_file_that_is_not_there(server, target):
    server.mode = "missing"
    with pytest.raises(FileError, match=r"^cannot download http.*: the server says 404 Not Found$"):
        download(server.url, target, SHA256)
    assert names(target) == []


def test_no_server(server, target):
    url = server.url.replace(str(server.server_port), "1")
    with pytest.raises(FileError, match=r"^cannot download http://127\.0\.0\.1:1/net\.onnx: .*refused"):
        download(url, target, SHA256)


def test_an_old_file_stays_until_the_new_one_is_complete(server, target):
    target.parent.mkdir()
    target.write_bytes(b"old")
    server.mode = "closed"
    with pytest.raises(FileError, match="broke off"):
        download(server.url, target, SHA256)
    assert target.read_bytes() == b"old"
    server.mode = "usual"
    download(server.url, target, SHA256)
    assert target.read_bytes() == DATA


def test_a_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FileError, match="cannot write"):
        download(server.url, tmp_path / "file" / "net.onnx", SHA256)
