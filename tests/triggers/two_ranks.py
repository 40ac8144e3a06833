"""A step of two ranks: a product, a sum over both beside another product, and one that nothing hides.

    profkit profile -- torchrun --standalone --nproc-per-node 2 tests/triggers/two_ranks.py
    torchrun --standalone --nproc-per-node 2 tests/triggers/two_ranks.py --own FOLDER

needs two NVIDIA GPUs and NCCL. --own: without profkit, under a torch.profiler of its own, whose trace each rank writes.
"""

import os
import sys

import torch
import torch.distributed as dist

STEPS, SIZE, COUNT = 30, 4096, 32 * 2**20


def step(x: torch.Tensor, gradient: torch.Tensor) -> None:
    with torch.profiler.record_function("step"):
        y = x @ x
        waiting = dist.all_reduce(gradient, async_op=True)
        for _ in range(4):
            y = y @ x
        waiting.wait()
        dist.all_reduce(gradient)
        gradient.mul_(0.5)


def main() -> None:
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    x = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) / SIZE**0.5
    gradient = torch.randn(COUNT, device="cuda")
    for _ in range(5):
        step(x, gradient)
    torch.cuda.synchronize()
    dist.barrier()
    own = sys.argv[sys.argv.index("--own") + 1] if "--own" in sys.argv else ""
    if own:
        with torch.profiler.profile() as profiler:
            run(x, gradient)
        profiler.export_chrome_trace(os.path.join(own, f"own.rank{rank}.json"))
    else:
        run(x, gradient)
    dist.destroy_process_group()


def run(x: torch.Tensor, gradient: torch.Tensor) -> None:
    for _ in range(STEPS):
        step(x, gradient)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
