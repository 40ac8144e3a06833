"""Static site of many runs: leaderboard, rankings, and pages of the best runs.

`index.html` and `index.zh.html` share one `data.js`. Pages of runs are in `runs/`, the best made first. Runs without
a page are only rows.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from profkit._version import __version__
from profkit.campaign.index import Index, Row
from profkit.contests.gpucodeforces import score
from profkit.contests.kernelbench import fastp
from profkit.errors import ProfkitError
from profkit.report.messages import in_chinese, in_each, named
from profkit.report.sections.tables import ratio_text
from profkit.rundir.files import unwritable, write_atomic
from profkit.study.study import open_study
from profkit.targets import find_samples

MARK = "data.js"
"""Identifies a folder as a site."""
RIGHT = ("inconclusive", "faster", "slower", "same")
FIELDS = (
    *("path", "sample", "impl", "device", "created", "status", "word", "line", "wins", "speedup", "low", "high"),
    *("time", "lower_bound", "share", "bound", "method"),
)
"""Fields of a row that are copied to data.js."""


@dataclass(frozen=True)
class Made:
    """Result: numbers of `runs` and of `pages`."""

    index: Path
    runs: int
    pages: int
    damaged: Sequence[tuple[str, str]]


def build(runs: Path, out: Path, *, season: Path | None = None, pages: int = 20) -> Made:
    """Write the site of the runs below `runs` into `out`, over an earlier one.

    season: a folder of samples to restrict to and rank by the contest's rules. pages: most pages of runs, the best ones'.
    Raises ProfkitError if `out` holds other files or cannot be written.
    """
    _free(out)
    index = Index(runs)
    rows, damaged = index.rows(), index.damaged()
    samples = find_samples(season) if season is not None else []
    if season is not None:
        ids = {folder.resolve().name for folder in samples}
        rows = [row for row in rows if row.sample in ids]
    best = best_of(rows)
    there = _pages(runs, out, rows, best, pages)
    values: dict[str, Any] = {
        "scored": _scored(samples, runs, rows),
        "fastp": fast_p(best),
        "damaged": damaged,
        "counts": _counts(rows),
    }
    write_atomic(out / MARK, _data(rows, there).encode())
    for file in ("site.js", "site.css"):
        write_atomic(out / file, _template(file).encode())
    for lang, file, other in (("en", "index.html", "index.zh.html"), ("zh", "index.zh.html", "index.html")):
        text = _page(lang, (season or runs).resolve().name, values | {"other": other})
        write_atomic(out / file, text.encode())
    return Made(out / "index.html", values["counts"]["runs"], len(there), damaged)


def best_of(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """(device, sample) -> the best candidate of the newest finished run."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.status == "done" and row.word:
            key = row.device, row.sample
            found[key] = max(found.get(key, row), row, key=lambda one: (one.created, one.path, _merit(one)))
    return found


def _merit(row: Row) -> tuple[bool, bool, float]:
    return row.word in RIGHT, bool(row.wins), row.speedup if math.isfinite(row.speedup) else 0.0


def fast_p(best: dict[tuple[str, str], Row]) -> list[dict[str, Any]]:
    """A row per device: number of samples, and at each p the sure and possible shares."""
    found = []
    for device in sorted({device for device, _ in best}):
        rows = [row for (one, _), row in best.items() if one == device]
        judged = [_judged(number, row) for number, row in enumerate(rows)]
        found.append({"device": device, "count": len(rows), "shares": fastp.tie_aware(judged)})
    return found


def _judged(number: int, row: Row) -> fastp.Rated:
    """A row for fast_p; a speed-up that does not count gets the interval [0, 0]."""
    right = row.word in RIGHT
    nothing = right and row.word == "faster" and not row.wins
    low, high = (0.0, 0.0) if nothing else (row.low, row.high)
    return fastp.Rated(number, row.sample, row.state != "compile-error", right, row.speedup, low, high, row.line)


def _free(out: Path) -> None:
    try:
        if out.exists() and not (out / MARK).is_file() and any(out.iterdir()):
            raise ProfkitError(f"{out} contains files that are not a site", fix="name a new folder: -o site")
        (out / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error


def _pages(runs: Path, out: Path, rows: Sequence[Row], best: dict[tuple[str, str], Row], most: int) -> dict[str, str]:
    """Run -> address of its page, for the best runs with the files for it; removes others."""
    from profkit.report.page.run import page

    for old in (out / "runs").rglob("*.html"):
        old.unlink()
    ahead = [row.path for row in sorted(best.values(), key=_merit, reverse=True)]
    there: dict[str, str] = {}
    for path in dict.fromkeys((*ahead, *(row.path for row in rows))):
        file = out / "runs" / f"{'run' if path == '.' else path}.html"
        if len(there) == most:
            break
        with contextlib.suppress(ProfkitError):
            text = page(open_study(runs / path))
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(file, text.encode())
            there[path] = quote(file.relative_to(out).as_posix())
    return there


def _scored(samples: Sequence[Path], runs: Path, rows: Sequence[Row]) -> list[score.Scored]:
    """The samples of a season, each with its newest finished run, by the contest's rules."""
    done = sorted((row for row in rows if row.status == "done"), key=lambda one: (one.created, one.path))
    newest = {row.sample: row.path for row in done}
    studies = {name: open_study(runs / path) for name, path in newest.items()}
    return score.ordered(score.score(one, studies.get(one.resolve().name)) for one in samples)


def _data(rows: Sequence[Row], pages: dict[str, str]) -> str:
    """Content of data.js, without markup; a row's `caveats` are indices."""
    caveats: dict[str, int] = {}
    newest: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        key = row.device, row.sample
        newest[key] = max(newest.get(key, ("", "")), (row.created, row.path))
    listed = [
        {name: getattr(row, name) for name in FIELDS}
        | {
            "caveats": [caveats.setdefault(what, len(caveats)) for what in row.caveats],
            "newest": newest[row.device, row.sample] == (row.created, row.path),
            "page": pages.get(row.path, ""),
        }
        for row in rows
    ]
    document = {"caveats": list(caveats), "words": _words()["script"], "chinese": _chinese(rows), "rows": listed}
    text = msgspec.json.encode(document).decode()
    for sign in ("<", "\u2028", "\u2029"):
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f"window.profkit = {text};\n"


def _chinese(rows: Sequence[Row]) -> dict[str, str]:
    """English sentence of a row -> Chinese; names are left out."""
    said = {row.line: row.line_zh for row in rows}
    said |= {what: in_chinese(what) for row in rows for what in row.caveats}
    said |= {row.bound: in_each(partial(named, row.bound))[1] for row in rows}
    return {english: chinese for english, chinese in said.items() if chinese and chinese != english}


@cache
def _words() -> dict[str, dict[str, tuple[str, str]]]:
    return msgspec.toml.decode(_template("words.toml"), type=dict[str, dict[str, tuple[str, str]]])


def _template(name: str) -> str:
    return (files("profkit.campaign") / "templates" / name).read_text("utf-8")


def _page(lang: str, name: str, values: dict[str, Any]) -> str:
    import jinja2

    filled = {**values["counts"], "name": name, "places": score.PLACES, "version": __version__}
    words = _words()
    say = {key: pair[lang == "zh"] for key, pair in words["script"].items()}
    say |= {key: pair[lang == "zh"].format(**filled) for key, pair in words["page"].items()}
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(_template("site.html")).render(
        lang=lang,
        say=say,
        standings=score.rank(values["scored"]),
        ratio_text=ratio_text,
        levels=[str(p) for p in fastp.P_VALUES],
        translated=in_chinese if lang == "zh" else str,
        **values,
    )


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    when = [row.created for row in rows] or ["-"]
    return {
        "runs": len({row.path for row in rows}),
        "samples": len({row.sample for row in rows}),
        "devices": len({row.device for row in rows}),
        "first": min(when),
        "last": max(when),
    }
