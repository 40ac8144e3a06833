"""The gate of a pull request on recorded runs: comment, JUnit, exit codes; the action's own steps against a made-up API."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest
from synthetic_runs import make_run

from profkit.campaign.gate import Judged, junit
from profkit.cli.group import invoke
from profkit.record.importing import import_files
from profkit.report.figures import gate_scene
from profkit.rundir.directory import find_runs
from profkit.study.study import Study

ROOT = Path(__file__).parents[2]
H200 = ROOT / "examples/h200"
ACTION = ROOT / ".github/actions/profkit"


def runs(folder, *samples, slower=1.0, impl="cuda", **manifest):
    """Recorded runs, copied; times of an implementation multiplied."""
    for sample in samples:
        target = folder / sample
        target.mkdir(parents=True)
        for file in ("run.json", "timings.csv", "ncu.csv", "cupti.csv"):
            (target / file).write_bytes((H200 / sample / file).read_bytes())
        head, *rows = (target / "timings.csv").read_text("utf-8").splitlines()
        at = {name: index for index, name in enumerate(head.split(","))}
        for number, row in enumerate(rows):
            cells = row.split(",")
            if cells[at["impl"]] == impl:
                cells[at["seconds"]] = repr(float(cells[at["seconds"]]) * slower)
            rows[number] = ",".join(cells)
        (target / "timings.csv").write_text("\n".join([head, *rows, ""]), "utf-8")
        known = json.loads((target / "run.json").read_text("utf-8")) | manifest
        (target / "run.json").write_text(json.dumps(known), "utf-8")
    return folder


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return runs(tmp_path_factory.mktemp("b") / "before", "ICJTRP")


def cases(path):
    root = ElementTree.fromstring(path.read_bytes())
    return {(one.get("classname"), one.get("name")): one for one in root.findall("testcase")}, root


def test_what_is_as_before_passes(before, tmp_path, capsys):
    after = runs(tmp_path / "after", "ICJTRP", slower=1.02)
    assert invoke(["gate", str(before), str(after), "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("<!-- profkit -->")
    assert "2 pass (limit 5.0%, NVIDIA H200)" in said
    assert (tmp_path / "out/comment.md").read_text("utf-8") == said
    assert (tmp_path / "out/roofline.png").stat().st_size > 10_000
    found, root = cases(tmp_path / "out/junit.xml")
    assert root.get("failures") == "0"
    assert float(found["ICJTRP", "cuda"].get("time")) == pytest.approx(161e-6 * 1.02, rel=0.01)


def test_what_is_slower_for_sure_fails(before, tmp_path, capsys):
    after = runs(tmp_path / "after", "ICJTRP", slower=1.2)
    assert invoke(["gate", str(before), str(after), "-o", str(tmp_path), "--picture", "https://x/y.png"]) == 1
    said = capsys.readouterr().out
    assert "1 of 2 fail" in said
    # No page breaks a number off its unit.
    assert "| ICJTRP\N{NO-BREAK SPACE}cuda | 161\N{NO-BREAK SPACE}us | 193\N{NO-BREAK SPACE}us |" in said
    assert "**slower**" in said
    assert "% slower, 5.0% allowed" in said
    assert "![roofline](https://x/y.png)" in said
    found, root = cases(tmp_path / "junit.xml")
    assert root.get("failures") == "1"
    assert found["ICJTRP", "cuda"].find("failure") is not None
    assert found["ICJTRP", "ori"].find("failure") is None
    assert invoke(["gate", str(before), str(after), "--fail-on-regression", "30%"]) == 0


def test_a_limit_inside_the_interval_passes_unless_the_gate_is_strict(before, tmp_path, capsys):
    after = runs(tmp_path / "after", "ICJTRP", slower=1.02)
    assert invoke(["gate", str(before), str(after), "--fail-on-regression", "2%"]) == 0
    said = capsys.readouterr().out
    assert "inconclusive: the limit lies inside the interval" in said
    assert "1 pass, 1 inconclusive (limit" in said
    assert invoke(["gate", str(before), str(after), "--fail-on-regression", "2%", "--strict"]) == 1


@pytest.mark.parametrize(("times", "word", "code"), [(4, "inconclusive", 0), (26, "slower", 1)])
def test_slowness_that_load_may_explain_is_inconclusive_and_more_fails(tmp_path, capsys, times, word, code):
    """Calls of 20 us beside 11.2 runnable tasks on 2 cores, in whose rounds no call waited for long."""
    make_run(tmp_path / "before", {"reference": 3e-4, "mine": 2e-5})
    after = make_run(tmp_path / "after", {"reference": 3e-4, "mine": times * 2e-5})
    after.manifest.timing.slower = 8.55
    after.run.save()
    assert invoke(["gate", str(tmp_path / "before"), str(tmp_path / "after")]) == code
    assert word in capsys.readouterr().out


def test_what_is_gone_fails_unless_it_may(tmp_path, capsys):
    before = runs(tmp_path / "before", "ICJTRP", "ICFSMX")
    after = runs(tmp_path / "after", "ICJTRP")
    assert invoke(["gate", str(before), str(after), "-o", str(tmp_path / "out")]) == 1
    assert "**gone**: not in the runs after" in capsys.readouterr().out
    assert cases(tmp_path / "out/junit.xml")[0]["ICFSMX", "cuda"].find("failure") is not None
    assert invoke(["gate", str(before), str(after), "--allow-missing"]) == 0
    impls = json.loads((H200 / "ICJTRP/run.json").read_text("utf-8"))["impls"]
    less = runs(tmp_path / "less", "ICJTRP", impls=[one for one in impls if one["name"] != "ori"])
    assert invoke(["gate", str(after), str(less)]) == 1


def test_what_became_wrong_fails(before, tmp_path, capsys):
    impls = json.loads((H200 / "ICJTRP/run.json").read_text("utf-8"))["impls"]
    wrong = [one | {"status": "mismatch", "reason": "all of it"} if one["name"] == "cuda" else one for one in impls]
    after = runs(tmp_path / "after", "ICJTRP", impls=wrong)
    assert invoke(["gate", str(before), str(after)]) == 1
    assert "**wrong**: mismatch: all of it" in capsys.readouterr().out


def test_nothing_to_compare_is_no_pass(before, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert invoke(["gate", str(before), str(tmp_path / "empty")]) == 2
    assert invoke(["gate", str(tmp_path / "nowhere"), str(before)]) == 2
    assert invoke(["gate", str(before), str(runs(tmp_path / "other", "ICVXKH"))]) == 2
    assert "measure the same samples before and after" in capsys.readouterr().err


def test_of_a_void_task_a_time_alone_passes_and_says_so(tmp_path, capsys):
    before = runs(tmp_path / "before", "ICLSUM")
    assert invoke(["gate", str(before), str(before)]) == 0
    assert "same: void: the task cannot tell right from wrong" in capsys.readouterr().out


def test_the_picture_has_the_candidates_by_sample(tmp_path):
    points = gate_scene([Study(run) for run in find_runs(runs(tmp_path, "ICJTRP", "ICFSMX"))]).points
    assert {point.impl for point in points} == {"ICJTRP: ori", "ICJTRP: cuda", "ICFSMX: cuda"}


def test_other_devices_are_told_apart(before, tmp_path, capsys):
    device = json.loads((H200 / "ICJTRP/run.json").read_text("utf-8"))["device"] | {"name": "NVIDIA H100"}
    after = runs(tmp_path / "after", "ICJTRP", slower=3.0, device=device)
    assert invoke(["gate", str(before), str(after)]) == 0
    assert "not comparable: the runs differ in device" in capsys.readouterr().out


def test_a_program_on_a_cpu_is_judged_by_its_whole_time(tmp_path, capsys):
    """Nine times slower passed: a range of 0.01 % was compared, and times per call of an operator."""
    for name, count in (("before", 2), ("after", 18)):
        spans = [("aten::mm", "cpu_op", 10.0 + 100 * at, 90.0) for at in range(count)]
        spans += [("tiny", "user_annotation", 5.0, 2.0), ("aten::add", "cpu_op", 5.5, 1.0)]
        events = [{"ph": "X", "cat": c, "name": n, "pid": 1, "tid": 1, "ts": t, "dur": d} for n, c, t, d in spans]
        (tmp_path / "train.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
        import_files([tmp_path / "train.json"], tmp_path / name / "train")
    sides = [str(tmp_path / name) for name in ("before", "after")]
    assert invoke(["gate", *sides]) == 1
    assert "one time on each side, no spread is known" in capsys.readouterr().out
    assert invoke(["compare", *sides, "--fail-on-regression", "5%"]) == 1
    said = capsys.readouterr().out
    assert "0.108x slower" in said
    assert "no spread is known" in said
    assert invoke(["gate", *reversed(sides)]) == 0


def test_junit_of_odd_names_is_xml():
    root = ElementTree.fromstring(junit([Judged("a<b", "k(int*) & \x1b[0m", "wrong", why="\x00<>", fails=True)]))
    assert root[0].get("name") == "k(int*) & [0m"
    assert root[0].get("time") is None


class Api(BaseHTTPRequestHandler):
    """The few calls of GitHub's API that the action makes."""

    def do_GET(self):
        page = self.server.state["comments"] if "/comments" in self.path else None
        if page is None and "/contents/" in self.path:
            return self.answer(404, {})
        refs = {"object": {"sha": "abc"}}
        if self.path.endswith("/git/ref/heads/pictures"):
            return self.answer(404, {})
        return self.answer(200, page if page is not None else {"default_branch": "main", **refs})

    def change(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.state["calls"].append((self.command, self.path, body))
        if self.path.endswith("/comments"):
            self.server.state["comments"].append({"id": 7, **body})
        self.answer(201, {})

    do_POST = do_PATCH = do_PUT = change

    def answer(self, code, body):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def api():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.state = {"calls": [], "comments": [{"id": 1, "body": "hello"}]}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def act(folder, api=None, **variables):
    event = folder / "event.json"
    event.write_text('{"pull_request": {"number": 12}}', "utf-8")
    env = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "INSTALL": "",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_TOKEN": "t",
        "GITHUB_SHA": "f00",
        "OUTPUT": str(folder / "out"),
        "GITHUB_OUTPUT": str(folder / "outputs"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        **({"GITHUB_API_URL": f"http://127.0.0.1:{api.server_port}", "COMMENT": "true"} if api else {}),
        **variables,
    }
    return subprocess.run(["bash", str(ACTION / "run.sh")], env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_action_comments_once_and_fails_by_the_gate(before, tmp_path, api):
    after = runs(tmp_path / "after", "ICJTRP", slower=1.2)
    names = {"BEFORE": str(before), "AFTER": str(after), "PICTURE_BRANCH": "pictures"}
    done = act(tmp_path, api, **names)
    assert done.returncode == 1, done.stderr
    posted = next(body["body"] for method, path, body in api.state["calls"] if path == "/repos/o/r/issues/12/comments")
    assert "1 of 2 fail" in posted
    assert "![roofline](https://github.com/o/r/blob/pictures/f00.png?raw=true)" in posted
    assert [path for method, path, _ in api.state["calls"] if method == "PUT"] == ["/repos/o/r/contents/f00.png"]
    assert (tmp_path / "outputs").read_text() == "exit-code=1\n"
    assert (tmp_path / "summary").read_text("utf-8") == posted
    done = act(tmp_path, api, **{**names, "LIMIT": "30%", "PICTURE_BRANCH": ""})
    assert done.returncode == 0
    method, path, body = api.state["calls"][-1]
    assert (method, path) == ("PATCH", "/repos/o/r/issues/comments/7")
    assert "2 pass" in body["body"]


def test_the_action_says_when_nothing_was_compared(before, tmp_path):
    (tmp_path / "after").mkdir()
    done = act(tmp_path, BEFORE=str(before), AFTER=str(tmp_path / "after"))
    assert done.returncode == 2
    assert "nothing was compared (exit code 2)" in done.stdout
    assert "measure the same samples" in done.stdout


def test_the_settings_of_the_action_are_those_of_its_script():
    yaml = pytest.importorskip("yaml")
    said = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))
    given = set(said["runs"]["steps"][0]["env"])
    script = (ACTION / "run.sh").read_text("utf-8") + (ACTION / "comment.py").read_text("utf-8")
    assert all(name in script for name in given)
    assert len(given) == len(said["inputs"])
