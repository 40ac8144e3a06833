"""The site: what is ranked and how, whole and escaped; in a browser, when there is one: no error, sorting, filters."""

import json
import re
import shutil

import browser
import pytest
from recorded_runs import H200, many, recorded, write

from profkit.campaign.index import Index
from profkit.campaign.site import best_of, build, fast_p
from profkit.cli import main

pytestmark = pytest.mark.usefixtures("private_cache")

needs_browser = pytest.mark.skipif(browser.find() is None, reason="no Chromium here")
EVIL = '</script><img src=x onerror="document.title=1">{{7*7}}'


@pytest.fixture
def runs(tmp_path):
    return many(tmp_path / "runs", 24)


def data(site):
    text = (site / "data.js").read_text("utf-8")
    assert "<" not in text
    return json.loads(text.removeprefix("window.profkit = ").rstrip(";\n"))["rows"]


def best(folder):
    return best_of(Index(folder).rows())


def said(run_json, metrics, word, low=1.0, high=1.0, conditions=(), **more):
    """A run with this recorded verdict."""
    one = {"impl": "cuda", "word": word, "speedup": (low + high) / 2, "low": low, "high": high}
    return run_json, metrics | {"verdicts": [one | {"conditions": list(conditions), **more}]}


def test_the_site_is_whole_and_asks_for_nothing(runs, tmp_path):
    made = build(runs, tmp_path / "site", pages=0)
    assert (made.runs, made.pages, made.damaged) == (24, 0, [])
    for name in ("index.html", "index.zh.html"):
        text = (tmp_path / "site" / name).read_text("utf-8")
        assert not re.search(r"""(src|href)=["']?(https?:|//)""", text)
        assert "default-src 'none'" in text
        for file in re.findall(r'(?:src|href)="([^"#]+)"', text):
            assert file == "data:," or (tmp_path / "site" / file).is_file()
    assert "排行榜" in (tmp_path / "site/index.zh.html").read_text("utf-8")
    rows = data(tmp_path / "site")
    assert {row["device"] for row in rows} == {"NVIDIA H200"}
    assert len(rows) == 30
    assert sum(row["newest"] for row in rows) == 15


def test_what_is_written_in_a_run_is_text_everywhere(tmp_path):
    run_json, metrics = recorded("ICVXKH")
    write(tmp_path / "runs", *said(run_json, metrics, "wrong", line=EVIL), device={"name": EVIL})
    broken = tmp_path / "runs" / "<b>x"
    broken.mkdir()
    (broken / "run.json").write_text("{", "utf-8")
    build(tmp_path / "runs", tmp_path / "site", pages=0)
    for name in ("index.html", "index.zh.html"):
        text = (tmp_path / "site" / name).read_text("utf-8")
        assert "<img src=x" not in text
        assert "&lt;img" in text
        assert "{{7*7}}" in text
        assert "<b>x" not in text
    assert data(tmp_path / "site")[0]["line"] == EVIL


def test_pages_are_made_the_best_first_and_go_with_their_run(runs, tmp_path):
    site = tmp_path / "site"
    assert [build(runs, site, pages=number).pages for number in (1, 2)] == [1, 2]
    pages = {row["page"]: row["path"] for row in data(site) if row["page"]}
    assert all((site / page).is_file() for page in pages)
    page, path = pages.popitem()
    shutil.rmtree(runs / path)
    assert build(runs, site, pages=1).pages == 1
    assert not (site / page).exists()


def test_the_best_candidate_of_the_newest_run_counts(tmp_path):
    run_json, metrics = recorded("ICJTRP")
    write(tmp_path, run_json, metrics)
    verdicts = [one | {"word": "wrong"} if one["impl"] == "cuda" else one for one in metrics["verdicts"]]
    write(tmp_path, run_json, metrics | {"verdicts": verdicts}, hour=1)
    (row,) = best(tmp_path).values()
    assert (row.impl, row.created) == ("ori", "2026-01-01T01:00:00Z")


def test_fast_p_knows_ties_and_what_counts_as_no_win(tmp_path):
    cases = {
        "sure": ("faster", 1.6, 1.8, ()),
        "tie": ("faster", 0.9, 1.7, ()),
        "open": ("inconclusive", 0.9, 1.6, ()),
        "narrow": ("faster", 2.1, 2.2, ({"code": "reduced", "values": {"used": "TF32", "task": "FP32"}},)),
        "void": ("void", 5.0, 6.0, ()),
        "wrong": ("wrong", 5.0, 6.0, ()),
    }
    run_json, metrics = recorded("ICVXKH")
    for name, (word, low, high, conditions) in cases.items():
        named = run_json | {"sample": {**run_json["sample"], "id": name}}
        write(tmp_path, *said(named, metrics, word, low, high, conditions))
    (one,) = fast_p(best(tmp_path))
    assert (one["device"], one["count"]) == ("NVIDIA H200", 6)
    assert one["shares"]["1.0"] == {"sure": 1 / 6, "possible": 3 / 6, "inconclusive": 2}
    assert one["shares"]["2.0"] == {"sure": 0.0, "possible": 0.0, "inconclusive": 0}


def test_a_season_is_ranked_by_the_contests_rules(tmp_path, capsys):
    season = tmp_path / "S9"
    for name in ("ICVXKH", "ICFSMX"):
        shutil.copytree(H200.parents[1] / "S1" / name, season / name)
        write(tmp_path / "runs", *recorded(name))
    write(tmp_path / "runs", *recorded("ICNPLY"))
    (season / "ICVXKH/readme.md").write_text("参赛者: Ada<i>\n", "utf-8")
    arguments = ["site", season, "--runs", tmp_path / "runs", "-o", tmp_path / "site", "--pages", "0", "--json"]
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2
    text = (tmp_path / "site/index.html").read_text("utf-8")
    assert "Ranking by the contest" in text
    assert "Ada&lt;i&gt;" in text
    assert "Ada<i>" not in text
    assert {row["sample"] for row in data(tmp_path / "site")} == {"ICVXKH", "ICFSMX"}


def test_a_folder_of_other_things_is_left_alone(runs, tmp_path, capsys):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(SystemExit) as end:
        main(["site", str(runs), "-o", str(tmp_path / "site")])
    assert end.value.code == 2
    assert "files that are not a site" in capsys.readouterr().err
    assert [one.name for one in (tmp_path / "site").iterdir()] == ["thesis.txt"]
    (tmp_path / "none").mkdir()
    with pytest.raises(SystemExit) as end:
        main(["site", str(tmp_path / "none"), "-o", str(tmp_path / "site")])
    assert end.value.code == 2
    assert "no runs here or below" in capsys.readouterr().err
    build(tmp_path / "none", tmp_path / "empty")
    assert "There is no run here." in (tmp_path / "empty/index.html").read_text("utf-8")


@pytest.mark.slow
@needs_browser
def test_two_thousand_runs_in_a_browser(tmp_path):
    many(tmp_path / "runs", 2000)
    run_json, metrics = recorded("ICVXKH")
    write(tmp_path / "runs", *said(run_json, metrics, "wrong", line=EVIL), hour=5000, device={"name": f"H100 {EVIL}"})
    build(tmp_path / "runs", tmp_path / "site", pages=0)
    with browser.open_browser() as tab:
        tab.goto(tmp_path / "site/index.html")
        cells = (
            "[...document.querySelectorAll('#rows tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        assert len(tab.js(cells)) == 16
        assert tab.js(cells)[0][:2] == ["1", "ICNPLY"]
        tab.js("document.getElementById('newest').click()")
        shown = tab.js(cells)
        assert len(shown) == 200
        # Runs of one sample with 1 % of noise between them, and intervals of a tenth of that, share places at times.
        places = [int(row[0]) for row in shown]
        assert places == sorted(places)
        assert tab.js("document.getElementById('count').textContent") == "200 of 2501 shown"
        tab.js("document.getElementById('more').click()")
        assert len(tab.js(cells)) == 400
        tab.js("document.querySelector('th[data-name=lower_bound] button').click()")
        lower_bounds = [float(row[7]) for row in tab.js(cells)]
        assert lower_bounds == sorted(lower_bounds)
        find = "document.getElementById('find')"
        tab.js(f"{find}.value = 'icmtny ori'; {find}.dispatchEvent(new Event('input'))")
        assert {tuple(row[1:3]) for row in tab.js(cells)} == {("ICMTNY", "ori")}
        tab.js(f"{find}.value = ''; {find}.dispatchEvent(new Event('input'))")
        select = "document.getElementById('word')"
        tab.js(f"{select}.value = 'wrong'; {select}.dispatchEvent(new Event('change'))")
        assert [row[1] for row in tab.js(cells)] == ["ICVXKH"]
        tab.js("document.querySelectorAll('#rows a')[1].click()")
        tab.js("new Promise((done) => setTimeout(done, 200))")
        assert tab.js("document.getElementById('run').open")
        assert EVIL in tab.js("document.getElementById('run').textContent")
        assert tab.js("document.title") == "Runs of runs"
        tab.goto(tmp_path / "site/index.zh.html")
        assert "更快" in tab.js("document.getElementById('rows').textContent")
        assert re.search("延迟|带宽|算力", tab.js("document.getElementById('rows').textContent"))
        assert tab.problems() == []
