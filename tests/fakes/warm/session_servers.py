"""The servers that a session of tests has: its own runners and those of its commands, which find them by name, are forks."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profkit.launch import warm as resident
from profkit.launch.process import Child
from profkit.launch.protocol import BARE
from profkit.launch.warm import MODULES, PRELOAD, Warm, _named, _Server

HERE = str(Path(__file__).parent)
_PATH = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH", "")]))
"""A server's; an empty entry would be the directory that it is started in."""
VARIABLE = "TESTS_SERVERS"
"""Where a command finds the beginning of their names."""


class Servers(Warm):
    """Those of a session, whose names begin with `label`; they fork programs under torch's profiler too."""

    def __init__(self, label: str, modules: Sequence[str] = MODULES) -> None:
        super().__init__([*PRELOAD, "given_ceilings"], modules)
        self.label = label

    def __call__(self, argv: Sequence[str], **options: Any) -> Child:
        traced = list(argv[:2]) == [BARE[0], "-m"] and argv[2] in self._modules
        return super().__call__([*BARE, *argv[2:]] if traced else argv, **options)

    def _key(self, env: Mapping[str, str]) -> object:
        """Of variables without this folder, which a server has anyway: with and without it they are of one server."""
        path = [one for one in env.get("PYTHONPATH", "").split(os.pathsep) if one and one != HERE]
        found = {name: value for name, value in env.items() if name != "PYTHONPATH"}
        return super()._key({**found, "PYTHONPATH": os.pathsep.join(path)} if path else found)

    def _found(self, key: object, env: Mapping[str, str]) -> Any:
        name = f"{self.label}{_named(key)}"
        line = resident.joined(name)
        return _Server(line, served=True) if line else _Server.start({**env, "PYTHONPATH": _PATH}, self._preload, name)

    def leave(self) -> None:
        """Have those that this session or its commands have started leave."""
        for line in map(resident.joined, resident.running(self.label)):
            if line is not None:
                with line:
                    line.send(resident.LEAVE)
