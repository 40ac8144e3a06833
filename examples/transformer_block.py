"""A few steps of training two transformer blocks, with annotated ranges: something to profile.

    python examples/transformer_block.py
    profkit profile --hot 3 -- python examples/transformer_block.py
    profkit profile --ncu -- python examples/transformer_block.py --steps 1 --no-backward

Runs on the GPU if there is one, 10 steps in bfloat16, else on the CPU, 3 small ones in float32. The ranges carry
the work they are meant to do; without a profiler they cost next to nothing.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional

from profkit import annotate


class Block(nn.Module):
    """Attention and a feed-forward net, each behind a layer norm and with a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        tokens, size = batch * length, x.element_size()
        with annotate(
            "attention",
            flops=2 * tokens * width * 4 * width + 4 * tokens * length * width,
            bytes=(2 * tokens * width + 4 * width * width) * size,
        ):
            x = x + self.attention(self.norm_1(x))
        with annotate(
            "mlp",
            flops=2 * tokens * width * 8 * width,
            bytes=(2 * tokens * width + 8 * width * width) * size,
        ):
            return x + self.down(functional.gelu(self.up(self.norm_2(x))))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    gpu = torch.cuda.is_available()
    parser.add_argument("--steps", type=int, default=10 if gpu else 3)
    parser.add_argument("--backward", action=argparse.BooleanOptionalAction, default=True, help="train")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8 if gpu else 2)
    parser.add_argument("--length", type=int, default=2048 if gpu else 128)
    parser.add_argument("--width", type=int, default=2048 if gpu else 128)
    chosen = parser.parse_args()

    torch.manual_seed(0)
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    model = nn.Sequential(*(Block(chosen.width, chosen.width // 64) for _ in range(chosen.layers)))
    model = model.to(device, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(chosen.batch, chosen.length, chosen.width, device=device, dtype=dtype)
    last = 0.0
    for _ in range(chosen.steps):
        with torch.set_grad_enabled(chosen.backward):
            with annotate("forward"):
                loss = model(x).float().square().mean()
            if chosen.backward:
                with annotate("backward"):
                    loss.backward()
                with annotate("update"):
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
        last = loss.item()
    print(f"{chosen.steps} steps on {device}, loss {last:.4f}")


if __name__ == "__main__":
    main()
