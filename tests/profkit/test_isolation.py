"""Reference and candidates in processes of their own: what is found, what a candidate cannot reach, who is disturbed."""

import importlib.util
import re
import textwrap
from importlib._bootstrap_external import _code_to_timestamp_pyc
from pathlib import Path

import pytest
from candidates import _HEAD, timings, write_sample

from profkit.api import profile
from profkit.guest.build import loading
from profkit.launch import cache

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("private_cache")]

HEAD = _HEAD.removesuffix("    def forward(self, x):\n")
RELU = "torch.relu(x @ self.weight)"

LIAR = """
import sys, time
from profkit.guest.clocks import clocks

class Fast:
    # Answers once with the moment the call began, then puts the true clock back.
    def __init__(self, moment):
        self.moment = moment
    def __call__(self):
        clocks.perf_counter = time.perf_counter
        return self.moment + 1e-6

def timed():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "sample" and frame.f_code.co_filename.endswith("clocks.py"):
            return True
        frame = frame.f_back
    return False
"""


def measure(folder, root, **options):
    return profile(folder, device="cpu", runs=root / "runs", **{"budget": 0.05, "trials": 2, **options})


def impl(run, name):
    return next(impl for impl in run.manifest.impls if impl.name == name)


THIEVES = {
    "in_the_call": f"{HEAD}    def forward(self, x):\n        import example_torchcode\n        return {RELU}\n",
    "at_the_top": f"from example_torchcode import Model\n{HEAD}    def forward(self, x):\n        return {RELU}\n",
    "of_memory": HEAD + "    def forward(self, x):\n        import gc, sys\n"
    "        if [m for m in sys.modules if m.endswith('_reference')]: raise ValueError('found its module')\n"
    "        models = [o for o in gc.get_objects() if type(o).__name__ == 'Model']\n"
    f"        if models: raise ValueError('found its model')\n        return {RELU}\n",
    "with_a_sibling": f"from tricks import relu\n{HEAD}    def forward(self, x):\n        return relu(x @ self.weight)\n",
    "smuggler": "import os, pickle, zipfile\nfrom profkit.judge import exchange\n"
    "class Payload:\n    def __reduce__(self):\n        return os.system, (f'touch {os.environ[\"LOOT\"]}',)\n"
    "import torch\n"
    "def poisoned(value, file):\n    torch.save({'value': Payload(), 'devices': []}, file)\n"
    f"{HEAD}    def forward(self, x):\n        exchange.write = poisoned\n        return {RELU}\n",
}


def test_nobody_reaches_the_reference_or_the_judge_and_a_sibling_module_still_works(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOT", str(tmp_path / "loot"))
    folder = write_sample(tmp_path)
    (folder / "tricks.py").write_text("def relu(x):\n    return x.clamp_min(0)\n")
    for name, code in THIEVES.items():
        (folder / f"{name}.py").write_text(code)
    found = {one.name: one for one in measure(folder, tmp_path).manifest.candidates}
    for name, status in (("in_the_call", "error"), ("at_the_top", "load-error")):
        assert found[name].status == status
        assert "No module named 'example_torchcode'" in found[name].reason
    assert (found["of_memory"].status, found["with_a_sibling"].status) == ("ok", "ok")
    assert found["smuggler"].status not in ("ok", "skipped")
    assert not (tmp_path / "loot").exists()


@pytest.mark.parametrize(("start", "status"), [("", "ok"), ("1 / 0", "load-error")])
def test_no_ceilings_are_measured_beside_a_candidate_that_does_not_hang_up(tmp_path, start, status):
    folder = write_sample(tmp_path, "honest")
    late = f"import os, time\nos._exit = lambda code: time.sleep(60)\n{start}\n"
    (folder / "late.py").write_text(late + (folder / "honest.py").read_text())
    run = measure(folder, tmp_path)
    assert impl(run, "late").status == status
    told = [one.how_much for one in run.manifest.caveats if "ceilings" in one.what]
    assert (run.manifest.ceilings, told) == ([], ["a candidate's process does not end"])
    (folder / "late.py").unlink()
    assert measure(folder, tmp_path).manifest.ceilings


def test_a_time_that_its_process_shortens_is_bounded_from_outside(tmp_path, monkeypatch):
    # What else runs beside the tests would be an explanation.
    monkeypatch.setattr("profkit.judge.timing.company.Watch.slower", 1.0)
    folder = write_sample(tmp_path, "honest")
    (folder / "liar.py").write_text(
        f"{LIAR}{HEAD}"
        + textwrap.indent(
            textwrap.dedent(f"""
            def forward(self, x):
                began = time.perf_counter()
                time.sleep(0.004)
                if timed():
                    clocks.perf_counter = Fast(began)
                return {RELU}
            """),
            "    ",
        )
    )
    run = measure(folder, tmp_path)
    told = {caveat.about: caveat for caveat in run.manifest.caveats if caveat.code in ("outside", "busy")}
    found = re.findall(r"([\d.e+-]+) (us|ms)", told["liar"].how_much)
    claimed, least = (float(number) * {"us": 1e-6, "ms": 1e-3}[unit] for number, unit in found)
    assert claimed < 1e-3
    assert least > 3e-3
    if told["liar"].code == "outside":
        mine = [float(row["seconds"]) for row in timings(run) if row["impl"] == "liar" and row["method"] == "wall"]
        assert sorted(mine)[len(mine) // 2] > 3e-3
    assert impl(run, "honest").status == "ok"


def test_outputs_in_nests_and_changed_inputs_come_back(tmp_path):
    folder = write_sample(tmp_path)
    nest = "y = x @ self.weight\n        return {'a': (y, [y.t(), 3]), 'b': None}"
    reference = folder / "example_torchcode.py"
    reference.write_text(reference.read_text().replace(f"return {RELU}", nest))
    (folder / "nested.py").write_text(f"{HEAD}    def forward(self, x):\n        {nest}\n")
    (folder / "four.py").write_text(f"{HEAD}    def forward(self, x):\n        {nest.replace('3', '4')}\n")
    run = measure(folder, tmp_path)
    assert (impl(run, "nested").status, impl(run, "four").status) == ("ok", "mismatch")


def test_too_little_room_is_said(tmp_path, monkeypatch):
    import shutil
    from collections import namedtuple

    import torch

    from profkit.errors import ProfkitError
    from profkit.guest.tensors import exchange

    monkeypatch.setattr(shutil, "disk_usage", lambda _: namedtuple("U", "total used free")(1, 1, 1000))
    with pytest.raises(ProfkitError, match=r"GB are to be handed over and .* GB are free"):
        exchange.write(torch.zeros(1 << 20), tmp_path / "x.pt")


MEETING = """
import time
from pathlib import Path

class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        Path({mine!r}).touch()
        for _ in range(600):
            if Path({other!r}).exists():
                return
            time.sleep(0.1)
        raise RuntimeError("built alone")

    def forward(self, x):
        return torch.relu(x @ self.weight)
"""


def test_constructors_run_side_by_side(tmp_path):
    folder = write_sample(tmp_path)
    # Where a candidate may write.
    builds = cache.builds()
    builds.mkdir(parents=True)
    places = [str(builds / name) for name in ("one", "two")]
    for name, mine, other in (("one", *places), ("two", *reversed(places))):
        (folder / f"{name}.py").write_text(HEAD.partition("class")[0] + MEETING.format(mine=mine, other=other))
    run = measure(folder, tmp_path)
    assert [(one.name, one.status) for one in run.manifest.candidates] == [("one", "ok"), ("two", "ok")]


def test_a_file_that_is_another_is_run_as_it_was(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("x = 2")
    assert loading.import_file(file, "mine", b"x = 1").x == 1
    assert loading.import_file(file, "mine").x == 2


def test_what_lies_compiled_beside_a_file_is_not_run(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("x = 1")
    known = file.stat()
    compiled = Path(importlib.util.cache_from_source(str(file)))
    compiled.parent.mkdir()
    code = compile("x = 2", str(file), "exec")
    compiled.write_bytes(_code_to_timestamp_pyc(code, int(known.st_mtime), known.st_size))
    assert loading.import_file(file, "mine").x == 1
