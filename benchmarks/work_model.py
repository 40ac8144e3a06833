"""The work model against the hardware's counters, from recorded runs.

    python benchmarks/work_model.py RUN [RUN ...]        # run directories with counters; needs no GPU

For the candidate of each run: declared and modelled FLOP and bytes, what the counters say (cold L2), and
the ratios. Written bytes that are still in L2 when the kernel ends are not counted by the hardware, so
bytes can read low by up to the size of the L2; that share is shown.
"""

from __future__ import annotations

import sys

import profkit
from profkit.derive import read_launches


def main() -> None:
    print(
        f"{'sample':9}{'impl':11}{'model FLOP':>13}{'counted':>13}{'ratio':>8}{'model B':>12}{'counted':>12}{'ratio':>8}{'+ in L2':>9}"
    )
    for path in sys.argv[1:]:
        run = profkit.open_run(path)
        launches = read_launches(run)
        if launches is None or "dram_bytes" not in launches or not run.analysis.works:
            print(f"{run.manifest.sample.id:9}no counters or no work model")
            continue
        work = run.analysis.works[0]
        written = max((w.written for w in run.analysis.works if w.written == w.written), default=0.0)
        l2 = float(run.manifest.device.get("l2_bytes", 0.0))
        for row in run.metrics.to_dict("records"):
            if not str(row["work_source"]).startswith("counted"):
                continue
            flops, moved = float(row["flops"]), float(row["bytes"])
            late = min(written, l2)
            low = moved / work.bytes
            high = (moved + late) / work.bytes
            ratio = flops / work.total if work.total else float("nan")
            print(
                f"{run.manifest.sample.id:9}{row['impl']:11}{work.total:13.4g}{flops:13.4g}{ratio:8.3f}{work.bytes:12.4g}{moved:12.4g}{low:8.3f}{high:9.3f}"
            )


if __name__ == "__main__":
    main()
