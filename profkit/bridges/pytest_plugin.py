"""`pytest --profkit`: a test measures a callable against a reference or a kept baseline.

    def test_gelu(profkit):
        profkit.measure(lambda: gelu(x), reference=lambda: torch.nn.functional.gelu(x))

    @pytest.mark.profkit(max_ratio=1.05)              # at most 5 % slower than the baseline
    def test_step(profkit):
        profkit.measure(step, batch)

A limit is broken when the whole interval of the ratio lies above it; a test that cannot tell passes, with a warning.
Loaded in every pytest session: nothing heavy on top.
"""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from profkit.launch.alone import alone
from profkit.launch.gpu import gpu_present

if TYPE_CHECKING:
    from profkit.api import Run

MARK = "profkit"
LIMIT = 1.05
"""Largest accepted ratio to the reference's or baseline's time, without max_ratio."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("profkit", "measuring with profkit")
    group.addoption("--profkit", action="store_true", help="Run the tests that measure.")
    group.addoption("--profkit-cpu", action="store_true", help="Measure on the CPU where there is no GPU.")
    group.addoption("--profkit-update", action="store_true", help="Keep what is measured as the new baselines.")
    group.addoption(
        "--profkit-budget", type=float, default=2.0, metavar="S", help="Seconds of timing for each measure."
    )
    group.addoption(
        "--profkit-baselines", default=".profkit-baselines", metavar="DIR", help="Where baselines are kept, as runs."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(max_ratio={LIMIT}): measures; its time over the reference's, else over the baseline's, stays below it",
    )


@pytest.fixture
def profkit(request: pytest.FixtureRequest) -> Measured:
    """`profkit.measure(call, *arguments, reference=None)`; skipped without --profkit or GPU."""
    config = request.config
    if not config.getoption("--profkit"):
        pytest.skip("measures: add --profkit")
    present = gpu_present()
    if not present and not config.getoption("--profkit-cpu"):
        pytest.skip("no GPU here: --profkit-cpu measures on the CPU")
    mark = request.node.get_closest_marker(MARK)
    limit = float(mark.kwargs.get("max_ratio", LIMIT)) if mark is not None else LIMIT
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.nodeid).strip("-.")
    root = config.rootpath / str(config.getoption("--profkit-baselines"))
    return Measured(
        root / name,
        request.getfixturevalue("tmp_path"),
        limit,
        "cuda" if present else "cpu",
        update=config.getoption("--profkit-update"),
        budget=config.getoption("--profkit-budget"),
    )


class Measured:
    """Measures for one test. home: its baselines, one per call; runs: folder of runs."""

    def __init__(self, home: Path, runs: Path, limit: float, device: str, *, update: bool, budget: float) -> None:
        self._home, self._runs, self._limit = home, runs, limit
        self._device, self._update, self._budget = device, update, budget
        self._count = 0

    def measure(
        self,
        call: Callable[..., Any],
        *arguments: Any,
        reference: Callable[..., Any] | None = None,
    ) -> Run:
        """Time call(*arguments); fail the test if it is wrong, or slower than the limit.

        With a reference the two are timed alternately. Without one the run is compared with the kept baseline; the
        first run becomes the baseline. A baseline from another device, method or clock is not used, and the test says
        so. One measurement at a time on this machine, whatever -n is.
        """
        from profkit import api

        self._count += 1
        options = {"runs": self._runs, "device": self._device, "budget": self._budget}
        # Where no lock ends with its process nothing is held, and -n is not for measuring.
        with contextlib.nullcontext() if sys.platform == "win32" else alone("pytest"):
            run = api.measure(call, *arguments, reference=reference, **options)
        if reference is not None:
            self._against_reference(run)
        else:
            self._against_baseline(run)
        return run

    def _against_reference(self, run: Run) -> None:
        verdict = next(iter(run.verdicts.values()))
        if not verdict.right:
            pytest.fail(f"{verdict.impl}: {verdict.text()}", pytrace=False)
        _judge(verdict.low, verdict.high, self._limit, f"{verdict.impl} over the reference")

    def _against_baseline(self, run: Run) -> None:
        from profkit import api

        kept = self._home / str(self._count)
        if self._update or not kept.exists():
            _keep(run.path, kept)
            if not self._update:
                warnings.warn(f"no baseline before: this run is kept as one, {kept}", stacklevel=4)
            return
        ladder = api.compare(kept, run).ladder
        if ladder.apart:
            pytest.fail(
                f"the baseline differs in {', '.join(ladder.apart)}: --profkit-update keeps a new one", pytrace=False
            )
        rung = ladder.rungs[1]
        _judge(rung.low, rung.high, self._limit, f"{rung.impl} over its baseline")


def _judge(low: float, high: float, limit: float, what: str) -> None:
    """Fail if a speed-up's whole interval is beyond the limit; warn if the limit lies inside."""
    least, most = 1 / high, 1 / low if low else math.inf
    said = f"{what}: {least:.3g} to {most:.3g} times the time, {limit:g} allowed"
    if least > limit:
        pytest.fail(said, pytrace=False)
    if most > limit:
        warnings.warn(f"{said}: not known for sure", stacklevel=5)


def _keep(run: Path, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(prefix=".new-", dir=kept.parent))
    shutil.copytree(run, whole, dirs_exist_ok=True)
    if kept.exists():
        shutil.rmtree(kept)
    whole.rename(kept)
