"""Campaign engine on an existing Dask cluster; all machines share one file system.

A GPU's worker is started with `dask worker SCHEDULER --nthreads 1 --resources GPU=1` and takes one measurement at a
time. The cluster holds no state: scheduler, workers and client may end at any moment, and the same command goes on.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from profkit.campaign.local_engine import Heard
from profkit.campaign.stages import Answer, Task, measured, perform_encoded
from profkit.campaign.work_item import WorkItem, decoded, encoded
from profkit.errors import CannotProfileError, ProfkitError

RESOURCE = "GPU"
_PATIENCE = "20s"
_FAREWELL = 2
_NEXT = {"build": "measure", "measure": "report"}


class Dask:
    """address: of the scheduler. device: "cpu" for workers without GPUs."""

    def __init__(self, address: str, device: str) -> None:
        self._address, self._device = address, device

    def run(self, items: Sequence[WorkItem], task: Callable[[str, WorkItem], Task]) -> Generator[Heard, None, None]:
        """See Engine. Raises CannotProfileError without a scheduler, ProfkitError when it is lost."""
        # A lost connection is reported once by us, not by asyncio for each future.
        for name in ("distributed", "asyncio", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        client = self._client()
        try:
            yield from self._follow(client, items, task)
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
        self, client: Any, items: Sequence[WorkItem], task: Callable[[str, WorkItem], Task]
    ) -> Generator[Heard, None, None]:
        doing: dict[Any, tuple[str, WorkItem]] = {}

        def submit(what: str, item: WorkItem) -> Any:
            wants = {RESOURCE: 1} if what == "measure" and self._device != "cpu" else None
            future = client.submit(
                perform_encoded,
                encoded(task(what, item)),
                pure=False,
                retries=0,
                resources=wants,
                priority=item.cost + (1e6 if what == "report" else 0.0),
            )
            doing[future] = (what, item)
            return future

        first = [submit(_first(task, item), item) for item in items]
        left, ended = len(items), importlib.import_module("distributed").as_completed(first)
        for future in ended:
            what, item = doing.pop(future)
            answer = self._answer(client, future, what, item)
            following = _NEXT.get(what) if what == "build" or answer.run else None
            if following:
                ended.add(submit(following, item))
                yield Heard("end", what, item, answer.where, answer.line, answer)
                continue
            left -= 1
            kind = "end" if what == "report" and answer.run else "failed"
            yield Heard(kind, what, item, answer.where, answer.error, answer)
        if left:
            raise self._lost()

    def _answer(self, client: Any, future: Any, what: str, item: WorkItem) -> Answer:
        """Answer of a future. Raises ProfkitError when the cluster is gone."""
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


def _first(task: Callable[[str, WorkItem], Task], item: WorkItem) -> str:
    """The first task of an item."""
    if measured(Path(task("measure", item).folder)) is not None:
        return "report"
    return "build" if item.built else "measure"
