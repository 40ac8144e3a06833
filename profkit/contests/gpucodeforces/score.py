"""Points and ranking by the contest's rules.

Base points: a generator of the expected output 2, execution time 5, throughput 4, bandwidth 3. The bonus counts 1,
for a prompt with measured CUDA code; the rules give no number. Contestants rank by accepted samples, base points,
bonus, then the earlier issue. The first twelve are placed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.records import number, plain
from analyzers.verdicts.statistics import Ratio
from profkit.contests.gpucodeforces.form import BONUS, check
from profkit.targets.source import Source

if TYPE_CHECKING:
    from profkit.study.study import Study

POINTS = {"gt": 2, "time": 5, "throughput": 4, "bandwidth": 3}
PLACES = 12
SAME = 0.01
_IMPORTS = (ast.Import, ast.ImportFrom)
UNNAMED = "(unnamed)"
_PRINTED = {"time": "平均执行时间", "throughput": "吞吐量", "bandwidth": "内存带宽"}
"""Words of run_code.py's lines, by the figure that they print."""
_CONTESTANT = re.compile(r"^\W*(?:参赛者|参赛人|作者|contestant|author)\W*?[:：]\W*(?P<name>\S.*?)\s*$", re.I | re.M)


@dataclass(frozen=True)
class Scored:
    """One sample. `accepted`: None if nothing was measured.

    `similar_to`: an earlier issue of the same case; `similar`: improved, similar (相近优化), inconclusive or unknown.
    """

    id: str
    contestant: str
    accepted: bool | None
    why: str
    points: dict[str, int]
    bonus: int
    speedup: Ratio
    case: str = ""
    similar_to: str = ""
    similar: str = ""

    @property
    def base(self) -> int:
        return sum(self.points.values())


@dataclass(frozen=True)
class Standing:
    """A contestant's place; `place` 0 beyond the first twelve or without an accepted sample."""

    contestant: str
    accepted: int
    base: int
    bonus: int
    samples: tuple[str, ...] = field(default=())
    place: int = 0


def similar(earlier: Ratio, later: Ratio) -> str:
    """Whether a later submission of the same case is faster than the earlier one.

    improved: certainly (the interval of later / earlier is above 1); similar: certainly not (it ends below
    1 + SAME), which the contest calls 相近优化; inconclusive: the intervals do not tell; unknown: no interval.
    """
    low, high = later.low / earlier.high, later.high / earlier.low
    if math.isnan(low + high):
        return "unknown"
    if low > 1:
        return "improved"
    return "similar" if high <= 1 + SAME else "inconclusive"


def score(folder: Path, run: Study | None) -> Scored:
    """Points of one sample folder, with its newest run if there is one."""
    checked = check(folder)
    sample = checked.sample
    entry, named = _text(folder / "run_code.py"), _CONTESTANT.search(_text(folder / "readme.md"))
    timed = _timed(run)
    earned = {"gt": sample is not None} | {key: timed or word in entry for key, word in _PRINTED.items()}
    points = {key: worth if earned[key] else 0 for key, worth in POINTS.items()}
    accepted, why = _accepted([d.what for d in checked.form], run)
    prompt_bad = sample is None or sample.prompt is None or any(d.code == BONUS for d in checked.defects)
    return Scored(
        id=folder.resolve().name,
        contestant=named["name"] if named else UNNAMED,
        accepted=accepted,
        why=why,
        points=points,
        bonus=0 if prompt_bad or not timed else 1,
        speedup=_speedup(run) if run is not None else Ratio(),
        case=case_of(Source.read(sample.reference)) if sample is not None else "",
    )


def ordered(rows: Iterable[Scored]) -> list[Scored]:
    """Sort by issue; a later sample of the same case that is similar is not accepted."""
    done: list[Scored] = []
    for row in sorted(rows, key=lambda scored: scored.id):
        earlier = next((old for old in reversed(done) if row.case and old.case == row.case), None)
        if earlier is not None:
            verdict = similar(earlier.speedup, row.speedup)
            row = replace(row, similar_to=earlier.id, similar=verdict)
            if verdict == "similar":
                row = replace(row, accepted=False, why=f"相近优化: not faster than {earlier.id}")
        done.append(row)
    return done


def rank(rows: Sequence[Scored]) -> list[Standing]:
    """Contestants by the contest's rules, the best first. Only accepted samples bring points."""
    names = dict.fromkeys(row.contestant for row in rows)
    standings = []
    for name in names:
        mine = sorted((row for row in rows if row.contestant == name and row.accepted), key=lambda row: row.id)
        standings.append(
            Standing(name, len(mine), sum(r.base for r in mine), sum(r.bonus for r in mine), tuple(r.id for r in mine))
        )
    standings.sort(key=lambda s: (-s.accepted, -s.base, -s.bonus, s.samples or ("~",)))
    return [replace(s, place=n if n <= PLACES and s.accepted else 0) for n, s in enumerate(standings, 1)]


def to_dict(row: Scored) -> dict[str, Any]:
    speedup = plain({key: getattr(row.speedup, key) for key in ("value", "low", "high")})
    return asdict(row) | {"base": row.base, "speedup": speedup}


def case_of(reference: Source) -> str:
    """Identity of a case: model, getters and constants without comments, docstrings and layout."""
    tree = ast.parse(reference.text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[:] = node.body[1:] or [ast.Pass()]
    kept = [n for n in tree.body if getattr(n, "name", "") != "get_work" and not isinstance(n, _IMPORTS)]
    return ast.dump(ast.Module(body=kept, type_ignores=[]))


def _accepted(form: list[str], run: Study | None) -> tuple[bool | None, str]:
    if form:
        return False, f"form: {form[0]}"
    if run is not None:
        ran = [impl for impl in run.manifest.candidates if impl.status != "skipped"]
        wrong = next((impl for impl in ran if not impl.ok), None)
        if wrong is not None:
            return False, f"{wrong.name}: {wrong.status}"
        if not _on_gpu(run):
            return None, "measured on a CPU: the contest times CUDA"
        return (True, f"run {run.path.name}") if ran else (None, "no candidate ran")
    return None, "not measured"


def _on_gpu(run: Study) -> bool:
    return run.manifest.device.get("kind") == "cuda"


def _timed(run: Study | None) -> bool:
    """Whether a run on a GPU timed a correct candidate, and so its throughput and bandwidth."""
    if run is None or not _on_gpu(run):
        return False
    rows = run.analysis.rows
    return any(number(rows.get(impl.name, {}), "time") > 0 for impl in run.manifest.candidates if impl.ok)


def _speedup(run: Study) -> Ratio:
    """Best speed-up of a run on a GPU that counts."""
    good = [one for one in run.verdicts.values() if one.wins or one.word in ("slower", "same", "inconclusive")]
    found = [Ratio(one.speedup, one.low, one.high) for one in good if _on_gpu(run) and not math.isnan(one.speedup)]
    return max(found, key=lambda one: one.value, default=Ratio())


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
