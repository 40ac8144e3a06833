"""Step 1: the products in TF32, on the tensor cores; the rest stays fp32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from block import Block


@contextmanager
def tf32_products() -> Iterator[None]:
    """torch's switch for this block alone: it is the whole process's, so it is put back."""
    matmul = torch.backends.cuda.matmul
    name, wanted = ("fp32_precision", "tf32") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True)
    before = getattr(matmul, name)
    setattr(matmul, name, wanted)
    try:
        yield
    finally:
        setattr(matmul, name, before)


class ModelNew(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with tf32_products():
            return self.block(x.float()).to(torch.bfloat16)
