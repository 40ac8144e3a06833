"""A device that several share while they prepare, and that one has alone while it times."""

import contextlib
import fcntl
import functools
import socket
import subprocess
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from candidates import write_sample
from test_process import wait_for

from profkit.api import profile
from profkit.campaign import stages
from profkit.judge import remote, session
from profkit.judge.timing.company import Company
from profkit.launch import gpu, waiting
from profkit.launch.alone import Door, alone, counting, folder, named
from profkit.launch.protocol import Job, Subject
from profkit.record.measure import Measure
from profkit.record.request import Request
from profkit.record.session import Session
from profkit.record.tools.sanitizer import Sanitizer
from profkit.rundir.directory import Run
from profkit.rundir.manifest import Manifest, SampleInfo
from profkit.targets.sample import resolve

DEVICE = "GPU-1"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def free(how, lock="main"):
    """Whether somebody else could have the device so now."""
    with contextlib.closing(Door.of(DEVICE)) as door:
        try:
            fcntl.flock(getattr(door, lock), how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def gate_held():
    return not free(fcntl.LOCK_EX, "gate")


def test_who_shares_lets_who_waits_go_first_and_only_where_it_says_so(place):
    one, other, order = Door.of(DEVICE), Door.of(DEVICE), []
    one.share()
    other.share()
    assert not other.wanted

    def times():
        one.turn(lambda: order.append("waits"))
        order.append("alone")
        wait_for(lambda: "other waits" in order)
        one.share()

    thread = threading.Thread(target=times)
    thread.start()
    wait_for(lambda: order)
    assert gate_held()
    assert order == ["waits"]
    assert other.wanted
    other.share(lambda: order.append("other waits"))
    thread.join()
    assert sorted(order) == ["alone", "other waits", "waits"]
    assert free(fcntl.LOCK_SH)
    assert not free(fcntl.LOCK_EX)
    for door in (one, other):
        door.close()
    assert free(fcntl.LOCK_EX)


def test_those_who_want_it_alone_have_their_turns_one_after_the_other_and_only_then_those_who_share(place):
    order, threads = [], []

    def use(name, how):
        door = Door.of(DEVICE)
        getattr(door, how)(functools.partial(order.append, f"{name} waits"))
        order.append(name)
        door.close()

    def begin(name, how):
        threads.append(threading.Thread(target=use, args=(name, how)))
        threads[-1].start()
        wait_for(lambda: f"{name} waits" in order)

    first = Door.of(DEVICE)
    first.turn()
    begin("shares", "share")
    begin("second", "turn")
    begin("third", "turn")
    first.share()
    for thread in threads:
        thread.join()
    assert sorted(order[3:5]) == ["second", "third"]
    assert order[5:] == ["shares"]
    first.close()


def test_one_that_has_it_for_long_does_not_keep_those_who_share_from_being_next(place):
    """Else measurements outside of a campaign, one after the other, would hold it up for as long as there are any."""
    order, threads = [], []

    def use(name, how):
        door = Door.of(DEVICE)
        getattr(door, how)()
        order.append(name)
        door.close()

    first = Door.of(DEVICE)
    first.alone()
    for name, how in (("shares", "share"), ("second", "alone")):
        threads.append(threading.Thread(target=use, args=(name, how)))
        threads[-1].start()
        wait_for(gate_held)
    first.close()
    for thread in threads:
        thread.join()
    assert order == ["shares", "second"]


def test_a_measurement_outside_of_a_campaign_gets_its_turn_too(place):
    sharer, had = Door.of(DEVICE), []
    sharer.share()

    def plain():
        with alone(DEVICE):
            had.append(free(fcntl.LOCK_SH))

    thread = threading.Thread(target=plain)
    thread.start()
    wait_for(gate_held)
    assert not had
    assert sharer.wanted
    sharer.share()
    thread.join()
    assert had == [False]
    sharer.close()


def test_a_process_with_another_temporary_directory_finds_the_same_locks(place, monkeypatch, tmp_path):
    """Such as a runner under ncu."""
    told = named(DEVICE)
    with contextlib.closing(Door.of(DEVICE)) as door:
        door.turn()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "other"))
        with contextlib.closing(Door.of(told)) as other, pytest.raises(BlockingIOError):
            fcntl.flock(other.main, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_counters_are_lent_to_one_at_a_time_beside_whoever_times(place):
    said, order = [], []

    def second():
        with counting(DEVICE, said.append):
            order.append("second")

    with alone(DEVICE), counting(DEVICE):
        thread = threading.Thread(target=second)
        thread.start()
        wait_for(lambda: said)
        order.append("first")
    thread.join()
    assert said == [f"waiting: another process counts on {DEVICE}"]
    assert order == ["first", "second"]


def test_who_ended_while_it_had_or_wanted_it_keeps_nobody_waiting(place):
    sharer, waiting = Door.of(DEVICE), Door.of(DEVICE)
    sharer.share()
    thread = threading.Thread(target=waiting.turn)
    thread.start()
    wait_for(gate_held)
    sharer.leave()
    thread.join()
    assert not free(fcntl.LOCK_SH)
    assert gate_held()
    waiting.leave()
    assert free(fcntl.LOCK_EX)
    assert not gate_held()
    for door in (sharer, waiting):
        door.close()
    assert {one.name for one in folder().iterdir()} == {"GPU-1.lock", "GPU-1.gate"}


class Told:
    def __init__(self):
        self.doing, self.rows = None, []

    def phase(self, name):
        self.resume(name)

    def resume(self, name):
        self.doing = name
        self.rows.append(name)


def test_a_judge_is_no_part_of_it_before_it_joins_nor_after_and_stands_by_nobody_while_it_is_alone(place):
    told, other = Told(), Door.of(DEVICE)
    door = Door.of(DEVICE)
    company = Company(door, torch.device("cpu"), told)
    other.alone()
    company.step_aside()
    assert not company.wanted
    other.leave()
    company.join()
    told.phase("check")
    with company.alone():
        assert not free(fcntl.LOCK_SH)
        thread = threading.Thread(target=other.turn)
        thread.start()
        wait_for(gate_held)
        assert not company.wanted
        company.step_aside()
        assert not free(fcntl.LOCK_SH)
        threading.Timer(0.2, other.leave).start()
    thread.join()
    assert told.rows == ["check", "wait", "check"]
    company.leave()
    assert free(fcntl.LOCK_EX)


class Gpu(contextlib.nullcontext):
    """A GPU whose factory functions are the host's."""

    type = "cuda"
    inside = False

    def __enter__(self):
        Gpu.inside = True

    def __exit__(self, *_):
        Gpu.inside = False


@pytest.mark.parametrize(
    ("host_alone", "meanwhile"), [(False, [False, False, False]), (True, [False, True, True, True])]
)
def test_inputs_are_drawn_on_the_device_or_on_the_host_while_others_may_time(place, monkeypatch, host_alone, meanwhile):
    had = []

    def get_inputs():
        had.append(free(fcntl.LOCK_EX))
        if host_alone and Gpu.inside:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return [torch.rand(3)]

    judging = session.Session(Job("judge", "A", [], device="cpu", shared=named(DEVICE)), Told())
    judging.reference = SimpleNamespace(module=SimpleNamespace(get_inputs=get_inputs))
    monkeypatch.setattr(judging, "device", Gpu())
    monkeypatch.setattr(session.inputs, "to_device", lambda item, _: item)
    judging._company.join()
    drawn = [judging._fresh(seed)[0] for seed in (1, 1, 2)]
    assert had == meanwhile
    assert not free(fcntl.LOCK_EX)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    judging._company.leave()


@pytest.mark.parametrize("phase", ["first", "check"])
def test_who_waits_for_a_compiler_stands_still_and_lets_others_time(monkeypatch, phase):
    """A process that counts, with a compiler at work for it: while others time it does not."""
    counts = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    states = []

    class Others:
        wanted = True

        def step_aside(self):
            # It stands once it has heard of the signal.
            wait_for(lambda: waiting.state_of(counts.pid) == "stopped")
            states.append("T")

    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    job = Job("judge", "I", [], channels={"mine": mine.detach()}, exchange=tempfile.gettempdir())
    one = remote.Remote(Subject("mine", "candidate", "x.py"), job, torch.device("cpu"), Told())
    try:
        one.company, one.process, one.phase = Others(), counts.pid, phase
        for compiling in (False, True):
            monkeypatch.setattr(waiting, "compiling", lambda _, yes=compiling: yes)
            threading.Timer(0.5, theirs.send, [b'{"fine": true}']).start()
            assert one._received(30.0) == {"fine": True}
            assert bool(states) is compiling
        wait_for(lambda: waiting.state_of(counts.pid) == "running")
        # One that is not known for the candidate's own stands for nobody: 0 is this group.
        stood, one.process, one.phase = len(states), 0, "build"
        threading.Timer(0.5, theirs.send, [b'{"fine": true}']).start()
        assert one._received(30.0) == {"fine": True}
        assert len(states) == stood
    finally:
        counts.kill()
        counts.wait()


@pytest.mark.slow(8)
def test_a_judge_has_the_device_alone_while_it_times_and_shares_it_before_and_after(place, monkeypatch, private_cache):
    """On the CPU, as if it were a GPU's."""
    monkeypatch.setattr(Session, "company", True)
    monkeypatch.setattr(gpu, "identity", lambda: {"uuid": DEVICE})
    seen, over = [], threading.Event()

    def look():
        while not over.is_set():
            seen.append((free(fcntl.LOCK_SH), free(fcntl.LOCK_EX)))
            time.sleep(0.01)

    sharer = Door.of(DEVICE)
    sharer.share()
    watching = threading.Thread(target=look)
    aside = threading.Thread(
        target=lambda: [(sharer.wanted and sharer.share()) or time.sleep(0.01) for _ in iter(over.is_set, True)]
    )
    for thread in (watching, aside):
        thread.start()
    try:
        wanted = {"device": "cpu", "counters": "off", "budget": 0.3, "trials": 2, "runs": place / "runs"}
        run = profile(write_sample(place, "honest", "crash"), processes=2, **wanted)
    finally:
        over.set()
        for thread in (watching, aside):
            thread.join()
        sharer.close()
    assert {impl.name: impl.status for impl in run.manifest.impls} == {
        "reference": "ok",
        "honest": "ok",
        "crash": "crash",
    }
    assert run.manifest.timing.processes == 2
    shared = [sharing for sharing, _ in seen]
    first = shared.index(False)
    assert True in shared[:first]
    assert True in shared[first:]
    assert free(fcntl.LOCK_EX)


@pytest.mark.parametrize(
    ("options", "recorders", "company"),
    [
        ({"company": True}, [Measure()], True),
        ({}, [Measure()], False),
        ({"company": True}, [Measure(), Sanitizer()], False),
        ({"company": True}, [], True),
    ],
)
def test_a_gpu_is_shared_where_nothing_but_judging_is_asked_for(place, options, recorders, company):
    target = resolve(write_sample(place, "honest"))
    run = Run(place / "STAMP", Manifest(SampleInfo("A", "."), ""))
    session = Session(target, Request(**options), run, "cuda", chosen=target.candidates, recorders=recorders)
    assert session.company is company
    session.device = "cpu"
    assert session.company is False


@pytest.mark.parametrize(("said", "again"), [("CUDA Out of Memory. Tried to allocate", True), ("fine", False)])
def test_one_that_ran_out_of_memory_beside_others_is_measured_alone(tmp_path, monkeypatch, said, again):
    (tmp_path / "run.json").write_text(said)
    beside, answer = [], stages.Answer(run=str(tmp_path))
    monkeypatch.setattr(stages, "_once", lambda *_, company=False: beside.append(company) or answer)
    monkeypatch.setattr(stages, "_delivered", lambda *given: given[-1])
    assert stages._measure(None, "cuda") is answer
    assert beside == [True, False][: 1 + again]
