"""The engine of many machines: an existing Dask cluster, one GPU a task. All see the same files.

A GPU's worker is started so that it says what it has, `dask worker SCHEDULER --nthreads 1 --resources GPU=1`, and takes
one measurement at a time. Nothing of a campaign lives in the cluster: scheduler, workers and whoever asks may end at any
moment, and the same command, to any cluster, goes on.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from profkit.campaign.local import Heard
from profkit.campaign.piece import Piece, decoded, encoded
from profkit.campaign.task import Answer, Task, measured, perform_encoded
from profkit.errors import CannotProfileError, ProfkitError

RESOURCE = "GPU"
_PATIENCE = "20s"
_FAREWELL = 2
_NEXT = {"build": "measure", "measure": "report"}


class Dask:
    """address: of the scheduler. device: "cpu" for workers without GPUs."""

    def __init__(self, address: str, device: str) -> None:
        self._address, self._device = address, device

    def run(self, pieces: Sequence[Piece], task: Callable[[str, Piece], Task]) -> Generator[Heard, None, None]:
        """See Engine. Raises CannotProfileError without the package or a scheduler, ProfkitError when it is lost."""
        # What a lost connection means is said by us, once; asyncio tells of each that nobody waited for.
        for name in ("distributed", "asyncio", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        client = self._client()
        try:
            yield from self._follow(client, pieces, task)
        finally:
            with contextlib.suppress(OSError, TimeoutError):
                client.close(timeout=_FAREWELL)

    def _client(self) -> Any:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            raise CannotProfileError(
                "the package distributed is not installed", fix="pip install 'profkit[dask]'"
            ) from error
        try:
            return distributed.Client(self._address, timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise CannotProfileError(
                f"no Dask scheduler answers at {self._address}: {error}",
                fix="start one: `dask scheduler`, and a worker a GPU: `dask worker ADDRESS --nthreads 1 --resources GPU=1`",
            ) from error

    def _follow(
        self, client: Any, pieces: Sequence[Piece], task: Callable[[str, Piece], Task]
    ) -> Generator[Heard, None, None]:
        doing: dict[Any, tuple[str, Piece]] = {}

        def submit(what: str, piece: Piece) -> Any:
            wants = {RESOURCE: 1} if what == "measure" and self._device != "cpu" else None
            future = client.submit(
                perform_encoded,
                encoded(task(what, piece)),
                pure=False,
                retries=0,
                resources=wants,
                priority=piece.cost + (1e6 if what == "report" else 0.0),
            )
            doing[future] = (what, piece)
            return future

        first = [submit(_first(task, piece), piece) for piece in pieces]
        left, ended = len(pieces), importlib.import_module("distributed").as_completed(first)
        for future in ended:
            what, piece = doing.pop(future)
            answer = self._answer(client, future, what, piece)
            following = _NEXT.get(what) if what == "build" or answer.run else None
            if following:
                ended.add(submit(following, piece))
                yield Heard("end", what, piece, answer.where, answer.line, answer)
                continue
            left -= 1
            kind = "end" if what == "report" and answer.run else "failed"
            yield Heard(kind, what, piece, answer.where, answer.error, answer)
        if left:
            raise self._lost()

    def _answer(self, client: Any, future: Any, what: str, piece: Piece) -> Answer:
        """Raises ProfkitError when the cluster is gone; a worker that dies of one piece again and again fails it."""
        try:
            if future.status == "finished":
                answer: Answer = decoded(future.result(), Answer)
                return answer
            error = None if future.cancelled() or client.status != "running" else future.exception()
        except (OSError, CancelledError, TimeoutError) as trouble:
            raise self._lost() from trouble
        if error is None:
            raise self._lost()
        return Answer(what, "", f"{type(error).__name__}: {error}".partition("\n")[0], "", 2)

    def _lost(self) -> ProfkitError:
        return ProfkitError(
            f"the Dask scheduler at {self._address} is gone; results that were delivered stay",
            fix="the same command, to this or another scheduler, goes on where it stopped",
        )


def _first(task: Callable[[str, Piece], Task], piece: Piece) -> str:
    """What is to be done first for a piece."""
    if measured(Path(task("measure", piece).folder)) is not None:
        return "report"
    return "build" if piece.built else "measure"
