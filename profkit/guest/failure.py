"""Classification of a candidate's exceptions, in either process."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from profkit.guest import facts
from profkit.guest.build import loading
from profkit.guest.subject import ChangedResultError


@dataclass(frozen=True)
class Failure:
    """`status`: "" for the phase's default; `lost`: the CUDA context is lost too."""

    status: str
    reason: str
    tail: str
    lost: bool = False


def classified(error: Exception, status: str) -> Failure:
    """Classify an exception; `status` by default."""
    lines = str(error).strip().splitlines() or [""]
    tail = "".join(traceback.format_exception(error)).strip()[-3000:]
    if isinstance(error, ChangedResultError):
        return Failure(error.status, lines[0][:500], tail)
    lost = facts.context_lost(error)
    if loading.is_compile_error(error):
        status = "compile-error"
    return Failure(status, f"{type(error).__name__}: {lines[0]}"[:500], tail, lost)
