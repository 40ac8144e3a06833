"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    status: ok; warn: works, but less well or unknown; fail: something needed on this machine does not
    work. `fix`: what to do about it, "" for nothing.
    """

    name: str
    status: Status
    what: str
    fix: str = ""
