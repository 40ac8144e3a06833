"""What time alone says: each conclusion from evidence made by hand, and "unknown" where it does not say."""

import json
import math

import pytest

from analyzers.perturbation import LIKELY, SURE, UNKNOWN, Evidence, evidence, infer
from analyzers.records import plain


@pytest.mark.parametrize(
    ("seen", "bound", "sure"),
    [
        (Evidence(60e-6, {"dram": 0.95}, half_sms=1.2, half_warps=1.05, warm=1.0), "dram", SURE),
        (Evidence(60e-6, {"dram": 0.95}, half_sms=1.9, half_warps=1.9, warm=1.0), "dram", LIKELY),
        (Evidence(80e-6, {"fp32": 0.82, "dram": 0.2}, half_sms=1.95, warm=1.0), "fp32", SURE),
        (Evidence(80e-6, {"fp32": 0.82}, half_sms=1.1), "fp32", LIKELY),
        (Evidence(1.6e-6, {"dram": 0.9}, half_sms=1.0), "latency", SURE),
        (Evidence(250e-6, {"dram": 0.22}, half_sms=1.02, half_warps=1.0, warm=1.0), "latency", LIKELY),
        (Evidence(130e-6, {"dram": 0.45}, half_sms=1.1, warm=0.6), "dram", LIKELY),
        (Evidence(900e-6, {"tensor_fp64": 0.3, "dram": 0.02}, half_sms=1.98, half_warps=1.6), "latency", LIKELY),
        (Evidence(500e-6, {"tensor_bf16": 0.45}, half_sms=1.98, half_warps=1.0), "tensor_bf16", LIKELY),
        (Evidence(500e-6, {"tensor_bf16": 0.2}, half_sms=1.98, half_warps=1.0), "unknown", UNKNOWN),
        (Evidence(500e-6, {"fp32": 1.7}, half_sms=1.98, half_warps=1.0), "unknown", UNKNOWN),
        (Evidence(500e-6, {"dram": 0.3}), "unknown", UNKNOWN),
    ],
)
def test_what_a_call_minds_says_what_binds_it(seen, bound, sure):
    found = infer("cuda", seen)
    assert (found.bound_by, found.sure) == (bound, sure)
    assert len(found.reasons) == (seen.time < 2e-6) + (seen.near[1] > 0) + 3 - sum(
        map(math.isnan, (seen.half_sms, seen.half_warps, seen.warm))
    )
    assert json.dumps(plain(found), allow_nan=False)


def test_medians_are_held_against_the_usual_one_and_what_was_not_tried_is_not_known():
    seconds = {"usual": [2.0, 1.0, 9.0], "half_sms": [4.0, 4.0, 1.0]}
    seen = evidence(2.0, {"dram": 0.5}, seconds)
    assert seen.half_sms == 2.0
    assert math.isnan(seen.warm)
    assert math.isnan(evidence(2.0, {}, {"half_sms": [1.0]}).half_sms)
