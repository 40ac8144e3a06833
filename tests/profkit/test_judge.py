"""What the judge makes of answers of candidates' processes; the other end of the line is in the test's hand."""

import contextlib
import math
import os
import random
import socket
import threading
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from profkit.guest.candidate import Guest  # noqa: E402
from profkit.guest.channel import Channel  # noqa: E402
from profkit.guest.clocks.cupti import CuptiError  # noqa: E402
from profkit.guest.subject import Data  # noqa: E402
from profkit.guest.tensors import exchange  # noqa: E402
from profkit.judge import guests as judge  # noqa: E402
from profkit.judge.remote import Remote, RemoteError  # noqa: E402
from profkit.judge.timed import Timed  # noqa: E402
from profkit.judge.timing import claims, engine  # noqa: E402
from profkit.judge.timing.claims import RemoteCall  # noqa: E402
from profkit.launch.protocol import Job, Subject  # noqa: E402


class Told:
    """Takes events."""

    def __init__(self):
        self.rows = []

    def send(self, kind, impl="", **data):
        self.rows.append((kind, impl, data))

    def phase(self, phase, impl="", **_):
        self.rows.append(("phase", impl, {"phase": phase}))

    def of(self, kind):
        return [(impl, data) for found, impl, data in self.rows if found == kind]


class Line:
    """A remote and the candidate's end of its line."""

    def __init__(self, name, folder, events, **limits):
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = Channel(theirs.detach())
        self.job = Job("judge", "I", [], channels={name: mine.detach()}, exchange=str(folder), limits=limits)
        self.remote = Remote(Subject(name, "candidate", "x.py"), self.job, torch.device("cpu"), events)

    def say(self, *answers):
        for answer in answers:
            self.channel.send(answer)

    def heard(self):
        """The next request of the judge."""
        return self.channel.receive(1.0)


@pytest.fixture
def line(tmp_path):
    return Line("mine", tmp_path, Told())


def test_who_never_loads_is_overdue_by_the_limit_it_had(tmp_path):
    events = Told()
    one, other = (Line(name, tmp_path, events, start=0.1, build=0.1) for name in ("silent", "quick"))
    other.say({"seconds": 0.5})
    one.remote.channel.wait_for_end = lambda limit: None  # there is no parent to kill it
    assert judge.loaded([one.remote, other.remote], one.job, events) == [(other.remote, 0.5)]
    assert events.of("overdue") == [("silent", {"phase": "build", "limit": pytest.approx(0.2, abs=0.05)})]


def test_a_build_is_waited_for_while_its_compiler_works(tmp_path, monkeypatch):
    """However short the limit of what the candidate does itself, and while its file is imported too."""
    line = Line("mine", tmp_path, Told(), start=0.1, build=0.1)
    monkeypatch.setattr("profkit.launch.waiting.compiling", lambda pid: pid == os.getpid())
    line.say({"process": os.getpid()})
    threading.Timer(0.7, line.say, args=({"seconds": 0.5},)).start()
    meanwhile = []
    found = judge.loaded([line.remote], line.job, line.remote._events, lambda: meanwhile.append("ceilings"))
    assert (found, meanwhile) == ([(line.remote, 0.5)], ["ceilings"])


@pytest.mark.parametrize("answer", [{}, {"seconds": "soon"}, {"seconds": 1, "caveats": 3}, {"failed": "yes"}])
def test_an_answer_that_is_none_is_laid_at_its_own_door(tmp_path, answer):
    events = Told()
    lines = [Line(name, tmp_path, events, start=1.0, build=1.0) for name in ("odd", "fine")]
    lines[0].say(answer)
    lines[1].say({"seconds": 2.0})
    assert judge.loaded([one.remote for one in lines], lines[0].job, events) == [(lines[1].remote, 2.0)]
    ((name, data),) = events.of("impl")
    assert (name, data["status"]) == ("odd", "load-error")
    assert "malformed answer" in data["reason"]


def test_a_time_that_is_no_number_is_no_answer(line):
    line.say({}, {"seconds": None, "host": None, "sound": True})
    call = RemoteCall(line.remote, Data(list, 0))
    with pytest.raises(RemoteError, match="malformed answer"):
        call.sample("wall")


def test_elements_of_a_narrow_type_may_be_one_step_off():
    call = RemoteCall.__new__(RemoteCall)
    call._alone, call._chance = False, random.Random(0)
    for dtype, share in ((torch.float8_e4m3fn, 0.125), (torch.float32, 0.05), (torch.int8, 0.05)):
        call._data = SimpleNamespace(answer=lambda dtype=dtype: torch.full((4,), 16.0).to(dtype))
        assert {slack for *_, slack in call._probes()} == {share * 32}


def test_a_turn_goes_along_with_the_next_question(line, tmp_path):
    (tmp_path / "mine").mkdir()
    line.say({}, {"seconds": 1.0, "host": 1.0, "sound": True}, {})
    call = RemoteCall(line.remote, Data(lambda: [torch.ones(2)], 1))
    call.turn()
    call.sample("wall")
    call()
    asked = [line.heard() for _ in range(3)]
    assert [(one["ask"], len(one["turns"])) for one in asked] == [("ready", 0), ("sample", 1), ("run", 0)]


def timed(line):
    """A timed call of which nothing was asked yet."""
    call = RemoteCall.__new__(RemoteCall)
    call.remote, call.wanted = line.remote, False
    return call


def test_a_guest_records_by_the_clock_of_that_name_with_the_turn_of_the_question(line, monkeypatch):
    monkeypatch.setattr(Guest, "expect", lambda self, change: said.append(change["at"]))
    said, guest = [], Guest.__new__(Guest)
    guest._device = torch.device("cpu")
    guest._call = SimpleNamespace(turn=lambda: said.append("turn"))
    clock = SimpleNamespace(sample=lambda call: (1e-6, 1e-6, call is guest._call), waits=False)
    guest._clocks = {"cupti": clock}
    line.say({"seconds": 1e-6, "host": None, "sound": True})
    line.remote.turns.append({"at": 0})
    seconds, host, sound = timed(line).sample("cupti")
    assert (seconds, host != host, sound) == (1e-6, True, True)
    asked = line.heard()
    assert guest.asked(asked.pop("ask"), **asked)["sound"]
    assert said == [0, "turn"]


def test_an_answer_that_nobody_waited_for_is_no_answer_to_the_next_question(line):
    line.say({"failed": {"reason": "no"}}, {"waits": True, "seconds": 1.0, "host": 1.0, "sound": True})
    call = timed(line)
    call.ask_warm_up("cupti")
    assert call.sample("wall") == (1.0, 1.0, True)


@pytest.mark.parametrize(("told", "waits"), [({}, False), ({"waits": "always"}, False), ({"waits": True}, True)])
def test_of_its_clock_a_process_says_no_more_than_whether_a_call_waits(line, told, waits):
    line.say({"seconds": 1e-6, "host": None, "sound": True, **told})
    call = timed(line)
    call.sample("wall")
    said = claims.note({"mine": call}, SimpleNamespace(method="wall", note="how", waits=False))
    assert said == "how" + "; one call waits for the device itself, so its launch cost is inside" * waits


def test_a_reference_that_fails_while_it_is_timed_takes_no_candidate_along(monkeypatch):
    accused, one = [], Timed.__new__(Timed)
    sides = [
        SimpleNamespace(subject=Subject(name, role, "x.py"), let_go=lambda: None)
        for name, role in (("reference", "reference"), ("first", "candidate"), ("second", "candidate"))
    ]
    one._job, one.events, one.device, one.reference = Job("judge", "I", []), Told(), torch.device("cpu"), sides[0]
    one._company = SimpleNamespace(alone=contextlib.nullcontext)
    one._plan, one._calls = (lambda: None), (lambda *_: {})
    one._accuse = lambda subject, *_: accused.append(subject.name)

    def time_all(job, calls, device, events, turn):
        if not accused:
            turn("reference")
            raise ValueError("no more")
        return {}

    monkeypatch.setattr(engine, "time_all", time_all)
    assert one._time(sides[1:]) == sides[1:]
    assert accused == ["reference"]


def recorded(line, tmp_path, told):
    """A call whose process has put this into the file that it was asked for."""
    (tmp_path / "mine").mkdir()
    line.say({})
    call = timed(line)
    call.ask_records()
    exchange.write(exchange.describe(told), tmp_path / "mine" / line.heard()["output"])
    return call


def test_records_are_spans_and_activities(line, tmp_path):
    call = recorded(line, tmp_path, [[(2e-6, 1e-6), (math.nan, math.nan)], [("k", 0.0, 1e-6, 7)]])
    (one, two), (activity,) = call.records()
    assert one == (2e-6, 1e-6)
    assert two[0] != two[0]
    assert activity.name == "k"


_INF, _NAN = math.inf, math.nan


@pytest.mark.parametrize(
    "told",
    [
        *([[(1e-6,)], []], [[], [3]], [3, []], [], 3),
        *([[row], []] for row in ((_INF, 1e-6), (1e-6, -_INF), (1e-6, _NAN), (_NAN, 1e-6), (-1e-6, 1e-6), (0.0, 0.0))),
        *([[], [("k", *row)]] for row in ((0.0, _INF, 7), (_NAN, 1e-6, 7), (1e-6, 0.0, 7), (0.0, 1e-6, _INF))),
        [[], [("k", 0.0, 1e-6, "seven")]],
    ],
)
def test_what_is_no_record_is_refused(line, tmp_path, told):
    with pytest.raises(CuptiError, match="mine"):
        recorded(line, tmp_path, told).records()


def test_errors_say_whose_they_are(line):
    line.say({"failed": {"reason": "no"}})
    with pytest.raises(RemoteError) as caught:
        line.remote.ask("run")
    assert caught.value.impl == "mine"
