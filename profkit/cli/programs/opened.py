"""A ledger opened by the verbs that need one, with this machine's measured ceilings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analyzers.ledger.ledger import Ledger
from profkit.record import ceilings
from profkit.study.ledger import open_ledger


def opened(source: Path) -> Ledger:
    """The ledger of a run or a trace."""

    def kept(name: str) -> list[dict[str, Any]]:
        measured = ceilings.of_name(name)
        return [] if measured is None else measured.ceilings

    return open_ledger(source, kept)
