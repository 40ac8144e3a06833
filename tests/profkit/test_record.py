"""One pipeline for every target: no step forgets what was asked for, and what cannot apply is refused by name."""

import contextlib
import sys

import pytest
from candidates import write_sample
from test_failures import on_gpu  # noqa: F401

from profkit.cli.group import invoke
from profkit.errors import ProfkitError
from profkit.launch import cache, gpu, protocol, runner
from profkit.launch.process import Exit
from profkit.record.measure import Measure
from profkit.record.profile import info, profile
from profkit.record.request import Request, refuse
from profkit.record.session import Session
from profkit.record.tools.ncu import Ncu
from profkit.record.tools.sanitizer import Sanitizer
from profkit.record.tools.timeline import Nsys
from profkit.rundir.directory import create_run
from profkit.rundir.manifest import Impl
from profkit.targets.program import Program
from profkit.targets.sample import resolve
from profkit.vendor.nvidia import nvml
from profkit.vendor.nvidia.nvml import Card, chosen

OK = [sys.executable, "-c", "print('hello')"]


@pytest.fixture
def session(tmp_path, monkeypatch, fake_ncu, fake_nsys):
    """session(**request): a sample's, measured, both sides sound; the runner is not started: `jobs` has its jobs."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    jobs: dict[str, protocol.Job] = {}

    def note(job, logs, *, stem="", outcome=None, **_):
        jobs[stem or job.mode] = job
        outcome = outcome or runner.Outcome()
        outcome.exits, outcome.finished = [([], Exit(0, 0.0, ""), logs / "x.log")], True
        return outcome

    monkeypatch.setattr(runner, "run_job", note)
    monkeypatch.setattr(runner, "run_isolated", note)
    fake_ncu("ok", target="skip")
    fake_nsys()

    def made(**asked):
        sample = resolve(write_sample(tmp_path, "honest"))
        run = create_run(info(sample), tmp_path / "runs")
        run.manifest.impls = [
            Impl("reference", "reference", sample.reference.name, status="ok"),
            Impl("honest", "candidate", "honest.py", status="ok"),
        ]
        run.manifest.seeds = [5, 6]
        return Session(sample, Request(**asked), run, chosen=sample.candidates), jobs

    return made


@pytest.mark.parametrize("step", [Measure(), Nsys(), Ncu(), Sanitizer()], ids=lambda step: step.name)
def test_no_step_forgets_what_was_asked_for(session, step):
    made, jobs = session(precision="bf16", memory=1 << 30, timeout=0.5, sanitize=("memcheck",))
    # Nothing was written, because nothing ran.
    with contextlib.suppress(ProfkitError):
        step.record(made)
    (job,) = jobs.values()
    assert (job.precision, job.memory) == ("bf16", 1 << 30)
    assert (job.seeds, job.cache, job.device) == ([5, 6], str(cache.builds()), "cuda")
    assert set(job.limits) == set(protocol.LIMITS)
    assert job.limits["start"] >= protocol.LIMITS["start"]
    assert job.limits["check"] % (protocol.LIMITS["check"] * 0.5) == 0
    assert [one.name for one in job.subjects] == ["reference", "honest"]


def test_a_candidate_over_its_memory_is_told_by_the_counters(session, monkeypatch):
    made, _ = session(memory=1 << 30)
    reason = "1.2 GiB of host memory during its call for the counters, the limit is 1 GiB; killed"
    fallen = {"honest": ("memory-limit", reason, "")}
    monkeypatch.setattr(runner, "run_job", lambda *_, **__: runner.Outcome(fallen=fallen))
    with pytest.raises(ProfkitError):
        Ncu().record(made)
    assert made.run.manifest.counters.why == reason
    assert [(one.what, one.how_much) for one in made.run.manifest.caveats] == [
        ("honest ran alone but not under ncu", reason)
    ]
    assert all(impl.ok for impl in made.run.manifest.impls)


SAMPLE_ONLY = [
    ("--device", "cpu"),
    ("--candidate", "nope"),
    ("--mode", "train"),
    ("--budget", "99"),
    ("--trials", "7"),
    ("--trials", "5"),
    ("--isolate",),
    ("--trust",),
    ("--allow", "tf32"),
    ("--memory", "1GiB"),
    ("--sanitize", "all"),
]


@pytest.mark.parametrize("words", SAMPLE_ONLY, ids=" ".join)
def test_what_is_for_samples_is_refused_for_a_command(words, capsys, tmp_path):
    assert invoke(["profile", *words, "--runs", str(tmp_path / "runs"), "--", *OK]) == 2
    said = capsys.readouterr().err
    assert words[0] in said
    assert "fix: leave it out, or profile a sample" in said
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("words", [("--hot", "3"), ("-k", "gemm")], ids=" ".join)
def test_what_is_for_commands_is_refused_for_a_sample(words, capsys, tmp_path):
    folder = write_sample(tmp_path, "honest")
    assert invoke(["profile", str(folder), *words, "--runs", str(tmp_path / "runs")]) == 2
    name = "--kernel-name" if words[0] == "-k" else words[0]
    assert name in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--events"], "use --nsys instead of --events"),
        (["--nsys", "--deep"], "--deep: only with hardware counters"),
        (["--nsys", "--lines"], "--lines: only with hardware counters"),
        (["--hot", "2", "-k", "gemm"], "--kernel-name: --hot already selects"),
    ],
)
def test_what_cannot_go_together_is_refused(words, why, capsys):
    assert invoke(["profile", *words, "--", *OK]) == 2
    assert why in capsys.readouterr().err


def test_the_library_refuses_as_the_command_does(tmp_path):
    for options in ({"trials": 3}, {"counters": "ncu"}, {"nsys": True}, {"hot": 2}):
        with pytest.raises(ProfkitError, match=f"{next(iter(options))}: not for a callable"):
            profile(len, [], runs=tmp_path / "runs", **options)
    with pytest.raises(ProfkitError, match="precision, trust: not for a command"):
        profile(Program.of(OK), runs=tmp_path / "runs", precision="bf16", trust=True)
    refuse("callable", Request(counters="off", budget=1.0))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, [(0, None), (1, 0)]),
        ("1", [(1, 0)]),
        ("1,0", [(1, 0), (0, None)]),
        ("GPU-b", [(1, 0)]),
        ("MIG-2", [(1, 1)]),
        ("MIG-9", []),
        ("", []),
        ("NoDevFiles", []),
        ("0,5,1", [(0, None)]),
    ],
)
def test_what_cuda_would_see(visible, found):
    assert chosen([Card("GPU-aaa"), Card("GPU-bbb", ("MIG-1", "MIG-2"))], visible) == found


class Nvml:
    """A driver with an L40S, and an H100 cut into two slices."""

    class NVMLError(Exception):
        pass

    CARDS = ("L40S", "H100")
    nvmlInit = lambda: Nvml.OPENED.append(1)  # noqa: E731
    OPENED = []  # noqa: RUF012
    nvmlDeviceGetCount = lambda: 2  # noqa: E731
    nvmlDeviceGetHandleByIndex = lambda index: Nvml.CARDS[index]  # noqa: E731
    nvmlDeviceGetMigMode = lambda card: (int(card == "H100"), 0)  # noqa: E731
    nvmlDeviceGetMaxMigDeviceCount = lambda card: 7  # noqa: E731
    nvmlDeviceGetUUID = lambda card: f"MIG-{card}" if "/" in card else f"GPU-{card}"  # noqa: E731
    nvmlDeviceGetName = lambda card: f"NVIDIA {card}".encode()  # noqa: E731
    nvmlSystemGetDriverVersion = lambda: "580.1"  # noqa: E731
    nvmlDeviceGetCudaComputeCapability = lambda card: {"L40S": (8, 9), "H100": (9, 0)}[card]  # noqa: E731

    def nvmlDeviceGetMigDeviceHandleByIndex(card, number):
        if number > 1:
            raise Nvml.NVMLError("no such slice")
        return f"{card}/{number}"


@pytest.mark.parametrize(
    ("visible", "cc", "uuid", "name"),
    [
        (None, "8.9", "GPU-L40S", "NVIDIA L40S"),
        ("0", "8.9", "GPU-L40S", "NVIDIA L40S"),
        ("1", "9.0", "MIG-H100/0", "NVIDIA H100/0"),
        ("GPU-H1,0", "9.0", "MIG-H100/0", "NVIDIA H100/0"),
        ("MIG-H100/1", "9.0", "MIG-H100/1", "NVIDIA H100/1"),
        ("7", "", None, None),
    ],
)
def test_the_first_visible_gpu_is_the_one_a_program_gets(monkeypatch, visible, cc, uuid, name):
    monkeypatch.setitem(sys.modules, "pynvml", Nvml)
    nvml._open.cache_clear()
    Nvml.OPENED.clear()
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu.gpu_present() == bool(cc)
    assert gpu.identity().get("cc", "") == cc
    assert (gpu.identity().get("uuid"), gpu.identity().get("name")) == (uuid, name)
    assert Nvml.OPENED == [1]


def test_help_is_in_sections(capsys):
    assert invoke(["profile", "--help"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n{name}:") for name in ("What to measure", "Correctness", "Timing", "Tools")]
    assert places == sorted(places)
