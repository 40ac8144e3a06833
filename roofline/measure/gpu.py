"""Ceilings of a CUDA device: streams, chains, cache reads and matrix products."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from roofline.ceilings import Ceiling
from roofline.device import L1_BYTES_PER_CLOCK, Device, bandwidth_from_clocks, derived_peaks, find_spec
from roofline.errors import RooflineError
from roofline.measure import cuda_source, products
from roofline.measure.cuda_module import Module, compile_cubin
from roofline.measure.gpu_clock import GpuTimer, gpu_device, launch_ceilings
from roofline.measure.probe import MIB, Probe, believable, best_ceilings, run_probes, streams, with_dram

Launch = Callable[..., Callable[[], None]]


def measure_gpu(
    index: int = 0, *, rounds: int = 3, budget: float = 8.0
) -> tuple[Device, tuple[Ceiling, ...], tuple[str, ...]]:
    """One CUDA device, its measured ceilings, and why others were refused.

    No round begins after `budget` seconds; three rounds in 8 s agree with twenty in 30 s within 1 % (H100). Data are
    random: zeros draw less power and give an unreachable ceiling.
    Raises RooflineError without a CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise RooflineError("no CUDA device", fix="run on a machine with a GPU and a CUDA build of torch")
    torch.cuda.set_device(index)
    torch.manual_seed(0)
    device = gpu_device(torch, index)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        times, silent = launch_ceilings(torch)
        timer = GpuTimer(torch, device)
        results, refused = run_probes(probes(torch, device), timer, rounds=rounds, batch=0.03, budget=budget)
        setting = f"torch {torch.__version__}, driver {device.driver or 'unknown'}, random data"
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.cuda.empty_cache()
    ceilings = with_dram(best_ceilings(results, setting=setting))
    kept, impossible = believable(ceilings, limits_of(device))
    return device, (*kept, *times), (*silent, *refused, *impossible)


def limits_of(device: Device) -> Callable[[Ceiling], dict[str, float]]:
    """Highest possible value of each ceiling at its own clock; empty for unknown devices."""
    spec = find_spec(device.name, cc=device.cc, sms=device.sms)

    def limits(ceiling: Ceiling) -> dict[str, float]:
        at = ceiling.clock if ceiling.clock == ceiling.clock else device.max_sm_clock
        if spec is None:
            return {}
        found = derived_peaks(spec, clock=at) if at == at else {}
        found |= {"l1": spec.sms * L1_BYTES_PER_CLOCK * at} if found and spec.sms else {}
        if device.bus_bits:
            dram = bandwidth_from_clocks(device.max_mem_clock, device.bus_bits)
            found |= dict.fromkeys(("dram", "dram_read", "dram_write", "dram_copy", "dram_triad"), dram)
        return found

    return limits


def probes(torch: Any, device: Device) -> Iterator[Probe]:
    """Yield every micro-benchmark of the device, with its buffers allocated."""
    yield from _streams(torch)
    yield from _kernels(torch, device)
    yield from products.probes(torch, device)


def _streams(torch: Any) -> Iterator[Probe]:
    """Streams over three arrays of up to 4 GiB; copies and triads count every byte moved."""
    n = int(min(4 * 2**30, torch.cuda.mem_get_info()[0] // 8)) // 4
    return streams(torch, *(torch.rand(n, device="cuda") for _ in range(3)))


def launcher(torch: Any, module: Module, out: Any) -> Launch:
    """Starter of a small kernel on torch's stream; arguments: tensors or 32-bit integers."""

    def launch(name: str, blocks: int, threads: int, *arguments: Any) -> Callable[[], None]:
        def run() -> None:
            # Of the tensors, not of their addresses: they live as long as the run does.
            values = [
                ctypes.c_int(one) if isinstance(one, int) else ctypes.c_void_p(one.data_ptr())
                for one in (out, *arguments)
            ]
            module.launch(name, blocks, threads, torch.cuda.current_stream().cuda_stream, *values)

        return run

    return launch


def _kernels(torch: Any, device: Device) -> Iterator[Probe]:
    """Chains of arithmetic and cache reads; one failing probe if they do not build."""
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    try:
        launch = launcher(torch, Module(compile_cubin(cuda_source.source(), device.cc)), out)
    except (RooflineError, OSError) as error:
        yield Probe("l2", "bandwidth", "own kernels", 1.0, _failing(str(error)))
        return
    blocks, threads, chains = (device.sms or 1) * 8, 256, cuda_source.CHAINS
    for kind, each in cuda_source.OPERATIONS.items():
        # Two FP64 units an SM on most parts: fewer steps, or one launch would take a second.
        count = 512 if kind == "fp64" else 4096
        flop = float(blocks * threads * chains * count * each)
        yield Probe(kind, "compute", f"chains of {chains}", flop, launch(f"chain_{kind}", blocks, threads, count))
    yield from _caches(torch, device, launch)


def _failing(message: str) -> Callable[[], object]:
    def run() -> None:
        raise RooflineError(message)

    return run


def _caches(torch: Any, device: Device, launch: Launch) -> Iterator[Probe]:
    sms = device.sms or 1
    l2 = device.l2_bytes if device.l2_bytes > 0 else 4 * MIB
    data = torch.rand(int(l2), device="cuda")  # four times the L2: room for every region
    # How fast a region is depends on where its pages lie among the slices of the L2: several take part.
    for share in (0.1, 0.2, 0.4):
        for start in range(4):
            elements, passes = int(l2 * share) // 16, 100
            region = data[start * int(l2) // 4 :]
            run = launch("read_l2", sms * 2, 1024, region, elements, passes)
            size = f"reads of {elements * 16 / MIB:.0f} MiB, place {start + 1}"
            yield Probe("l2", "bandwidth", size, 16.0 * elements * passes, run)
    passes = 2000
    run = launch("read_shared", sms, 1024, passes)
    work = float(cuda_source.SHARED_BYTES * passes * sms)
    yield Probe("l1", "bandwidth", "shared memory, 32 KiB an SM", work, run)
