"""A headless Chromium driven over its DevTools protocol, through a pipe."""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

_FLAGS = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-default-apps --hide-scrollbars --remote-debugging-pipe
--window-size=1200,900
"""
FLAGS = _FLAGS.split()


def find():
    """The browser's path, None when there is none."""
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


class Page:
    """One tab: `goto`, `js`, `mouse`, `key`, `shot`; `events` are what the browser told meanwhile."""

    def __init__(self, into, out):
        self.into, self.out, self.rest, self.number, self.events, self.session = into, out, b"", 0, [], {}
        while (tab := self._tab()) is None:
            time.sleep(0.05)
        self.session = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _tab(self):
        return next((t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"), None)

    def call(self, method, **params):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params, **self.session}
        os.write(self.into, json.dumps(asked).encode() + b"\0")
        while True:
            told = self.receive()
            if told.get("id") == self.number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                return told["result"]
            self.events.append(told)

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.out, 1 << 20)
            if not more:
                raise ConnectionError("the browser closed the connection")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def goto(self, path, ready="document.documentElement.dataset.ready === '1'", timeout=60):
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):
                if self.js(ready):
                    return
            time.sleep(0.05)
        raise TimeoutError(f"the page was not ready: {self.problems()}")

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "error"))
        return answer["result"].get("value")

    def mouse(self, x, y, kind="mouseMoved"):
        extra = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **extra)

    def key(self, name, code=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def shot(self, path, full=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def problems(self):
        """Console errors, exceptions and requests that left the file."""
        found = []
        for event in self.events:
            method, params = event.get("method", ""), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(str(params["args"]))
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                found.append(params["request"]["url"])
        return found


@contextlib.contextmanager
def open_browser():
    """A Page of a fresh browser that is gone afterwards."""
    (asked, into), (out, told) = _pipe(), _pipe()
    with tempfile.TemporaryDirectory(prefix="profkit-chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [find(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # It reads commands from descriptor 3 and answers on 4.
            preexec_fn=lambda: (os.dup2(asked, 3), os.dup2(told, 4)),
            pass_fds=(3, 4),
        )
        os.close(asked)
        os.close(told)
        try:
            yield Page(into, out)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(into)
            os.close(out)


def _pipe():
    """A pipe whose descriptors are clear of those that the browser is given."""
    ends = os.pipe()
    found = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in ends]
    for one in ends:
        os.close(one)
    return found
