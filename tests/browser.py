"""A headless Chromium, driven over a pair of pipes: the DevTools protocol without any further package.

The browser reads commands from its file descriptor 3 and writes answers and events to 4, each a JSON
document that ends with a NUL byte (``--remote-debugging-pipe``).
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)
KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
PATIENCE = 30.0  # seconds for any one answer


def executable():
    """Where a Chromium is, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    """One browser with one tab. It ends with the `with` block."""

    def __init__(self, profile):
        ours, theirs = os.pipe(), os.pipe()
        # Low numbers could be 3 and 4 themselves, and would be overwritten by each other.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (*ours, *theirs)]
        for fd in (*ours, *theirs):
            os.close(fd)
        command = [executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        actions = [*silent, (os.POSIX_SPAWN_DUP2, ends[0], 3), (os.POSIX_SPAWN_DUP2, ends[3], 4)]
        self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions, setpgroup=0)
        os.close(ends[0])
        os.close(ends[3])
        self.writer, self.reader = ends[1], ends[2]
        self.buffer, self.count, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for fd in (self.writer, self.reader):
            with contextlib.suppress(OSError):
                os.close(fd)

    def _message(self):
        until = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready = select.select([self.reader], [], [], max(0.0, until - time.monotonic()))[0]
            read = os.read(self.reader, 1 << 20) if ready else b""
            if not read:
                raise RuntimeError("the browser does not answer")
            self.buffer += read
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        """Send a command, and wait for its answer; events that come meanwhile are kept."""
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.writer, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def open(self, path, *, width=1280, height=900, scheme="light", motion="no-preference", scripts=True):
        """Load a file or an address, on a screen and with preferences as asked for."""
        address = path if str(path).startswith("http:") else Path(path).resolve().as_uri()
        phone = width < 600
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        media = [{"name": name, "value": value} for name, value in features.items()]
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        loader = self.call("Page.navigate", url=address)["loaderId"]
        while not any(
            event["method"] == "Page.lifecycleEvent"
            and (event["params"]["loaderId"], event["params"]["name"]) == (loader, "load")
            for event in self.events
        ):
            self.events.append(self._message())
        if scripts:
            self.settle()

    def settle(self):
        """Wait until what a change has set off is drawn."""
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def evaluate(self, expression):
        """The value of a JavaScript expression, or of what it promises."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", expression))
        return answer["result"].get("value")

    def press(self, key):
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def point(self, x, y, click=False):
        """Move the mouse to a place on the screen, and click there if asked to."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, x, y):
        """Touch the screen with a finger, for a moment."""
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def complaints(self):
        """What the console was told of errors and warnings, and exceptions, since the page was opened."""
        bad = []
        for event in self.events:
            about = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                bad.append(about["exceptionDetails"])
            elif event["method"] == "Runtime.consoleAPICalled" and about["type"] in (
                "error",
                "warning",
                "assert",
            ):
                bad.append(about["args"])
            elif event["method"] == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                bad.append(about["entry"])
        return bad

    def requests(self):
        """Addresses that were asked for since the page was opened, apart from data: ones."""
        asked = [
            e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith("data:")]

    def screenshot(self, path, whole=False):
        """Write a picture of the screen, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))
