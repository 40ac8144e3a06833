"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """What one check found.

    status: ok; warn: works, but less well or not known; fail: something needed on this machine does not
    work. `fix` says what to do about it, "" when there is nothing to do.
    """

    name: str
    status: Status
    what: str
    fix: str = ""
