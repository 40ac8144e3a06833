"""CUPTI records put back to the calls they belong to; no GPU needed."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from profkit.guest.clocks import cupti, kineto  # noqa: E402

EPOCH = 1_790_000_000_000_000_000


def event(name, start, duration, stream=7, device=None):
    kind = device if device is not None else torch.autograd.DeviceType.CUDA
    return SimpleNamespace(
        name=lambda: name,
        start_ns=lambda: EPOCH + start,
        duration_ns=lambda: duration,
        device_type=lambda: kind,
        device_resource_id=lambda: stream,
    )


def profiler(*events):
    results = SimpleNamespace(events=lambda: list(events))
    return SimpleNamespace(kineto_results=results)


def test_nanoseconds_survive():
    first, second = cupti.activities_of(profiler(event("k", 1000, 1193), event("spin_kernel", 0, 500)))
    assert (first.name, first.start) == ("spin_kernel", 0.0)
    assert second.end - second.start == pytest.approx(1193e-9, rel=1e-9)


def test_what_is_no_work_is_left_out():
    cpu = torch.autograd.DeviceType.CPU
    assert cupti.activities_of(profiler(event("Context Sync", 0, 5), event("aten::relu", 0, 5, device=cpu))) == []


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("kernel", "Stream_k_gemm", "kernel"),
        ("kernel", "gpu_sort", "kernel"),
        ("kernel", "memcpy_like", "kernel"),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "memcpy"),
        ("gpu_memset", "Memset (Device)", "memset"),
        ("gpu_user_annotation", "my kernel(int)", ""),
        ("cuda_sync", "Stream Wait Event", ""),
        ("cuda_event", "x", ""),
    ],
)
def test_the_type_of_a_record_says_whether_it_is_work(kind, name, found):
    one = event(name, 0, 5)
    one.activity_type = lambda: kind
    assert kineto.kind_of(one) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Stream Wait Event", ""),
        ("gpu_sort(int*)", "kernel"),
        ("Memset (Device)", "memset"),
        ("relu", "kernel"),
    ],
)
def test_without_a_type_the_name_says_it(name, found):
    assert kineto.kind_of(event(name, 0, 5)) == found


def test_this_torch_gives_types():
    with kineto.recorder(cpu=True, cuda=False) as recorded:
        torch.ones(3) + 1
    first = recorded.kineto_results.events()[0]
    if hasattr(first, "activity_type"):
        assert first.activity_type() == "cpu_op"


def activities(*rows):
    return [cupti.Activity(name, start * 1e-6, end * 1e-6, 7) for name, start, end in rows]


def test_span_and_busy_of_each_call():
    record = activities(
        ("flush", 0, 50),
        ("spin_kernel", 50, 90),
        ("a", 90, 100),
        ("b", 104, 110),
        ("spin_kernel", 130, 131),
        ("flush", 140, 190),
        ("spin_kernel", 190, 230),
        ("a", 230, 250),
        ("side", 240, 260),
        ("spin_kernel", 300, 301),
    )
    plan = [("reference", 0, 0), ("candidate", 0, 0)]
    samples, calls = cupti._attributed(plan, record, "cold")
    one, two = samples
    assert (one.impl, one.method, one.l2, one.kept) == ("reference", "cupti", "cold", 1)
    assert one.seconds == pytest.approx(20e-6)
    assert one.busy == pytest.approx(16e-6)
    assert two.seconds == pytest.approx(30e-6)
    assert two.busy == pytest.approx(30e-6)
    assert [a.name for a in calls["candidate"]] == ["a", "side"]


def test_a_call_without_work_is_dropped_not_zero():
    record = activities(("spin_kernel", 0, 10), ("spin_kernel", 30, 31))
    (sample,), _ = cupti._attributed([("reference", 0, 0)], record, "cold")
    assert sample.kept == 0
    assert sample.seconds != sample.seconds


def test_missing_records_are_an_error():
    with pytest.raises(cupti.CuptiError, match="1 of 2 marker kernels"):
        cupti._attributed([("reference", 0, 0)], activities(("spin_kernel", 0, 10)), "cold")


@pytest.mark.parametrize(("noise", "rounds"), [(0.0, cupti.LEAST), (0.5, cupti.ROUNDS)])
def test_a_recording_ends_when_the_pairs_round_its_launches_are_known(noise, rounds):
    taken = []

    class Recorded:
        ask = begin = close = staticmethod(lambda *_: None)

        def take(self, name, call, number, trial):
            taken.append(number)
            return 1.0 + noise * (len(taken) // 2 % 2), True

        def end(self):
            return [], {}

    class Call:
        def __init__(self, recording):
            self.recording = lambda: recording

    calls = {name: Call(Recorded()) for name in ("reference", "candidate")}
    cupti.sample(calls, SimpleNamespace(), target=0.01)
    assert len(set(taken)) == rounds
    assert len(taken) == 2 * cupti.PER_ROUND * rounds


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recording_imports_no_compiler():
    code = """if True:
        import sys
        import torch
        from profkit.guest.clocks import clocks, cupti
        device = torch.device("cuda")
        recording = cupti.Recording(clocks.CudaClock(device))
        cell = torch.zeros(8, device=device)
        before = set(sys.modules)
        recording.begin()
        recording.take("one", lambda: cell.add_(1.0), 0, 0)
        samples, _ = recording.end()
        assert samples[0].seconds > 0 and samples[0].kept
        new = {name.partition(".")[0] + "." + name.partition(".")[2].partition(".")[0] for name in set(sys.modules) - before}
        sys.exit(str(sorted(new)) if new & {"torch._inductor", "torch._dynamo", "triton."} else 0)
    """
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
