"""Cuts and damages of real exports: is each refused, read as before, doubted, or not to be told?

    python benchmarks/damages.py FILE... [--each 50] [--seed 0]

Kinds: cut (the file ends at a byte drawn by lot), cut rows (it ends after a row), a byte changed, a byte lost, a row lost, a
row twice, two rows glued. Each is compared with the whole file's frame. What is neither refused, nor the same, nor carries a doubt that the
whole file has not, cannot be told; these are counted by kind, and printed with --verbose.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

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


def outcome(path: Path, whole: object, doubts: list[object]) -> str:
    """refused, unchanged, doubted, or untold."""
    import pandas as pd

    import collectors
    from collectors.errors import CollectError

    try:
        frame = collectors.read(path)
    except CollectError:
        return "refused"
    same = isinstance(whole, pd.DataFrame) and frame.equals(whole)
    if same:
        return "unchanged"
    return "doubted" if [one for one in frame.attrs["doubts"] if one not in doubts] else "untold"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    import collectors

    lots, told = random.Random(given.seed), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as folder:
        for file in given.files:
            whole = collectors.read(file)
            data, damaged = file.read_bytes(), Path(folder) / file.name
            for number in range(given.each):
                kind = KINDS[number % len(KINDS)]
                changed = kind(data, lots)
                damaged.write_bytes(changed)
                found = outcome(damaged, whole, list(whole.attrs["doubts"]))
                told[kind.__name__.replace("_", " "), found] += 1
                if found == "untold" and given.verbose:
                    print(f"{file.name}: {kind.__name__}, {len(data)} -> {len(changed)} B", flush=True)
    words = ("refused", "unchanged", "doubted", "untold")
    print(f"| damage | {' | '.join(words)} |\n| --- |{' ---: |' * len(words)}")
    for kind in [*(one.__name__.replace("_", " ") for one in KINDS), "all"]:
        counts = [sum(n for (name, one), n in told.items() if one == word and kind in (name, "all")) for word in words]
        print(f"| {kind} | {' | '.join(map(str, counts))} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
