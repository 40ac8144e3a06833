"""Check this folder's candidate against the reference, then time both.

Usage: python run_code.py

Prints the contest's lines on stdout; exit code 0 = the results agree, 1 = they do not, 2 = no GPU.
Inputs are seeded and drawn 2 times.
Times are CUDA event pairs with a cold L2, reference and candidate in turns.
"""

import statistics
import sys

import torch
from example_torchcode import Model, get_init_inputs, get_inputs

REFERENCE_LABEL = "PyTorch (addcmul)"
CANDIDATE_LABEL = "自定义 CUDA polynomial"
# 128 rounding steps, with and without fused multiply-add.
RTOL, ATOL = 1e-4, 1e-4
SEEDS = (0, 1)
WARMUP, ROUNDS = 3, 20
FLUSH_BYTES = 256 << 20  # more than any L2 cache holds


def to_device(values: list, device: torch.device) -> list:
    return [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]


def build(candidate: type, seed: int, device: torch.device) -> tuple:
    """Reference, candidate and inputs; both models get the same parameters."""
    torch.manual_seed(seed)
    init_inputs = get_init_inputs()
    reference = Model(*init_inputs).to(device).eval()
    tested = candidate(*init_inputs).to(device).eval()
    return reference, tested, to_device(get_inputs(), device)


def compare(candidate: type, device: torch.device) -> bool:
    """Print the accuracy section; the worst of all seeds counts."""
    print("-" * 20, "精度对齐验证", "-" * 20)
    largest, means, agree = [], [], True
    for seed in SEEDS:
        reference, tested, inputs = build(candidate, seed, device)
        expected, actual = reference(*inputs), tested(*inputs)
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            got, want = (f"{t.dtype} {tuple(t.shape)}" for t in (actual, expected))
            print(f"the candidate returned {got}, not {want}", file=sys.stderr)
            agree = False
            break
        wide = torch.promote_types(expected.dtype, torch.float32)
        difference = (actual.to(wide) - expected.to(wide)).abs()
        largest.append(difference.max().item())
        means.append(difference.mean().item())
        agree = agree and torch.allclose(actual, expected, rtol=RTOL, atol=ATOL)
    if means:
        print(f"最大差异: {torch.tensor(largest).max():.6f}")
        print(f"平均差异: {statistics.fmean(means):.6f}")
    print("✅ 精度对齐：两个模型的输出结果非常接近。" if agree else "❌ 精度不一致！")
    return agree


def gpu_timer():
    """A function that times one call with a pair of CUDA events, in seconds, from a cold L2 cache.

    Overwriting the scratch buffer empties L2 and keeps the device busy while the host queues the call, so
    that the time between the events is the device's, not the launch's (as long as queueing is the faster).
    """
    scratch = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timer(model: torch.nn.Module, inputs: list) -> float:
        scratch.zero_()
        start.record()
        model(*inputs)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    return timer


def measure(candidate: type, device: torch.device) -> tuple:
    """Mean seconds a call of the reference and of the candidate, taken in turns."""
    reference, tested, inputs = build(candidate, SEEDS[0], device)
    timer = gpu_timer()
    seconds = {reference: [], tested: []}
    for i in range(WARMUP + ROUNDS):
        for model in (reference, tested) if i % 2 else (tested, reference):
            elapsed = timer(model, inputs)
            if i >= WARMUP:
                seconds[model].append(elapsed)
    return statistics.fmean(seconds[reference]), statistics.fmean(seconds[tested])


def report(reference: float, candidate: float, candidate_label: str) -> None:
    print()
    print("-" * 20, "性能加速比测试", "-" * 20)
    print(f"{REFERENCE_LABEL} 平均执行时间: {reference:.9f} 秒")
    print(f"{candidate_label} 平均执行时间: {candidate:.9f} 秒")
    if candidate > 0:
        print(f"加速比 (Speedup): {reference / candidate:.2f}x")
    else:
        print("CUDA 内核执行时间为0，无法计算加速比。")


@torch.no_grad()
def main() -> int:
    if not torch.cuda.is_available():
        print("CUDA 不可用，请确保您有可用的 NVIDIA GPU 并已正确安装 PyTorch CUDA 版本。")
        return 2
    from example_cudacode import ModelNew

    device = torch.device("cuda")
    if not compare(ModelNew, device):
        return 1
    report(*measure(ModelNew, device), CANDIDATE_LABEL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
