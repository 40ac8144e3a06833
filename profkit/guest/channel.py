"""Channel between the judge and a candidate's process: JSON lines over a socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Any

import msgspec

LONGEST = 64 << 20
"""Bytes of the longest line: activities of a call with many kernels."""


class EndedError(Exception):
    """The other side has ended."""


class OverdueError(Exception):
    """The other side has not answered in time."""


class Channel:
    """One end. Not thread-safe."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # Subprocesses of a candidate must not keep the socket open.
        self._socket.set_inheritable(False)
        self._rest = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises EndedError."""
        try:
            self._socket.settimeout(None)
            self._socket.sendall(msgspec.json.encode(dict(message)) + b"\n")
        except OSError as error:
            raise EndedError(str(error)) from error

    def receive(self, limit: float | None = None) -> dict[str, Any]:
        """The next message. Raises OverdueError after `limit` seconds, EndedError without one."""
        end = None if limit is None else time.monotonic() + limit
        while (at := self._rest.find(b"\n")) < 0:
            self._rest += self._some(end)
            if len(self._rest) > LONGEST:
                raise EndedError("a message without an end")
        line = bytes(self._rest[:at])
        del self._rest[: at + 1]
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise EndedError(f"not a message: {error}") from error

    def _some(self, end: float | None) -> bytes:
        if end is not None and end <= time.monotonic():
            raise OverdueError
        self._socket.settimeout(None if end is None else end - time.monotonic() + 1e-3)
        try:
            data = self._socket.recv(1 << 20)
        except TimeoutError as error:
            raise OverdueError from error
        except OSError as error:
            raise EndedError(str(error)) from error
        if not data:
            raise EndedError("the other process has ended")
        return data

    def wait_for_end(self, limit: float) -> None:
        """Return when the other side has ended, at most `limit` seconds later."""
        end = time.monotonic() + limit
        try:
            while True:
                self._some(end)
        except (EndedError, OverdueError):
            return

    def close(self) -> None:
        self._socket.close()
