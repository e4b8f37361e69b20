"""Who is told of events: commands, an HTTP server that fails, hangs and returns, and a real MQTT broker."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sysbags.errors import ParameterError
from sysbags.watch.delivery import Broker, Command, Delivery, Webhook, spool_folder

UNIT = 0.01  # seconds; nothing that is checked depends on it
START, END = {"type": "start", "input": "film.mp4", "regions": []}, {"type": "end"}


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """A busy machine changes nothing."""
    monkeypatch.setattr("sysbags.watch.delivery.GRACE", 60.0)


def events(*numbers):
    return [{"type": "event", "id": str(k), "start": float(k)} for k in numbers]


@contextmanager
def web_server(*answers):
    """Answer by a status each, or None to hang until the end; 204 after the last one.

    Yield the port, and the requests as (status, headers, document).
    """
    released, seen, left = threading.Event(), [], iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = next(left, 204)
            seen.append((status, dict(self.headers), document))
            if status is None:
                released.wait()
                return
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1], seen
        finally:
            released.set()
            server.shutdown()
            thread.join()


def deliver(folder, receivers, records):
    """What is reported in a session with these records."""
    shown = []
    with Delivery(shown.append, receivers, folder, unit=UNIT) as delivery:
        for record in (START, *records, END):
            delivery.report(record)
    return shown


def notes(shown):
    return [record["text"] for record in shown if record["type"] == "note"]


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_server_that_fails_hangs_and_returns(tmp_path):
    with web_server(500, None, 302, 404) as (port, seen):
        hook = Webhook(f"http://user:secret%21@127.0.0.1:{port}/told?key=k", limit=0.3)
        shown = deliver(tmp_path / "unsent", [hook], events(1, 2))
    # The first failure is noted, and no more: it has recovered before the end.
    (text,) = notes(shown)
    assert f"http://user:***@127.0.0.1:{port}/told?key=***" in text
    assert "HTTP Error 500" in text
    assert [record for record in shown if record["type"] != "note"] == [START, *events(1, 2), END]
    assert [status for status, *_ in seen[:4]] == [500, None, 302, 404]
    received = [document for status, _, document in seen if status == 204]
    assert sorted(document["id"] for document in received) == ["1", "2"]
    assert all(document["input"] == "film.mp4" for document in received)
    assert seen[0][1]["Authorization"] == "Basic dXNlcjpzZWNyZXQh"
    assert seen[0][1]["Content-Type"] == "application/json"
    assert not (tmp_path / "unsent").exists()  # all has been sent


def test_an_event_that_is_refused_does_not_hold_up_others(tmp_path, monkeypatch):
    told = []

    class Refusing:
        name = "the receiver"

        def deliver(self, text):
            document = json.loads(text)
            if document["id"] == "1":
                raise ValueError("no")
            told.append(document["id"])

    monkeypatch.setattr("sysbags.watch.delivery.GRACE", 0.5)
    shown = deliver(tmp_path, [Refusing()], events(1, 2, 3))
    assert told == ["2", "3"]
    assert "1 message for the receiver kept in" in notes(shown)[-1]


def test_a_server_that_hangs_blocks_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("sysbags.watch.delivery.GRACE", 0.0)
    taken = threading.Event()

    class Hanging:
        name = "the receiver"

        def deliver(self, text):
            taken.set()
            threading.Event().wait(60.0)

    begun = time.monotonic()
    shown = deliver(tmp_path, [Hanging()], events(*range(20)))
    assert taken.wait(60.0)
    assert time.monotonic() - begun < 50.0  # a single event that is waited for would take 60 seconds
    assert "20 messages for the receiver kept in" in notes(shown)[-1]


def test_what_was_not_sent_is_sent_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr("sysbags.watch.delivery.GRACE", 0.05)
    address = f"http://127.0.0.1:{closed_port()}/"
    shown = deliver(tmp_path, [Webhook(address)], events(1, 2))
    assert "2 messages for the webhook" in notes(shown)[-1]
    assert len(list(tmp_path.glob("*/*.json"))) == 2
    monkeypatch.setattr("sysbags.watch.delivery.GRACE", 60.0)
    with web_server() as (port, seen):
        hook = Webhook(f"http://127.0.0.1:{port}/")
        hook.name = Webhook(address).name  # the same receiver
        assert notes(deliver(tmp_path, [hook], events(3))) == []
    assert [document["id"] for _, _, document in seen] == ["1", "2", "3"]
    assert not tmp_path.exists()


def test_only_the_last_events_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("sysbags.watch.delivery.GRACE", 0.0)
    monkeypatch.setattr("sysbags.watch.delivery.KEPT", 3)
    deliver(tmp_path, [Webhook(f"http://127.0.0.1:{closed_port()}/")], events(*range(9)))
    kept = [json.loads(path.read_text())["id"] for path in sorted(tmp_path.glob("*/*.json"))]
    assert kept == ["6", "7", "8"]


def test_a_command_gets_the_event_and_no_shell(tmp_path):
    code = (
        "import json, sys; open(sys.argv[1], 'a').write(json.load(open(sys.argv[2]))['id'] + sys.argv[3]); "
        "print('not on our output')"
    )
    words = [sys.executable, "-c", f'"{code}"', str(tmp_path / "out"), "{event.json}", "'; $HOME'"]
    assert notes(deliver(tmp_path / "unsent", [Command(" ".join(words))], events(1, 2))) == []
    assert (tmp_path / "out").read_text() == "1; $HOME2; $HOME"


def test_a_command_that_fails_or_hangs(tmp_path):
    with pytest.raises(ChildProcessError, match=r"^exit code 3: worse$"):
        Command("sh -c 'echo bad >&2; echo worse >&2; exit 3' {event.json}").deliver("{}")
    # What it has started is ended, too: it would write the file when the pipe is closed.
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"ended after 0.2 s"):
        Command("sh -c 'sleep 50; sleep 50' {event.json}", limit=0.2).deliver("{}")
    assert time.monotonic() - begun < 40.0


@contextmanager
def mqtt_broker(port, monkeypatch):
    """A broker in a thread; the topics and documents that it received.

    They are taken where the broker reads them: amqtt may lose a message that it has confirmed when the
    client disconnects before it was passed to the subscribers.
    """
    from amqtt.broker import Broker as Server
    from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler

    received, confirm = [], BrokerProtocolHandler.handle_publish

    async def handle_publish(handler, packet):
        received.append((packet.topic_name, json.loads(packet.data)))
        await confirm(handler, packet)

    monkeypatch.setattr(BrokerProtocolHandler, "handle_publish", handle_publish)
    loop, ready, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    plugins = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
    config = {"listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}}, "plugins": plugins}

    async def serve():
        server = Server(config)
        await server.start()
        ready.set()
        await ended.wait()
        await server.shutdown()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(30.0)
        yield received
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def test_a_broker_that_is_away_and_returns(tmp_path, monkeypatch):
    pytest.importorskip("amqtt")
    port = closed_port()
    shown, failed = [], threading.Event()

    def report(record):
        shown.append(record)
        if record["type"] == "note":
            failed.set()

    broker = Broker(f"127.0.0.1:{port}/home/oven 1")
    with Delivery(report, [broker], tmp_path / "unsent", unit=UNIT) as delivery:
        for record in (START, *events(1, 2)):
            delivery.report(record)
        assert failed.wait(30.0)
        with mqtt_broker(port, monkeypatch) as received:
            delivery.report(END)
    assert {topic for topic, _ in received} == {"home/oven 1"}
    assert {document["id"] for _, document in received} == {"1", "2"}
    assert len(notes(shown)) == 1
    assert f"the broker mqtt://127.0.0.1:{port}/home/oven 1 was not told" in notes(shown)[0]
    assert not (tmp_path / "unsent").exists()


def test_a_broker_that_does_not_answer():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(TimeoutError, match=r"no answer in 0.1 s"),
    ):
        Broker(f"127.0.0.1:{listener.getsockname()[1]}/topic", limit=0.1).deliver("{}")


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (Command, "echo 'x", "which is not a command: No closing quotation"),
        (Command, "echo", r"it needs \{event.json\}"),
        (Command, "no-such-program {}", "there is no program 'no-such-program'"),
        (Webhook, "ftp://server/", "it must be such as https://server/path"),
        (Webhook, "http://server:port/", "it must be such as https://server/path"),
        (Webhook, "http://[server/", "it must be such as https://server/path"),
        (Webhook, "server", "it must be such as https://server/path"),
        (Broker, "server", r"it must be HOST\[:PORT\]/TOPIC"),
        (Broker, "server:0x/topic", r"it must be HOST\[:PORT\]/TOPIC"),
        (Broker, "server/all/#", r"it must be HOST\[:PORT\]/TOPIC"),
        (Broker, "http://server/topic", r"it must be HOST\[:PORT\]/TOPIC"),
    ],
)
def test_mistakes(kind, text, sentence):
    with pytest.raises(ParameterError, match=sentence):
        kind(text)


def test_where_unsent_events_are(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    one, two = (spool_folder(f"rtsp://u:{word}@camera/1") for word in "ab")
    assert one == two  # a new password loses nothing
    assert spool_folder("rtsp://camera/2").parent == one.parent
    assert spool_folder("x", tmp_path / "state", tmp_path / "e.csv") == tmp_path / "state.unsent"
