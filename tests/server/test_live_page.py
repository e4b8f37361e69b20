"""The live page, over HTTP: what it serves, to whom, and how it ends; and in a browser where there is one."""

from __future__ import annotations

import http.client
import json
import re
import threading
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import cv2
import numpy as np
import pytest

import browser as chromium
from pages import Page
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import WatchedEvent, make_watching
from sysbags.datasets.tables import Table
from sysbags.errors import ParameterError
from sysbags.server.live import POLICY, LivePage, address_of
from sysbags.video import write_video
from sysbags.watch.numbers import NumberSession
from sysbags.watch.session import Outputs, Session

EVENTS = (WatchedEvent(50.0, 58.0, "covered", 1.0),)


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "<wheel> & co.mp4"
    write_video(path, make_watching("wheel", 70.0, rate=10.0, events=EVENTS).frames(), 10.0)
    return path


@contextmanager
def finished(film, folder, **options):
    """The page of a session that is over, and the records that were passed on."""
    outputs = Outputs(clips=folder / "clips", windows=True)
    bag = LocalBinaryPatterns()
    session = Session(film, bag, outputs=outputs, learn=42.0, false_alarms=1 / 600, length=20, step=5)
    records = []
    with LivePage(session, records.append, port=0, **options) as page:
        session.run(page.report)
        yield page, records


@pytest.fixture(scope="module")
def served(film, tmp_path_factory):
    with finished(film, tmp_path_factory.mktemp("served")) as found:
        yield found


def get(page, path="", **headers):
    with urlopen(Request(page.url + path, headers=headers), timeout=30.0) as answer:
        return answer.status, answer.headers, answer.read()


def stream(page, count):
    """The first messages of the stream, as (name, data)."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30.0)
    connection.request("GET", "/stream")
    answer, messages = connection.getresponse(), []
    assert answer.headers["Content-Type"] == "text/event-stream"
    while len(messages) < count:
        name = answer.readline().decode().removeprefix("event: ").strip()
        messages.append((name, json.loads(answer.readline().decode().removeprefix("data: "))))
        assert answer.readline() == b"\n"
    connection.close()
    return messages


def test_the_page_and_its_policy(served):
    page, _ = served
    status, headers, body = get(page)
    parsed = Page(body.decode())  # the name of the file is escaped
    assert status == 200
    assert "<wheel> & co.mp4" in parsed.text
    assert headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    # The policy forbids what is in the page itself: styles, scripts, handlers.
    for tag, attributes in parsed.seen:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert tag != "style"
        assert tag != "script" or attributes["src"] == "live.js"
    assert get(page, "live.css")[1]["Content-Type"].startswith("text/css")
    script = get(page, "live.js")[2].decode()
    identifiers = {attributes["id"] for _, attributes in parsed.seen if "id" in attributes}
    assert set(re.findall(r'\$\("(\w+)"\)', script)) <= identifiers
    assert "innerHTML" not in script


def test_the_stream_has_scores_events_and_rates(served):
    page, records = served
    assert not [record for record in records if record["type"] == "window"]  # not asked for
    assert records[1] == {"type": "note", "text": f"the live page is {page.url}"}
    count = page._count
    messages = stream(page, count + 1)
    assert messages[-1][0] == "status"
    assert messages[-1][1]["frames"] == 700
    assert messages[-1][1]["has_picture"]
    points = [data for name, data in messages if name == "point"]
    assert [point["time"] for point in points] == sorted({point["time"] for point in points})
    assert points[0]["score"] is None  # while learning
    (event,) = [record for record in records if record["type"] == "event"]
    inside = [p["score"] for p in points if event["start"] + 2.0 < p["time"] < event["end"]]
    assert min(inside) > 1.0  # in units of the threshold
    shown = [data for name, data in messages if name == "record"]
    assert [data["type"] for data in shown] == ["learnt", "event_start", "event", "end"]
    assert shown[0] == next(record for record in records if record["type"] == "learnt")
    assert shown[1]["id"] == shown[2]["id"]


def test_the_last_frame(served):
    page, _ = served
    status, headers, body = get(page, "frame.jpg?700")
    assert (status, headers["Content-Type"]) == (200, "image/jpeg")
    picture = cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert picture.shape == page.session.picture.shape
    assert np.abs(picture.astype(float) - page.session.picture).mean() < 3.0  # JPEG


def test_clips_and_parts_of_them(served):
    page, records = served
    (event,) = [record for record in records if record["type"] == "event"]
    (clip,) = page.clips.values()
    data = clip.read_bytes()
    (address,) = {data["address"] for _, data in stream(page, page._count) if "address" in data}
    assert str(clip) == event["clip"]
    assert get(page, address)[2] == data
    for asked, begin, end in (("0-1", 0, 2), ("100-", 100, len(data)), ("-7", len(data) - 7, len(data))):
        status, headers, body = get(page, address, Range=f"bytes={asked}")
        assert (status, body) == (206, data[begin:end])
        assert headers["Content-Range"] == f"bytes {begin}-{end - 1}/{len(data)}"
    for path, asked, code in (
        (address, f"bytes={len(data)}-", 416),
        ("clips/../" + clip.name, "", 404),
        ("clips/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "", 404),
        ("etc/passwd", "", 404),
    ):
        with pytest.raises(HTTPError) as error:
            get(page, path, Range=asked)
        assert error.value.code == code
        assert error.value.headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize(("host", "code"), [("localhost", 200), ("127.0.0.1", 200), ("evil.example", 403)])
def test_a_name_of_another_site_is_refused(served, host, code):
    page, _ = served
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30.0)
    connection.request("GET", "/", headers={"Host": f"{host}:{page.port}"})
    assert connection.getresponse().status == code
    connection.close()


def test_an_open_stream_ends_with_the_session(film, tmp_path):
    ended = []
    with finished(film, tmp_path, windows=True) as (page, records):
        assert [record for record in records if record["type"] == "window"]
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30.0)
        connection.request("GET", "/stream")
        answer = connection.getresponse()
        answer.readline()
        reader = threading.Thread(target=lambda: ended.append(answer.read()))
        reader.start()
    reader.join(30.0)
    assert len(ended) == 1
    assert ended[0].count(b"the run has ended") == 2  # a note, and the last status
    connection.close()
    with pytest.raises(OSError, match="refused"):
        get(page)


def test_numbers_have_no_picture():
    rows = enumerate(np.random.default_rng(0).standard_normal((900, 6)))
    table = Table("pump", list("abcdef"), rows, False)
    session = NumberSession(table, outputs=Outputs(windows=True), learn=600.0, length=20)
    with LivePage(session, lambda record: None, port=0) as page:
        session.run(page.report)
        status = page.status()
        assert (status["unit"], status["has_picture"], status["frames"]) == ("rows", False, 900)
        with pytest.raises(HTTPError):
            get(page, "frame.jpg")


@pytest.mark.parametrize("text", ["", "port", "70000", "a:b", "::1:80", "host:"])
def test_mistakes(text):
    with pytest.raises(ParameterError, match="must be a port"):
        address_of(text)


def test_a_port_that_is_taken(served):
    page, _ = served
    with pytest.raises(ParameterError, match=r"cannot serve a page at 127.0.0.1:\d+: Address already in use"):
        LivePage(page.session, print, port=page.port)


@pytest.mark.skipif(chromium.executable() is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [390, 1400])
def test_in_a_browser(served, tmp_path, width):
    page, _ = served
    with chromium.Browser(tmp_path / "profile") as browser:
        browser.open(page.url, width=width)
        browser.evaluate(
            "new Promise(done => { const look = () => document.querySelector('#events video')"
            " && document.querySelector('#frame').complete ? done(1) : setTimeout(look, 50); look(); })"
        )
        assert browser.evaluate("document.querySelectorAll('#rates tbody tr').length") == 1
        assert browser.evaluate("document.querySelector('#score').getTotalLength()") > 100
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
        assert all(url.startswith(page.url) for url in browser.requests())
        browser.screenshot(tmp_path / f"{width}.png", whole=True)
