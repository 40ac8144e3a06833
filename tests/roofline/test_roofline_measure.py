"""Micro-benchmarks on a fake clock, on this CPU, and the CUDA source through a compiler where there is one."""

import ctypes
import math
import platform
import sys
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from roofline.ceilings import Ceiling
from roofline.device import Device, bandwidth_from_clocks, find_spec
from roofline.errors import RooflineError
from roofline.measure.cuda_source import KINDS, source
from roofline.measure.probe import BURSTS, HEATS, PAUSE, Probe, Timing, believable, best_ceilings, run_probes, with_dram

NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


class FakeTimer:
    """A machine on which a run takes what its `seconds` attribute says, once a round differently."""

    def __init__(self, wobble=(1.0,), clock=1.5e9):
        self.now, self.order, self.wobble, self.clock = 0.0, [], wobble, clock

    def __call__(self, run, calls):
        seconds = run() * calls * self.wobble[len(self.order) % len(self.wobble)]
        self.order.append((run, calls))
        self.now += seconds
        return Timing(seconds, self.clock, 500.0)


def probe(name, seconds, work=1e9, variant="v", kind="compute"):
    return Probe(name, kind, variant, work, lambda: seconds)


def test_rounds_are_interleaved_and_batches_about_as_long_as_asked():
    timer = FakeTimer()
    quick, slow = probe("fp32", 0.001), probe("fp64", 0.5)
    results, refused = run_probes([quick, slow], timer, rounds=3, batch=0.03, now=lambda: timer.now)
    assert refused == []
    assert [r.calls for r in results] == [30, 1]
    measured = [run for run, _ in timer.order[6:]]
    assert measured == [quick.run, slow.run] * 3


def test_the_best_variant_wins_and_the_spread_is_told():
    timer = FakeTimer(wobble=(1.0, 1.25, 1.1))
    probes = [probe("fp32", 0.01, variant="slow"), probe("fp32", 0.005, variant="fast")]
    results, _ = run_probes(probes, timer, rounds=5, now=lambda: timer.now)
    (ceiling,) = best_ceilings(results, setting="2 threads", now=NOON)
    assert ceiling.variant == "fast"
    won = next(result for result in results if result.probe.variant == "fast")
    fast = sorted(won.rates)
    assert ceiling.peak == won.best
    assert fast[2] <= ceiling.peak <= fast[-1]
    assert ceiling.spread == pytest.approx(1 - fast[2] / ceiling.peak)
    assert ceiling.note.startswith("2 threads; upper quartile of 5 rounds")
    assert (ceiling.clock, ceiling.power, ceiling.source) == (1.5e9, 500.0, "measured")
    assert ceiling.measured_at == "2026-11-20T12:00:00+00:00"


def test_bursts_rest_before_each_and_the_middling_one_counts():
    timer, rests = FakeTimer(wobble=(1.0, 3.0, 1.0, 1.0, 1.0)), []
    burst = Probe("tensor_bf16", "compute", "v", 1e9, lambda: 0.001, burst=True)
    results, _ = run_probes([burst], timer, rounds=4, now=lambda: timer.now, rest=rests.append)
    assert rests == [PAUSE] * (HEATS + 4 * BURSTS)
    assert results[0].calls == 1
    assert results[0].rates == pytest.approx([1e9 / 0.001] * 4)


def test_a_failing_probe_costs_only_itself():
    def fail():
        raise NotImplementedError("no fp8 here\nand more")

    timer = FakeTimer()
    bad = Probe("tensor_fp8", "compute", "matmul", 1.0, fail)
    results, refused = run_probes([bad, probe("fp32", 0.01)], timer, rounds=1, now=lambda: timer.now)
    assert [r.probe.name for r in results] == ["fp32"]
    assert refused == ["tensor_fp8 (matmul): NotImplementedError: no fp8 here"]


def test_the_budget_ends_the_rounds_but_not_before_one():
    timer = FakeTimer()
    probes = [probe(name, 1.0) for name in ("a", "b", "c")]
    results, _ = run_probes(probes, timer, rounds=50, budget=5.0, now=lambda: timer.now)
    assert all(r.rates for r in results)
    assert timer.now <= 3 * 3 + 3 * 1  # three timings to begin with, one round


def test_write_only_streams_do_not_make_the_dram_roof():
    def stream(name, peak):
        return Ceiling(f"dram_{name}", "bandwidth", peak, "measured", variant="64 MiB")

    found = with_dram([stream("write", 4.69e12), stream("read", 4.42e12), stream("copy", 4.32e12)])
    assert found[0].name == "dram"
    assert found[0].peak == 4.42e12
    assert found[0].variant == "read, 64 MiB"
    assert with_dram([stream("write", 1.0)]) == (stream("write", 1.0),)


def test_what_physics_forbids_is_refused():
    ceilings = [
        Ceiling("fp32", "compute", 1.01e12, "measured"),
        Ceiling("fp64", "compute", 1.03e12, "measured"),
        Ceiling("tensor_int8", "compute", 0.06e12, "measured"),
        Ceiling("l2", "bandwidth", 9e12, "measured"),
    ]
    derived = dict.fromkeys(("fp32", "fp64", "tensor_int8"), 1e12)
    kept, refused = believable(ceilings, lambda _: derived)
    assert [c.name for c in kept] == ["fp32", "l2"]
    assert "fp64" in refused[0]
    assert "count or the clock" in refused[0]
    assert "poor kernel" in refused[1]


H200 = Device("cuda", "NVIDIA H200", cc="9.0", sms=132, max_sm_clock=1.98e9, max_mem_clock=3201e6, bus_bits=6016)


def test_limits_follow_the_measured_clock():
    from roofline.measure.gpu import limits_of

    limits = limits_of(H200)(Ceiling("fp32", "compute", 1.0, "measured", clock=1.0e9))
    assert limits["fp32"] == pytest.approx(132 * 128 * 2 * 1e9)
    assert limits["dram_copy"] == bandwidth_from_clocks(3201e6, 6016)
    unclocked = limits_of(H200)(Ceiling("fp32", "compute", 1.0, "measured"))
    assert unclocked["tensor_bf16"] == pytest.approx(132 * 4096 * 1.98e9)
    assert limits_of(replace(H200, name="NVIDIA X1"))(Ceiling("fp32", "compute", 1.0, "measured")) == {}


def test_cpu_ceilings_are_measured_and_explained():
    torch = pytest.importorskip("torch")
    from roofline.measure import cpu_device, measure_cpu

    found = {c.name: c for c in measure_cpu(rounds=1, budget=0.1)}
    assert {"fp32", "fp64", "dram", "dram_read", "dram_write", "dram_copy", "dram_triad"} <= set(found)
    assert found["dram"].peak == max(found[n].peak for n in ("dram_read", "dram_copy", "dram_triad"))
    assert f"{torch.get_num_threads()} threads" in found["fp32"].note
    assert all(c.variant and c.source == "measured" and c.spread >= 0 for c in found.values())
    assert cpu_device().threads == torch.get_num_threads()


def test_cpu_facts_come_from_the_system(tmp_path):
    from roofline.measure.cpu import MIB, array_bytes, cpu_name, last_level_cache

    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: AMD EPYC 9654\n")
    assert cpu_name(info) == "AMD EPYC 9654"
    assert cpu_name(tmp_path / "none") == (platform.processor() or platform.machine())
    for index, size in enumerate(("32K", "1024K", "33M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert last_level_cache(tmp_path) == 33 * MIB
    assert last_level_cache(tmp_path / "none") == 32 * MIB
    assert array_bytes(33 * MIB, 64 * 2**30) == 132 * MIB
    assert array_bytes(480 * MIB, 64 * 2**30) == 256 * MIB
    assert array_bytes(33 * MIB, 160 * MIB) == 10 * MIB


def test_no_gpu_is_an_error_with_a_fix():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from roofline.measure import measure_gpu

    with pytest.raises(RooflineError, match="no CUDA device") as error:
        measure_gpu()
    assert error.value.fix


def test_the_gpu_table_has_every_pipe_once_named(monkeypatch):
    """The probes of an H200, built on a stand-in for torch.cuda."""
    torch = pytest.importorskip("torch")
    from roofline.measure import gpu

    fake = SimpleNamespace(
        rand=lambda n, device: torch.zeros(4),
        zeros=lambda *size, **__: torch.zeros(8, 32, dtype=torch.int64),
        empty=lambda *_, **__: torch.zeros(4),
        randperm=lambda *_, **__: torch.arange(8),
        roll=torch.roll,
        uint8=torch.uint8,
        int32=torch.int32,
        float32=torch.float32,
        bfloat16=torch.bfloat16,
        float16=torch.float16,
        float64=torch.float64,
        cuda=SimpleNamespace(mem_get_info=lambda: (140 * 2**30, 141 * 2**30)),
    )
    monkeypatch.setattr(gpu, "compile_cubin", lambda *_: b"")
    monkeypatch.setattr(gpu, "Module", lambda _: None)
    device = replace(H200, l2_bytes=60 * 2.0**20)
    found = list(gpu.probes(fake, device))
    assert {p.name for p in found} == {
        *(f"dram_{way}" for way in ("read", "write", "copy", "triad")),
        *("l2", "l1", "fp64", "fp32", "fp16"),
        *(f"tensor_{kind}" for kind in ("fp64", "tf32", "bf16", "fp16", "fp8", "int8")),
    }
    assert all(p.work > 0 and p.variant for p in found)
    assert len({(p.name, p.variant) for p in found}) == len(found)
    turing = {p.name for p in gpu.probes(fake, replace(device, cc="7.5"))}
    assert "tensor_bf16" not in turing
    assert "tensor_int8" in turing


def test_launch_is_the_median_of_what_cupti_saw():
    from roofline.measure.gpu_clock import _launch

    launch = _launch([(3000 * n, 3000 * n + (1200 if n % 10 else 5000)) for n in range(200)])
    assert (launch.name, launch.peak) == ("launch", pytest.approx(1.2e-6))


def test_without_a_profiler_launch_is_refused_with_the_reason():
    from roofline.measure.gpu_clock import launch_ceilings

    found, why = launch_ceilings(SimpleNamespace(zeros=lambda *_, **__: 1 / 0))
    assert found == ()
    assert "ZeroDivisionError" in why[0]


def test_kernels_that_do_not_build_fail_alone(monkeypatch):
    torch = pytest.importorskip("torch")
    from roofline.measure import gpu

    def fail(*_):
        raise RooflineError("no NVRTC library")

    monkeypatch.setattr(gpu, "compile_cubin", fail)
    fake = SimpleNamespace(zeros=lambda *_, **__: torch.zeros(4), int32=torch.int32)
    (only,) = gpu._kernels(fake, H200)
    with pytest.raises(RooflineError, match="no NVRTC"):
        only.run()


def test_kernel_arguments_are_passed_by_type():
    from roofline.measure.gpu import launcher

    calls = []
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=7)))
    module = SimpleNamespace(launch=lambda *a: calls.append(a))
    tensor = SimpleNamespace(data_ptr=lambda: 4096)
    launcher(torch, module, tensor)("read_l2", 2, 1024, tensor, 5)()
    name, blocks, threads, stream, out, data, count = calls[0]
    assert (name, blocks, threads, stream) == ("read_l2", 2, 1024, 7)
    assert (out.value, data.value, count.value) == (4096, 4096, 5)
    assert isinstance(count, ctypes.c_int)


def test_the_timer_reads_clock_and_power_while_the_device_works(monkeypatch):
    from roofline.measure import gpu_clock

    class Event:
        def __init__(self, enable_timing):
            self.polls = 0

        def record(self):
            pass

        def query(self):
            self.polls += 1
            return self.polls > 2

        def synchronize(self):
            pass

        def elapsed_time(self, _):
            return 30.0

    clocks = iter([1.2e9, 1.9e9, 1.7e9])
    torch = SimpleNamespace(cuda=SimpleNamespace(Event=Event, synchronize=lambda: None, _sleep=lambda _: None))
    timer = gpu_clock.GpuTimer(torch, H200)
    timer._nvml = SimpleNamespace(clock=lambda: next(clocks), power=lambda: 600.0)
    runs = []
    assert timer(lambda: runs.append(1), 5) == Timing(0.03, 1.9e9, 600.0)
    assert len(runs) == 5


def test_without_nvml_every_reading_is_unknown(monkeypatch):
    from roofline.measure.gpu_clock import Nvml

    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml = Nvml("GPU-none")
    assert math.isnan(nvml.clock())
    assert math.isnan(nvml.power())
    assert nvml.driver() == ""
    assert nvml.read("nvmlDeviceGetMemoryBusWidth") is None
    assert nvml.state()["throttle"] == 0
    assert math.isnan(nvml.state()["temperature"])


@pytest.mark.parametrize(("uuid", "handle"), [("GPU-1", "by UUID"), ("", "by index")])
def test_a_device_without_a_known_uuid_is_found_by_its_index(monkeypatch, uuid, handle):
    from roofline.measure.gpu_clock import Nvml

    said = {"nvmlDeviceGetPowerUsage": 70_000, "nvmlDeviceGetCurrentClocksThrottleReasons": 4}
    fake = SimpleNamespace(
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda one: {"GPU-1": "by UUID"}[one],
        nvmlDeviceGetHandleByIndex=lambda one: {3: "by index"}[one],
        nvmlDeviceGetClockInfo=lambda one, kind: 1000 * kind * (one == handle),
        nvmlDeviceGetTemperature=lambda one, sensor: 41,
        **{name: lambda _, told=told: told for name, told in said.items()},
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    state = Nvml(uuid, 3).state()
    assert state == {"sm_clock": 1e9, "mem_clock": 2e9, "power": 70.0, "temperature": 41.0, "throttle": 4}


def test_the_source_has_every_kernel_and_needs_no_header():
    text = source()
    for kind in KINDS:
        assert f"void chain_{kind}(" in text
    assert "#include" not in text
    assert text.isascii()
    assert set(KINDS) <= set(find_spec("H200").rates)


def test_no_compiler_is_an_error_with_a_fix(monkeypatch):
    from roofline.measure import cuda_module

    monkeypatch.setattr(cuda_module, "_nvrtc", lambda: None)
    with pytest.raises(RooflineError, match="no NVRTC") as error:
        cuda_module.compile_cubin("", "9.0")
    assert error.value.fix


@pytest.mark.gpu
def test_gpu_ceilings_are_believable():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    from roofline.measure import measure_gpu

    device, measured, refused = measure_gpu(rounds=2, budget=30.0)
    assert {"dram", "fp32", "l2", "l1", "launch"} <= {c.name for c in measured}, refused
    assert device.sms
