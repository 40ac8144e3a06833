"""benchmarks/ without a GPU: every script can be imported and says how it is called; what surrounds KernelBench's evaluator."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.fixture(autouse=True)
def beside_them() -> Iterator[None]:
    """The scripts find each other, and leave sys.path as it was."""
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path[:] = before


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_imported_and_shows_its_command(name):
    said = importlib.import_module(name).__doc__
    assert f"benchmarks/{name}.py" in said


def test_they_are_held_small():
    assert sum(path.read_text("utf-8").count("\n") for path in BENCHMARKS.glob("*.py")) <= 3600


def test_what_the_evaluator_needs_of_pydantic():
    from kernelbench_official import Record

    class Result(Record):
        compiled: bool = False
        metadata: dict[str, str] = {}  # noqa: RUF012  (as the evaluator has it)

    first = Result(compiled=True)
    first.metadata["a"] = "b"
    assert first.compiled
    assert Result().metadata == {}


def test_a_published_text_without_a_model_is_no_candidate(tmp_path):
    import published_candidates

    sources = (None, "None", "", "class ModelNew:\n    pass\n")
    rows = [
        {"level_id": 4, "task_id": n, "ref_code": "x", "custom_code": source, "score_default": 1}
        for n, source in enumerate(sources, 78)
    ]
    (tmp_path / "h100.json").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert [one["candidate"] for one in published_candidates.of_l1(tmp_path / "h100.json")] == ["L4_81_cuda-l1"]
