"""Read somebody's export and group it by kernel.

    python examples/read_export.py [FILE]        # ncu, nsys, nvprof or trtexec; found by content

Without FILE: the raw page of a recorded bf16 product on an H200. Needs no GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import profkit

RECORDED = Path(__file__).parent / "h200" / "ICHTCM" / "ncu.csv"


def main(file: str | Path) -> None:
    # One row a launch. Counters have the same names whatever tool wrote the file, in SI units.
    launches = profkit.read(file)
    print(f"{len(launches)} launches on {', '.join(launches['device'].unique())}, by {launches['tool'].iloc[0]}")

    counters = [name for name in ("time", "dram_bytes", "op_tensor_bf16") if name in launches]
    # min_count: a sum over launches that were not counted is NaN, not 0.
    table = launches.groupby("kernel", sort=False)[counters].sum(min_count=1)
    table.insert(0, "launches", launches.groupby("kernel", sort=False).size())
    table = table.sort_values("time", ascending=False)
    table.index = table.index.str.slice(0, 48)
    if "dram_bytes" in table:
        table["dram_bandwidth"] = table["dram_bytes"] / table["time"]
    print(table.to_string())

    # What the reader could not be sure of travels with the frame.
    for caveat in launches.attrs["caveats"]:
        print(f"caveat: {caveat['what']}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else RECORDED)
