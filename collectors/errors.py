"""Error tree: ProfkitError and one subclass per package.

CollectError here, RooflineError, AnalyzeError, and profkit.errors.
"""

from __future__ import annotations

from pathlib import Path


class ProfkitError(Exception):
    """An error the user can fix: bad input, bad usage, a broken run directory.

    The message names the file, and row and field if known; `fix` says what to do; `exit_code` is the command's.
    """

    exit_code = 2

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix
        if fix and hasattr(self, "add_note"):  # Python 3.11: a traceback shows it
            self.add_note(f"fix: {fix}")


class CollectError(ProfkitError):
    """A file that cannot be read."""


def torn(path: Path, what: str) -> CollectError:
    """Error for an export with missing or duplicate rows."""
    return CollectError(f"{path}: {what}", fix="export again")


def cut(path: Path, line: int) -> CollectError:
    """Error for an export without a newline after its last row."""
    return CollectError(
        f"{path}, line {line}: the last row does not end in a newline: the file was cut",
        fix="export again, or leave the cut row out; if only the newline was lost, add it",
    )


def uneven(path: Path, line: int, got: int, expected: int | str) -> CollectError:
    """Error for a row with another number of fields than the header."""
    return CollectError(
        f"{path}, line {line}: {got} fields, expected {expected}",
        fix="the row is cut or two files run into each other; export again",
    )


class NoLaunchesError(CollectError):
    """A complete export without launches; `rows`: number of its other rows."""

    def __init__(self, message: str, *, fix: str = "", rows: int = 0) -> None:
        super().__init__(message, fix=fix)
        self.rows = rows
