"""The error tree: ProfkitError and one subclass per house.

CollectError here, RooflineError, AnalyzeError, and profkit.errors.
"""

from __future__ import annotations

from pathlib import Path


class ProfkitError(Exception):
    """Something the user can mend: bad input, bad usage, a broken run directory.

    The message names the file, and the row and the field where they are known; `fix` says what to do about it;
    `exit_code` is what the command returns.
    """

    exit_code = 2

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class CollectError(ProfkitError):
    """A file that cannot be read as it stands."""


def torn(path: Path, what: str) -> CollectError:
    """The error to raise for an export that lacks rows or has some twice."""
    return CollectError(f"{path}: {what}", fix="export again")


def cut(path: Path, line: int) -> CollectError:
    """The error to raise for an export with a last row that does not end in a newline."""
    return CollectError(
        f"{path}, line {line}: the last row does not end in a newline: the file was cut",
        fix="export again, or leave the cut row out; if only the newline was lost, add it",
    )


def uneven(path: Path, line: int, got: int, expected: int | str) -> CollectError:
    """The error to raise for a row with another number of fields than its header."""
    return CollectError(
        f"{path}, line {line}: {got} fields, expected {expected}",
        fix="the row is cut or two files run into each other; export again",
    )


class NoLaunchesError(CollectError):
    """A whole export that lists no launches; `rows` is how many rows it has of something else."""

    def __init__(self, message: str, *, fix: str = "", rows: int = 0) -> None:
        super().__init__(message, fix=fix)
        self.rows = rows
