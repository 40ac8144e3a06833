"""KernelBench's files and numbers. The expected analysis was printed by the official script for these files."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.cli.contests.kernelbench import kernelbench_ as command
from profkit.contests.json_files import read_json
from profkit.contests.kernelbench import fastp
from profkit.contests.kernelbench import files as kernelbench
from profkit.contests.kernelbench.wrapper import read_wrapper_baseline, read_wrapper_results
from profkit.errors import ProfkitError

DATA = Path(__file__).resolve().parents[1] / "data/kernelbench"
RUN, BASE = DATA / "runs/sample_run", DATA / "timing/baseline_time_torch.json"


@pytest.fixture
def checkout(tmp_path):
    """Empty problem files of the data set's names."""
    folder = tmp_path / "KernelBench/level1"
    folder.mkdir(parents=True)
    for name in json.loads((DATA / "problem_names.json").read_text()):
        (folder / name).write_text("")
    return tmp_path


def expected():
    return json.loads((DATA / "expected_analysis.json").read_text("utf-8"))


def analysis(problems):
    passes = read_json(RUN / "pass_at_k_results.json")
    results, base = kernelbench.read_results(RUN / "eval_results.json"), kernelbench.read_baseline(BASE)
    return fastp.analyze(results, base, problems, 1, run_name="sample_run", hardware="timing", pass_at_k=passes)


def test_the_official_numbers_to_the_last_digit(checkout):
    document, warnings = analysis(kernelbench.problems(checkout, 1))
    assert json.dumps(document) == json.dumps(expected())
    assert warnings[-1] == "Aligned 19 problems for analysis"


def test_the_official_pass_at_k():
    results = kernelbench.read_results(RUN / "eval_results.json")
    wanted = read_json(RUN / "pass_at_k_results.json")
    assert json.dumps(fastp.pass_at_k(results, [1, 3])) == json.dumps(wanted)


def test_the_verb(checkout, tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ["analyze", str(RUN), "--baseline", str(BASE), "--level", "1", "--problems", str(checkout)]
    arguments += ["-o", str(out)]
    assert command.main(arguments, standalone_mode=False) == 0
    assert "Functionally correct: 10" in capsys.readouterr().out
    assert json.loads(out.read_text()) == expected()
    assert command.main([*arguments, "--json"], standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["official"] == expected()
    assert set(document["tie_aware"]) == set(expected()["fast_p"])


def test_without_a_checkout_the_baseline_names_the_problems(capsys):
    arguments = ["analyze", str(RUN), "--baseline", str(BASE), "--level", "1", "--json"]
    assert command.main(arguments, standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)["official"]
    assert document["total_count"] == 19
    assert document["fast_p"] == expected()["fast_p"]


@given(st.lists(st.tuples(st.booleans(), st.floats(0.01, 100), st.floats(0.01, 100)), max_size=20))
def test_laws_of_fast_p(rows):
    arrays = [np.array([row[index] for row in rows]) for index in range(3)]
    scores = [fastp.fast_p(*arrays, p) for p in fastp.P_VALUES]
    assert scores == sorted(scores, reverse=True)
    mean = fastp.geometric_mean(*arrays)
    ratios = [base / actual for good, base, actual in rows if good]
    if ratios:
        assert min(ratios) * (1 - 1e-9) <= mean <= max(ratios) * (1 + 1e-9)
    else:
        assert mean == 0.0


@given(n=st.integers(0, 12), data=st.data(), k=st.integers(1, 5))
def test_pass_at_k_is_the_chance_of_a_hit(n, data, k):
    c = data.draw(st.integers(0, n))
    rows = [{"correctness": i < c, "compiled": True} for i in range(n)]
    found = fastp.pass_at_k({"1": rows}, [k])["problems"]["1"]
    used = min(k, n)
    assert found[f"pass@{used}"] == pytest.approx(1 - math.comb(n - c, used) / math.comb(n, used))


PACE = ("speedup", "speedup_low", "speedup_high")


def rows_for(runtime, own=None):
    metadata = {"profkit": own} if own else {}
    row = {"sample_id": 0, "compiled": True, "correctness": True, "metadata": metadata, "runtime": runtime}
    base = {"level1": {"1_a.py": {"mean": 1.0, "std": 0.01, "num_trials": 100}}}
    (rated,) = fastp.rated({"1": [row]}, base, [kernelbench.Problem(1, 1, "1_a.py", Path())], 1)
    return rated


@pytest.mark.parametrize(
    ("rated", "sure", "inconclusive"),
    [
        (rows_for(0.5), 0, 1),
        (rows_for(0.5, own={"speedup": 1.01, "speedup_low": 0.98, "speedup_high": 1.04, "rounds": 30}), 0, 1),
        (rows_for(9.0, own={"speedup": 1.1, "speedup_low": 1.05, "speedup_high": 1.2, "rounds": 30}), 1, 0),
        (rows_for(9.0, own={"speedup": 1.1, "speedup_low": 1.05, "speedup_high": 1.2, "rounds": 3}), 0, 1),
        (rows_for(0.1, own={**dict.fromkeys(PACE, 99.0), "rounds": 30, "verdict": "impossible"}), 0, 0),
    ],
)
def test_ties(rated, sure, inconclusive):
    at_one = fastp.tie_aware([rated])["1.0"]
    assert (at_one["sure"], at_one["inconclusive"]) == (sure, inconclusive)
    assert at_one["possible"] == sure + inconclusive


def test_times_are_rounded_as_there():
    found = kernelbench.times([0.00123456, 0.00123456, 0.00223456], "GPU", "cuda:0")
    where = {"num_trials": 3, "hardware": "GPU", "device": "cuda:0"}
    assert found == {"mean": 1.57, "std": 0.471, "min": 1.23, "max": 2.23, **where}
    assert kernelbench.times([], "", "") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not JSON"),
        ("[]", "Expected `object`"),
        ('{"1": {}}', "Expected `array`"),
        ('{"1": [{"sample_id": 0}]}', "required field `compiled`"),
    ],
)
def test_broken_results_are_named(tmp_path, text, message):
    file = tmp_path / "eval_results.json"
    file.write_text(text)
    with pytest.raises(ProfkitError, match=message):
        kernelbench.read_results(file)


def test_other_errors(tmp_path, checkout):
    (tmp_path / "b.json").write_text('{"runtime_mean_ms": 1}')
    with pytest.raises(ProfkitError) as caught:
        kernelbench.read_baseline(tmp_path / "b.json")
    assert "wrapper" in caught.value.fix
    with pytest.raises(ProfkitError, match="no folder level3"):
        kernelbench.problems(checkout, 3)


def measured(pid, runtime, reference, *, correct=True):
    own = {"reference_time": reference}
    row = {"sample_id": 0, "compiled": True, "correctness": correct, "runtime": runtime, "metadata": {"profkit": own}}
    return {str(pid): [row]}


@pytest.fixture
def apart(tmp_path):
    """Three problems: a baseline that agrees, one that is 4 times too long, and one of a wrong candidate."""
    rows = measured(1, 10.0, 11e-3) | measured(2, 30.0, 39e-3) | measured(3, -1.0, 1e-3, correct=False)
    figures = {"std": 0.1, "num_trials": 100}
    base = {"level1": {f"{n}_a.py": {"mean": mean, **figures} for n, mean in ((1, 11.5), (2, 154.0), (3, 1.1))}}
    (tmp_path / "eval_results.json").write_text(json.dumps(rows))
    (tmp_path / "base.json").write_text(json.dumps(base))
    return ["analyze", str(tmp_path), "--baseline", str(tmp_path / "base.json"), "--level", "1"]


def test_a_baseline_that_contradicts_the_rows_is_named(apart, tmp_path, capsys):
    assert command.main(apart, standalone_mode=False) == 1
    out = capsys.readouterr().out
    assert "The baseline disagrees: 1 of 3 problems" in out
    assert "2_a.py: baseline 154 ms, reference here 39 ms (3.95x)" in out
    file = tmp_path / "base.json"
    file.write_text(file.read_text().replace("154.0", "41.0"))
    assert command.main(apart, standalone_mode=False) == 0
    assert "disagrees" not in capsys.readouterr().out


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


def test_the_verb_tells_of_a_wrapper(write, capsys):
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
