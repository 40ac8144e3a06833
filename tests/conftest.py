"""Fixtures for every house: fake Nsight tools on PATH."""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from profkit.launch.warm import Warm

FAKES = Path(__file__).parent / "fakes"

# pytest puts tests/ on the path, and its folders are named as the houses; with the root before it the houses win.
sys.path.insert(0, str(FAKES.parent.parent))


# A job in the background of a shell ignores SIGINT, and so would all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Hundreds of processes import the same files.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Tests run side by side: threads of one that wait for each other would only take the others' time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As candidates in processes of their own have it: the server that those are forked from serves the others too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# What torch compiles is for any CPU: else it builds for each kind of vectors, and its headers, before the first kernel.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
os.environ.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")

_CACHE_NAME = "TORCHINDUCTOR_CACHE_DIR"
_CACHE = os.environ.get(_CACHE_NAME)

gc.disable()  # Until all is collected.

settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("few", deadline=None, max_examples=8)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(autouse=True)
def as_nice_as_before() -> Iterator[None]:
    """On a busy machine a process that steps back hardly runs: all tests after the one that did would wait."""
    before = os.nice(0)
    yield
    assert os.nice(0) == before


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """`-n` means groups: tests that share something expensive run in one process."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "loadgroup"
        config.option.loadscopereorder = False  # By the number of tests alone: see below.
    if "PYTEST_XDIST_WORKER" in os.environ:  # a worker parses the command line anew
        config.option.loadgroup = True


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Tests that share a fixture of their module are a group. The longest come first: what is last is to be short.

    A wrapper: xdist's own hook, which comes later and first too, writes the groups into the names.
    """
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("xdist_group"):
            continue
        if any(made[-1].scope == "module" for made in item._fixtureinfo.name2fixturedefs.values()):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
    if config.getoption("numprocesses", None) or os.environ.get("PYTEST_XDIST_WORKER"):
        seconds: Counter[str] = Counter()
        for item in items:
            seconds[_unit(item)] += _seconds(item)
        items.sort(key=lambda item: -seconds[_unit(item)])
    return (yield)


def _unit(item: pytest.Item) -> str:
    """What one process does as a whole: a group, or a test alone."""
    group = item.get_closest_marker("xdist_group")
    return group.args[0] if group else item.nodeid


def _seconds(item: pytest.Item) -> float:
    """About how long a test takes, to begin in good time: as its mark says, else one of the slow ones a second."""
    slow = item.get_closest_marker("slow")
    return 0.1 if slow is None else slow.args[0] if slow.args else 1.0


def pytest_collection_finish() -> None:
    """What is loaded by now stays: looking through it for garbage took a third of the collection's time, and a twentieth of
    the tests'.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What torch exports when it compiles is taken back: runners of later tests would need another server."""
    if _CACHE is None:
        os.environ.pop(_CACHE_NAME, None)


@pytest.fixture(scope="session", autouse=True)
def warm_runners() -> Iterator[Warm]:
    """Runners are forks of a process that has imported torch, one in each worker; a CPU's ceilings are given there.

    So are programs under torch's profiler; with a start of their own they are in test_nsys_launch.py.
    """
    from profkit.launch import process
    from profkit.launch.warm import MODULES
    from profkit.targets.program import MODULE as TRACER

    servers = runpy.run_path(str(FAKES / "warm/session_servers.py"))["Servers"]
    with closing(servers(f"profkit-tests-{os.getpid()}-", (*MODULES, TRACER))) as warm:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process, "start", warm)
            yield warm
        warm.leave()


@pytest.fixture(scope="session", autouse=True)
def composed() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """The pictures that are written with a run are composed, and not printed: printing takes longer than all the rest of
    a report. Gives what prints them for a while, as `printed` does.
    """
    from profkit.report import derived

    image = derived.image

    @contextmanager
    def really() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(derived, "image", image)
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(derived, "image", runpy.run_path(str(FAKES / "warm/given_pictures.py"))["image"])
        yield really


@pytest.fixture
def printed(composed: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run's pictures are real ones in this test, and in the processes that it starts."""
    monkeypatch.setenv("PRINTED", "1")
    with composed():
        yield


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is folded: the width that somebody exports is not the test's."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds and indexes of this test alone."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def fewer_headers(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that is built for a CPU reads what it needs of torch's headers, not all of them, which takes half a
    minute. Tests of a group share its build; nobody else does.
    """
    monkeypatch.setenv("CPATH", str(FAKES / "headers"))
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path_factory.getbasetemp() / "fewer-headers"))


@pytest.fixture
def given_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU's ceilings are given to what measures in this process too, and little is flushed."""
    from profkit.guest.clocks import clocks
    from profkit.judge.timing import outside
    from roofline import measure

    given = ((measure, "measure_cpu"), (clocks, "last_level_cache"), (clocks, "_WARM_SECONDS"), (outside, "_BUDGET"))
    for module, name in given:
        monkeypatch.setattr(module, name, getattr(module, name))  # Taken back afterwards.
    runpy.run_path(str(FAKES / "warm/given_ceilings.py"))


@pytest.fixture
def given_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for the runners of commands that a test starts as processes of their own, which print no pictures."""
    path = filter(None, [str(FAKES / "warm"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


@pytest.fixture
def lent_to_others(given_to_others: None, warm_runners: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """These runners are forks of this session's servers too: one of each command's own would import torch once more. Not
    for what ends with a command.
    """
    monkeypatch.setenv("TESTS_SERVERS", warm_runners.label)


@pytest.fixture
def fresh_runners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process is one of its own under a warden, as a user has it."""
    from profkit.launch import process

    monkeypatch.setattr(process, "start", process.guarded)


@pytest.fixture
def install_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], Path]:
    """install_tool(name, script): put a Python script on PATH under a tool's name, before everything else."""
    folder = tmp_path / "fake-tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(name: str, script: Path) -> Path:
        tool = folder / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
        return tool

    return install


def _fake(name: str, install_tool: Callable[[str, Path], Path], patch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """install(mode="ok", **settings): a fake tool on PATH; settings are its variables without their prefix."""
    patch.delenv(f"PROFKIT_{name.upper()}", raising=False)

    def install(mode: str = "ok", **settings: object) -> Path:
        for setting, value in {"mode": mode, **settings}.items():
            patch.setenv(f"FAKE_{name.upper()}_{setting.upper()}", str(value))
        patch.setattr("profkit.launch.gpu.gpu_present", lambda: True)
        return install_tool(name, FAKES / f"{name}.py")

    return install


@pytest.fixture
def fake_ncu(install_tool: Callable[[str, Path], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A fake ncu; see tests/fakes/ncu.py for modes and settings: target="skip", version=..., log=path."""
    return _fake("ncu", install_tool, monkeypatch)


@pytest.fixture
def fake_nsys(install_tool: Callable[[str, Path], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A fake nsys; see tests/fakes/nsys.py."""
    return _fake("nsys", install_tool, monkeypatch)
