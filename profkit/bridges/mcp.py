"""Model Context Protocol server: few tools, each with a short JSON answer.

Paths must lie below the server's roots, and only requested measurements run. An answer has at most LIMIT characters; a
measurement ends after `seconds`. Times are seconds, shares 0 to 1, null is unknown.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from analyzers.records import plain
from profkit._version import __version__
from profkit.errors import CannotProfileError, ProfkitError
from profkit.report.compare import compared
from profkit.report.dialects import agent
from profkit.study.study import Study, open_study

LIMIT = 12_000
OPTIONS = ("--ncu", "--events", "--deep", "--lines", "--device", "--candidate", "--budget", "--trials")
"""Options of `profkit profile` that a client may use."""
HOW = (
    "Measure, read the first finding, change one thing, measure and compare, stop at the lower bound. A speed-up counts only "
    "where `wins` is true. Paths are relative to the first root."
)


class Tools:
    """The server's tools. roots: allowed folders; seconds: limit of a measurement."""

    def __init__(self, roots: Sequence[Path], seconds: float) -> None:
        self._roots = [root.resolve() for root in roots]
        self._seconds = seconds

    def profile(self, path: str, options: str = "") -> str:
        """Measure a sample: correctness, speed, distance from the lower bound, next step.

        options: of `profkit profile`, such as "--ncu" or "--device cpu --candidate cuda".
        """
        words = shlex.split(options)
        strange = [word for word in words if word.startswith("-") and word.partition("=")[0] not in OPTIONS]
        if strange:
            raise ProfkitError(f"{strange[0]} is not an option of this tool", fix=f"use one of: {', '.join(OPTIONS)}")
        folder = self._inside(path)
        runs = ["--runs", str(self._roots[0] / "profkit-runs"), "--for", "agent", "-q"]
        return self._started(["profile", str(folder), *words, *runs])

    def explain(self, run: str, kernel: str = "") -> str:
        """Findings of a run, or of a folder's newest, by possible gain; next step."""
        study = self._study(run)
        return agent.document(study, study.findings(kernel))

    def compare(self, before: str, after: str, implementation: str = "") -> str:
        """Compare two runs: speed-up with interval and verdict, changes, counters.

        For programs: their steady step and its work.
        """
        named = [(self._study(run), implementation) for run in (before, after)]
        return _short(compared(named).to_dict())

    def lines(self, run: str, kernel: str = "", top: int = 5) -> str:
        """Source lines where kernels stall, most stalls first, of a run with --lines."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for line in self._study(run).lines:
            if kernel in line.kernel:
                found.setdefault((line.impl, line.kernel), []).append(plain(line))
        if not found:
            raise ProfkitError(f"{run}: no source lines in this run", fix="profkit profile SAMPLE --lines")
        return _short({"lines": [line for lines in found.values() for line in lines[:top]]})

    def ceilings(self, run: str) -> str:
        """Ceilings of the run's device: FLOP/s and B/s, measured, or the datasheet's."""
        roof = self._study(run).roofline
        rows = [{"name": one.name, "kind": one.kind, "peak": one.peak, "source": one.source} for one in roof.ceilings]
        return _short({"device": roof.device, "ceilings": rows})

    def _inside(self, path: str) -> Path:
        """A path below one of the roots, links resolved. Raises ProfkitError for any other."""
        found = (self._roots[0] / path).resolve()
        if not any(found == root or root in found.parents for root in self._roots):
            raise ProfkitError(f"{path}: outside the server's roots", fix="start it with --root FOLDER")
        return found

    def _study(self, run: str) -> Study:
        study = open_study(self._inside(run))
        self._inside(str(study.path.resolve()))
        return study

    def _started(self, arguments: Sequence[str]) -> str:
        """The JSON document that a profkit command prints; the command is killed after the limit."""
        argv = [sys.executable, "-m", "profkit", *arguments]
        done = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=self._roots[0]
        )
        try:
            out, _ = done.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            # SIGTERM: it ends what it has started, and says what is in the run directory.
            done.terminate()
            done.communicate()
            raise CannotProfileError(
                f"not done after {self._seconds:g} s",
                fix="measure fewer candidates, lower --budget, or raise --seconds",
            ) from None
        text = out.decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else agent.failure("no output", "", done.returncode or 1)


def _short(content: dict[str, Any]) -> str:
    """JSON of at most LIMIT characters: lists are shortened, and `left_out` counts the rest."""
    text = json.dumps(content, ensure_ascii=False)
    while len(text) > LIMIT:
        name = max((key for key, value in content.items() if isinstance(value, list)), key=lambda k: len(content[k]))
        kept = content[name][: len(content[name]) // 2]
        content = {**content, name: kept, "left_out": content.get("left_out", 0) + len(content[name]) - len(kept)}
        text = json.dumps(content, ensure_ascii=False)
    return text


def _told(tool: Callable[..., str]) -> Callable[..., str]:
    """Wrap a tool so that failures are JSON documents too."""

    @functools.wraps(tool)
    def told(*arguments: Any, **options: Any) -> str:
        try:
            return tool(*arguments, **options)
        except ProfkitError as error:
            return agent.failure(str(error), error.fix, error.exit_code)

    return told


def server(roots: Sequence[str | os.PathLike[str]], seconds: float = 600.0) -> Any:
    """The server, not yet running. Raises CannotProfileError without the SDK."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise CannotProfileError(
            "the package mcp (2.0 or newer) is not installed", fix="pip install 'profkit[mcp]'"
        ) from error
    tools = Tools([Path(root) for root in roots], seconds)
    made = MCPServer("profkit", instructions=HOW, version=__version__)
    for one in (tools.profile, tools.explain, tools.compare, tools.lines, tools.ceilings):
        made.tool()(_told(one))
    return made
