"""The table that torch.profiler prints: kernels where it lists them, else operators."""

import pytest
from frames import validate

from collectors import CollectError, read

_TITLES = ("Self CPU %", "Self CPU", "CPU total", "Self CUDA", "Self CUDA %", "Self CUDA Mem", "# of Calls")


def table(*rows: tuple[str, str, str, str, int], titles: tuple[str, ...] = _TITLES) -> str:
    """A table as torch prints it; rows: name, the CPU's own time, the GPU's, its share in percent, calls."""
    ruler = "  ".join(["-" * 40, *["-" * 12] * len(titles)])
    lines = [ruler, "  ".join(["Name".rjust(40), *(title.rjust(12) for title in titles)]), ruler]
    for name, cpu, gpu, share, calls in rows:
        known = {"Self CPU": cpu, "CPU total": cpu, "Self CUDA": gpu, "Self CUDA %": f"{share}%", "# of Calls": calls}
        cells = [str(known.get(title, "0 b" if "Mem" in title else "0.00%")) for title in titles]
        lines.append("  ".join([name.rjust(40), *(cell.rjust(12) for cell in cells)]))
    return "\n".join([*lines, ruler, "Self CPU time total: 5.000ms", "Self CUDA time total: 4.000ms", ""])


OPERATOR = ("aten::mm", "1.000ms", "3.000ms", "75.00", 3)
COPY = ("Memcpy HtoD (Pageable -> Device)", "0.000us", "1.000ms", "25.00", 2)
TABLE = table(OPERATOR, ("gemm_kernel", "0.000us", "3.000ms", "75.00", 3), COPY)


def test_kernels_and_copies_are_rows_and_operators_are_not(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(f"loss 0.5\n{TABLE}done\n")
    frame = validate(read(path))
    assert frame["kernel"].tolist() == ["gemm_kernel", COPY[0]]
    assert frame["kind"].tolist() == ["kernel", "memcpy"]
    assert frame["instances"].tolist() == [3, 2]
    assert frame["time"].tolist() == pytest.approx([1e-3, 5e-4])
    assert frame.attrs["caveats"] == []


def test_operators_are_taken_where_a_table_lists_no_kernel_or_hardly_one(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(table(OPERATOR))
    frame = read(path)
    assert frame["kernel"].tolist() == ["aten::mm"]
    said = " ".join(one.what for one in frame.attrs["caveats"])
    assert "75.0 % of the GPU time" in said
    assert "operators and hardly a kernel" in said
    assert (frame.attrs["unlisted"], frame.attrs["report"]) == (pytest.approx(1e-3), "operators")
    path.write_text(table(OPERATOR, ("gemm_kernel", "0.000us", "0.200ms", "5.00", 3)))
    assert read(path)["kernel"].tolist() == ["aten::mm"]


def test_a_table_cut_by_its_row_limit_says_what_is_not_listed(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(table(("gemm_kernel", "0.000us", "3.000ms", "75.00", 3), COPY))
    assert read(path).attrs["unlisted"] == 0
    path.write_text(table(("gemm_kernel", "0.000us", "3.000ms", "75.00", 3), OPERATOR))
    assert read(path).attrs["unlisted"] == pytest.approx(1e-3)
    path.write_text(path.read_text().partition("Self CPU time total")[0])
    assert read(path).attrs["unlisted"] == pytest.approx(1e-3)


def test_of_two_tables_the_one_with_most_gpu_time_is_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(table(OPERATOR, COPY) + "\n" + TABLE)
    frame = read(path)
    assert len(frame) == 2
    assert any("2 tables" in one.what for one in frame.attrs["caveats"])


def test_a_table_without_gpu_time_or_with_a_damaged_row_is_refused(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(table(OPERATOR, titles=("Self CPU %", "Self CPU", "CPU total", "# of Calls")))
    with pytest.raises(CollectError, match="without GPU time"):
        read(path)
    path.write_text(TABLE.replace("3.000ms", "3.000xx"))
    with pytest.raises(CollectError, match=r"line 4: Self CUDA: .*found '3.000xx'"):
        read(path)


def test_ranges_on_the_gpu_and_calls_of_the_runtime_are_neither_kernels_nor_operators(tmp_path):
    path = tmp_path / "log.txt"
    names = ("ProfilerStep*", "nccl:all_reduce", "Optimizer.step#Adam.step", "DDP.forward", "my loss")
    ranges = [(name, "0.000us", "4.000ms", "100.00", 1) for name in names]
    kernel = ("void gemm<float>(float*)", "0.000us", "3.000ms", "75.00", 3)
    forward = [("forward", "9.000ms", "0.000us", "0.00", 1), ("forward", "0.000us", "4.000ms", "100.00", 1)]
    path.write_text(table(*ranges, kernel, ("triton_poi_fused_...", "0.000us", "1.000ms", "25.00", 1), *forward))
    assert read(path)["kernel"].tolist() == [kernel[0], "triton_poi_fused_..."]
    path.write_text(table(OPERATOR, ("cudaLaunchKernel", "9.000ms", "1.000ms", "25.00", 3)))
    assert read(path)["kernel"].tolist() == ["aten::mm"]
    path.write_text(table(kernel, forward[1]))
    with pytest.raises(CollectError, match="add up to 175 %"):
        read(path)
