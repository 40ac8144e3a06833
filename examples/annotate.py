"""Name the parts of any program, with the work they are meant to do.

    python examples/annotate.py                                     # plain: a range costs a flag test
    profkit profile -- python examples/annotate.py                  # a table a range, on an NVIDIA GPU
    ncu --nvtx --nvtx-include "profkit@normalise/" python examples/annotate.py

Larger: transformer_block.py.
"""

from __future__ import annotations

import torch

import profkit

ROWS, COLUMNS = 2048, 2048


# As a decorator; the declared work is that of one passage.
@profkit.annotate("normalise", flops=5 * ROWS * COLUMNS, bytes=2 * 4 * ROWS * COLUMNS)
def normalise(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(ROWS, COLUMNS, device=device)
    with torch.no_grad(), profkit.annotate("step"):
        # Ranges nest: this one is step/product. FLOP may be given by pipe.
        with profkit.annotate("product", flops={"fp32": 2 * ROWS * COLUMNS * COLUMNS}):
            y = x @ x.T
        z = normalise(y)
    print(f"on {device}: rows add up to {z.sum(dim=1).mean().item():.3f}")


if __name__ == "__main__":
    main()
