"""Tell commands, webhooks and MQTT brokers of events; what could not be sent is kept and sent later."""

from __future__ import annotations

import base64
import contextvars
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from sysbags._common import __version__
from sysbags._common.files import atomic_write, check_folder, json_text, remove_old_temporaries
from sysbags.errors import FileError, ParameterError
from sysbags.video import without_password
from sysbags.watch.session import Report

DELIVERED = ("event_start", "event")  # the types of the records that are sent
LIMIT = 10.0  # seconds for an answer of a server
COMMAND_LIMIT = 60.0  # seconds for a command
LONGEST = 60.0  # seconds between two attempts; the pauses before are 1, 2, 4, ...
GRACE = 10.0  # seconds at the end of a run for what has not been sent
KEPT = 10_000  # events for each receiver, the last ones
PLACE = re.compile(r"\{(?:event\.json)?\}")


def _split(address: str, ports: Mapping[str, int]) -> tuple[SplitResult, int]:
    """Return the parts of an address and its port; 0 if it has no host, or another scheme."""
    try:
        parts = urlsplit(address)
        port = (parts.port or ports.get(parts.scheme, 0)) if parts.hostname else 0
    except ValueError:
        return SplitResult("", "", "", "", ""), 0
    return parts, port if parts.scheme in ports else 0


class Receiver(Protocol):
    """Who is told of events: `deliver` raises an exception if that fails."""

    name: str  # for messages, without a password

    def deliver(self, text: str) -> None:
        """Send the JSON document of an event."""


class Command:
    """Run a command for each event; the path of a file with the event takes the place of ``{event.json}``.

    Examples
    --------
    >>> Command("test -s {event.json}").deliver("{}")
    """

    def __init__(self, command: str, limit: float = COMMAND_LIMIT) -> None:
        self.name, self.limit = f"the command {command!r}", limit
        try:
            self.words = shlex.split(command)
        except ValueError as error:
            raise ParameterError(f"--exec is {command!r}, which is not a command: {error}") from None
        if not any(map(PLACE.search, self.words)):
            raise ParameterError(f"--exec is {command!r}, but it needs {{event.json}}, a file with the event")
        if shutil.which(self.words[0]) is None:
            raise ParameterError(f"--exec is {command!r}, but there is no program {self.words[0]!r}")

    def deliver(self, text: str) -> None:
        """Run the command, and end it and what it has started after the time limit."""
        with tempfile.TemporaryDirectory(prefix="sysbags-") as folder, tempfile.TemporaryFile() as errors:
            path = Path(folder, "event.json")
            path.write_text(text, encoding="utf-8")
            process = subprocess.Popen(
                [PLACE.sub(lambda _: str(path), word) for word in self.words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the output is that of `sysbags watch`
                stderr=errors,
                start_new_session=True,  # Ctrl-C is not for it
            )
            try:
                code = process.wait(self.limit)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise TimeoutError(f"it was ended after {self.limit:g} s") from None
            if code:
                errors.seek(0)
                told = errors.read(1000).decode(errors="replace").strip().splitlines()
                raise ChildProcessError(": ".join([f"exit code {code}", *told[-1:]]))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse: the event would be lost, as it is not sent to the other address."""


class Webhook:
    """POST each event as JSON to an address; only an answer 2xx means that it has been received."""

    def __init__(self, address: str, limit: float = LIMIT) -> None:
        self.name, self.limit = f"the webhook {without_password(address)}", limit
        parts, port = _split(address, {"http": 80, "https": 443})
        if not port:
            raise ParameterError(f"--webhook is {address!r}, but it must be such as https://server/path")
        user, _, host = parts.netloc.rpartition("@")
        self.url = parts._replace(netloc=host, fragment="").geturl()
        self.headers = {"Content-Type": "application/json", "User-Agent": f"sysbags/{__version__}"}
        if user:
            self.headers["Authorization"] = f"Basic {base64.b64encode(unquote(user).encode()).decode()}"
        self._opener = urllib.request.build_opener(_NoRedirect)

    def deliver(self, text: str) -> None:
        """POST an event."""
        request = urllib.request.Request(self.url, text.encode(), self.headers, method="POST")
        with self._opener.open(request, timeout=self.limit):
            pass


class Broker:
    """Publish each event as JSON to a topic of an MQTT broker, at least once (quality of service 1)."""

    def __init__(self, address: str, limit: float = LIMIT) -> None:
        try:
            import paho.mqtt.client  # noqa: F401
        except ModuleNotFoundError:
            raise ParameterError("--mqtt needs paho-mqtt: pip install 'sysbags[mqtt]'") from None
        full = address if "://" in address else f"mqtt://{address}"
        self.name, self.limit = f"the broker {without_password(full)}", limit
        self.parts, port = _split(full, {"mqtt": 1883, "mqtts": 8883})
        self.topic = unquote(self.parts.path[1:])
        if not port or not self.topic or set("?#") & set(address) or "+" in self.topic:
            raise ParameterError(f"--mqtt is {address!r}, but it must be HOST[:PORT]/TOPIC")
        self.port = port

    def deliver(self, text: str) -> None:
        """Connect, publish, and wait until the broker has confirmed it."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        client, answered, codes = Client(CallbackAPIVersion.VERSION2), threading.Event(), list[Any]()

        def connected(_: Any, __: Any, ___: Any, code: Any, ____: Any) -> None:
            codes.append(code)
            answered.set()

        client.on_connect, client.connect_timeout = connected, self.limit
        if self.parts.username is not None:
            password = self.parts.password
            client.username_pw_set(unquote(self.parts.username), password and unquote(password))
        if self.parts.scheme == "mqtts":
            client.tls_set()
        client.connect(self.parts.hostname or "", self.port)
        client.loop_start()
        try:
            if not answered.wait(self.limit):
                raise TimeoutError(f"no answer in {self.limit:g} s")
            if codes[0].is_failure:
                raise ConnectionError(str(codes[0]))
            sent = client.publish(self.topic, text, qos=1)
            sent.wait_for_publish(self.limit)
            if not sent.is_published():
                raise TimeoutError(f"not confirmed in {self.limit:g} s")
        finally:
            client.disconnect()
            client.loop_stop()


class Outbox:
    """The events for one receiver, which a thread sends; those not yet sent are files of a folder."""

    def __init__(self, receiver: Receiver, folder: Path, tell: Callable[[str], None], unit: float) -> None:
        self.receiver, self.folder, self._tell, self._unit = receiver, folder, tell, unit
        check_folder(folder)
        remove_old_temporaries(folder)
        paths = sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))
        self.unsent = {path.name: path.read_text(encoding="utf-8") for path in paths}
        self._changed, self._stopped = threading.Condition(), threading.Event()
        work = contextvars.copy_context().run  # with --quiet its notes are not shown either
        threading.Thread(target=work, args=(self._work,), name=receiver.name, daemon=True).start()

    def put(self, text: str) -> None:
        """Add an event; this does not wait for the receiver."""
        with self._changed:
            number = max(time.time_ns(), 1 + int(max(self.unsent, default="0").partition(".")[0]))
            name = f"{number:020d}.json"
            self.unsent[name] = text
            lost = list(self.unsent)[:-KEPT]
            self._changed.notify_all()
        with suppress(FileError), atomic_write(self.folder / name) as temporary:  # it is in memory, too
            temporary.write_text(text, encoding="utf-8")
        with self._changed:
            for old in [*lost, *([] if name in self.unsent else [name])]:  # it may have been sent meanwhile
                self._remove(old)

    def wait(self, seconds: float) -> int:
        """Wait until all has been sent, but not for longer, and return how many events have not been."""
        with self._changed:
            self._changed.wait_for(lambda: not self.unsent, seconds)
            return len(self.unsent)

    def stop(self) -> None:
        """Let the thread end, but do not wait for an attempt that has begun."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()

    def _remove(self, name: str) -> None:
        self.unsent.pop(name, None)
        with suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)
        self._changed.notify_all()

    def _work(self) -> None:
        failures, last = 0, ""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.unsent or self._stopped.is_set())
                if self._stopped.is_set():
                    return
                # The next one after a failure: an event that is refused must not hold up the others.
                name = next((name for name in self.unsent if name > last), next(iter(self.unsent)))
                text = self.unsent[name]
            try:
                self.receiver.deliver(text)
            except Exception as error:  # any: this thread must go on
                failures, last = failures + 1, name
                if failures == 1:
                    self._tell(f"{self.receiver.name} was not told of an event, which is kept: {error}")
                self._stopped.wait(self._unit * min(LONGEST, 2.0 ** min(failures - 1, 10)))
            else:
                failures, last = 0, ""
                with self._changed:
                    self._remove(name)


class Delivery:
    """Pass records of a session on, and tell receivers of its events, in threads.

    Nothing here waits for a receiver, but at the end of the session for at most 10 seconds.

    Parameters
    ----------
    report : callable
        Is called with all records, also with notes of what could not be sent, but by one thread at a time.
    receivers : sequence of Receiver
    folder : path
        For events that have not been sent yet, in a folder for each receiver. They are sent when there is a
        delivery with this folder again.
    unit : float, default=1
        The first pause after a failure, in seconds.
    """

    def __init__(
        self, report: Report, receivers: Sequence[Receiver], folder: Path, *, unit: float = 1.0
    ) -> None:
        self._report, self._lock, self._input = report, threading.Lock(), ""
        self.folder, self.outboxes = folder, list[Outbox]()
        self._receivers, self._unit = receivers, unit

    def __enter__(self) -> Delivery:
        for receiver in self._receivers:
            key = hashlib.sha256(receiver.name.encode()).hexdigest()[:16]
            self.outboxes.append(Outbox(receiver, self.folder / key, self._note, self._unit))
        return self

    def __exit__(self, *_: object) -> None:
        for outbox in self.outboxes:
            outbox.stop()
        with suppress(OSError):  # it is not empty
            for folder in (*(outbox.folder for outbox in self.outboxes), self.folder):
                folder.rmdir()

    def report(self, record: dict[str, Any]) -> None:
        """Pass a record on; an event is sent, too."""
        if record["type"] == "start":
            self._input = record["input"]
        elif record["type"] in DELIVERED:
            text = json_text({"input": self._input, **record}, indent=None)
            for outbox in self.outboxes:
                outbox.put(text)
        elif record["type"] == "end":
            self._finish()
        with self._lock:
            self._report(record)

    def _finish(self) -> None:
        until = time.monotonic() + GRACE
        for outbox in self.outboxes:
            if left := outbox.wait(until - time.monotonic()):
                events = "1 message" if left == 1 else f"{left} messages"
                place = f"kept in {outbox.folder} until this input is watched with it again"
                self._note(f"{events} for {outbox.receiver.name} {place}")

    def _note(self, text: str) -> None:
        with self._lock, suppress(OSError):  # of a closed pipe, which is found again by who prints next
            self._report({"type": "note", "text": text})


def spool_folder(source: str, *beside: Path | None) -> Path:
    """Return the folder for events that have not been sent: beside the first file, or in the user's data.

    Examples
    --------
    >>> spool_folder("rtsp://camera/stream", None, Path("events.csv")).name
    'events.csv.unsent'
    """
    for path in beside:
        if path is not None:
            return path.with_name(f"{path.name}.unsent")
    from platformdirs import user_data_path

    key = hashlib.sha256(without_password(source).encode()).hexdigest()[:16]
    return user_data_path("sysbags", appauthor=False) / "unsent" / key
