"""The device table: every figure derives, sparse figures are caught, and no name finds the wrong row."""

import math
from dataclasses import replace

import pytest
from sheet_rules import ROWS, check

from roofline.device import bandwidth_from_clocks, clock_of, derived_peaks, find_spec, specs

UNDERIVED = {("H20", "fp64"), ("GB200", "fp32"), ("B300", "fp32")}
"""Figures that nothing else in their row confirms; the table's notes say so."""

FOUND = {
    "NVIDIA H200": "H200 SXM",
    "NVIDIA H200 NVL": "H200 NVL",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "NVIDIA A100-PCIE-40GB": "A100 PCIe 40GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "Tesla V100-SXM2-16GB": "V100 SXM2 16GB",
    "Tesla V100-SXM2-32GB": "V100 SXM2 32GB",
    "Tesla T4": "T4",
    "NVIDIA GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "NVIDIA GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA GeForce RTX 5090": "RTX 5090",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX PRO 6000 Blackwell",
    "NVIDIA B200": "B200",
    "NVIDIA GB200": "GB200",
    "NVIDIA B300": "B300",
    "NVIDIA GH200 480GB": "GH200 96GB",
    "NVIDIA GH200 96GB HBM3": "GH200 96GB",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB",
    "nvidia h200": "H200 SXM",
    "h200": "H200 SXM",
}

UNKNOWN = (
    *("", "NVIDIA", "NVIDIA H100", "NVIDIA A100", "NVIDIA GB300", "NVIDIA H20-3e", "NVIDIA H800", "Quadro RTX 6000"),
    *("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA GeForce RTX 4090 Laptop GPU", "AMD Instinct MI300X"),
    *("NVIDIA GeForce RTX 4090 D", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"),
)


@pytest.mark.parametrize("spec", specs(), ids=lambda s: s.name)
def test_every_row_derives_and_has_a_source(spec):
    assert check(spec) == []
    assert "datasheet" in spec.source or "whitepaper" in spec.source or "page" in spec.source or "brief" in spec.source
    assert all(e["reason"] for e in ROWS[spec.name].get("exception", ()))


def test_the_table_is_wide_and_its_names_are_unique():
    names = [n.lower() for s in specs() for n in {*s.match, s.name}]
    assert len(specs()) >= 27
    assert len(names) == len(set(names))


@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize("spec", specs(), ids=lambda s: s.name)
def test_a_sparse_or_halved_figure_is_caught(spec, factor):
    for name, peak in spec.peaks.items():
        if (spec.name, name) not in UNDERIVED:
            assert check(replace(spec, peaks={**spec.peaks, name: peak * factor})), name


@pytest.mark.parametrize("spec", [s for s in specs() if s.bus_bits], ids=lambda s: s.name)
def test_a_foreign_bandwidth_is_caught(spec):
    assert check(replace(spec, bandwidth=spec.bandwidth * 1.15))
    assert check(replace(spec, peaks={**spec.peaks, "tensor_fp3": 1e15})), "a figure without a rate"
    assert check(replace(spec, source=""))


@pytest.mark.parametrize(("name", "row"), FOUND.items())
def test_names_of_the_driver_find_their_row(name, row):
    spec = find_spec(name)
    assert spec is not None
    assert spec.name == row


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_device_has_no_default(name):
    assert find_spec(name) is None


def test_what_the_driver_reports_must_agree():
    name = "NVIDIA A100-SXM4-80GB"
    assert find_spec(name, cc="8.0", sms=108, memory_bytes=79.1 * 2**30)
    assert find_spec(name, cc="9.0") is None
    assert find_spec(name, sms=42) is None  # a MIG slice
    assert find_spec(name, memory_bytes=39.4 * 2**30) is None
    assert find_spec("NVIDIA H200", sms=132, memory_bytes=150_754_820_096)
    assert find_spec("NVIDIA H200", memory_bytes=math.nan)


def test_every_memory_size_passes_as_reported_with_ecc():
    for spec in specs():
        assert find_spec(spec.match[0], memory_bytes=spec.memory_bytes * 0.9375) is spec


def test_derived_peaks_at_the_sheet_clocks_and_at_another():
    h200 = find_spec("H200")
    assert derived_peaks(h200)["tensor_bf16"] == pytest.approx(989.4e12, rel=0.001)
    assert derived_peaks(h200, clock=1.97e9)["tensor_bf16"] == pytest.approx(1065e12, rel=0.001)
    assert clock_of(h200, "tensor_bf16") == 1.83e9
    assert clock_of(h200, "tensor_fp64") == clock_of(h200, "fp32") == 1.98e9
    assert derived_peaks(find_spec("GB200")) == {}
    assert bandwidth_from_clocks(3201e6, 6016) == pytest.approx(4814e9, rel=0.001)
    assert math.isnan(bandwidth_from_clocks(math.nan, 384))
