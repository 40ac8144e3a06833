"""JSON messages between the judge and a candidate's process, over a packet socket."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Any

import msgspec

_LONGEST = 1 << 18
"""Bytes of a message, which is one packet; the kernel allows some 200 KiB. Tensors and tables go by file."""


class EndedError(Exception):
    """The other side has ended."""


class OverdueError(Exception):
    """No answer from the other side in time."""


class Channel:
    """One end of a SOCK_SEQPACKET pair. Not thread-safe."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # Subprocesses of a candidate must not keep the socket open.
        self._socket.set_inheritable(False)

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises EndedError."""
        try:
            self._socket.settimeout(None)
            self._socket.send(msgspec.json.encode(dict(message)))
        except OSError as error:
            raise EndedError(str(error)) from error

    def receive(self, limit: float | None = None) -> dict[str, Any]:
        """The next message. Raises OverdueError after `limit` seconds, EndedError at the end."""
        try:
            return msgspec.json.decode(self._packet(limit), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise EndedError(f"not a message: {error}") from error

    def _packet(self, limit: float | None) -> bytes:
        self._socket.settimeout(None if limit is None else max(limit, 1e-3))
        try:
            data = self._socket.recv(_LONGEST)
        except TimeoutError as error:
            raise OverdueError from error
        except OSError as error:
            raise EndedError(str(error)) from error
        if not data:
            raise EndedError("the other process has ended")
        return data

    def wait_for_end(self, limit: float) -> None:
        """Wait until the other side has ended, at most `limit` seconds."""
        end = time.monotonic() + limit
        with contextlib.suppress(EndedError, OverdueError):
            while (left := end - time.monotonic()) > 0:
                self._packet(left)

    def close(self) -> None:
        self._socket.close()
