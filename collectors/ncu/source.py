"""ncu's source page as CSV (`--page source --print-source cuda,sass`).

Each kernel is a block: `File Path`, `Function Name`, a header, then rows of lines (number and text, sums) with the rows
of their instructions below. Kernels without a line table have only instructions. Samples are counts.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from collectors import text_of
from collectors.errors import CollectError
from collectors.numbers import parse

_SAMPLES = "# Samples"
_SECTORS, _IDEAL = "L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal"
_OPERATION = "Access Operation"


class Instruction(msgspec.Struct, frozen=True):
    """One machine instruction of a kernel: `line` 0 and `file` "" without a line table.

    `samples`: of the sampler at this instruction; `stalls`: samples by reason (long_sb, lg, ...), issued or not;
    `sectors` of 32 B requested from L2, `ideal` the minimum;
    `access`: Load, Store, ... or "".
    """

    address: int
    sass: str
    line: int
    file: str
    samples: float
    stalls: Mapping[str, float]
    sectors: float
    ideal: float
    access: str


class Listing(msgspec.Struct, frozen=True):
    """One profiled kernel: its instructions by address, and the text of its lines."""

    kernel: str
    instructions: tuple[Instruction, ...]
    text: Mapping[tuple[str, int], str]


def read(path: str | os.PathLike[str]) -> list[Listing]:
    """Kernels of a source page; raises CollectError with the damaged row."""
    file = Path(path)
    content = text_of(file)
    if content and not content.endswith("\n"):
        raise CollectError(f"{file}: the last row is cut", fix="export the page again")
    try:
        rows = list(csv.reader(line for line in content.splitlines() if not line.startswith("==")))
    except csv.Error as error:
        raise CollectError(f"{file}: not CSV: {error}", fix="export the page again") from error
    found = [_listing(file, block) for block in _blocks(rows)]
    kernels = _joined([one for one in found if one.instructions])
    if not kernels:
        fix = "export with `ncu --import REPORT --page source --csv --print-source cuda,sass`"
        raise CollectError(f"{file}: no instructions in it", fix=f"{fix}; record with --section SourceCounters")
    return kernels


def _blocks(rows: Sequence[list[str]]) -> Iterator[list[list[str]]]:
    """Rows of one file of one kernel each, with their titles."""
    starts = [at for at, row in enumerate(rows) if row and row[0] in ("File Path", "Kernel Name")]
    yield from (list(rows[begin:end]) for begin, end in pairwise([*starts, len(rows)]))


def _listing(path: Path, block: Sequence[list[str]]) -> Listing:
    titles = {row[0]: row[1] for row in block if row and row[0] in ("File Path", "Function Name", "Kernel Name")}
    kernel = titles.get("Function Name") or titles.get("Kernel Name", "")
    at = next((n for n, row in enumerate(block) if "Address" in row), None)
    if at is None:
        return Listing(kernel, (), {})
    head = block[at]
    place = head.index("Address")
    file = titles.get("File Path", "")
    line, found, text = 0, [], {}
    for number, row in enumerate(block[at + 1 :], at + 2):
        if len(row) == 0 or row[0].startswith("Function Name"):
            continue
        if place and row[0].strip().isdigit():
            line = int(row[0])
            text[file, line] = row[1]
            continue
        if not row[place : place + 1] or not row[place].startswith("0x"):
            continue
        if len(row) < len(head):
            raise CollectError(f"{path}: row {number} of {titles} has {len(row)} of {len(head)} columns")
        found.append(_instruction(head, row, place, line if place else 0, file))
    return Listing(kernel, tuple(found), text)


def _instruction(head: Sequence[str], row: Sequence[str], place: int, line: int, file: str) -> Instruction:
    values = dict(zip(head[place + 2 :], row[place + 2 :], strict=False))
    stalls = {
        name.removeprefix("stall_"): _number(cell)
        for name, cell in values.items()
        if name.startswith("stall_") and "(" not in name and _number(cell) > 0
    }
    access = values.get(_OPERATION, "")
    return Instruction(
        address=int(row[place], 16),
        sass=row[place + 1].strip(),
        line=line,
        file=file,
        samples=_number(values.get(_SAMPLES, "")),
        stalls=stalls,
        sectors=_number(values.get(_SECTORS, "")),
        ideal=_number(values.get(_IDEAL, "")),
        access="" if access in ("-", "") else access,
    )


def _number(cell: str) -> float:
    """A count as the page prints it; an empty cell is 0 samples."""
    return parse(cell, ".") if cell not in ("", "-") else 0.0


def _joined(parts: Sequence[Listing]) -> list[Listing]:
    """Join the blocks of a kernel with lines in several files."""
    found = []
    for kernel in dict.fromkeys(part.kernel for part in parts):
        blocks = [part for part in parts if part.kernel == kernel]
        every = {one.address: one for block in reversed(blocks) for one in block.instructions}
        text = {key: said for block in blocks for key, said in block.text.items()}
        found.append(Listing(kernel, tuple(every[address] for address in sorted(every)), text))
    return found
