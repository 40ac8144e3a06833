"""do_bench has Triton's signature and units; compare_timings pairs and says how sure it is."""

import time

import pytest

import profkit

torch = pytest.importorskip("torch")


def wait(seconds):
    def call():
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    return call


@pytest.mark.skipif(torch.cuda.is_available(), reason="waits on the host")
def test_milliseconds_of_a_call():
    found = profkit.do_bench(wait(2e-3), warmup=5, rep=30, return_mode="median")
    assert found >= 2.0
    low, high = profkit.do_bench(wait(1e-3), warmup=2, rep=20, quantiles=[0.0, 1.0])
    assert 1.0 <= low <= high
    assert len(profkit.do_bench(wait(1e-4), warmup=0, rep=1, return_mode="all")) >= 8


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="return_mode 'p95'"):
        profkit.do_bench(lambda: None, return_mode="p95")


def test_gradients_are_let_go_before_each_call():
    x = torch.ones(3, requires_grad=True)
    seen = []

    def call():
        seen.append(x.grad is None)
        with torch.enable_grad():
            x.sum().backward()

    profkit.do_bench(call, warmup=0, rep=1, grad_to_none=[x])
    assert all(seen)


@pytest.mark.skipif(torch.cuda.is_available(), reason="waits on the host")
def test_two_calls_are_compared_in_turns():
    found = profkit.compare_timings(wait(3e-3), wait(1e-3), budget=0.5)
    assert found.low <= found.value <= found.high
    assert found.value > 1.0
    assert found.n >= 3
