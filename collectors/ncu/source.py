"""ncu's source page as CSV (`--page source --print-source cuda,sass`), or of a report.

Each kernel comes as a block: `File Path`, `Function Name`, a header, then rows of lines (number and text, sums) with
the rows of their instructions below. Kernels without a line table have instructions alone. Samples are counts.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from collectors import text_of
from collectors.errors import CollectError
from collectors.ncu import rep
from collectors.numbers import parse

_SAMPLES = "# Samples"
_SECTORS, _IDEAL = "L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal"
_OPERATION = "Access Operation"


class Instruction(msgspec.Struct, frozen=True):
    """One machine instruction of a kernel: `line` 0 and `file` "" without a line table.

    `samples`: of the sampler at this instruction; `stalls`: those by reason (long_sb, lg, ...), issued or not;
    `sectors` of 32 B asked of the L2, `ideal` the least that would have done;
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
    """The kernels of a source page or report; raises CollectError naming the damaged row."""
    file = Path(path)
    if rep.is_report(file):
        return _of_report(file)
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


_STALL = "smsp__pcsamp_warps_issue_stalled_"
_PAGE = {
    "dispatch_stall": "dispatch",
    "imc_miss": "imc",
    "lg_throttle": "lg",
    "long_scoreboard": "long_sb",
    "math_pipe_throttle": "math",
    "mio_throttle": "mio",
    "no_instructions": "no_inst",
    "short_scoreboard": "short_sb",
    "sleeping": "sleep",
    "tex_throttle": "tex",
}
"""Reasons to wait as metrics are named -> as the page calls them, where that is not the same."""
_ACCESS = {2: "Load", 4: "Store"}


def _of_report(file: Path) -> list[Listing]:
    rep.count_results(file)
    report = rep.package(file).load_report(str(file))
    actions = [report[i][j] for i in range(len(report)) for j in range(len(report[i]))]
    kernels = _joined([one for one in (_sampled(action) for action in actions) if one.instructions])
    if not kernels:
        raise CollectError(f"{file}: no instructions in it", fix="record with --section SourceCounters")
    return kernels


def _sampled(action: Any) -> Listing:
    """One launch of a report; no instructions where none were counted."""
    samples, executed = _by_address(action, "smsp__pcsamp_sample_count"), _by_address(action, "inst_executed")
    names = [name for name in action.metric_names() if name.startswith(_STALL) and not name.endswith("_not_issued")]
    stalls = {name.removeprefix(_STALL): _by_address(action, name) for name in names}
    sectors, ideal, access = (
        _by_address(action, name)
        for name in (
            "memory_l2_theoretical_sectors_global",
            "memory_l2_theoretical_sectors_global_ideal",
            "memory_access_type",
        )
    )
    sources = {name: text.splitlines() for name, text in action.source_files().items()}
    found, text = [], {}
    for address in sorted({*samples, *executed}):
        place = action.source_info(address)
        line, file = (int(place.line()), str(place.file_name())) if place is not None else (0, "")
        if 0 < line <= len(sources.get(file, ())):
            text[file, line] = sources[file][line - 1]
        found.append(
            Instruction(
                address=address,
                sass=str(action.sass_by_pc(address)).strip(),
                line=line,
                file=file,
                samples=samples.get(address, 0.0),
                stalls={_PAGE.get(name, name): at[address] for name, at in stalls.items() if at.get(address, 0.0) > 0},
                sectors=sectors.get(address, 0.0),
                ideal=ideal.get(address, 0.0),
                access=_ACCESS.get(int(access.get(address, 0)), ""),
            )
        )
    return Listing(str(action.name(action.NameBase_DEMANGLED)), tuple(found), text)


def _by_address(action: Any, name: str) -> dict[int, float]:
    """Counts of a metric at each instruction; {} of one not collected by instruction."""
    metric = action.metric_by_name(name)
    if metric is None or not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    return {int(addresses.as_uint64(n)): float(metric.as_double(n)) for n in range(metric.num_instances())}


def _blocks(rows: Sequence[list[str]]) -> Iterator[list[list[str]]]:
    """The rows of one file of one kernel each, their titles included."""
    block: list[list[str]] = []
    for row in rows:
        starts = bool(row) and row[0] in ("File Path", "Kernel Name")
        if starts and block:
            yield block
            block = []
        if starts or block:
            block.append(row)
    if block:
        yield block


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
    """A count as the page prints it; what it leaves out is 0 samples."""
    return parse(cell, ".") if cell not in ("", "-") else 0.0


def _joined(parts: Sequence[Listing]) -> list[Listing]:
    """Join the blocks of a kernel with lines in several files."""
    by_kernel: dict[str, list[Listing]] = {}
    for part in parts:
        by_kernel.setdefault(part.kernel, []).append(part)
    found = []
    for kernel, blocks in by_kernel.items():
        every = {one.address: one for block in reversed(blocks) for one in block.instructions}
        text = {key: said for block in blocks for key, said in block.text.items()}
        found.append(Listing(kernel, tuple(every[address] for address in sorted(every)), text))
    return found
