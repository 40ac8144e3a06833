"""Cuts and damages of real exports: is each refused, read as before, doubted, or not to be told?

    python benchmarks/damages.py FILE... [--each 50] [--seed 0]

Kinds: cut (the file ends at a byte drawn by lot), cut rows (it ends after a row), a byte changed, a byte lost, a row lost, a
row twice, two rows glued. Each is compared with the whole file's frame. What is neither refused, nor the same, nor carries a doubt that the
whole file has not, cannot be told; these are counted by kind and by reason, and printed with --verbose.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))


def cut(data: bytes, lots: random.Random) -> bytes:
    return data[: lots.randrange(1, len(data))]


def cut_rows(data: bytes, lots: random.Random) -> bytes:
    rows = data.splitlines(keepends=True)
    return b"".join(rows[: lots.randrange(1, max(len(rows), 2))])


def byte_changed(data: bytes, lots: random.Random) -> bytes:
    at = lots.randrange(len(data))
    return data[:at] + bytes([lots.randrange(32, 127)]) + data[at + 1 :]


def byte_lost(data: bytes, lots: random.Random) -> bytes:
    at = lots.randrange(len(data))
    return data[:at] + data[at + 1 :]


def row_lost(data: bytes, lots: random.Random) -> bytes:
    rows = data.splitlines(keepends=True)
    del rows[lots.randrange(len(rows))]
    return b"".join(rows)


def row_twice(data: bytes, lots: random.Random) -> bytes:
    rows = data.splitlines(keepends=True)
    at = lots.randrange(len(rows))
    return b"".join([*rows[: at + 1], *rows[at:]])


def rows_glued(data: bytes, lots: random.Random) -> bytes:
    rows = data.splitlines(keepends=True)
    at = lots.randrange(len(rows))
    rows[at] = rows[at].rstrip(b"\r\n")
    return b"".join(rows)


KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    cut,
    cut_rows,
    byte_changed,
    byte_lost,
    row_lost,
    row_twice,
    rows_glued,
)


def outcome(path: Path, whole: pd.DataFrame, doubts: list[object]) -> tuple[str, str]:
    """refused, unchanged, doubted, or untold with the reason why nothing in the file shows it."""
    import collectors
    from collectors.errors import CollectError

    try:
        frame = collectors.read(path)
    except CollectError:
        return "refused", ""
    if frame.equals(whole):
        return "unchanged", ""
    told = any(one not in doubts for one in frame.attrs["doubts"])
    return ("doubted", "") if told else ("untold", reason(whole, frame))


def reason(whole: pd.DataFrame, frame: pd.DataFrame) -> str:
    """What became of the frame, in words of which no file can tell that they are wrong."""
    import numpy as np

    if len(frame) != len(whole):
        return "fewer rows: the form states neither their number nor an end" if len(frame) < len(whole) else "more rows"
    gone = sorted(set(whole.columns) - set(frame.columns))
    if gone:
        return "a counter less: a name that nobody knows, or its rows gone"
    if set(frame.columns) - set(whole.columns):
        return "a counter more"
    differ = [name for name in whole.columns if not frame[name].equals(whole[name])]
    texts = [name for name in differ if not isinstance(whole[name].dtype, np.dtype) or whole[name].dtype == object]
    if texts:
        return f"another text, as good as the first: {', '.join(texts)}"
    lost = [name for name in differ if frame[name].isna().sum() > whole[name].isna().sum()]
    return "a value less: a metric need not be there" if lost else "another number, as good as the first"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    import collectors

    told, why = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as folder:
        for file in given.files:
            lots = random.Random(f"{given.seed} {file.name}")
            whole = collectors.read(file)
            data, damaged = file.read_bytes(), Path(folder) / file.name
            for number in range(given.each):
                kind = KINDS[number % len(KINDS)]
                changed = kind(data, lots)
                damaged.write_bytes(changed)
                found, because = outcome(damaged, whole, list(whole.attrs["doubts"]))
                told[kind.__name__.replace("_", " "), found] += 1
                why[file.name, because] += found == "untold"
                if found == "untold" and given.verbose:
                    print(f"{file.name}: {kind.__name__}, {len(data)} -> {len(changed)} B: {because}", flush=True)
    words = ("refused", "unchanged", "doubted", "untold")
    print(f"| damage | {' | '.join(words)} |\n| --- |{' ---: |' * len(words)}")
    for kind in [*(one.__name__.replace("_", " ") for one in KINDS), "all"]:
        counts = [sum(n for (name, one), n in told.items() if one == word and kind in (name, "all")) for word in words]
        print(f"| {kind} | {' | '.join(map(str, counts))} |")
    print("\n| what cannot be told, because it reads as | times | in |\n| --- | ---: | --- |")
    for because in sorted({one for _, one in why} - {""}):
        files = {name: times for (name, one), times in why.items() if one == because and times}
        print(f"| {because} | {sum(files.values())} | {', '.join(sorted(files))} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
