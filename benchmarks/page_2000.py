"""The page of a run with 2,000 kernels, and the timeline of 10,000 launches: how large, how long to make and in a browser.

    python benchmarks/page_2000.py [KERNELS]

Needs Chromium; limits: 10 s to make, 3 MB, first paint and a sort under 1 s, the timeline under 2 s. First paint and
readiness are counted from the start of the navigation, a sort from the click to the frame that shows it; medians of five.
What other processes take is in these times, but not in the CPU seconds of making.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/profkit"))

import browser  # noqa: E402
from test_report_html import many  # noqa: E402
from test_report_timeline import trace  # noqa: E402

from profkit.record.importing import import_files  # noqa: E402
from profkit.report.derived import write  # noqa: E402
from profkit.report.page.run import page  # noqa: E402
from profkit.study.study import Study  # noqa: E402

PAINT = """(() => { const p = performance.getEntriesByType('paint').find((e) => e.name === 'first-contentful-paint');
return p ? p.startTime : null; })()"""
READY = "performance.getEntriesByName('ready')[0].startTime"
SORT = """new Promise((done) => { const t = performance.now(); document.querySelectorAll('#table th button')[%d].click();
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - t))); })"""
FILTER = """new Promise((done) => { const t = performance.now(), f = document.getElementById('filter'); f.value = '%s';
f.dispatchEvent(new Event('input')); requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - t))); })"""


def in_browser(file: Path) -> dict[str, float]:
    """Milliseconds of one fresh browser."""
    with browser.open_browser() as tab:
        tab.goto(file)
        end = time.monotonic() + 10
        while tab.js(PAINT) is None and time.monotonic() < end:
            time.sleep(0.05)
        found = {"first paint": float(tab.js(PAINT)), "ready": float(tab.js(READY))}
        found["sort by number"] = max(float(tab.js(SORT % 5)) for _ in range(2))
        found["sort by name"] = max(float(tab.js(SORT % 1)) for _ in range(2))
        found["filter"] = float(tab.js(FILTER % "19"))
        if tab.problems():
            sys.exit(f"the page has errors: {tab.problems()}")
        return found


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="profkit-page-") as folder:
        run = many(Path(folder) / "run", count)
        file = Path(folder) / "report.html"
        began, used = time.perf_counter(), time.process_time()
        file.write_text(page(run), "utf-8")
        made, cpu = time.perf_counter() - began, time.process_time() - used
        size = file.stat().st_size
        began = time.perf_counter()
        write(run)
        print(f"report.md, metrics, kernels and both figures: {time.perf_counter() - began:.2f} s (limit 10)")
        print(
            f"{count} kernels: page made in {made:.2f} s, {cpu:.2f} s of them CPU (limit 10), {size / 1e6:.2f} MB (limit 3)"
        )
        if browser.find() is None:
            sys.exit("no Chromium here: times in the browser were not measured")
        rounds = [in_browser(file) for _ in range(5)]
        for name in rounds[0]:
            limit = "" if name == "ready" else " (limit 1000)"
            print(f"{name:16} {statistics.median(one[name] for one in rounds):8.0f} ms{limit}")
        timeline(Path(folder))


def timeline(folder: Path) -> None:
    """The page of a program of 10,000 launches, until its timeline is drawn."""
    study = Study(import_files([trace(folder / "loop.json")], folder / "program").run)
    file = folder / "program.html"
    file.write_text(page(study), "utf-8")
    ready = []
    for _ in range(5):
        with browser.open_browser() as tab:
            tab.goto(file)
            ready.append(float(tab.js(READY)))
    print(
        f"10000 launches: {file.stat().st_size / 1e6:.2f} MB, timeline drawn {statistics.median(ready):.0f} ms (limit 2000)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
