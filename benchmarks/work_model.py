"""The work model against the hardware's counters, from recorded runs.

    python benchmarks/work_model.py RUN [RUN ...]        # run directories with counters; needs no GPU
    python benchmarks/work_model.py --record DIR         # records three plain samples first; needs ncu and a GPU

For each implementation: FLOP and bytes that the model (or the sample's declaration) says, what the counters
say (cold L2), and the ratios. The DRAM counter stops with the kernel, while the L2 still holds a part of
what was written: `in L2` is that part, bytes that the SMs wrote to L2 less those that reached DRAM, and the last column
the ratio with it. The plain samples do what the model describes and no more, so there both ratios should
be within 5 % of 1: a product, a point-wise operation and a reduction, each one kernel of the reference.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import profkit

HEAD = """import torch
torch.backends.cuda.matmul.allow_tf32 = False


class Model(torch.nn.Module):
    def forward(self, *tensors):
        return {call}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
PLAIN = {
    "product": ("torch.mm(*tensors)", "torch.randn(4096, 4096), torch.randn(4096, 4096)"),
    "product-bf16": (
        "torch.mm(*tensors)",
        "torch.randn(4096, 2048).bfloat16(), torch.randn(2048, 4096).bfloat16()",
    ),
    "pointwise": ("torch.add(*tensors)", "torch.randn(1 << 26), torch.randn(1 << 26)"),
    "reduction": ("tensors[0].sum(-1)", "torch.randn(16384, 16384)"),
}


def record(folder: Path) -> list[Path]:
    """Profile the plain samples with counters into `folder`; the run directories."""
    runs = []
    for name, (call, inputs) in PLAIN.items():
        sample = folder / "samples" / name
        sample.mkdir(parents=True, exist_ok=True)
        source = HEAD.format(call=call, inputs=inputs)
        (sample / "reference.py").write_text(source, encoding="utf-8")
        own = source.replace("class Model(", "class ModelNew(")
        (sample / "candidate.py").write_text(own, encoding="utf-8")
        run = profkit.profile(sample, counters="ncu", budget=1.0, runs=folder / "runs")
        runs.append(Path(run.path))
    return runs


def still_in_l2(own: pd.DataFrame) -> float:
    """Bytes written to L2 that had not reached DRAM when their kernels ended; NaN when not counted."""
    if "l2_write" not in own:
        return float("nan")
    return float((own["l2_write"] - own["dram_write"]).clip(lower=0).sum(min_count=len(own)))


def main() -> None:
    paths = record(Path(sys.argv[2])) if sys.argv[1:2] == ["--record"] else [Path(p) for p in sys.argv[1:]]
    print(
        f"{'sample':13}{'impl':11}{'model FLOP':>12}{'counted':>12}{'ratio':>8}"
        f"{'model B':>12}{'counted':>12}{'in L2':>11}{'ratio':>8}{'+ in L2':>9}"
    )
    for path in paths:
        show(path)


def show(path: Path) -> None:
    """One line an implementation of the run."""
    run = profkit.open_run(path)
    launches = run.launches
    if launches is None or "dram_bytes" not in launches or not run.analysis.works:
        print(f"{run.manifest.sample.id:13}no counters or no work model")
        return
    work = run.analysis.works[0]
    for row in run.metrics.to_dict("records"):
        if not str(row["work_source"]).startswith("counted"):
            continue
        own = launches[launches["impl"] == row["impl"]]
        held = still_in_l2(own)
        flops, moved = float(row["counted_flops"]), float(row["bytes"])
        ratio = flops / work.total if work.total else float("nan")
        print(
            f"{run.manifest.sample.id:13}{row['impl']:11}{work.total:12.4g}{flops:12.4g}{ratio:8.3f}"
            f"{work.bytes:12.4g}{moved:12.4g}{held:11.3g}{moved / work.bytes:8.3f}{(moved + held) / work.bytes:9.3f}"
        )


if __name__ == "__main__":
    main()
