"""JSON messages between the judge and a candidate's process, over a packet socket."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Any

import msgspec

_PIECE = 1 << 16
"""Bytes per packet, below every kernel's limit; a prefix b"+" means more follow, b"." the last."""
_LONGEST = 64 << 20
"""Bytes of the longest message, a compiler's output; tensors and long tables go by file."""


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
        self._begun = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises EndedError."""
        try:
            self._socket.settimeout(None)
            data = msgspec.json.encode(dict(message))
            for at in range(0, len(data), _PIECE):
                self._socket.send((b"+" if at + _PIECE < len(data) else b".") + data[at : at + _PIECE])
        except OSError as error:
            raise EndedError(str(error)) from error

    def receive(self, limit: float | None = None) -> dict[str, Any]:
        """The next message. Raises OverdueError after `limit` seconds, EndedError at the end."""
        end, left = time.monotonic() + (limit or 0.0), limit
        while (packet := self._packet(left))[:1] == b"+":
            self._begun += packet[1:]
            if len(packet) == 1 or len(self._begun) > _LONGEST:
                raise EndedError("a message without an end")
            # A piece that has come is kept for the next call.
            if left is not None and (left := end - time.monotonic()) <= 0:
                raise OverdueError
        self._begun += packet[1:]
        data, self._begun = self._begun, bytearray()
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise EndedError(f"not a message: {error}") from error

    def _packet(self, limit: float | None) -> bytes:
        self._socket.settimeout(None if limit is None else max(limit, 1e-3))
        try:
            data = self._socket.recv(_PIECE + 1)
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
