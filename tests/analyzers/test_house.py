import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from analyzers.verdicts.analysis import analyze
from collectors.caveat import Caveat, unique
from roofline.ceilings import Roofline, datasheet_ceilings
from roofline.device import find_spec

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "ncu"


def test_importing_the_house_is_cheap():
    code = "import sys, analyzers, collectors.caveat; print({'pandas', 'torch', 'matplotlib'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_caveats_survive_as_plain_rows():
    caveat = Caveat("a", "b", "c")
    rows = [msgspec.to_builtins(caveat), {"what": "only"}]
    assert msgspec.convert(rows, list[Caveat]) == [caveat, Caveat("only")]
    assert unique([caveat, caveat]) == (caveat,)


@pytest.mark.skipif(not (RECORDED / "h200_lean_raw_base.csv").exists(), reason="recorded exports are not here")
def test_a_recorded_fp32_gemm_and_relu():
    from collectors import read

    frame = read(RECORDED / "h200_lean_raw_base.csv")
    spec = find_spec("NVIDIA H200", cc="9.0", sms=132)
    result = analyze(None, frame, {}, Roofline("H200", datasheet_ceilings(spec)))
    gemm, relu = (row for _, row in result.kernels.iterrows())
    assert gemm["flops"] == pytest.approx(2 * 4096**3, rel=1e-3)
    # ncu's own rule row of this kernel prints 77 % of the fp32 peak, at the clock of the run.
    assert gemm["bound_by"] == "fp32"
    # The lean set leaves a pipe out, so that the sum is a lower bound and no share is said of it.
    assert gemm["flops_lower"]
    assert gemm["achieved_flops"] / spec.peaks["fp32"] == pytest.approx(0.77, abs=0.015)
    # Without the counters of a cause nothing is called latency.
    assert relu["bound_by"] == "unknown"
    assert relu["dram_fraction"] == pytest.approx(0.49, abs=0.01)
