"""The roofline the tests of this house share."""

import pytest

from roofline.ceilings import Ceiling, Roofline


@pytest.fixture
def h200():
    """Datasheet ceilings of one H200."""
    compute = {
        "fp64": 34e12,
        "fp32": 67e12,
        "fp16": 133.8e12,
        "tensor_fp64": 67e12,
        "tensor_tf32": 494.7e12,
        "tensor_bf16": 989.4e12,
        "tensor_fp16": 989.4e12,
        "tensor_fp8": 1978.9e12,
        "tensor_int8": 1978.9e12,
    }
    ceilings = [Ceiling(name, "compute", peak, "datasheet") for name, peak in compute.items()]
    return Roofline("H200", (*ceilings, Ceiling("dram", "bandwidth", 4.8e12, "datasheet")))
