"""Where a launch stands under the ceilings: ncu's own roofline section against profkit's, from one file.

    python benchmarks/placement_vs_ncu.py RAW.csv      # `ncu --set roofline --page raw --csv`; needs no GPU

ncu's side is its section's formulas, evaluated on the raw page as text, with none of profkit's readers: work
from instructions a cycle times the SM clock, traffic from bytes a second, peaks from the sustained rates
times the clocks. profkit's side is what collectors.read and analyzers.place make of the same file.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Mapping
from pathlib import Path

import collectors
from analyzers.placement import place
from roofline import Roofline, ncu_ceilings

SCALE = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
PEAK = "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained"


def raw_rows(path: Path) -> list[dict[str, float | str]]:
    """The page's launches, every number in its base unit."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines(True) if line.startswith('"')]
    names, units, *rows = list(csv.reader(lines))
    return [{n: value(t, u) for n, t, u in zip(names, row, units, strict=True)} for row in rows]


def value(text: str, unit: str) -> float | str:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return text
    prefix = unit[:1] if unit[1:].startswith(("byte", "hz")) else ""
    return number * SCALE.get(prefix, 1.0)


def of_ncu(row: Mapping[str, float | str]) -> dict[str, float]:
    """Achieved work and traffic, intensity and peaks, as the section computes them; NaN when one is absent."""

    def get(name: str) -> float:
        found = row.get(name, math.nan)
        return found if isinstance(found, float) else math.nan

    sm, inside = get("sm__cycles_elapsed.avg.per_second"), get("smsp__cycles_elapsed.avg.per_second")
    found = {}
    for kind, letter in (("fp32", "f"), ("fp64", "d")):
        a, m, f = (get(SASS.format(letter + op)) for op in ("add", "mul", "fma"))
        found[f"{kind} work [FLOP/s]"] = (a + m + 2 * f) * inside
        found[f"{kind} peak [FLOP/s]"] = 2 * get(PEAK.format(letter + "fma")) * sm
    found["dram traffic [B/s]"] = get("dram__bytes.sum.per_second")
    found["dram peak [B/s]"] = get("dram__bytes.sum.peak_sustained") * get("dram__cycles_elapsed.avg.per_second")
    found["l2 traffic [B/s]"] = get("derived__lts__lts2xbar_bytes.sum.per_second")
    found["l2 peak [B/s]"] = (
        32 * get("lts__lts2xbar_cycles_active.sum.peak_sustained") * get("lts__cycles_elapsed.avg.per_second")
    )
    found["l1 traffic [B/s]"] = get("derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second")
    found["intensity, dram [FLOP/B]"] = found["fp32 work [FLOP/s]"] / found["dram traffic [B/s]"]
    attainable = min(found["fp32 peak [FLOP/s]"], found["intensity, dram [FLOP/B]"] * found["dram peak [B/s]"])
    found["height under the ceiling"] = (
        found["fp32 work [FLOP/s]"] / attainable
        if attainable
        else found["dram traffic [B/s]"] / found["dram peak [B/s]"]
    )
    return found


def of_profkit(path: Path) -> list[dict[str, float]]:
    """The same quantities from the readers and the placement, with ncu's peaks as the ceilings."""
    launches = collectors.read(path)
    results = []
    for index in range(len(launches)):
        one = launches.iloc[[index]]
        peaks = {str(n): float(one[n].iloc[0]) for n in one if str(n).startswith("peak_")}
        roof = Roofline("ncu", ncu_ceilings(peaks, float(one["sm_clock"].iloc[0])))
        at = {str(k): v for k, v in place(one, roof).iloc[0].to_dict().items()}
        results.append(
            {
                "fp32 work [FLOP/s]": at["flop_fp32"] / at["time"],
                "fp32 peak [FLOP/s]": roof.peak("fp32"),
                "fp64 work [FLOP/s]": at["flop_fp64"] / at["time"],
                "fp64 peak [FLOP/s]": roof.peak("fp64"),
                "dram traffic [B/s]": at["dram_bandwidth"],
                "dram peak [B/s]": roof.peak("dram"),
                "l2 traffic [B/s]": at["l2_bandwidth"],
                "l2 peak [B/s]": roof.peak("l2"),
                "l1 traffic [B/s]": at.get("l1_bandwidth", math.nan),
                "intensity, dram [FLOP/B]": at["intensity_dram"],
                "height under the ceiling": at["attainable_fraction"],
            }
        )
    return results


def main(path: Path) -> None:
    for row, ours in zip(raw_rows(path), of_profkit(path), strict=True):
        print(str(row["Kernel Name"])[:70])
        for name, theirs in of_ncu(row).items():
            mine = ours[name]
            ratio = "not read" if math.isnan(mine) else f"{mine / theirs:.6f}" if theirs else "-"
            print(f"  {name:28}{theirs:16.6g}{mine:16.6g}{ratio:>12}")
        print()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit((__doc__ or "").strip())
    print(f"  {'':28}{'ncu':>16}{'profkit':>16}{'ratio':>12}")
    main(Path(sys.argv[1]))
