"""Remove environment, host name, command lines and paths from an nsys sqlite export.

Kept are GPU work, API calls, NVTX ranges, devices, and the strings that they use. VACUUM rewrites the database, so no
old data stays in free pages.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from collectors.errors import CollectError
from collectors.nsys.tables import ACTIVITY, open_base, tables_of

_KEPT = re.compile(
    rf"{ACTIVITY}\w+|ENUM_\w+|NVTX_EVENTS|GPU_METRICS|TARGET_INFO_(GPU\w*|CUDA_\w+)|META_DATA_EXPORT|DIAGNOSTIC_EVENT"
)
_STRINGS = ("demangledName", "shortName", "mangledName", "nameId", "textId", "jsonTextId")
"""Columns of the kept tables that refer to StringIds."""
_ROWS = {
    "META_DATA_EXPORT": "name LIKE 'EXPORT_PRODUCT%' OR name LIKE 'EXPORT_SCHEMA%'",
    # Warnings and errors; the rest tells of paths and of the launching.
    "DIAGNOSTIC_EVENT": "severity IN (2, 3)",
}
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/]+/)+")


def scrub(source: str | Path, target: str | Path | None = None) -> None:
    """Write the export `source` without machine and user to `target`, by default in place.

    Raises CollectError if `source` is cut or no database, or `target` cannot be written; `source` is then unchanged.
    """
    source = Path(source)
    target = Path(target) if target is not None else source
    part = target.with_name(f"{target.name}.part")
    with open_base(source) as base:
        tables = tables_of(base)
    try:
        shutil.copyfile(source, part)
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")
            _strip(copy, tables)
            copy.execute("VACUUM")
        os.replace(part, target)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CollectError(f"{target}: cannot be written: {error}", fix="free some disk space") from error


def _strip(base: sqlite3.Connection, tables: set[str]) -> None:
    kinds = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
    used: list[str] = []
    for name, kind in base.execute(kinds).fetchall():
        if kind == "table" and _KEPT.fullmatch(name):
            there = {row[1] for row in base.execute(f'PRAGMA table_info("{name}")')}
            used += [
                f'SELECT "{column}" FROM "{name}" WHERE "{column}" NOT NULL' for column in _STRINGS if column in there
            ]
        elif name != "StringIds":
            base.execute(f'DROP {kind} "{name}"')
    for name in tables & _ROWS.keys():
        base.execute(f'DELETE FROM "{name}" WHERE NOT ({_ROWS[name]})')
    if "StringIds" in tables:
        ids = " UNION ".join(used) or "SELECT -1"
        base.execute(f"DELETE FROM StringIds WHERE id NOT IN ({ids})")
    if "DIAGNOSTIC_EVENT" in tables:
        base.create_function("without_folders", 1, lambda text: _FOLDERS.sub(".../", text or ""), deterministic=True)
        base.execute("UPDATE DIAGNOSTIC_EVENT SET text = without_folders(text)")
