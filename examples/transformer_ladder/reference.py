"""Step 0: the block in fp32, operator by operator. Between blocks activations travel in bf16, so that in and out is
what every step has to give."""

from __future__ import annotations

import os

import torch
from block import WIDTH, Block

BATCH, LENGTH = int(os.environ.get("BLOCK_BATCH", "8")), int(os.environ.get("BLOCK_LENGTH", "1024"))


class Model(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x.float()).to(torch.bfloat16)


def get_inputs() -> list:
    return [torch.randn(BATCH, LENGTH, WIDTH).to(torch.bfloat16)]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    """Six products on the bf16 tensor path; the weights and x in once, y out once, 2 bytes each."""
    tokens = BATCH * LENGTH
    products = 24 * tokens * WIDTH * WIDTH + 4 * tokens * LENGTH * WIDTH
    return {"flops": {"tensor_bf16": products}, "bytes": 2 * (12 * WIDTH * WIDTH + 2 * tokens * WIDTH)}
