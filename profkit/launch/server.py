"""A process with torch imported that forks a child for every request.

    python -m profkit.launch.server FD PARENT NAME MODULE...

With a NAME it serves this user's other commands too, and outlives its parent (profkit.launch.warm). It uses no GPU
and starts no thread. A child is a fork under a warden, with its own session, directory, environment, descriptors and
output, and runs a module as `python -m` does; profkit.launch.warm sends the requests.
"""

from __future__ import annotations

import os
import sys

if sys.version_info < (3, 11) and sys.path and sys.path[0] in ("", os.getcwd()):
    # What -P does: nothing that lies here is imported.
    del sys.path[0]

import contextlib
import fcntl
import gc
import importlib.util
import random
import runpy
import select
import signal
import socket
import tempfile
from collections.abc import Sequence

import msgspec

from profkit.launch import warden, warm
from profkit.launch.warm import MOST_BYTES, MOST_FDS, NUMBER, Request
from profkit.rundir import files

_HIGH = 200
_PAUSE = 1.0
"""Seconds after which a client that has left is certainly gone."""


class _Served:
    """Clients (`controls`), the socket for new clients (`door`), sockets of running children."""

    def __init__(self, control: socket.socket, door: socket.socket | None) -> None:
        self.controls, self.door = {control.fileno(): control}, door
        self.lines: dict[int, socket.socket] = {}
        self._left = False
        self.heard = select.poll()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)
        for one in (control.fileno(), self._woken, *([door.fileno()] if door is not None else [])):
            self.heard.register(one, select.POLLIN)

    def serve(self) -> Request | None:
        """Fork a child per message; return the request in the child, None in the server at the end."""
        while self.controls or self.lines or self.door is not None:
            idle = not (self.controls or self.lines)
            limit = _PAUSE if self._left else warm.IDLE if idle else None
            ready = [descriptor for descriptor, _ in self.heard.poll(limit and limit * 1e3)]
            if self._left and not ready:
                # A killed client cannot remove its folders.
                files.sweep_temporary()
                self._left = False
                continue
            if idle and not ready:
                return None
            if self._woken in ready:
                os.read(self._woken, 1 << 12)
                _reap(self.lines, self.heard)
            for pid, line in self.lines.items():
                if line.fileno() in ready:
                    self.heard.unregister(line)
                    os.kill(pid, signal.SIGTERM)
            if self.door is not None and self.door.fileno() in ready:
                self._let_in(self.door)
            for descriptor in self.controls.keys() & ready:
                request = self._asked(self.controls[descriptor])
                if request is not None:
                    return request
                if not self.controls and self.door is None:
                    # At once: its children end with it.
                    return None
        return None

    def _let_in(self, door: socket.socket) -> None:
        try:
            line, _ = door.accept()
        except BlockingIOError:
            return
        if not warm.trusted(line):
            line.close()
            return
        self.controls[line.fileno()] = line
        self.heard.register(line, select.POLLIN)

    def _asked(self, control: socket.socket) -> Request | None:
        """Answer one message; return its request in the child."""
        try:
            word, given, _, _ = socket.recv_fds(control, MOST_BYTES, MOST_FDS, socket.MSG_DONTWAIT)
        except BlockingIOError:
            # The number of a line that has just ended.
            return None
        except ConnectionError:
            word, given = b"", []
        if word == warm.LEAVE and self.door is not None:
            self.heard.unregister(self.door)
            self.door.close()
            self.door = None
        elif word and given:
            return self._fork(word, given)
        elif not word:
            self.heard.unregister(control)
            del self.controls[control.fileno()]
            control.close()
            self._left = True
        return None

    def _fork(self, request: bytes, given: Sequence[int]) -> Request | None:
        line, me = socket.socket(fileno=given[0]), os.getpid()
        try:
            pid = os.fork()
        except OSError:
            # No room for one more: the client hears of it, and the others' children go on.
            pid = -1
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            others = [*self.controls.values(), *self.lines.values(), *([self.door] if self.door is not None else [])]
            foreign = [self._woken, self._wake, *(other.detach() for other in (line, *others))]
            return _become(me, msgspec.json.decode(request, type=Request), given[1:], foreign)
        for descriptor in given[1:]:
            os.close(descriptor)
        if pid < 0:
            line.close()
            return None
        with contextlib.suppress(OSError):
            line.sendall(NUMBER.pack(pid))
        self.lines[pid] = line
        # Nothing comes on it but its end.
        self.heard.register(line, select.POLLRDHUP)
        return None


def _reap(lines: dict[int, socket.socket], heard: select.poll) -> None:
    """Send exit codes of ended children to the processes that requested them."""
    for pid in list(lines):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with lines.pop(pid) as line:
                with contextlib.suppress(KeyError):
                    heard.unregister(line)
                with contextlib.suppress(OSError):
                    line.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(server: int, request: Request, given: Sequence[int], foreign: Sequence[int]) -> Request:
    """Give this fork of `server` its own session, variables, folder and random state."""
    os.setsid()
    # Out of the way of the numbers that are wanted, which may be those of the server's own.
    above = max(_HIGH, *request.descriptors, 2) + 1
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for descriptor in given]
    for descriptor in (*given, *foreign):
        os.close(descriptor)
    for source, wanted in zip([high[0], *high], (1, 2, *request.descriptors), strict=True):
        os.dup2(source, wanted)
    for descriptor in high:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request.env)
    os.chdir(request.cwd)
    warden.guard(server)
    # The server's folder may be another's, and gone.
    tempfile.tempdir = None
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    return request


def _main(control: str, parent: str, name: str, *preload: str) -> None:
    door = warm.listening(name) if name else None
    if door is not None:
        # It outlives the folder that it was started in.
        os.chdir("/")
    # While it imports it cannot hear that its parent has ended; later its parent's threads may come and go.
    warden.with_parent(signal.SIGKILL)
    if os.getppid() != int(parent):
        os._exit(0)
    # What is imported stays: to look through it for garbage, again and again, takes a quarter of the time; a child that
    # did would copy its pages.
    gc.disable()
    for name in preload:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    # Once: Python looks through everything the less often the more it found there.
    gc.collect()
    gc.freeze()
    gc.enable()
    warden.with_parent(0)
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    if any(os.readlink(link).startswith("/dev/nvidia") for link in links if os.path.lexists(link)):
        # A fork could not use it.
        sys.exit("a library opens the GPU while it is imported")
    request = _Served(socket.socket(fileno=int(control)), door).serve()
    if request is None:
        # At once: its children end when it does, and what torch does at an orderly end takes long on a busy machine.
        os._exit(0)
    sys.argv = [request.module, *request.arguments]
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
