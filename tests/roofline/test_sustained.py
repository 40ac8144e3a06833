"""Tensor ceilings that are held, and met after idling."""

from __future__ import annotations

import pytest

from roofline.measure.probe import Probe, Result, Timing
from roofline.measure.sustained import IDLE, SECONDS, sustained_ceilings


class Chip:
    """Gets slower while it is hot, and has to wake up after a rest."""

    def __init__(self):
        self.now, self.busy, self.rests = 0.0, 0.0, []

    def timer(self, run, calls):
        run()
        seconds = calls * 1e-3 * (1.5 if self.busy > 5 else 1.0) * (2.0 if self.rests and self.busy == 0 else 1.0)
        self.now += seconds
        self.busy += seconds
        return Timing(seconds, 1.5e9, 600.0)

    def rest(self, seconds):
        self.rests.append(seconds)
        self.now += seconds
        self.busy = 0.0


def result(name, rate):
    return Result(Probe(name, "compute", f"at {rate:g}", 1e-3 * rate, lambda: None), 1, [rate] * 3)


def test_the_winner_of_each_tensor_roof_is_held_and_met_after_idling():
    chip = Chip()
    results = [result("tensor_bf16", 9e14), result("tensor_bf16", 6e14), result("fp32", 6e13)]
    held, served = sustained_ceilings(results, chip.timer, setting="here", now=lambda: chip.now, rest=chip.rest)
    assert (held.name, served.name) == ("tensor_bf16_sustained", "tensor_bf16_server")
    assert held.peak == pytest.approx(6e14)
    assert served.peak == pytest.approx(4.5e14)
    assert held.variant == "at 9e+14"
    assert held.note.startswith("here; median of the last two thirds of 30 s")
    assert (held.clock, held.power) == (1.5e9, 600.0)
    assert set(chip.rests) == {IDLE}
    assert chip.now > SECONDS
