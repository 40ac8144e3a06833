"""The index, what `profkit list` makes of it, and history: a planted change is found, none in noise."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from recorded_runs import H200, many, recorded, series, write

from profkit.campaign.history import SHORTEST, best_cut, cuts, histories, level_changes
from profkit.campaign.index import Index
from profkit.cli import main
from profkit.errors import ProfkitError
from profkit.rundir.manifest import read_manifest

pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture
def runs(tmp_path):
    return many(tmp_path / "runs", 24)


def rows(folder, **wanted):
    return Index(folder).rows(**wanted)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    return end.value.code, *capsys.readouterr()


def edited(path, **changes):
    file = path / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


def test_a_row_says_what_the_files_say(tmp_path):
    run_json, metrics = recorded("ICVXKH")
    write(tmp_path, run_json, metrics)
    (row,) = rows(tmp_path)
    own = next(one for one in metrics["impls"] if one["impl"] == "cuda")
    assert (row.sample, row.impl, row.word, row.wins) == ("ICVXKH", "cuda", "faster", 1)
    names = ("time", "speedup", "speedup_low", "speedup_high", "lower_bound_ratio", "attainable_fraction", "bound_by")
    told = (row.time, row.speedup, row.low, row.high, row.lower_bound, row.share, row.bound)
    assert told == tuple(own[name] for name in names)
    assert len(row.caveats) == len(metrics["caveats"])
    facts = Index(tmp_path).facts[row.path, "cuda"]
    assert facts["source"] == run_json["sample"]["files"]["cuda"]["sha256"][:12]
    assert facts["version of torch"] == run_json["versions"]["torch"]


def test_references_and_what_was_skipped_are_left_out_until_asked_for(tmp_path):
    write(tmp_path, *recorded("ICVXKH"))
    assert [row.impl for row in rows(tmp_path)] == ["cuda"]
    assert "reference" in [row.impl for row in rows(tmp_path, references=True)]
    assert [row.impl for row in rows(tmp_path, words=["skipped"])] == ["cpp"]


def test_a_recorded_verdict_is_taken_as_it_is(tmp_path):
    run_json, metrics = recorded("ICVXKH")
    said = {"impl": "cuda", "word": "faster", "speedup": 1.5, "low": 1.4, "high": 1.6, "line": "1.5x, in TF32"}
    said["conditions"] = [{"code": "reduced", "values": {"used": "TF32", "task": "FP32"}}]
    write(tmp_path / "a", run_json, metrics | {"verdicts": [said]})
    (row,) = rows(tmp_path / "a")
    assert (row.word, row.speedup, row.line, row.wins) == ("faster", 1.5, "1.5x, in TF32", 0)
    write(tmp_path / "b", run_json, {key: value for key, value in metrics.items() if key != "verdicts"})
    assert {(row.word, math.isnan(row.speedup)) for row in rows(tmp_path / "b")} == {("", True)}


def test_filters_and_ranks(runs):
    found = rows(runs, sample="ICV*", sort="time")
    assert {row.sample for row in found} == {"ICVXKH"}
    assert [row.time for row in found] == sorted(row.time for row in found)
    assert rows(runs, device="h100") == []
    assert len(rows(runs, device="h200")) == len(rows(runs))
    assert all(row.created >= "2026-01-01T20" for row in rows(runs, since="2026-01-01T20"))
    assert {row.word for row in rows(runs, words=["void", "slower"])} == {"void", "slower"}
    speed = [row.speedup for row in rows(runs, sort="speedup") if row.speedup == row.speedup]
    assert speed == sorted(speed, reverse=True)


def test_a_win_that_counts_as_none_stands_behind_those_that_count(tmp_path):
    run_json, metrics = recorded("ICVXKH")
    said = {"impl": "cuda", "word": "faster", "speedup": 99.0, "low": 98.0, "high": 99.5}
    said["conditions"] = [{"code": "unexplained"}]
    write(tmp_path, run_json, metrics | {"verdicts": [said]}, hour=1)
    write(tmp_path, *recorded("ICFSMX"))
    assert [row.sample for row in rows(tmp_path, sort="speedup")] == ["ICFSMX", "ICVXKH"]


@pytest.mark.parametrize("metrics", ["[", '{"verdicts": [{"impl": "cuda", "word": "splendid"}]}'])
def test_a_damaged_run_is_said(runs, capsys, metrics):
    broken = next(runs.glob("ICVXKH/*"))
    (broken / "run.json").write_text('{"sample": {"id"', "utf-8")
    half = next(runs.glob("ICFSMX/*"))
    (half / "metrics.json").write_text(metrics, "utf-8")
    assert {path for path, _ in Index(runs).damaged()} == {one.relative_to(runs).as_posix() for one in (broken, half)}
    code, out, err = run(capsys, "list", runs, "--runs", runs)
    assert code == 0
    assert str(broken) in err
    assert str(half) in err
    assert str(broken) not in out


def test_the_runs_are_only_read(runs):
    before = sorted(runs.rglob("*"))
    assert len(rows(runs)) == 30
    assert sorted(runs.rglob("*")) == before


def test_a_run_directory_itself_is_a_folder_of_one_run():
    found = rows(H200 / "ICVXKH")
    assert [(row.path, row.impl) for row in found] == [(".", "cuda")]


def test_hidden_folders_and_what_lies_in_a_run_are_no_runs(runs):
    count = len(rows(runs))
    for place in (runs / ".half", next(runs.glob("ICVXKH/*")) / "logs"):
        place.mkdir()
        (place / "run.json").write_text("{}", "utf-8")
    index = Index(runs)
    assert (len(index.rows()), index.damaged()) == (count, [])


@pytest.mark.parametrize("schema", ["profkit/2", "profkit/10", "other"])
def test_a_run_of_a_later_version_is_said_with_what_reads_it(runs, schema):
    later = next(runs.glob("ICVXKH/*"))
    edited(later, schema=schema, profkit="9.9", impls="in another form")
    ((path, why),) = Index(runs).damaged()
    assert runs / path == later
    assert schema in why
    assert "9.9" in why
    with pytest.raises(ProfkitError) as told:
        read_manifest(later / "run.json")
    assert told.value.fix == "use a newer profkit"


@pytest.mark.parametrize("text", ["nonsense", "2026-13", "2026-02-30", "2026-11-22T25"])
def test_a_day_that_is_none_is_refused(runs, capsys, text):
    code, _, err = run(capsys, "list", runs, "--runs", runs, "--since", text)
    assert (code, "--since" in err) == (2, True)


def test_list_in_words_and_as_json(runs, capsys):
    code, out, err = run(capsys, "list", runs, "--runs", runs, "--sort", "speedup", "--top", "3")
    assert (code, err) == (0, "")
    assert "faster: " in out
    assert "and 27 more: --top 0 shows them" in out
    code, out, _ = run(capsys, "list", runs, "--runs", runs, "--json", "--verdict", "void")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "profkit-list/2")
    assert {row["word"] for row in document["runs"]} == {"void"}
    assert all(row["speedup"] is None for row in document["runs"])


def test_a_run_that_is_still_running_is_listed(tmp_path, capsys):
    run_json, _ = recorded("ICVXKH")
    path = write(tmp_path / "runs", run_json | {"status": "running", "impls": []}, {"impls": [], "kernels": []})
    (path / "metrics.json").unlink()
    _, out, _ = run(capsys, "list", tmp_path, "--runs", tmp_path / "runs")
    assert "running" in out


def test_a_folder_that_is_not_there_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "list", "S9")
    assert (code, out) == (2, "")
    assert err.startswith("error: S9: no such folder")
    code, out, _ = run(capsys, "list")
    assert (code, "no samples in S1" in out) == (0, True)
    code, out, _ = run(capsys, "list", Path(__file__).parents[2] / "S1/ICVXKH")
    assert (code, "ICVXKH" in out) == (0, True), "a sample itself"
    code, out, _ = run(capsys, "list", tmp_path, "--runs", tmp_path / "none")
    assert (code, "no runs" in out) == (0, True)


def test_a_file_is_no_folder_of_runs(tmp_path, capsys):
    (tmp_path / "file").touch()
    for verb in ("list", "score", "prompt"):
        code, _, err = run(capsys, verb, tmp_path, "--runs", tmp_path / "file")
        assert (code, "is a file" in err) == (2, True)


def noisy(count, at=None, step=0.03, noise=0.01, seed=4):
    values = np.exp(noise * np.random.default_rng(seed).standard_normal(count))
    values[count if at is None else at :] *= 1 + step
    return [float(value) for value in values]


def of(folder, **wanted):
    return histories(Index(folder), **wanted)


@pytest.mark.parametrize(
    ("values", "at"),
    [
        (noisy(200, at=150), [150]),
        (noisy(200), []),
        ([*noisy(60, at=20, step=0.1)[:40], *noisy(60)[40:]], [20, 40]),
        ([3 * value if n == 30 else value for n, value in enumerate(noisy(60))], []),
    ],
    ids=["3 % among noise of 1 %", "noise", "a rise and a fall", "one far value"],
)
def test_levels_change_where_they_do(values, at):
    assert level_changes(values) == [pytest.approx(one, abs=2) for one in at]


def test_the_statistic_is_the_papers():
    values = np.random.default_rng(0).standard_normal(12)
    best = (-math.inf, 0)
    for cut in range(SHORTEST, 12 - SHORTEST + 1):
        x, y = values[:cut], values[cut:]
        m, n = len(x), len(y)
        within = [np.abs(one[:, None] - one).sum() / (len(one) * (len(one) - 1)) for one in (x, y)]
        distance = 2 * np.abs(x[:, None] - y).mean() - sum(within)
        best = max(best, (float(m * n / (m + n) * distance), cut))
    q, at = best_cut(np.abs(values[:, None] - values))
    assert (pytest.approx(q), at) == best


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 40, [1.0, 2.0, 1.0, 2.0, 1.0]])
def test_too_little_or_no_spread_has_no_change(values):
    assert cuts(values) == []


def test_a_change_below_one_percent_is_not_said():
    assert cuts(np.log(noisy(80, at=40, step=0.005, noise=0.0005)))
    assert level_changes(noisy(80, at=40, step=0.005, noise=0.0005)) == []


def test_what_changed_with_it_is_named(tmp_path):
    series(
        tmp_path,
        noisy(40, at=25, step=0.05),
        device=lambda n: {"driver": "580.1" if n < 25 else "590.2"},
        source=lambda n: {"cuda": ("a" if n < 25 else "b") * 64},
        scale=lambda n: {"reference": 1.0 if n < 25 else 1.08},
    )
    (one,) = of(tmp_path)
    (change,) = one.changes
    assert (one.impl, change.at, one.suspect) == ("cuda", 25, change)
    assert change.causes == (f"source {'a' * 12} -> {'b' * 12}", "driver 580.1 -> 590.2", "the reference's time +8.0%")
    assert [level.runs for level in one.levels] == [25, 15]


@pytest.mark.parametrize(
    ("step", "changed"), [(0.5, {"precision": lambda n: "fp32" if n < 25 else "bf16"}), (-0.1, {})]
)
def test_a_change_of_the_measuring_and_a_faster_level_are_no_regression(tmp_path, step, changed):
    series(tmp_path, noisy(40, at=25, step=step), **changed)
    (one,) = of(tmp_path)
    assert [change.measured for change in one.changes] == [bool(changed)]
    assert one.suspect is None


def test_what_is_wrong_or_unfinished_is_no_point_of_the_series(tmp_path):
    series(tmp_path, noisy(5))
    run_json, metrics = recorded("ICFSMX")
    wrong = [one | {"status": "mismatch"} for one in run_json["impls"]]
    write(tmp_path, run_json | {"impls": wrong}, metrics, hour=50)
    write(tmp_path, run_json | {"status": "running"}, metrics, hour=51)
    (one,) = of(tmp_path)
    assert len(one.rows) == 5


def test_devices_are_series_of_their_own_compared_by_the_lower_bound(tmp_path, capsys):
    series(tmp_path, noisy(20))
    for hour in range(100, 120):
        write(tmp_path, *recorded("ICFSMX"), hour=hour, scale=2.0, device={"name": "NVIDIA H100", "uuid": "GPU-2"})
    found = of(tmp_path)
    assert [(one.device, one.changes) for one in found] == [("NVIDIA H100", ()), ("NVIDIA H200", ())]
    code, out, _ = run(capsys, "history", "ICFSMX", "--runs", tmp_path)
    assert code == 0
    assert out.index("2.09x lower bound") < out.index("1.05x lower bound")


def test_since_shows_later_changes_alone_and_looks_at_all_runs(tmp_path):
    series(tmp_path, noisy(40, at=25, step=0.05))
    assert len(of(tmp_path, since="2026-01-02")[0].changes) == 1
    assert of(tmp_path, since="2026-01-03")[0].changes == ()
    assert len(of(tmp_path, since="2026-01-03")[0].rows) == 40


def test_nothing_to_show_is_an_error(tmp_path, capsys):
    assert run(capsys, "history", "--runs", tmp_path / "none")[0] == 2
    series(tmp_path / "runs", noisy(3))
    code, _, err = run(capsys, "history", "NOSUCH", "--runs", tmp_path / "runs")
    assert code == 2
    assert "no finished run of NOSUCH" in err
