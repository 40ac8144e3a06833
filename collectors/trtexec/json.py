"""The JSON that trtexec writes: names unescaped, so not always JSON; and files that were cut."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from collectors import text_of
from collectors.doubt import Doubt
from collectors.errors import CollectError

_PROFILE_ROW = re.compile(
    r'^[\s,\[]*\{\s*"name"\s*:\s*"(?P<name>.*)"\s*(?P<rest>,\s*"timeMs"\s*:[^"]*(?:"\w+"[^"]*)*\})\s*$'
)
_COUNT_ROW = re.compile(r'^[\s,\[]*\{\s*"count"\s*:\s*(\d+)\s*\}\s*$')
_STRING_LINE = re.compile(
    r'^(?P<before>\s*(?:[\[{,]+\s*)*(?:"[\w/ ]+"\s*:\s*)?)"(?P<text>.*)"(?P<after>\s*[\]}]*\s*,?\s*)$'
)


def load(path: Path, partial: bool) -> tuple[Any, list[Doubt]]:
    """The JSON of a file; control characters in names are let through, quotes repaired with a doubt."""
    text = text_of(path, strict=True)
    if not text.strip():
        raise CollectError(f"{path}: is empty", fix="run trtexec again")
    try:
        return json.loads(text, strict=False), []
    except RecursionError as error:
        raise CollectError(f"{path}: JSON nested too deep for any export", fix="give the file trtexec wrote") from error
    except json.JSONDecodeError as first:
        content = _repaired(text)
        if content is not None:
            what = "names with quotes or backslashes, which trtexec writes unescaped, were repaired"
            return content, [Doubt(f"{path.name}: {what}", f"first at line {first.lineno}", "rename the layers")]
        if partial:
            return _whole_rows(path, text)
        raise _invalid(path, text, first) from first


def _invalid(path: Path, text: str, error: json.JSONDecodeError) -> CollectError:
    if text.rstrip()[-1:] not in "]}" or error.pos >= len(text.rstrip()):
        return CollectError(
            f"{path}, line {error.lineno}: the JSON ends in the middle: the file was cut",
            fix="copy or export it again, or read a profile's whole layers (--partial; partial=True in Python)",
        )
    if error.msg == "Extra data":
        return CollectError(
            f"{path}, line {error.lineno}: another document begins where the JSON of one has ended",
            fix="trtexec ran several times into this file: give each run's JSON in a file of its own",
        )
    return CollectError(
        f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}",
        fix="trtexec writes names unescaped: rename the layer of that line, or escape the quotes in the file",
    )


def _repaired(text: str) -> Any:
    """The content with the strings of the lines escaped that break it; None when that does not make it JSON."""
    lines = text.split("\n")
    for _ in range(len(lines)):
        try:
            return json.loads("\n".join(lines), strict=False)
        except json.JSONDecodeError as error:
            # A backslash before the closing quote breaks the line after its own.
            suspects = [at for at in (error.lineno - 1, error.lineno - 2) if at >= 0]
            broken = [at for at in suspects if _repaired_line(lines[at]) != lines[at]]
            if not broken:
                return None
            lines[broken[0]] = _repaired_line(lines[broken[0]])
    return None


def _repaired_line(line: str) -> str:
    row = _PROFILE_ROW.match(line)
    if row:
        return f"{line[: row.start('name')]}{_escaped(row['name'])}{line[row.end('name') :]}"
    string = _STRING_LINE.match(line)
    if string and '"' not in string["after"]:
        return f'{string["before"]}"{_escaped(string["text"])}"{string["after"]}'
    return line


def _escaped(text: str) -> str:
    """The inside of a JSON string; one that is valid already is left as it is."""
    try:
        json.loads(f'"{text}"', strict=False)
    except json.JSONDecodeError:
        return json.dumps(text, ensure_ascii=False)[1:-1]
    return text


def _whole_rows(path: Path, text: str) -> tuple[Any, list[Doubt]]:
    rows: list[Any] = []
    lines = text.split("\n")
    for line in lines[:-1]:
        count = _COUNT_ROW.match(line)
        if count:
            rows.append({"count": int(count[1])})
        elif _PROFILE_ROW.match(line):
            rows.append(json.loads(_repaired_line(line).strip().lstrip(",[ "), strict=False))
        elif line.strip() not in ("", "[", "]"):
            break
    if len(rows) < 2:
        raise CollectError(f"{path}: no whole layer before the cut", fix="export again with --exportProfile")
    return rows, [
        Doubt(f"{path.name} was cut: read to its last whole layer", f"{len(rows) - 1} layers", "export again")
    ]
