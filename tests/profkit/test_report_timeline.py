"""The timeline of a program's page: from a trace of ten thousand launches, with ranges, idle, and the steady state."""

import json
import random
import re
from itertools import pairwise

import browser
import pytest

from collectors import read
from collectors.frame import host_of
from profkit.record.importing import import_files
from profkit.report.page.run import page
from profkit.report.page.timeline import timeline_of
from profkit.study.study import Study

STEPS, PER_STEP = 50, 200
NAMES = (
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
    "void at::native::mul_kernel(int)",
    "softmax_warp_forward<float>",
)


def trace(file, steps=STEPS, per_step=PER_STEP):
    """A loop whose step launches every 10 us and runs 4 us of it; of each step the last tenth on a second stream."""
    events, ts, correlation = [], 0.0, 1
    order = random.Random(3).choices(range(len(NAMES)), k=per_step)
    device = {"device": 0, "context": 1}
    for step in range(steps):
        first = ts
        for at in range(per_step):
            stream = 14 if at >= per_step * 9 // 10 else 7
            name = "step_begins" if not at else NAMES[order[at]]
            args = {**device, "stream": stream, "correlation": correlation, "grid": [64, 1, 1], "block": [128, 1, 1]}
            kernel = {"cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": 4.0, "args": args}
            call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": ts - 3, "dur": 1.0}
            events += [{"ph": "X", **kernel}, {"ph": "X", **call, "args": {"correlation": correlation}}]
            ts, correlation = ts + 10.0, correlation + 1
        span = {"ts": first - 4, "dur": ts - first - 1, "name": f"train_step#{step}"}
        events.append({"ph": "X", "cat": "user_annotation", "pid": 9, "tid": 9, "args": {}, **span})
    device = {"id": 0, "name": "Test GPU", "computeMajor": 9, "computeMinor": 0}
    known = {"schemaVersion": 1, "deviceProperties": [device]}
    file.write_text(json.dumps({**known, "traceEvents": events}), "utf-8")
    return file


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    return Study(import_files([trace(folder / "loop.json")], folder / "run").run)


def test_the_timeline_holds_every_launch_its_lane_range_and_step(study):
    found = timeline_of(study)
    assert len(found["start"]) == len(found["length"]) == len(found["what"]) == STEPS * PER_STEP
    # In units of 10 ns: the axis begins with the first launch call.
    assert found["start"][0] == 300
    assert sum(found["start"][1:]) == pytest.approx((STEPS * PER_STEP - 1) * 1000)
    assert set(found["length"]) == {400}
    assert found["lanes"] == ["stream 0:7", "stream 0:14"]
    assert set(found["names"]) == {"step_begins", "mul_kernel", "softmax forward (ATen)", "bf16 GEMM 256x128 (cuBLAS)"}
    assert (found["hidden"], found["whole"]) == (0, STEPS * PER_STEP)
    assert found["ranges"][0][:2] == ["train_step#0", 0]
    # Where each step of the steady state begins, and where the last one ends.
    edges = found["steady"]
    assert len(edges) in (STEPS, STEPS + 1)  # of a cut step nothing is known
    assert all(after - this == pytest.approx(PER_STEP * 1000, rel=0.01) for this, after in pairwise(edges))
    assert len(found["bands"]) == 7


def test_it_holds_the_host_and_who_launched_what(study):
    found = timeline_of(study)
    host = found["host"]
    assert host["lanes"] == ["9"]
    assert (len(host["start"]), host["hidden"]) == (STEPS * PER_STEP + STEPS, 0)
    assert host["whats"][0] == [0, "train_step#0"]
    assert [3, "cudaLaunchKernel"] in host["whats"]
    assert min(host["start"]) >= 0  # in order, those round others before them
    assert set(found["late"]) == {300}
    assert set(found["thread"]) == {0}
    assert {tuple(one[1:]) for one in found["whats"]} == {("64,1,1", "128,1,1", "", "")}
    assert found["paths"][:2] == ["train_step#0", "train_step#1"]


def test_the_host_keeps_its_longest_events_and_says_how_many_went(study, monkeypatch):
    monkeypatch.setattr("profkit.report.page.timeline.MOST_HOST", 60)
    host = timeline_of(study)["host"]
    assert (len(host["start"]), host["hidden"]) == (60, STEPS * PER_STEP + STEPS - 60)
    assert sum(1 for one in host["what"] if host["whats"][one][0] == 0) == STEPS


def test_an_operator_below_the_limit_stays_where_it_launched(tmp_path):
    events = json.loads(trace(tmp_path / "t.json", 1, 2).read_text("utf-8"))
    ops = [("launches", -3.5, 3.0), ("idles", 1.0, 3.0), ("lasts", 50.0, 30.0)]
    made = [
        {"ph": "X", "cat": "cpu_op", "name": n, "pid": 9, "tid": 9, "ts": t, "dur": d, "args": {}} for n, t, d in ops
    ]
    (tmp_path / "t.json").write_text(json.dumps(events | {"traceEvents": events["traceEvents"] + made}), "utf-8")
    host = host_of(read(tmp_path / "t.json", "kineto"))
    assert dict(zip(host["call"], host["kind"], strict=True)) == {
        "cudaLaunchKernel": "call",
        "train_step#0": "range",
        "launches": "short",
        "lasts": "op",
    }


def test_all_that_a_graph_runs_was_launched_by_its_call(tmp_path):
    known = json.loads(trace(tmp_path / "t.json", 1, 3).read_text("utf-8"))
    for one in known["traceEvents"]:
        if one["cat"] == "cuda_runtime":
            one["name"] = "cudaGraphLaunch"
        one["args"]["correlation"] = 1  # of each kernel; a trace with one call has one of it
    calls = [one for one in known["traceEvents"] if one["cat"] == "cuda_runtime"]
    kept = [one for one in known["traceEvents"] if one not in calls[1:]]
    (tmp_path / "t.json").write_text(json.dumps(known | {"traceEvents": kept}), "utf-8")
    found = timeline_of(Study(import_files([tmp_path / "t.json"], tmp_path / "run").run))
    assert found["late"] == [300, 1300, 2300]


def test_a_program_on_a_cpu_has_its_operators_as_they_were_called(tmp_path):
    nested = [("aten::linear", 0.0, 40.0), ("aten::addmm", 5.0, 30.0), ("aten::relu", 60.0, 10.0)]
    events = [{"ph": "X", "cat": "cpu_op", "name": n, "pid": 1, "tid": 1, "ts": t, "dur": d} for n, t, d in nested]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    found = timeline_of(Study(import_files([tmp_path / "t.json"], tmp_path / "run").run))
    host = found["host"]
    assert (found["start"], found["end"]) == ([], 7000)
    assert [host["whats"][one][1] for one in host["what"]] == [name for name, _, _ in nested]
    assert (host["start"], host["length"]) == ([0, 500, 5500], [4000, 3000, 1000])


def test_a_sample_has_no_timeline_and_a_long_program_is_cut_and_says_so(study, monkeypatch):
    monkeypatch.setattr("profkit.report.page.timeline.MOST_LAUNCHES", 1000)
    found = timeline_of(study)
    assert len(found["start"]) == 1000
    assert (found["hidden"], found["whole"]) == (STEPS * PER_STEP - 1000, STEPS * PER_STEP)


@pytest.mark.slow
@pytest.mark.skipif(browser.find() is None, reason="no chromium here")
def test_ten_thousand_launches_are_drawn_zoomed_and_named(study, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(page(study), "utf-8")
    said = "document.getElementById('line-said').textContent"
    with browser.open_browser() as tab:
        tab.goto(file)
        assert tab.problems() == []
        assert f"{STEPS * PER_STEP} kernels" in tab.js(said)
        press = "[...document.querySelectorAll('#line-controls button')].find((b) => b.textContent === '{}').click()"
        tab.js(press.format("One step"))
        inside = int(re.search(r"(\d+) kernels", tab.js(said))[1])
        assert abs(inside - PER_STEP) <= 2
        assert re.search(r"idle 60(\.\d)?%", tab.js(said))
        tab.js("document.getElementById('line').focus({preventScroll: true})")
        tab.key("+", 187)
        assert int(re.search(r"(\d+) kernels", tab.js(said))[1]) < inside
        # A launch under the pointer says its name.
        where = tab.js(
            "(() => { const c = document.getElementById('line'); c.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const r = c.getBoundingClientRect(); return [r.x, r.y, r.width]; })()"
        )
        lanes = 18 + 14 + 2 * 15 + 4 + 14 + 18  # below the thread and the ranges
        seen = set()
        for at in range(40):
            tab.mouse(where[0] + where[2] * (0.2 + at * 0.005), where[1] + lanes + 12)
            if tab.js("!document.getElementById('line-tip').hidden"):
                seen.add(tab.js("document.querySelector('#line-tip b').textContent"))
        assert seen & {"mul_kernel", "softmax forward (ATen)", "bf16 GEMM 256x128 (cuBLAS)"}
        told = tab.js("document.getElementById('line-tip').textContent")
        assert "launched 3.00 us before it starts (thread 9)grid 64 × 1 × 1, block 128 × 1 × 1range train_step#" in told
        tab.mouse(where[0] + where[2] / 2, where[1] + 18 + 14 + 7)
        assert tab.js("document.querySelector('#line-tip b').textContent").startswith("train_step#")
        # From the keyboard: the next launch, and nearer to it.
        tab.js("document.getElementById('line').focus({preventScroll: true})")
        tab.key("n", 78)
        assert "launched 3.00 us" in tab.js("document.getElementById('live').textContent")
        tab.key("Enter", 13)
        assert re.search(r"In view: 8.\d+ us.* 1 kernels", tab.js(said))
        tab.key("0", 48)
        assert f"{STEPS * PER_STEP} kernels" in tab.js(said)
        check_flame(tab)
        assert tab.problems() == []


def check_flame(tab):
    """Frames are as wide as the GPU time below them; what is zoomed into, searched for and told follows."""
    until = "new Promise((done) => setTimeout(done, 400))"
    tab.js(until)
    frames = "[...document.querySelectorAll('#flame-graph .f')]"
    widths = tab.js(f"Object.fromEntries({frames}.map((f) => [f.textContent, parseFloat(f.style.width)]))")
    assert widths["train_step#"] == widths["all in view"] == 100
    kernels = [widths[name] for name in ("step_begins", "mul_kernel", "softmax forward (ATen)")]
    assert kernels[0] == pytest.approx(100 / PER_STEP)
    assert sum(kernels) + widths["bf16 GEMM 256x128 (cuBLAS)"] == pytest.approx(100)
    rows = tab.js("[...document.querySelectorAll('#flame-table tbody tr')].map((r) => r.innerText || r.textContent)")
    assert rows[0].startswith("train_step#")
    assert len(rows) == 4  # what is below one percent is not told
    said = "document.getElementById('flame-said').textContent"
    tab.js(f"{frames}.find((f) => f.textContent === 'mul_kernel').click()")
    assert tab.js("document.activeElement.textContent + document.activeElement.style.width") == "mul_kernel100%"
    assert re.match(r"mul_kernel: .* launches", tab.js(said))
    tab.key("ArrowUp", 38)
    assert tab.js("document.activeElement.textContent") == "train_step#"
    tab.key("Escape", 27)
    assert len(tab.js(f"{frames}.map((f) => f.textContent)")) == 6
    search = "const s = document.querySelector('#flame-controls input'); s.value = 'GEMM'; s.dispatchEvent(new Event('input'))"
    tab.js(f"(() => {{ {search}; }})()")
    share = widths["bf16 GEMM 256x128 (cuBLAS)"]
    assert float(re.search(r"takes ([\d.]+)% of", tab.js(said))[1]) == pytest.approx(share, rel=0.01)
    # One step in view, and the graph is of that.
    tab.js("[...document.querySelectorAll('#line-controls button')].find((b) => b.textContent === 'One step').click()")
    tab.js(until)
    tab.js(f"(() => {{ {search.replace('GEMM', '')}; }})()")
    assert re.search(r"\b200 launches", tab.js(said))
