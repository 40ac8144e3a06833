"""History: a planted change is found where it is and named with its cause, none is found in noise."""

import math

import numpy as np
import pytest
from recorded_runs import recorded, series, write

from profkit.campaign.history import SHORTEST, best_cut, cuts, histories, level_changes
from profkit.campaign.index import Index
from profkit.cli import main

pytestmark = pytest.mark.usefixtures("private_cache")


def noisy(count, at=None, step=0.03, noise=0.01, seed=4):
    values = np.exp(noise * np.random.default_rng(seed).standard_normal(count))
    values[count if at is None else at :] *= 1 + step
    return [float(value) for value in values]


def of(folder, **wanted):
    return histories(Index(folder), **wanted)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    return end.value.code, *capsys.readouterr()


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
    assert "ICFSMX cuda over the lower bound of each device: NVIDIA H100 2.09x, NVIDIA H200 1.05x" in out


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
