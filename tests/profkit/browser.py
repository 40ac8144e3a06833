"""A headless Chromium driven over its DevTools protocol, with the standard library alone."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

_FLAGS = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-default-apps --hide-scrollbars --remote-debugging-port=0
--window-size=1200,900
"""
FLAGS = _FLAGS.split()


def find():
    """The browser's path, None when there is none."""
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


class Socket:
    """As much of a websocket as the protocol needs: text frames, whole messages."""

    def __init__(self, url):
        host, _, path = url.removeprefix("ws://").partition("/")
        name, _, port = host.partition(":")
        self.stream = socket.create_connection((name, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.stream.sendall((head + f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.stream.recv(4096)
        self.rest = self.rest.partition(b"\r\n\r\n")[2]

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        head = b"\x81" + (
            bytes([0x80 | size])
            if size < 126
            else b"\xfe" + struct.pack(">H", size)
            if size < 1 << 16
            else b"\xff" + struct.pack(">Q", size)
        )
        self.stream.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def _take(self, count):
        while len(self.rest) < count:
            more = self.stream.recv(1 << 16)
            if not more:
                raise ConnectionError("the browser closed the connection")
            self.rest += more
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def receive(self):
        message = b""
        while True:
            first, size = self._take(2)
            size &= 0x7F
            if size == 126:
                size = struct.unpack(">H", self._take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._take(8))[0]
            message += self._take(size)
            if first & 0x80:
                return message.decode()


class Page:
    """One tab: `goto`, `js`, `mouse`, `key`, `shot`; `events` are what the browser told meanwhile."""

    def __init__(self, url):
        self.socket, self.number, self.events = Socket(url), 0, []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            told = json.loads(self.socket.receive())
            if told.get("id") == self.number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                return told["result"]
            self.events.append(told)

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
    with tempfile.TemporaryDirectory(prefix="profkit-chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [find(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Page(_target(Path(profile) / "DevToolsActivePort"))
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _target(port_file, timeout=60):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
            port = int(port_file.read_text().splitlines()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
                return next(t["webSocketDebuggerUrl"] for t in json.load(answer) if t["type"] == "page")
        time.sleep(0.1)
    raise TimeoutError("the browser did not open its port")
