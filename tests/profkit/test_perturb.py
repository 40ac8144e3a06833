"""--perturb on the CPU: what is tried, what is kept in the run, and what is said of it."""

import pytest
import torch
from candidates import write_sample
from synthetic_runs import kernel, make_run

from profkit.api import profile
from profkit.report.messages import in_each
from profkit.report.sections import method
from profkit.rundir.manifest import Perturbed
from profkit.study.study import open_study
from profkit.torch_tools import perturb


@pytest.mark.slow
def test_a_sample_is_timed_under_other_conditions_and_the_run_keeps_the_seconds(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    sample = write_sample(tmp_path, "honest")
    study = profile(sample, device="cpu", trials=1, budget=0.1, perturb=True, runs=tmp_path / "runs")
    known = {one.impl: one for one in open_study(study.path).manifest.perturbed}
    assert set(known) == {"reference", "honest"}
    for one in known.values():
        assert set(one.seconds) == {"usual", "warm"}
        assert all(len(seconds) >= perturb.LEAST for seconds in one.seconds.values())
        assert all(second > 0 for seconds in one.seconds.values() for second in seconds)
    assert set(study.inferred) == set(known)
    assert [line.partition(":")[0] for line in method.inferred_lines(study)] == ["reference", "honest"]


def test_the_run_says_what_it_concludes_and_what_it_rests_on(tmp_path):
    study = make_run(tmp_path, {"reference": 4e-4, "cuda": 110e-6}, [kernel("cuda", "k", 1e-4)])
    seconds = {"usual": [110e-6], "half_sms": [120e-6], "half_warps": [112e-6], "warm": [109e-6]}
    study.manifest.perturbed.append(Perturbed("cuda", seconds))
    study.manifest.work.append({"source": "declared", "flops": {"fp32": 1e8}, "bytes": 4e8})
    (line,) = method.inferred_lines(study)
    assert line.startswith("cuda: judged by time alone: bound by dram (91% of the dram ceiling, by the task's work")
    assert "half of the SMs: 1.09x as long" in line
    assert "一半 SM" in in_each(lambda: method.inferred_lines(study))[1][0]


def test_what_takes_up_room_keeps_the_registers_it_has_to():
    text = perturb.source()
    for name, kept in perturb.KEPT.items():
        assert f"{name}(unsigned* go" in text
        assert f"unsigned kept[{kept}]" in text


def test_a_call_that_waited_for_the_room_says_nothing_of_half_of_it(monkeypatch):
    seconds = {"usual": 1e-4, "whole": 1.9e-4, "half": 98e-4}

    monkeypatch.setattr(perturb._Under, "sample", lambda self, _: (seconds[self.kernel or "usual"], 0.0, True))
    monkeypatch.setattr(perturb._Under, "warm_up", lambda self, _: 1)
    found = perturb.conditions(lambda: None, torch.device("cpu"), object(), 1.0)
    assert "half_warps" not in found
    assert sorted(found) == ["half_sms", "usual", "warm"]
