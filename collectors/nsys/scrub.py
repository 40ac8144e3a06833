"""A sqlite export of Nsight Systems without environment, host name, command lines and paths.

Kept are GPU work, API calls, NVTX ranges, devices, and the strings that these use, in a database written anew, so
that nothing stays behind in free pages.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from collectors.errors import CollectError
from collectors.nsys.tables import ACTIVITY, open_base

_KEPT = re.compile(
    rf"{ACTIVITY}\w+|ENUM_\w+|NVTX_EVENTS|GPU_METRICS|TARGET_INFO_(GPU\w*|CUDA_\w+)|META_DATA_EXPORT|DIAGNOSTIC_EVENT"
)
_STRINGS = ("demangledName", "shortName", "mangledName", "nameId", "textId", "jsonTextId")
"""Columns of the kept tables that point into StringIds."""
_ROWS = {
    "META_DATA_EXPORT": "WHERE name LIKE 'EXPORT_PRODUCT%' OR name LIKE 'EXPORT_SCHEMA%'",
    # Warnings and errors; the rest tells of paths and of the launching.
    "DIAGNOSTIC_EVENT": "WHERE severity IN (2, 3)",
}
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/]+/)+")


def scrub(source: str | Path, target: str | Path | None = None) -> None:
    """Write the export `source` without machine and user to `target`, by default in place.

    Raises CollectError where `source` is cut or no database, or `target` cannot be written; `source` is untouched then.
    """
    source = Path(source)
    target = Path(target) if target is not None else source
    part = target.with_name(f"{target.name}.part")
    with open_base(source) as base:
        names = [str(name) for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        made = dict(base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
    try:
        part.unlink(missing_ok=True)
        with _opened(part) as new:
            new.execute("ATTACH ? AS old", (f"file:{quote(str(source.resolve()))}?mode=ro&immutable=1",))
            _copy(new, [name for name in names if _KEPT.fullmatch(name)], made)
        os.replace(part, target)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CollectError(f"{target}: cannot be written: {error}", fix="free some disk space") from error


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    base = sqlite3.connect(f"file:{quote(str(path.resolve()))}", uri=True)
    try:
        base.execute("PRAGMA journal_mode = OFF")
        yield base
        base.commit()
    finally:
        base.close()


def _copy(new: sqlite3.Connection, names: list[str], made: dict[str, str]) -> None:
    used: list[str] = []
    for name in names:
        new.execute(made[name])
        new.execute(f'INSERT INTO main."{name}" SELECT * FROM old."{name}" {_ROWS.get(name, "")}')
        there = {row[1] for row in new.execute(f'PRAGMA main.table_info("{name}")')}
        used += [f'SELECT "{column}" FROM main."{name}"' for column in _STRINGS if column in there]
    if "StringIds" in made:
        new.execute(made["StringIds"])
        ids = " UNION ".join(used) or "SELECT NULL"
        new.execute(f"INSERT INTO main.StringIds SELECT * FROM old.StringIds WHERE id IN ({ids})")
    if "DIAGNOSTIC_EVENT" in names:
        new.create_function("without_folders", 1, lambda text: _FOLDERS.sub(".../", text or ""), deterministic=True)
        new.execute("UPDATE main.DIAGNOSTIC_EVENT SET text = without_folders(text)")
