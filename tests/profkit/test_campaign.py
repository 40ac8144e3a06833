"""Campaigns: who measures what and when, what is kept when something falls, and what the same command does then."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import click
import msgspec
import pytest
from candidates import _HEAD, BODIES, REFERENCE
from click.testing import CliRunner
from test_process import alive

from profkit.campaign import engine, stages
from profkit.campaign.campaign import Count, duration, places
from profkit.campaign.campaign import run as run_campaign
from profkit.campaign.engine import Local, WorkerDiedError, follow
from profkit.campaign.ledger import Ledger, unfinished
from profkit.campaign.stages import Answer, Task, WorkItem, deliver, of_folder, of_pair, perform
from profkit.cli.options import Runners
from profkit.cli.profile import profile_ as profile_command
from profkit.cli.runs import list_ as list_command
from profkit.errors import CannotProfileError, ProfkitError
from profkit.guest.build import extensions, loading
from profkit.launch import cache, process, warm
from profkit.launch.alone import alone
from profkit.launch.protocol import Job, Subject
from profkit.record import profile
from profkit.record.profile import info
from profkit.record.request import Request
from profkit.record.session import Session
from profkit.rundir.directory import Run, create_run, find_runs, open_run
from profkit.rundir.files import ROOM, unwritable
from profkit.rundir.manifest import Manifest, SampleInfo
from profkit.targets.sample import resolve
from profkit.torch_tools import ahead

QUICK = ["--device", "cpu", "--budget", "0.05", "--trials", "1"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory to work in, with a cache and locks of its own."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sample(folder: Path, kind: str = "honest", source: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "candidate.py").write_text(source or f"{_HEAD}        {BODIES[kind]}\n")
    return folder


def item(key: str, built: tuple[str, ...] = ()) -> WorkItem:
    return WorkItem(key, key, key, f"/nowhere/{key}", built=built)


class Fake:
    """A worker that does nothing but say what it was asked; `deeds`: key -> answers or exceptions for measure, in turn."""

    deeds: ClassVar[dict[str, list[object]]] = {}
    asked: ClassVar[list[tuple[str, str]]] = []
    turn = threading.Lock()

    def __init__(self, log, extra, lent):
        self.extra = extra

    def ask(self, given):
        with Fake.turn:
            Fake.asked.append((given.what, given.item.key))
            deeds = Fake.deeds.get(f"{given.what} {given.item.key}", [])
            deed = deeds.pop(0) if deeds else Answer("" if given.what == "build" else "run")
        if isinstance(deed, Exception):
            raise deed
        return deed

    def close(self):
        pass


@pytest.fixture
def fake(monkeypatch):
    Fake.deeds, Fake.asked = {}, []
    monkeypatch.setattr(engine, "Worker", Fake)
    return Fake


def run(items, tmp_path, places=1, jobs=2):
    def made(what, one):
        return Task(what, one, Request(), str(tmp_path / one.key), "id")

    local = Local([{}] * places, jobs, tmp_path / "log")
    with local, closing(follow(local, items, made)) as heard:
        return list(heard)


# The start


@pytest.mark.parametrize("dask", ["", "tcp://there:1"])
def test_what_imports_torch_begins_before_the_command_knows_what_is_asked(fake, tmp_path, monkeypatch, dask):
    monkeypatch.setattr(process, "start", process.guarded)
    began = []

    class Server:
        ended, served = False, True

        @classmethod
        def start(cls, env, preload):
            began.append(cls())
            return began[-1]

        def close(self):
            self.ended = True

    monkeypatch.setattr(warm, "_Server", Server)
    with click.Context(profile_command):
        Runners.of(None if dask else 0, dask, True)
        assert len(began) == (not dask)
        if not dask:
            run([item("a")], tmp_path, places=2)
            assert [one.ended for one in began] == [False]
    assert all(one.ended for one in began)


# The order


def test_every_piece_is_measured_in_turn_and_has_one_end(fake, tmp_path):
    heard = run([item("a"), item("b"), item("c")], tmp_path)
    assert [key for what, key in fake.asked if what == "measure"] == ["a", "b", "c"]
    assert sorted(one.key for one, _ in heard) == ["a", "b", "c"]


def test_what_is_built_is_built_before(fake, tmp_path):
    run([item("a", ("1.py",)), item("b", ("2.py",)), item("d")], tmp_path)
    order = fake.asked
    assert sorted(key for what, key in order if what == "build") == ["a", "b"]
    for key in "ab":
        assert order.index(("measure", key)) > order.index(("build", key))


def test_one_that_kills_its_worker_is_tried_again_and_touches_no_other(fake, tmp_path):
    fake.deeds = {"measure a": [WorkerDiedError("killed by SIGKILL")], "measure b": [WorkerDiedError("x")] * 2}
    heard = run([item("a"), item("b"), item("c")], tmp_path)
    assert {one.key: answer.run for one, answer in heard} == {"a": "run", "b": "", "c": "run"}


def test_a_fault_of_ours_in_a_thread_is_raised_and_nothing_hangs(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(Fake, "ask", lambda *_: {}["no"])
    with pytest.raises(KeyError):
        run([item("a")], tmp_path)


# What is kept


def test_a_campaign_is_run_by_one_process_at_a_time(place):
    with Ledger(place, "key", "profkit profile S1", 3) as ledger:
        ledger.note(1, 1)
        with (
            pytest.raises(ProfkitError, match=rf"is already running \(process {os.getpid()}\)"),
            Ledger(place, "key", "", 3),
        ):
            pass
        (seen,) = unfinished(place)
        assert seen.alive
        assert seen.line().endswith(f"1 of 3 done, 1 failed; running (process {os.getpid()})")
        first = ledger.state.id
    (seen,) = unfinished(place)
    assert not seen.alive
    assert "the same command goes on" in seen.line()
    with Ledger(place, "key", "", 3) as ledger:
        assert ledger.state.id == first
        ledger.remove()
    assert list(place.iterdir()) == []


def made_run(root: Path, mark: str = "") -> Path:
    run = create_run(SampleInfo("S", "s"), root)
    run.manifest.status, run.manifest.finished, run.manifest.campaign = "done", "now", mark
    run.manifest.sample.path = str(run.path)
    run.save()
    return run.path


def test_a_run_is_delivered_whole_under_a_name_that_is_free(place):
    stamps = []
    for number in range(2):
        path = made_run(place / f"work{number}")
        final = deliver(open_run(path), place / "runs")
        assert not path.exists()
        assert open_run(final).manifest.sample.path == str(final)
        stamps.append(final.name)
    assert len(set(stamps)) == 2


def test_what_is_done_is_known_from_the_runs_of_this_campaign(place):
    with Ledger(place, "key", "", 2) as ledger:
        mine = made_run(place, f"{ledger.state.id}/a")
        made_run(place, "another/b")
        (place / "S" / "29990101T000000Z").mkdir()
        assert ledger.delivered([item("a"), item("b")]) == {"a": mine}
    made_run(place / ".campaigns/key/work/a")
    assert len(list(find_runs(place))) == 2, "what is not delivered is no run yet"


def test_a_piece_is_another_when_its_files_or_the_request_change(place):
    folder = sample(place / "A")
    first = of_folder(folder, Request(device="cpu"))
    assert first == of_folder(folder, Request(device="cpu", runs=Path("elsewhere")))
    assert first.key != of_folder(folder, Request(device="cpu", trials=1)).key
    (folder / "candidate.py").write_text("class ModelNew: pass")
    assert first.key != of_folder(folder, Request(device="cpu")).key


def test_what_compiles_is_built_ahead(place):
    text = "from torch.utils.cpp_extension import load_inline\nload_inline('x', '')\nclass ModelNew: pass\n"
    folder = sample(place / "A", source=text)
    assert of_folder(folder, Request(device="cpu")).built == (str(folder / "candidate.py"),)
    assert of_pair("x", folder / "reference.py", folder / "candidate.py", Request()).built
    assert of_folder(sample(place / "B"), Request(device="cpu")).built == ()


# Builds


def build(place: Path, source: str, reference: str = "") -> int:
    """What building a candidate ahead gives."""
    subjects = [Subject("candidate", "candidate", str(place / "candidate.py"))]
    (place / "candidate.py").write_text(source)
    if reference:
        (place / "reference.py").write_text(reference)
        subjects.append(Subject("reference", "reference", str(place / "reference.py")))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
            patch.setenv(name, "")
        return ahead.build(Job("build", "s", subjects, cache=str(place / "cache"), campaign="one"))


@pytest.mark.parametrize(
    ("said", "campaigns", "tries"),
    [
        ("Error building extension 'mine': no such type", ("one", "one"), 1),
        ("Error building extension 'mine': no such type", ("one", "another"), 2),
        ("Error building extension 'mine': no such type", ("", ""), 2),
        ("Error building extension 'mine': nvcc Killed", ("one", "one"), 2),
    ],
)
def test_what_the_compiler_refused_is_not_compiled_again_in_this_campaign(place, monkeypatch, said, campaigns, tries):
    from torch.utils import cpp_extension

    asked = []

    def refuse(folder, *_):
        asked.append(folder)
        raise RuntimeError(said)

    (place / "candidate.py").write_text("from torch.utils import cpp_extension")
    (place / "main.cpp").write_text("int main;")
    (place / "build.ninja").write_text(f"cflags = -O2\nbuild main.o: compile {place}/main.cpp\n")
    for campaign in campaigns:
        monkeypatch.setattr(cpp_extension, "_run_ninja_build", refuse)
        errors = extensions.followed(place / "candidate.py", campaign)
        with pytest.raises(RuntimeError, match="Error building"):
            cpp_extension._run_ninja_build(str(place), False, "")
        assert errors == {place.name: said}
    assert len(asked) == tries
    (place / "main.cpp").write_text("int other;")
    with pytest.raises(RuntimeError, match="Error building"):
        cpp_extension._run_ninja_build(str(place), False, "")
    assert len(asked) == tries + 1


CATCHES = """
from pathlib import Path
from torch.utils import cpp_extension
here = Path(__file__).parent / "extension"
try:
    cpp_extension._run_ninja_build(str(here), False, "Error building extension 'mine'")
    said = "built"
except RuntimeError as error:
    said = str(error)
(here.parent / "said").write_text(said)
"""


def test_what_a_constructor_builds_is_built_ahead_with_the_references_arguments(place):
    made = "from torch.utils import cpp_extension\nclass ModelNew:\n    def __init__(self, size):\n        open('{}', 'a').write(str(size))\n        raise RuntimeError('no GPU')\n"
    assert build(place, made.format(place / "made"), "def get_init_inputs():\n    return [3]\n") == 0
    assert (place / "made").read_text() == "3"


def test_who_has_built_while_it_was_imported_needs_no_reference(place, monkeypatch):
    from torch.utils import cpp_extension

    monkeypatch.setattr(cpp_extension, "_run_ninja_build", lambda *_: None)
    reference = f"open({str(place / 'imported')!r}, 'a').close()\ndef get_init_inputs():\n    return []\n"
    (place / "extension").mkdir()
    assert build(place, CATCHES + "class ModelNew:\n    pass\n", reference) == 0
    assert (place / "said").read_text() == "built"
    assert not (place / "imported").exists()


LIGHT = """
import os
from torch.utils import cpp_extension
import torch
SOURCE = r'''
#include <Python.h>
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
static PyObject *one(PyObject *, PyObject *) {{ return PyLong_FromLong({value}); }}
static PyMethodDef methods[] = {{{{"one", one, METH_NOARGS, nullptr}}, {{nullptr, nullptr, 0, nullptr}}}};
static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "one", nullptr, -1, methods}};
PyMODINIT_FUNC CAT(PyInit_, TORCH_EXTENSION_NAME)() {{ return PyModule_Create(&module); }}
'''
class ModelNew:
    def __init__(self):
        self.one = None
        try:
            {build}
        except RuntimeError as error:
            print("refused:", str(error).partition(chr(10))[0])
        print("said", self.one and self.one.one())
"""
INLINE = "self.one = cpp_extension.load_inline({name}, SOURCE, no_implicit_headers=True)"
ASKS = "self.one = torch.cuda.is_available() and cpp_extension.load_inline('one', SOURCE, no_implicit_headers=True)"
HELD = """
import os, sys
from pathlib import Path
from torch.utils import cpp_extension
from profkit.guest.build import extensions, loading
import torch
torch.cuda.is_available = lambda: True
def measured(file):
    os.chdir(file.parent)
    loading.BuildLock(file, Path(sys.argv[1])).__enter__()
    extensions.followed(file)
    loading.import_file(file, "candidate").ModelNew()
for name in sys.argv[2:]:
    print("measured", name, flush=True)
    if not (child := os.fork()):
        measured(Path(name))
        os._exit(0)
    os.waitpid(child, 0)
"""
WAYS = {
    "another name in each process": (INLINE.format(name="f'one_{os.getpid()}'"), "1", "said 1"),
    "asks for a GPU first": (ASKS, "3", "said 3"),
}


@pytest.mark.slow(20)
def test_who_measures_never_asks_the_compiler_for_what_was_built_ahead(place, monkeypatch):
    """Each way in a process of its own, a fork of one that has imported torch, and in a folder with spaces in its name."""
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    monkeypatch.setattr(stages, "expected_device", lambda _: "cuda")
    (place / "reference.py").write_text("def get_init_inputs():\n    return []\n")
    files = []
    for name, (how, value, _) in WAYS.items():
        (place / name).mkdir()
        files.append(place / name / "candidate.py")
        files[-1].write_text(LIGHT.format(value=value, build=how))
        item = of_pair("s", place / "reference.py", files[-1], Request(device="cuda"))
        item = msgspec.structs.replace(item, built=(str(files[-1]),))
        assert perform(Task("build", item, Request(), str(place / "w"), "one")).line == ""
    libraries = {file: file.stat().st_mtime_ns for file in cache.builds().rglob("*.so")}
    assert len(libraries) == len(WAYS)
    argv = [sys.executable, "-c", HELD, str(cache.builds()), *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=place)
    _, *found = done.stdout.split("measured ")
    for (name, (_, _, said)), file, told in zip(WAYS.items(), files, found, strict=True):
        assert told.startswith(str(file)), name
        assert said in told, name + told + done.stderr
    assert {file: file.stat().st_mtime_ns for file in cache.builds().rglob("*.so")} == libraries


def test_who_builds_ahead_waits_for_who_builds_the_same(place):
    order = []
    (place / "candidate.py").write_text("class ModelNew: pass")
    first = loading.BuildLock(place / "candidate.py", place / "cache").__enter__()

    def other():
        build(place, "class ModelNew: pass")
        order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    time.sleep(0.2)
    order.append("first")
    os.close(first._handle)
    thread.join()
    assert order == ["first", "other"]
    assert [one for one in (place / "cache").iterdir() if one.is_dir()] == [first.path]


# Locks


def test_a_device_is_measured_on_by_one_at_a_time(place):
    said, order = [], []

    def other():
        with alone("GPU-1", said.append):
            order.append("other")

    with alone("GPU-1"):
        thread = threading.Thread(target=other)
        thread.start()
        while not said:
            time.sleep(0.01)
        with alone("GPU-2"):
            order.append("another device")
        order.append("mine")
    thread.join()
    assert order == ["another device", "mine", "other"]
    assert said == ["waiting: another process measures on GPU-1"]
    with alone("cpu", shared=True), alone("cpu", shared=True):
        pass  # What only has to stay away from measurements goes on together.


def test_a_sample_has_its_gpu_to_itself(place, monkeypatch):
    monkeypatch.setattr(profile.gpu, "identity", lambda: {"uuid": "GPU-1"})
    cards = [{"uuid": f"GPU-{n}", "memory": str(80 << 30)} for n in (1, 2)]
    monkeypatch.setattr(stages.gpu, "visible", lambda: cards)
    monkeypatch.setattr("profkit.campaign.campaign.os.sched_getaffinity", lambda _: range(2))
    target = resolve(sample(place / "A"))
    session = Session(target, Request(), Run(place / "STAMP", Manifest(info(target), "")), "cuda")
    said: list[str] = []
    with profile._alone(session):
        thread = threading.Thread(target=lambda: alone("GPU-1", said.append).__enter__())
        thread.start()
        while not said:
            time.sleep(0.01)
    thread.join()
    session.device = "cpu"
    with profile._alone(session), profile._alone(session):
        pass
    assert [one["CUDA_VISIBLE_DEVICES"] for one in places("cuda")] == ["GPU-1", "GPU-2"] * 3
    monkeypatch.setattr("profkit.campaign.campaign.os.sched_getaffinity", lambda _: range(16))
    assert len(places("cuda")) == 2 * 6
    del cards[1:]
    assert len(places("cuda")) == 12
    cards[0]["memory"] = str(24 << 30)
    assert len(places("cuda")) == 4
    assert places("cpu") == [{}]


# A full disk


def test_a_full_disk_ends_the_campaign_and_the_same_command_goes_on(place, fake):
    full = Answer("", "cannot write x: No space left on device", ROOM, 2, True)
    fake.deeds = {"measure b": [full]}
    items = [item("a"), item("b"), item("c")]
    asked = "profkit profile S1", items, Request(device="cpu", runs=place / "runs"), lambda _: None, 1
    with pytest.raises(ProfkitError, match="are done and stay") as raised:
        list(run_campaign(*asked))
    assert "repeat the command" in raised.value.fix
    assert [one.command for one in unfinished(place / "runs")] == ["profkit profile S1"]
    assert len(list(run_campaign(*asked))) == 3
    assert unfinished(place / "runs") == []


def test_want_of_room_is_told_from_a_fault_of_the_sample(place, monkeypatch):
    def no_room(*_):
        raise unwritable(place / "x", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    monkeypatch.setattr(WorkItem, "measure", no_room)
    given = Task("measure", item("a"), Request(device="cpu"), str(place / "w"), "id")
    answer = perform(given)
    assert answer.full
    monkeypatch.setattr(WorkItem, "measure", lambda *_: 1 / 0)
    answer = perform(given)
    assert (answer.full, answer.code) == (False, 70)
    assert "ZeroDivisionError" in answer.error


def test_a_report_for_which_there_is_no_room_delivers_nothing(place, monkeypatch):
    given = Task("measure", item("a"), Request(device="cpu", runs=place / "runs"), str(place / "w"), "id")
    monkeypatch.setattr(WorkItem, "measure", lambda _, request: made_run(request.runs))

    def no_room(_):
        raise ProfkitError(f"cannot write roofline.png: {os.strerror(errno.ENOSPC)}", fix="choose another place")

    monkeypatch.setattr("profkit.report.derived.write", no_room)
    assert perform(given).full
    assert not (place / "runs").exists()
    monkeypatch.setattr("profkit.report.derived.write", lambda _: [])
    answer = perform(given)
    assert (answer.full, answer.error) == (False, "")
    assert open_run(answer.run).manifest.status == "done"


# What is shown


def test_the_count_knows_how_long_the_rest_will_take():
    now = [0.0]
    items = [item("a"), item("b"), item("c")]
    count = Count(3, 3, lambda: now[0])
    assert count.eta != count.eta
    said: list[str] = []
    now[0] = 8.0
    for one, answer in ((items[2], Answer("r", line="x: faster")), (items[1], Answer(error="no such file"))):
        count.hear(answer)
        said.append(count.line(one, answer))
    assert count.eta == pytest.approx(8.0 / 2)
    assert said == [
        "00:08  1 of 3 done, about 00:16 left: c: x: faster",
        "00:08  1 of 3 done, 1 failed, about 00:04 left: b: failed",
    ]
    assert (count.done, count.failed) == (1, 1)
    count.hear(Answer(error="no GPU here", code=CannotProfileError.exit_code))
    assert count.head() == "00:08  1 of 3 done, 1 failed, 1 skipped"
    assert duration(3725) == "1:02:05"


# A cluster


CLUSTER = """
import sys, time
from distributed import LocalCluster

if __name__ == "__main__":
    options = dict(threads_per_worker=1, dashboard_address=None, local_directory=sys.argv[1])
    with LocalCluster(n_workers=int(sys.argv[2]), **options) as cluster:
        print(cluster.scheduler_address, *(worker.pid for worker in cluster.workers.values()), flush=True)
        time.sleep(600)
"""


class Cluster:
    """Workers and their scheduler in processes of their own."""

    def __init__(self, place: Path, workers: int) -> None:
        script = place / "cluster.py"
        script.write_text(CLUSTER)
        line = [sys.executable, str(script), str(place / "dask"), str(workers)]
        self._process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address, *pids = self._process.stdout.readline().split()
        self.workers = [int(pid) for pid in pids]

    def kill(self) -> None:
        """The scheduler; workers that have lost theirs end by themselves."""
        self._process.kill()
        self._process.communicate()

    def kill_worker(self) -> None:
        os.kill(self.workers[0], signal.SIGKILL)


@pytest.mark.slow(60)
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("lent_to_others")
def test_a_cluster_that_loses_a_worker_and_then_its_scheduler(place):
    """What was delivered stays; the same command on another cluster completes, with the verdicts that stood."""
    pytest.importorskip("distributed")
    for name, kind in (("A", "honest"), ("B", "mismatch"), ("C", "error"), ("D", "nan"), ("E", "wrong-shape")):
        sample(place / f"s/{name}", kind)

    def statuses():
        runs = list(find_runs(place / "profkit-runs")) if (place / "profkit-runs").is_dir() else []
        return [(run.manifest.sample.id, run.manifest.candidates[0].status) for run in runs]

    def wait_for(running, count):
        while len(statuses()) < count:
            assert running.poll() is None, running.communicate()
            time.sleep(0.1)

    cluster = Cluster(place, workers=2)
    try:
        running = profkit("profile", "s", "--dask", cluster.address, *QUICK)
        wait_for(running, 1)
        cluster.kill_worker()
        wait_for(running, 2)
    finally:
        cluster.kill()
    _, err = running.communicate(timeout=120)
    assert running.returncode == 2, err
    assert "repeat the command" in err
    # What distributed prints of a connection it loses is its own; an error of ours would come through the command line.
    assert "/profkit/cli/" not in err
    (seen,) = unfinished(place / "profkit-runs")
    assert not seen.alive
    before = set(statuses())
    cluster = Cluster(place, workers=1)
    try:
        running = profkit("profile", "s", "--dask", cluster.address, *QUICK)
        _, err = running.communicate(timeout=400)
    finally:
        cluster.kill()
    assert running.returncode == 1, err
    expected = {("A", "ok"), ("B", "mismatch"), ("C", "error"), ("D", "nan"), ("E", "wrong-shape")}
    assert sorted(statuses()) == sorted(expected)
    assert before <= expected
    assert list(unfinished(place / "profkit-runs")) == []


@pytest.mark.slow
def test_without_a_scheduler_it_is_said(place, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("profkit.campaign.engine._PATIENCE", "1s")
    asked = Request(device="cpu", runs=place)
    with pytest.raises(ProfkitError, match="no Dask scheduler answers") as raised:
        list(run_campaign("profkit profile s", [item("a")], asked, lambda _: None, dask="tcp://127.0.0.1:9"))
    assert raised.value.exit_code == 3
    assert list(unfinished(place)) == []  # Nothing of it was begun.


@pytest.mark.parametrize("order", [("--jobs", "2", "--dask", "x:1"), ("--dask", "x:1", "--jobs", "auto")])
def test_a_campaign_has_one_engine(place, order):
    found = CliRunner().invoke(profile_command, [str(place), *order], standalone_mode=False)
    assert isinstance(found.exception, click.UsageError)
    assert "--jobs" in str(found.exception)


# Whole campaigns


def profkit(*arguments: object, **options) -> subprocess.Popen:
    line = [sys.executable, "-m", "profkit", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


REFUSED = """
# load_inline( of torch.utils.cpp_extension
raise RuntimeError("Error building extension 'mine': no such type")
class ModelNew: pass
"""


@pytest.mark.slow(30)
@pytest.mark.usefixtures("lent_to_others")
def test_a_folder_as_a_campaign(place, capsys):
    """A right one, a wrong one, one that crashes, one that cannot run here, and two that do not build."""
    sample(place / "s/A")
    sample(place / "s/B", "crash")
    sample(place / "s/C", source="import triton\nclass ModelNew: pass\n")
    for name in "DE":
        sample(place / f"s/{name}", source=REFUSED)
    code = profile_command.main(["s", "--jobs", "2", *QUICK], standalone_mode=False)
    out, err = capsys.readouterr()
    assert code == 1, "what cannot run here is skipped"
    assert re.search(r"^A +candidate +yes", out, re.M)
    assert re.search(r"^B +candidate +crash", out, re.M)
    assert "C: skipped\n" in err
    assert re.findall(r"error: \S+s/C: no candidate runs on the CPU", err), "its folder, once"
    assert err.count("s/C: no candidate runs on the CPU") == 1
    assert "4 of 5 done, 1 skipped" in err
    states = {run.manifest.sample.id: run.manifest.candidates[0].status for run in find_runs(place / "profkit-runs")}
    assert states == {"A": "ok", "B": "crash", "D": "compile-error", "E": "compile-error"}
    for run in find_runs(place / "profkit-runs"):
        assert (run.path / "report.md").exists()
        assert run.manifest.campaign
    assert list_command.main(["s", "--json"], standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["campaigns"] == []
    assert not (place / "profkit-runs/.campaigns").exists()


@pytest.mark.slow(20)
@pytest.mark.usefixtures("given_to_others")
def test_killed_it_leaves_nothing_behind_and_goes_on(place, capsys):
    mark = f"{os.getpid()}.25"
    sample(place / "s/A")
    sleeping = (
        f"import subprocess; subprocess.Popen(['sleep', '{mark}']).wait()\n        return torch.relu(x @ self.weight)"
    )
    sample(place / "s/B", source=f"{_HEAD}        {sleeping}\n")
    running = profkit("profile", "s", "--jobs", "1", *QUICK)
    while not alive(mark):
        assert running.poll() is None
        time.sleep(0.05)
    (seen,) = unfinished(place / "profkit-runs")
    assert seen.alive
    running.send_signal(signal.SIGKILL)
    running.communicate()
    end = time.monotonic() + 60
    while alive(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert alive(mark) == []
    done = [run.path for run in find_runs(place / "profkit-runs")]
    assert list_command.main(["s"], standalone_mode=False) == 0
    assert "stopped; the same command goes on" in capsys.readouterr().out
    sample(place / "s/C", "mismatch")
    # B stays in the campaign and is another item of it.
    (place / "s/B/candidate.py").write_text((place / "s/A/candidate.py").read_text())
    assert profile_command.main(["s", "--jobs", "1", *QUICK], standalone_mode=False) == 1
    runs = {run.path: run.manifest.sample.id for run in find_runs(place / "profkit-runs")}
    assert sorted(runs.values()) == ["A", "B", "C"]
    assert set(done) <= set(runs)
    assert list(unfinished(place / "profkit-runs")) == []


def test_a_broken_pipe_says_how_the_worker_ended(tmp_path, monkeypatch):
    """Killed between two tasks: it is asked for the next one, and nobody reads that."""

    def dead(_argv, **options):
        running = subprocess.Popen(["sleep", "60"], **options)
        running.kill()
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
        return running

    monkeypatch.setattr(engine.process, "guarded", dead)
    monkeypatch.setattr(engine, "encoded", lambda _: b"{}")
    with pytest.raises(WorkerDiedError, match=r"^killed by SIGKILL$") as told:
        engine.Worker(tmp_path / "log", {}, process.start).ask(None)
    assert isinstance(told.value.__cause__, BrokenPipeError)
