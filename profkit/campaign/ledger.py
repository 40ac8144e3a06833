"""On-disk state of an unfinished campaign, from which the same command resumes.

In RUNS/.campaigns/KEY: campaign.json, lock (held by its process), work/ITEM/ (not yet delivered).

The folder is removed at the end. Finished items are known from the runs, which name their campaign.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from profkit.errors import ProfkitError
from profkit.rundir.directory import now
from profkit.rundir.files import unwritable, write_atomic
from profkit.rundir.manifest import read_manifest

if TYPE_CHECKING:
    from profkit.campaign.stages import WorkItem

FOLDER = ".campaigns"


class State(msgspec.Struct):
    """campaign.json. `created`: UTC, ISO 8601; `total`, `done`, `failed`: numbers of items.

    `alive`: whether its process runs, as `unfinished` found it.
    """

    id: str
    command: str
    created: str
    total: int = 0
    done: int = 0
    failed: int = 0
    pid: int = 0
    alive: bool = False

    def line(self) -> str:
        head = f"{self.done} of {self.total} done" + (f", {self.failed} failed" if self.failed else "")
        how = f"running (process {self.pid})" if self.alive else "stopped; the same command goes on"
        return f"{self.created}  {self.command}: {head}; {how}"


class Ledger:
    """The folder of one campaign. A context manager that holds the lock."""

    def __init__(self, runs: Path, key: str, command: str, total: int) -> None:
        self.runs, self._command, self._total = runs, command, total
        self.folder = runs / FOLDER / key

    def __enter__(self) -> Ledger:
        with contextlib.ExitStack() as undo:
            try:
                self._handle = self._locked()
                undo.callback(os.close, self._handle)
                known = _state(self.folder) or State(secrets.token_hex(8), self._command, now())
                self.state = msgspec.structs.replace(known, total=self._total, pid=os.getpid())
                write_atomic(self.folder / "campaign.json", msgspec.json.encode(self.state))
            except OSError as error:
                raise unwritable(self.folder, error) from error
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def _locked(self) -> int:
        """Descriptor that holds the campaign's lock. Raises ProfkitError if it runs already."""
        import fcntl  # on Linux alone; the module is loaded elsewhere as well

        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self.folder / "lock"
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(handle)
                who = _state(self.folder)
                by = f" (process {who.pid})" if who is not None and who.pid else ""
                raise ProfkitError(
                    f"this campaign is already running{by}", fix="wait for it; `profkit list` shows its progress"
                ) from error
            # Its process may just have finished and removed the file.
            if file.exists() and file.stat().st_ino == os.fstat(handle).st_ino:
                return handle
            os.close(handle)

    def work(self, item: WorkItem) -> Path:
        """Folder of an item until it is delivered."""
        return self.folder / "work" / item.key

    def delivered(self, items: Sequence[WorkItem]) -> dict[str, Path]:
        """Key -> run of the items that are done."""
        # A day of tolerance for clocks of other machines.
        since = f"{datetime.fromisoformat(self.state.created[:19]) - timedelta(days=1):%Y%m%dT%H%M%S}"
        wanted = {f"{self.state.id}/{item.key}": item.key for item in items}
        found: dict[str, Path] = {}
        for path in self.runs.glob("*/*Z*"):
            if path.name >= since and (path / "run.json").exists():
                with contextlib.suppress(ProfkitError):
                    mark = read_manifest(path / "run.json").campaign
                    if mark in wanted:
                        found[wanted[mark]] = path
        return found

    def note(self, done: int, failed: int) -> None:
        """Store the numbers for `profkit list`; a full disk loses only them."""
        self.state.done, self.state.failed = done, failed
        with contextlib.suppress(ProfkitError):
            write_atomic(self.folder / "campaign.json", msgspec.json.encode(self.state))

    def remove(self) -> None:
        (self.folder / "campaign.json").unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()


def _state(folder: Path) -> State | None:
    """State in a campaign's folder; None if missing or damaged."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((folder / "campaign.json").read_bytes(), type=State)
    return None


def _held(lock: Path) -> bool:
    import fcntl  # where there are campaigns there is Linux

    with contextlib.suppress(OSError), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def unfinished(runs: Path) -> list[State]:
    """Unfinished campaigns of these runs, the oldest first."""
    found = [(one, state) for one in (runs / FOLDER).glob("[!.]*") if (state := _state(one)) is not None]
    seen = [msgspec.structs.replace(state, alive=_held(folder / "lock")) for folder, state in found]
    return sorted(seen, key=lambda one: one.created)
