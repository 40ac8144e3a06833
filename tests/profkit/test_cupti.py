"""CUPTI records put back to the calls they belong to; no GPU needed."""

import itertools
import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from profkit.guest.clocks import cupti  # noqa: E402
from profkit.guest.subject import ChangedResultError  # noqa: E402

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
    assert cupti.kind_of(one) == found


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
    assert cupti.kind_of(event(name, 0, 5)) == found


def test_this_torch_gives_types():
    with cupti.recorder(cpu=True, cuda=False) as recorded:
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
    calls = cupti.between_marks(record, 2)
    assert [[a.name for a in call] for call in calls] == [["a", "b"], ["a", "side"]]
    spans, middle = cupti.summed(calls)
    assert spans == [pytest.approx((20e-6, 16e-6)), pytest.approx((30e-6, 30e-6))]
    assert middle == calls[1]


class Recorded:
    """A call that its own process records: event pairs of these seconds, then these spans and activities."""

    def __init__(self, pairs, spans, middle=()):
        self.pairs, self.spans, self.middle, self.asked = iter(pairs), spans, list(middle), []

    def ask_warm_up(self, method):
        self.asked.append("warm_up")

    def ask_records(self):
        self.asked.append("records")

    warm_up = staticmethod(lambda method: 0)

    def sample(self, method):
        return next(self.pairs), float("nan"), True

    def records(self):
        return [*itertools.islice(self.spans, self.asked.count("records") * 48)], self.middle

    def stop_recording(self):
        self.asked.append("stop")


@pytest.fixture
def no_recorder(monkeypatch):
    class Own(cupti.CuptiClock):
        def warm_up(self, call):
            return 0

        def calls(self):
            return []

    monkeypatch.setattr(cupti, "CuptiClock", Own)
    return SimpleNamespace(l2="cold")


def test_a_call_without_work_is_dropped_not_zero(no_recorder):
    record = activities(("spin_kernel", 0, 10), ("spin_kernel", 30, 31))
    spans, middle = cupti.summed(cupti.between_marks(record, 1))
    assert middle == []
    call = Recorded(itertools.cycle([1.0, 2.0]), itertools.cycle([*spans, (2e-6, 1e-6)]))
    samples, _ = cupti.sample({"mine": call}, no_recorder, number=1)
    first, second = samples[:2]
    assert (first.impl, first.method, first.round, first.l2, first.kept) == ("mine", "cupti", cupti.ROUNDS, "cold", 0)
    assert first.seconds != first.seconds
    assert (second.seconds, second.busy, second.kept) == (2e-6, 1e-6, 1)
    assert call.asked == ["warm_up", "records", "stop"]


def test_missing_records_are_an_error():
    with pytest.raises(cupti.CuptiError, match="1 of 2 marker kernels"):
        cupti.between_marks(activities(("spin_kernel", 0, 10)), 1)


def test_records_of_other_calls_than_were_made_are_refused(no_recorder):
    call = Recorded(itertools.repeat(1.0), [(1e-6, 1e-6)] * 3)
    with pytest.raises(cupti.CuptiError, match="mine"):
        cupti.sample({"mine": call}, no_recorder)
    assert call.asked[-1] == "stop"


class Stubborn(Recorded):
    """One that fails to stop."""

    def stop_recording(self):
        super().stop_recording()
        raise RuntimeError("it goes on")


@pytest.mark.parametrize(("wrong", "error"), [(True, ChangedResultError), (False, RuntimeError)])
def test_one_that_does_not_stop_hides_no_wrong_answer_and_keeps_nobody_from_it(no_recorder, wrong, error):
    def after(name, number):
        if wrong:
            raise ChangedResultError("another answer")

    calls = {name: Stubborn(itertools.repeat(1.0), [(1e-6, 1e-6)] * 48) for name in "ab"}
    with pytest.raises(error):
        cupti.sample(calls, no_recorder, after=after)
    assert [call.asked[-1] for call in calls.values()] == ["stop", "stop"]


@pytest.mark.parametrize(("noise", "rounds"), [(0.0, cupti.LEAST), (0.5, cupti.ROUNDS)])
def test_a_recording_ends_when_the_pairs_round_its_launches_are_known(no_recorder, noise, rounds):
    made = cupti.PER_ROUND * rounds
    calls = {
        name: Recorded(itertools.cycle([1.0, 1.0, 1.0 + noise, 1.0 + noise]), [(1e-6, 1e-6)] * made) for name in "ab"
    }
    samples, _ = cupti.sample(calls, no_recorder, target=0.01)
    assert {sample.round for sample in samples} == set(range(rounds))
    assert len(samples) == 2 * made


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recording_imports_no_compiler():
    code = """if True:
        import sys
        import torch
        from profkit.guest.clocks import clocks, cupti
        device = torch.device("cuda")
        clock = cupti.CuptiClock(clocks.CudaClock(device))
        cell = torch.zeros(8, device=device)
        before = set(sys.modules)
        clock.warm_up(lambda: cell.add_(1.0))
        clock.sample(lambda: cell.add_(1.0))
        ((span, busy),), activities = cupti.summed(clock.calls())
        assert span >= busy > 0 and activities
        new = {name.partition(".")[0] + "." + name.partition(".")[2].partition(".")[0] for name in set(sys.modules) - before}
        sys.exit(str(sorted(new)) if new & {"torch._inductor", "torch._dynamo", "triton."} else 0)
    """
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
