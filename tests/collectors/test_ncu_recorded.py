"""Exports recorded on an H200 (ncu 2025.3.1), as the tool wrote them."""

from pathlib import Path

import pytest

from collectors import CollectError
from collectors.counters import counter_set
from collectors.frame import uncollected
from collectors.ncu import read

DATA = Path(__file__).parents[1] / "data/ncu"


def recorded(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not recorded")
    return path


@pytest.mark.parametrize("name", ["h200_default.csv", "h200_suffixes.csv"])
def test_the_default_set(name):
    frame = read(recorded(name))
    assert set(frame["impl"]) == {"reference", "candidate"}
    assert frame["device"].unique().tolist() == ["NVIDIA H200"]
    assert frame["cc"].unique().tolist() == ["9.0"]
    assert frame["passes"].max() <= 8
    missing = [one for one in uncollected(frame, counter_set("default")) if not one.startswith("peak_mma")]
    assert missing == ["l2_write"]  # asked for since; these pages are older
    assert frame.attrs["caveats"] == []


def test_a_matrix_product_is_counted_exactly():
    gemm = read(recorded("h200_default.csv")).iloc[0]
    assert gemm["op_tensor_bf16"] == 2 * 4096**3
    assert 0.7 < gemm["op_tensor_bf16"] / gemm["time"] / gemm["peak_tensor_bf16"] < 1.0
    assert gemm["peak_mma_bf16"] == pytest.approx(gemm["peak_tensor_bf16"] * 2 / 3)
    assert gemm["peak_dram_bw"] == pytest.approx(4812e9, rel=1e-3)


@pytest.mark.parametrize(("name", "code"), [("h200_segv.csv", 11), ("h200_exit3.csv", 3)])
def test_the_target_failed_after_its_kernels(name, code):
    frame = read(recorded(name))
    assert (frame["time"] > 0).all()
    assert f"error code ({code})" in frame.attrs["caveats"][0].what


def test_no_kernels():
    with pytest.raises(CollectError, match="No kernels were profiled"):
        read(recorded("h200_no_kernels.csv"))
