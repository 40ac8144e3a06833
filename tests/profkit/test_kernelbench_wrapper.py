"""The wrapper's JSON files: the factor of 1000, missing and stale baselines."""

import json

import pytest

from profkit.cli.contests.kernelbench import kernelbench_ as command
from profkit.contests.kernelbench.wrapper import read_wrapper_baseline, read_wrapper_results
from profkit.errors import ProfkitError

BASELINE = {
    "level": 1,
    "problem_id": 3,
    "problem_name": "3_Batched_matmul.py",
    "backend": "cuda",
    "device": "Example GPU",
    "num_trials": 100,
    "runtime_stats": {"mean": 1.25, "std": 0.01, "min": 1.24, "max": 1.3, "num_trials": 100},
    "runtime_mean_us": 1.25,
    "runtime_mean_ms": 0.00125,
}


def wrapper_results(reference=0.00125, own=0.0005, **config):
    times = {"ref_time_ms": reference, "custom_time_ms": own, "speedup": reference / own}
    told = {"compiled": True, "is_correct": True, "fast_1": True, "fast_2": True, "metadata": {}, **times}
    model = {"model_name": "A", "model_id": "a/b", "success": True, "error": None, "eval_result": told}
    task = {"test_config": {"level": 1, "problem_id": 3, **config}, "problem_name": "3_Batched_matmul.py"}
    return {**task, "timestamp": "20260101_000000", "results": [model]}


@pytest.fixture
def write(tmp_path):
    def put(name, data):
        file = tmp_path / name
        file.write_text(json.dumps(data))
        return file

    return put


def test_the_baseline_is_mended(write):
    found = read_wrapper_baseline(write("baseline_time.json", BASELINE))
    assert found["seconds"] == pytest.approx(1.25e-3)
    assert any("1000 times too small" in caveat for caveat in found["caveats"])
    right = BASELINE | {"runtime_mean_us": 1250.0, "runtime_mean_ms": 1.25}
    assert read_wrapper_baseline(write("b.json", right))["caveats"] == []


@pytest.mark.parametrize(("reference", "said"), [(0.0005, "baseline was missing"), (1.25, "mixing")])
def test_a_baseline_that_is_missing_or_mixed_up_is_said(write, reference, said):
    (row,) = read_wrapper_results(write("t.json", wrapper_results(reference, 0.0005)))
    assert any(said in caveat for caveat in row["caveats"])
    assert (row["speedup"] != row["speedup"], row["fast_1"]) == ((True, False) if reference < 1 else (False, True))


def test_times_come_out_in_seconds_either_way(write):
    base = read_wrapper_baseline(write("b.json", BASELINE))
    for scale, flagged in ((1.0, True), (1000.0, False)):
        (row,) = read_wrapper_results(write("t.json", wrapper_results(0.00125 * scale, 0.0005 * scale)), base)
        assert (row["reference_seconds"], row["seconds"]) == (pytest.approx(1.25e-3), pytest.approx(0.5e-3))
        assert row["speedup"] == pytest.approx(2.5)
        assert any("hold seconds" in caveat for caveat in row["caveats"]) is flagged
        assert (row["fast_1"], row["fast_2"]) == (True, True)


@pytest.mark.parametrize("config", [{"problem_id": 4}, {"level": 2}, {"device": "Another GPU"}])
def test_a_stale_baseline(write, config):
    base = read_wrapper_baseline(write("b.json", BASELINE))
    (row,) = read_wrapper_results(write("t.json", wrapper_results(**config)), base)
    assert any("stale baseline" in caveat and next(iter(config)) in caveat for caveat in row["caveats"])


def test_success_is_not_evaluated(write):
    data = wrapper_results()
    data["results"][0]["eval_result"] = None
    (row,) = read_wrapper_results(write("t.json", data))
    assert row["generated"]
    assert not row["correct"]
    assert any("success" in caveat for caveat in row["caveats"])


def test_the_verb(write, capsys):
    files = [str(write("baseline_time.json", BASELINE)), str(write("test_results_x.json", wrapper_results()))]
    assert command.main(["wrapper", *files], standalone_mode=False) == 1
    assert "flag: " in capsys.readouterr().out
    assert command.main(["wrapper", *files, "--json"], standalone_mode=False) == 1
    assert json.loads(capsys.readouterr().out)["results"][0]["speedup"] == pytest.approx(2.5)


def test_other_files_are_refused(write):
    with pytest.raises(ProfkitError, match="runtime_mean_ms"):
        read_wrapper_baseline(write("x.json", {}))
    with pytest.raises(ProfkitError, match="results"):
        read_wrapper_results(write("x.json", {"results": 3}))
