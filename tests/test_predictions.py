"""On runs recorded on an H200 the first finding of every sample is the one its readme predicts."""

import sys
from functools import cache
from pathlib import Path

import pytest
from recorded import opened

ROOT = Path(__file__).resolve().parent.parent
H200 = ROOT / "examples/h200"
pytestmark = pytest.mark.xdist_group("recorded")

# From "Where it should fall" of S1/*/readme.md, of the candidate that it speaks of.
PREDICTED = {
    ("ICAPYS", "cuda"): {"dram-excess"},  # DRAM-bound, with sectors read that are only written in part
    ("ICDQRM", "cuda"): {"dram-bound"},  # close under the DRAM ceiling
    ("ICFSMX", "cuda"): {"dram-bound"},  # close under the DRAM ceiling
    ("ICGRMS", "cuda"): {"dram-bound"},  # close under the same DRAM ceiling
    ("ICGRMS", "reference"): {"fuse"},  # its operators pass fp32 tensors through memory
    ("ICHTCM", "triton"): {"pipe-bound"},  # high under the tensor_bf16 ceiling
    ("ICHTCM", "cuda"): {"tensor-idle"},  # mma.sync cannot feed the tensor cores
    ("ICJTRP", "ori"): {"uncoalesced"},  # its writes touch 32 sectors
    ("ICJTRP", "cuda"): {"dram-bound"},  # not far under the DRAM ceiling
    ("ICKGLU", "triton"): {"dram-bound"},
    ("ICKGLU", "reference"): {"fuse"},  # x + bias goes to memory and back
    ("ICLSUM", "cuda"): {"few-blocks"},  # 8 of 132 SMs work
    ("ICLSUM", "reference"): {"dram-bound"},
    ("ICMTNY", "reference"): {"launch-bound"},  # launches and the gaps between them
    ("ICMTNY", "ori"): {"launch-bound"},
    ("ICNPLY", "cuda"): {"pipe-bound"},  # close under the fp32 ceiling
    ("ICNPLY", "reference"): {"fuse"},  # each of its 128 kernels moves 192 MiB for 2 FLOP a point
    ("ICPDGM", "cuda"): {"use-tensor-cores"},  # its instructions cannot go higher
    ("ICPDGM", "reference"): {"pipe-bound"},
    ("ICVXKH", "cuda"): {"small-grid"},  # the whole job is a few microseconds
}


@cache
def findings(sample):
    return opened(H200 / sample).findings()


@pytest.mark.parametrize(("sample", "impl"), PREDICTED, ids="-".join)
def test_the_first_finding_is_the_predicted_one(sample, impl):
    mine = [one for one in findings(sample) if one.impl == impl]
    assert mine[0].rule in PREDICTED[sample, impl], [one.title for one in mine[:3]]


def test_every_sample_is_predicted():
    assert {sample for sample, _ in PREDICTED} == {path.name for path in H200.iterdir() if path.is_dir()}


@pytest.mark.slow
def test_the_bounds_hold_and_stand_in_the_document():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import finding_bounds

    for pair in finding_bounds.PAIRS:
        first, before, after = finding_bounds.measured(pair)
        assert 0 < before - after <= first.upper_bound, pair
    text = finding_bounds.DOCUMENT.read_text("utf-8")
    assert finding_bounds.replaced(text) == text, "python benchmarks/finding_bounds.py --write"
