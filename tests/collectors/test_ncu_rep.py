import json
import sys
from pathlib import Path

import numpy as np
import pytest

from collectors import CollectError
from collectors.ncu import read, rep, source

SHARED = Path(__file__).parents[3] / "shared/data/ncu"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the public reports are not here")


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def block(results: int, payload: bytes) -> bytes:
    text = b"session"
    head = b"\x10" + varint(results) + b"\x22" + varint(len(text)) + text + b"\x28" + varint(len(payload)) + b"\x35abcd"
    return len(head).to_bytes(4, "little") + head + payload


REPORT = b"NVR\0" + (2).to_bytes(4, "little") + b"\x08\x07" + block(0, b"") + block(1, b"x" * 300) + block(1, b"y" * 40)


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ncu_report", None)


def test_without_the_package_the_fix_names_it(tmp_path, no_package):
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(REPORT)
    with pytest.raises(CollectError) as caught:
        read(path)
    assert "ncu-report" in caught.value.fix
    assert "ncu --import x.ncu-rep" in caught.value.fix


def test_a_cut_report_is_refused_at_every_byte(tmp_path):
    path = tmp_path / "x.ncu-rep"
    whole = 4 + 4 + 2
    ends = {whole, whole + len(block(0, b"")), whole + len(block(0, b"")) + len(block(1, b"x" * 300))}
    for size in range(len(REPORT)):
        path.write_bytes(REPORT[:size])
        if size in ends:
            assert rep.count_results(path) in (0, 1)
            continue
        with pytest.raises(CollectError, match=r"breaks off|not a report"):
            rep.count_results(path)
    path.write_bytes(REPORT)
    assert rep.count_results(path) == 2


@needs_shared
@pytest.mark.parametrize("name", ["armleth.ncu-rep", "nt_manual_nvtx.ncu-rep"])
def test_reports_agree_with_the_oracle(name):
    pytest.importorskip("ncu_report")
    golden = json.loads((SHARED / "golden_ncu_report.json").read_text())[name]
    frame = read(SHARED / name)
    assert frame["kernel"].tolist() == [one["demangled"] for one in golden]
    assert frame["device"].tolist() == [one["gpu"] for one in golden]
    assert frame["cc"].tolist() == [one["cc"] for one in golden]
    assert frame["time"].tolist() == pytest.approx([one["time_ns"] * 1e-9 for one in golden], rel=1e-12)
    assert frame["dram_clock"].tolist() == pytest.approx([one["dram_Hz"] for one in golden], rel=1e-6)
    for i, one in enumerate(golden):
        ranges = [name for domain in one["nvtx"].values() for name in domain["push_pop"]]
        assert frame["range"][i] == "/".join(ranges)
        if one["sm_Hz"]:
            assert frame["sm_clock"][i] == pytest.approx(one["sm_Hz"], rel=1e-6)
            assert frame["dram_bytes"][i] / frame["time"][i] == pytest.approx(one["dram_Bps"], rel=1e-6)
            assert frame["peak_dram_bw"][i] == pytest.approx(one["dram_peak_Bps"], rel=1e-6)
            for kind in ("fp32", "fp64"):
                assert frame[f"flop_{kind}"][i] == pytest.approx(one[kind]["flop_count"], rel=1e-6)
                assert frame[f"peak_{kind}"][i] == pytest.approx(one[kind]["peak"], rel=1e-6)


@needs_shared
@pytest.mark.parametrize(
    ("report", "export"),
    [
        ("armleth.ncu-rep", "ncu_raw_t4_full_base.csv"),
        ("nt_manual_nvtx.ncu-rep", "ncu_raw_rtx3070_nvtx_base_C.csv"),
        ("nt_manual_nvtx.ncu-rep", "ncu_raw_rtx3070_nvtx_base_enUS.csv"),
        ("nt_manual_nvtx.ncu-rep", "ncu_raw_rtx3070_nvtx_instances.csv"),
    ],
)
def test_report_and_export_give_the_same_frame(report, export):
    pytest.importorskip("ncu_report")
    ours, exported = read(SHARED / report), read(SHARED / export)
    assert list(ours.columns) == list(exported.columns)
    for name in ours.columns:
        if name == "process":
            continue
        if ours[name].dtype != np.float64:
            assert ours[name].tolist() == exported[name].tolist(), name
        else:
            # The export rounds to two decimals (six where it scales units).
            close = np.isclose(ours[name], exported[name], rtol=2e-3, atol=1e-2, equal_nan=True)
            assert close.all(), (name, ours[name].tolist(), exported[name].tolist())


@needs_shared
def test_export_of_the_a100_agrees_with_the_oracle():
    (golden,) = json.loads((SHARED / "golden_ncu_report.json").read_text())["mistic_MSDNEW.ncu-rep"]
    for name, tolerance in (("ncu_raw_a100_roofline_base.csv", 1e-4), ("ncu_details_a100_all.csv", 5e-3)):
        row = read(SHARED / name).iloc[0]
        assert row["kernel"] == golden["demangled"]
        assert row["time"] == pytest.approx(golden["time_ns"] * 1e-9, rel=tolerance)
        assert row["flop_fp64"] == pytest.approx(golden["fp64"]["flop_count"], rel=tolerance)
        assert row["peak_fp64"] == pytest.approx(golden["fp64"]["peak"], rel=tolerance)
        assert row["dram_bytes"] / row["time"] == pytest.approx(golden["dram_Bps"], rel=tolerance)
        assert row["flop_fp64"] / row["dram_bytes"] == pytest.approx(golden["fp64"]["ai_dram"], rel=tolerance)


def test_a_source_page_that_is_no_csv_is_refused(tmp_path):
    path = tmp_path / "page.csv"
    path.write_text('"' + "x" * 200_000 + '"\n')
    with pytest.raises(CollectError, match="not CSV"):
        source.read(path)


REFUSED = {
    "h200_err_exit3.csv": r"error code \(3\)",
    "h200_err_nokernels.csv": r"No kernels were profiled\..*elementwise_kernel",
    "ncu_fail_app_error_children.csv": r"error code \(1\)",
}


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SHARED.glob("*")) if SHARED.exists() else [], ids=lambda path: path.name)
def test_every_public_file_reads_or_is_refused_for_the_right_reason(path):
    if path.name in ("metric_support.csv", "golden_ncu_report.json"):
        pytest.skip("not of ncu")
    if path.suffix == ".ncu-rep":
        pytest.importorskip("ncu_report")
    if path.name in REFUSED:
        with pytest.raises(CollectError, match=REFUSED[path.name]):
            read(path)
        return
    frame = read(path)
    assert len(frame) > 0
    if "windows_na" not in path.name and "bogus" not in path.name:
        assert (frame["time"] > 0).all()
