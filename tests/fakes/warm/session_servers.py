"""The servers that a session of tests has: its own runners are forks of them, and those of commands it lends them to."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from profkit.launch.process import Child
from profkit.launch.protocol import BARE
from profkit.launch.warm import Lent, Warm

HERE = str(Path(__file__).parent)
_PATH = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH", "")]))
"""A server's; an empty entry would be the directory that it is started in."""
VARIABLE = "TESTS_SERVERS"
"""Where a command asks for the descriptor by which it is lent servers: the name of a socket."""


def _elsewhere(env: Mapping[str, str]) -> dict[str, str]:
    """Variables without this folder, which a server has anyway: with and without it they are of one server."""
    path = [one for one in env.get("PYTHONPATH", "").split(os.pathsep) if one and one != HERE]
    found = {name: value for name, value in env.items() if name != "PYTHONPATH"}
    return {**found, "PYTHONPATH": os.pathsep.join(path)} if path else found


class Servers(Warm):
    """Those of a session; they fork programs under torch's profiler too."""

    def __call__(self, argv: Sequence[str], **options: Any) -> Child:
        traced = list(argv[:2]) == [BARE[0], "-m"] and argv[2] in self._modules
        return super().__call__([*BARE, *argv[2:]] if traced else argv, **options)

    def _server(self, env: Mapping[str, str], instead_of: Any = None) -> Any:
        return super()._server(_elsewhere(env), instead_of)

    def _found(self, key: object, env: Mapping[str, str]) -> Any:
        return super()._found(key, {**env, "PYTHONPATH": _PATH})


class Borrowed(Warm):
    """Those of the session that a command was started by, which it lends on to its own workers."""

    def prepare(self, env: Mapping[str, str]) -> None:
        if self._lent is None:
            super().prepare(env)

    def pass_on(self, env: Mapping[str, str], given: Sequence[int]) -> bool:
        if self._lent is None:
            return super().pass_on(env, given)
        with suppress(OSError):
            socket.send_fds(self._lent, [msgspec.json.encode(dict(env))], given)
            return True
        return False


@contextmanager
def lending(servers: Warm) -> Iterator[str]:
    """Inside, who connects to the socket of this name is given the descriptor that `borrowed` takes."""

    def give() -> None:
        while True:
            try:
                who, _ = asked.accept()
            except OSError:
                return  # It is shut down.
            # Who was killed meanwhile hears nothing, and others do.
            with who, suppress(OSError):
                socket.send_fds(who, [b"!"], [lent.fileno()])

    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Lent(servers)) as lent,
        socket.socket(socket.AF_UNIX) as asked,
    ):
        asked.bind(f"{folder}/servers")
        asked.listen()
        thread = threading.Thread(target=give, daemon=True)
        thread.start()
        try:
            yield f"{folder}/servers"
        finally:
            asked.shutdown(socket.SHUT_RDWR)
            thread.join()


def borrowed(name: str) -> Borrowed:
    """What a command starts its runners by that is lent servers under this name."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(name)
        _, (lent,), _, _ = socket.recv_fds(asking, 1, 1)
    return Borrowed(lent=lent)
