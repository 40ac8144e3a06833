"""docs/accuracy.md: each table comes from a recording that is kept."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("render_accuracy", ROOT / "benchmarks" / "render_accuracy.py")
assert spec is not None
assert spec.loader is not None
render_accuracy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(render_accuracy)
PAGE = (ROOT / "docs" / "accuracy.md").read_text("utf-8")
NAMES = sorted(path.stem for path in (ROOT / "docs" / "recorded").glob("*.txt"))
SECTIONS = re.split(r"^## ", PAGE, flags=re.M)[1:]


def test_the_page_is_what_the_recordings_say():
    assert render_accuracy.rendered(PAGE) == PAGE, "run python benchmarks/render_accuracy.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_says_how_it_came_about_and_is_shown(name):
    facts, body = render_accuracy.recording(name)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", facts["date"])
    assert re.fullmatch(r"[0-9a-f]{7,40}", facts["commit"])
    assert body
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")]
    assert any(f"<!-- recorded: {name} " in page or f"(recorded/{name}.txt)" in page for page in pages)
    assert not re.search(r"/(?:home|root|tmp|work)/", body)


@pytest.mark.parametrize("section", SECTIONS, ids=[one.split("\n")[0] for one in SECTIONS])
def test_every_table_comes_from_a_recording(section):
    bare = re.sub(r"<!-- recorded: .*?<!-- end -->", "", section, flags=re.S)
    assert not re.search(r"^\| --- |^    \S+ {2,}\S", bare, re.M)


def test_every_script_that_a_recording_names_is_here():
    for name in NAMES:
        script = re.search(r"benchmarks/\w+\.py", render_accuracy.recording(name)[0]["command"])
        assert script is not None
        assert (ROOT / script[0]).exists(), name
