"""Recorders of a timeline; the ranking of --hot, and the launches that ncu counts for it."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analyzers.kernels.provenance import base_name, plain_name, same_kernels
from analyzers.timeline.calls import COMMUNICATION
from collectors import CollectError, read
from collectors.caveat import TRACE_CUT, Caveat
from collectors.cupti import CLOCK, HOST, TRACE, host_file, rank_files
from collectors.nsys.scrub import scrub
from profkit.errors import CannotProfileError, ProfkitError, ProgramFailedError
from profkit.launch import tools
from profkit.record.session import Ended, Recorder, Session, Step
from profkit.rundir.files import temporary, write_atomic
from profkit.rundir.manifest import Capture
from profkit.targets.program import Program, bootstrapped
from profkit.vendor.nvidia import nsys

NSYS_FILE = "nsys.sqlite"
FILE, TRACER = "trace.csv", "cupti"
EXPORT_LIMIT = 300.0
"""Seconds after which exporting the record of a sample's few calls counts as hung."""
EACH = 3
"""Launches wanted of every hot kernel, of its dearest shapes: enough to see whether they differ."""
ROOM = 4
"""Launches a hot kernel may cost; where `EACH` of all cost more, fewer of each are taken."""
_FAR = 200
"""First launches of a shape to choose from: the program ends once the last chosen one is counted."""


def _keep(session: Session, capture: Capture, ended: Ended, fix: str) -> None:
    """List a record of kernels, or operators. Raises what `nothing` gives for one without any."""
    kind = "operator" if capture.tool == "kineto" else "kernel"
    try:
        frame = read(session.run.path / capture.file, capture.tool)
    except CollectError as error:
        why = f"no {kind}s were captured: {error}"
        raise session.nothing(ended, why, error.fix if capture.tool == "nsys" and error.fix else fix) from error
    if not (frame["kind"] == kind).any():
        raise session.nothing(ended, f"no {kind}s were captured: the program ran none", fix)
    session.keep(capture, frame)


class Nsys:
    """Recorder of a program's launches, or of one call of each sound implementation."""

    name = "nsys"

    def record(self, session: Session) -> None:
        """Raises ProfkitError, or the program's own end, when there is no record with kernels."""
        found = tools.find(tools.NSYS)
        if found is None:
            raise CannotProfileError(tools.NSYS.missing, fix=tools.NSYS.fix)
        run, sample = session.run, not isinstance(session.target, Program)
        if sample and not session.parts:
            raise ProfkitError("no implementation ran well enough to be recorded")
        session.progress("recording a timeline (nsys)")
        run.manifest.versions["nsys"] = found.text
        with temporary() as place:
            prefix = nsys.prefix(found.path, run.path / "nsys", windowed=not sample and bool(session.request.range))
            step = Step("nsys", prefix, nsys.environment(Path(place)))
            ended = session.start(step)
            _export(session, found.path, step)
        said = f"{ended.said}\n{session.log('nsys-export')}"
        run.manifest.caveats += nsys.caveats(said)
        session.settle(ended)
        if not (run.path / NSYS_FILE).exists():
            why, fix = nsys.failure(said, run.path / "nsys")
            raise session.nothing(ended, why, fix)
        _keep(session, Capture(NSYS_FILE, "nsys", "timeline" if sample else "times"), ended, "does it use CUDA?")


def _export(session: Session, tool: str, step: Step) -> None:
    """The record as sqlite without facts of the machine; the record itself goes."""
    report, sqlite = session.run.path / "nsys.nsys-rep", session.run.path / NSYS_FILE
    if not report.exists():
        return
    limit = session.request.limit if isinstance(session.target, Program) else EXPORT_LIMIT
    session.helper("nsys-export", nsys.export(tool, report, sqlite), step.env, limit)
    if sqlite.exists():
        # One that is damaged is left for its reader to name.
        with contextlib.suppress(CollectError):
            scrub(sqlite)
        report.unlink()


class Traced:
    """Recorder by torch's profiler: a Python program's kernels and ranks; on a CPU operators.

    Other children are seen by nsys alone.
    """

    def __init__(self, device: str) -> None:
        self.name = TRACER if device == "cuda" else "kineto"

    def record(self, session: Session) -> None:
        """Raises ProfkitError, or the program's own end, when nothing was seen."""
        kernels, folder = self.name == TRACER, session.run.path
        what = "kernels (CUPTI, by torch's profiler)" if kernels else "operators, there is no GPU (torch's profiler)"
        session.progress(f"recording {what}")
        ended = session.start(_traced_step(session))
        session.settle(ended)
        if kernels:
            _ranks_together(folder / FILE)
            fix = "does it use CUDA? children are seen by nsys and --ncu, not by torch's profiler"
        else:
            for written in folder.glob("trace*.json"):
                written.with_suffix(".json.gz").write_bytes(gzip.compress(written.read_bytes(), 3))
                written.unlink()
            fix = "does it use torch? Without a GPU no other program is timed: cProfile tells what Python does"
        files = sorted(folder.glob(FILE if kernels else "trace*.json.gz"))
        if not files:
            why = f"torch's profiler wrote no record; see {session.run.logs / f'{TRACER}.log'}"
            how = "a program that ends by os._exit cannot be traced from inside: install nsys, or count it with --ncu"
            raise session.nothing(ended, why, how)
        for file in files:
            _keep(session, Capture(file.name, self.name, "times"), ended, fix)


def _traced_step(session: Session) -> Step:
    program, on_gpu = session.target, session.device == "cuda"
    out = session.run.path / (FILE if on_gpu else "trace.json")
    argv = bootstrapped(program.argv, out, session.request.window.words()) if isinstance(program, Program) else None
    if argv is None:
        raise CannotProfileError(tools.NSYS.missing, fix=tools.NSYS.fix)
    # 99: what torch's profiler says of itself is none of the program's words.
    quiet = {"KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99")}
    env = {"PYTHONUNBUFFERED": "1", CLOCK: str(time.time_ns()), **quiet}
    note = "torch's profiler (CUPTI) in the place of nsys" if on_gpu else "torch's profiler"
    return Step(TRACER, (), env, argv=argv, note=note)


def _ranks_together(file: Path) -> None:
    """The tables of all ranks as one, on one clock, if there are any; theirs go."""
    work, calls, count = [], [], 0
    for one in rank_files(file):
        mine = pd.read_csv(one, dtype=str, keep_default_na=False)
        asked = pd.read_csv(host_file(one), dtype=str, keep_default_na=False)
        launch = asked["launch"].astype(int)
        calls.append(asked.assign(launch=launch.where(launch < 0, launch + count), process=mine["process"].min()))
        work.append(mine)
        count += len(mine)
        one.unlink()
        host_file(one).unlink()
    if not count:
        return
    launches, host = pd.concat(work, ignore_index=True), pd.concat(calls, ignore_index=True)
    order = launches["start"].astype(float).sort_values(kind="stable").index
    begin = float(launches["start"][order[0]])
    place = pd.Series(range(count), index=order)
    launches = launches.assign(launch=place).loc[order]
    host["launch"] = host["launch"].map(place).fillna(-1).astype(int)
    for table, path, columns in ((launches, file, TRACE), (host, host_file(file), (*HOST, "process"))):
        table["start"] = [f"{start - begin:.9f}" for start in table["start"].astype(float)]
        write_atomic(path, table.to_csv(columns=list(columns), index=False, lineterminator="\n").encode())


@dataclass(frozen=True)
class Ranking:
    """Tracer of a program and ranking of its kernels; `second`: where the tracer lost the end."""

    tracer: Recorder
    second: Recorder | None = None
    name: str = "ranking"

    def record(self, session: Session) -> None:
        used, caveats = self.tracer, session.run.manifest.caveats
        try:
            used.record(session)
            said = [*session.frames[used.name].attrs.get("caveats", ()), *caveats]
            lost = next((one.what for one in said if one.code == TRACE_CUT), "")
        except ProfkitError as error:
            if self.second is None or isinstance(error, (ProgramFailedError, CannotProfileError)):
                raise
            lost = str(error)
        if lost and self.second is not None:
            what = f"{used.name} recorded only a part; kernels are ranked by CUPTI: {lost}"
            caveats.append(Caveat(what, "", "use an nsys as new as the driver"))
            try:
                self.second.record(session)
                used = self.second
            except ProfkitError:
                if used.name not in session.frames:
                    raise
        hot = hottest(session.frames[used.name], session.request.hot)
        named = zip(hot.kernels, hot.shares, strict=True)
        session.progress(f"hot: {', '.join(f'{name[:60]} {share:.0%}' for name, share in named)}")
        session.hot, session.run.manifest.hot = hot, session.request.hot


def tracer_of(program: Program) -> Recorder | None:
    """nsys, else torch's profiler for a Python program, else nothing."""
    if tools.find(tools.NSYS) is not None:
        return Nsys()
    return Traced("cuda") if program.python else None


# ---- the hottest kernels


@dataclass(frozen=True)
class Hot:
    """The launches that ncu has to capture.

    `kernels`: full names, hottest first; `shares`: of the kernel time; `pattern` of their functions' names, as for -k;
    `invocations` of each function to count, from 1: `count` launches.
    """

    kernels: tuple[str, ...]
    shares: tuple[float, ...]
    pattern: str
    invocations: tuple[int, ...]
    count: int

    @property
    def identifier(self) -> str:
        """For ncu's --kernel-id: these invocations of each function in any context and stream."""
        return f"::{self.pattern}:^({'|'.join(map(str, self.invocations))})$"


def hottest(frame: pd.DataFrame, number: int) -> Hot:
    """The `number` kernels with the longest summed time of a launches frame, without NCCL's.

    ncu matches base names, so a chosen invocation also counts other instances of a hot template. Invocations are chosen to
    hit as few of those as possible.
    """
    kernels = frame[(frame["kind"] == "kernel") & ~frame["kernel"].str.contains(COMMUNICATION)]
    if "start" in kernels:
        kernels = kernels.sort_values("start", kind="stable")
    sums = kernels.groupby("kernel", sort=False, observed=True)["time"].sum()
    sums = sums.sort_values(ascending=False, kind="stable")
    names = [str(name) for name in sums.index[:number]]
    bases = list(dict.fromkeys(base_name(name) for name in names))
    launches = _launches(kernels, bases)
    for each in range(EACH, 0, -1):
        invocations, count = chosen(launches, _wanted(launches, names, each))
        if count <= ROOM * len(names):
            break
    shares = tuple(float(sums[name] / sums.sum()) for name in names)
    pattern = f"regex:^({'|'.join(re.escape(base) for base in bases)})$"
    return Hot(tuple(names), shares, pattern, invocations, count)


def _launches(kernels: pd.DataFrame, bases: Iterable[str]) -> pd.DataFrame:
    """`kernel`, `time`, `shape` (kernel, grid and block as a number) and `at` of their launches.

    at: which invocation of its function each is, from 1, counted by process.
    """
    base = kernels["kernel"].map({name: base_name(name) for name in kernels["kernel"].unique()}).astype("str")
    found = kernels.assign(base=base)[base.isin(list(bases))]
    shape, function = (
        found.groupby([one for one in names if one in found], sort=False, observed=True, dropna=False)
        for names in (("kernel", "grid", "block"), ("base", "process"))
    )
    launches: pd.DataFrame = found.assign(shape=shape.ngroup(), at=function.cumcount() + 1)
    return launches


def _wanted(launches: pd.DataFrame, names: Iterable[str], each: int) -> dict[int, int]:
    """Shape -> launches to count: `each` of every kernel, over its shapes, the dearest first."""
    spent = launches.groupby(["kernel", "shape"], sort=False, observed=True)["time"].sum()
    there = launches["shape"].value_counts()
    wanted: dict[int, int] = {}
    for name in names:
        shapes = spent[name].sort_values(ascending=False, kind="stable").index[:each]
        wanted |= {int(one): 1 for one in shapes}
        first = int(shapes[0])
        wanted[first] = min(each - len(shapes) + 1, int(there[first]))
    return wanted


def chosen(launches: pd.DataFrame, wanted: Mapping[int, int]) -> tuple[tuple[int, ...], int]:
    """(invocations to capture, launches in them), for so many launches of each wanted shape.

    ncu takes the same invocations of every function, so those come first that hold most of the shapes still lacking. A
    shape's first launch is warm-up and left out where enough others remain.
    """
    candidates: set[int] = set()
    for shape, number in wanted.items():
        own = launches.loc[launches["shape"] == shape, "at"].head(_FAR + 1).tolist()
        candidates |= set(own[1:] if len(own) > number else own)
    near = launches[launches["at"].isin(candidates)]
    met: dict[int, list[int]] = near.groupby("at")["shape"].apply(list).to_dict()
    lacking, found = Counter(wanted), list[int]()

    def worth(at: int) -> tuple[float, int]:
        return sum(shape in lacking for shape in set(met[at])) / len(met[at]), -at

    while lacking:
        found.append(max(met.keys() - set(found), key=worth))
        lacking -= Counter(met[found[-1]])
    return tuple(sorted(found)), sum(len(met[at]) for at in found)


def not_met(hot: Hot, frame: pd.DataFrame) -> list[Caveat]:
    """A caveat for each hot kernel that ncu did not capture."""
    there = set(same_kernels(frame["kernel"].astype("str"), hot.kernels).values())
    return [
        Caveat(
            f"hot kernel not captured by ncu: {name[:80]}",
            f"{share:.0%} of the kernel time",
            "the program does not launch the same kernels every time; capture all with --ncu",
        )
        for name, share in zip(hot.kernels, hot.shares, strict=True)
        if plain_name(name) not in there
    ]
