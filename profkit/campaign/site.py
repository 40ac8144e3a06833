"""Static site of many runs: leaderboard, rankings, rooflines, and a page per run.

`index.html` and `index.zh.html` share one `data.js`. Pages of runs lie in `runs/`: copies of report.html, or made
now, the best first. Runs without one are a row of facts.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from analyzers.errors import AnalyzeError
from analyzers.verdicts.analysis import Analysis
from profkit._version import __version__
from profkit.campaign.index import Index
from profkit.campaign.rows import Row
from profkit.contests.gpucodeforces import score
from profkit.contests.kernelbench import fastp
from profkit.errors import ProfkitError
from profkit.report.messages import LANGUAGES, in_chinese, in_each, named, say, speaking, spoken
from profkit.rundir.directory import open_run
from profkit.rundir.files import unwritable, write_atomic
from profkit.study.study import Study, open_study
from profkit.targets import find_samples

if TYPE_CHECKING:
    from roofline.figure.scene import Scene

MARK = "data.js"
"""Identifies a folder as a site."""
POINTS = 40
"""Most candidates on a roofline."""
FIGURES = 4
"""Most rooflines."""
RIGHT = ("inconclusive", "faster", "slower", "same")
_PLAIN = (
    *("path", "sample", "impl", "created", "status", "word", "line", "wins", "speedup", "low", "high"),
    *("time", "lower_bound", "share", "bound", "method"),
)
FIELDS = (*_PLAIN, "device", "caveats", "newest", "page")
"""Fields of a row in data.js, in order; `device` and `caveats` are indices."""


@dataclass(frozen=True)
class Made:
    """What was written: `pages` of runs, of them `fresh` made or copied this time."""

    index: Path
    runs: int
    pages: int
    fresh: int
    damaged: Sequence[tuple[str, str]]


def build(
    runs: Path, out: Path, *, season: Path | None = None, pages: int = 20, lang: str = "en", name: str = ""
) -> Made:
    """Write the site of the runs below `runs` into `out`, over an earlier one.

    season: a folder of samples to restrict to and rank by the contest's rules. pages: number of new pages to make;
    lang: of those pages. Raises ProfkitError when `out` holds other things or cannot be written.
    """
    _free(out)
    with Index(runs) as index:
        index.refresh()
        rows, damaged = index.rows(), index.damaged()
    if season is not None:
        ids = {folder.resolve().name for folder in find_samples(season)}
        rows = [row for row in rows if row.sample in ids]
    best = best_of(rows)
    there, fresh = _pages(runs, out, rows, best, pages, lang)
    figures = _figures(runs, out, best)
    scored = _scored(season, runs, rows) if season is not None else []
    write_atomic(out / MARK, _data(rows, there).encode())
    for file in ("site.js", "site.css"):
        write_atomic(out / file, _template(file).encode())
    for code, file, other in (("en", "index.html", "index.zh.html"), ("zh", "index.zh.html", "index.html")):
        text = _page(code, other, name or (season or runs).resolve().name, rows, best, scored, figures, damaged)
        write_atomic(out / file, text.encode())
    return Made(out / "index.html", len({row.path for row in rows}), len(there), fresh, damaged)


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
    """As fast_p counts it: without a win for profkit it is faster than nothing."""
    right = row.word in RIGHT
    nothing = right and row.word == "faster" and not row.wins
    low, high = (0.0, 0.0) if nothing else (row.low, row.high)
    return fastp.Rated(number, row.sample, row.state != "compile-error", right, row.speedup, low, high, row.line)


def _free(out: Path) -> None:
    try:
        if out.exists() and not (out / MARK).is_file() and any(out.iterdir()):
            raise ProfkitError(f"{out} holds other things than a site", fix="name a new folder: -o site")
        (out / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error


def _pages(
    runs: Path, out: Path, rows: Sequence[Row], best: dict[tuple[str, str], Row], limit: int, lang: str
) -> tuple[dict[str, str], int]:
    """(run -> address of its page, how many were made now); pages of gone runs are removed."""
    ahead = [row.path for row in sorted(best.values(), key=_merit, reverse=True)]
    own = {row.path for row in rows if row.page}
    there: dict[str, str] = {}
    fresh = made = 0
    for path in dict.fromkeys((*ahead, *(row.path for row in rows))):
        file = out / "runs" / f"{'run' if path == '.' else path}.html"
        source = runs / path / ("report.html" if path in own else "metrics.json")
        if not _newer(file, source):
            if path in own:
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, file)
            elif made < limit and source.exists():
                made += 1
                if not _make(runs / path, file, lang):
                    continue
            elif not file.exists():
                continue
            else:
                # Stale.
                file.unlink()
                continue
            fresh += 1
        there[path] = f"runs/{quote(file.relative_to(out / 'runs').as_posix())}"
    kept = {out / "runs" / f"{'run' if path == '.' else path}.html" for path in there}
    for file in (out / "runs").rglob("*.html"):
        if file not in kept:
            file.unlink()
    return there, fresh


def _newer(file: Path, source: Path) -> bool:
    try:
        return file.stat().st_mtime_ns >= source.stat().st_mtime_ns
    except OSError:
        return False


def _make(run: Path, file: Path, lang: str) -> bool:
    """Write the page of one run; False when its files do not allow one."""
    from profkit.report.page.run import page

    try:
        with speaking(lang):
            text = page(open_study(run))
    except ProfkitError:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, text.encode())
    return True


def _figures(runs: Path, out: Path, best: dict[tuple[str, str], Row]) -> list[dict[str, str]]:
    """Draw roofline-N.svg of the devices with the most samples; remove stale ones."""
    from roofline.figure.plot import draw, save

    by_device: dict[str, list[Row]] = {}
    for (device, _), row in best.items():
        if row.word in RIGHT and row.bandwidth > 0:
            by_device.setdefault(device, []).append(row)
    for file in out.glob("roofline-*.svg"):
        file.unlink()
    found = []
    for number, device in enumerate(sorted(by_device, key=lambda one: -len(by_device[one]))[:FIGURES], 1):
        named_ = {"device": device}
        for lang in LANGUAGES:
            file = out / f"roofline-{number}{'' if lang == 'en' else f'.{lang}'}.svg"
            with speaking(lang):
                save(draw(season_scene(runs, device, by_device[device])), file)
            named_[lang] = file.name
        found.append(named_)
    return found


def season_scene(runs: Path, device: str, rows: Sequence[Row]) -> Scene:
    """Scene of the best candidates of many samples under the ceilings of their device."""
    from profkit.study.ceilings import roofline_of
    from roofline.figure.scene import Point, Scene

    lang = spoken()
    newest = max(rows, key=lambda row: (row.created, row.path))
    chosen = sorted(rows, key=lambda row: -row.share if math.isfinite(row.share) else 0.0)[:POINTS]
    points = [
        Point(
            f"{row.sample} {row.impl}",
            row.intensity,
            row.flops,
            row.bandwidth,
            row.compute or "fp32",
            impl=row.impl,
            time=row.time,
            attained=row.share,
        )
        for row in chosen
    ]
    with speaking(lang):
        words = say("fig_season", count=str(len(points)))
    return Scene(
        roofline=roofline_of(open_run(runs / newest.path), None),
        points=tuple(points),
        title=device,
        subtitle=words,
        lang=lang,
    )


class _Recorded(Study):
    """A run with its recorded analysis; analysed again where there is none."""

    @cached_property
    def analysis(self) -> Analysis:
        try:
            return Analysis.from_dict(msgspec.json.decode((self.path / "metrics.json").read_bytes()))
        except (OSError, msgspec.DecodeError, AnalyzeError):
            return Study(self.run).analysis


def _scored(season: Path, runs: Path, rows: Sequence[Row]) -> list[score.Scored]:
    """The samples of a season, each with its newest finished run, by the contest's rules."""
    newest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda one: (one.created, one.path)):
        if row.status == "done":
            newest[row.sample] = row
    studies = {name: _Recorded(open_run(runs / row.path)) for name, row in newest.items()}
    return score.ordered(score.score(one, studies.get(one.resolve().name)) for one in find_samples(season))


def _data(rows: Sequence[Row], pages: dict[str, str]) -> str:
    """data.js: the rows as lists, repeated values by index; free of markup."""
    devices = {name: place for place, name in enumerate(sorted({row.device for row in rows}))}
    caveats: dict[str, int] = {}
    newest: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        key = row.device, row.sample
        newest[key] = max(newest.get(key, ("", "")), (row.created, row.path))
    listed = []
    for row in rows:
        said = [caveats.setdefault(what, len(caveats)) for what in row.caveats]
        last = newest[row.device, row.sample] == (row.created, row.path)
        values = [_plain(getattr(row, name)) for name in _PLAIN]
        listed.append([*values, devices[row.device], said, int(last), pages.get(row.path, "")])
    document = {
        "fields": FIELDS,
        "devices": list(devices),
        "caveats": list(caveats),
        "words": _words()["script"],
        "chinese": _chinese(rows),
        "rows": listed,
    }
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


def _plain(value: Any) -> Any:
    """Six digits are enough for a page; NaN is null."""
    return (float(f"{value:.6g}") if math.isfinite(value) else None) if isinstance(value, float) else value


@cache
def _words() -> dict[str, dict[str, tuple[str, str]]]:
    return msgspec.toml.decode(_template("words.toml"), type=dict[str, dict[str, tuple[str, str]]])


def _template(name: str) -> str:
    return (files("profkit.campaign") / "templates" / name).read_text("utf-8")


def _page(
    lang: str,
    other: str,
    name: str,
    rows: Sequence[Row],
    best: dict[tuple[str, str], Row],
    scored: Sequence[score.Scored],
    figures: Sequence[dict[str, str]],
    damaged: Sequence[tuple[str, str]],
) -> str:
    import jinja2

    counts = _counts(rows)
    values = {**counts, "name": name, "places": score.PLACES, "count": POINTS, "version": __version__}
    words = _words()
    say = {
        key: pair[lang == "zh"].format(**values) if key in words["page"] else pair[lang == "zh"]
        for key, pair in (words["script"] | words["page"]).items()
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(_template("site.html")).render(
        lang=lang,
        other=other,
        say=say,
        counts=counts,
        standings=[asdict(one) for one in score.rank(scored)],
        scored=[
            asdict(one)
            | {
                "base": one.base,
                "speedup": _pace(one.speedup),
                "why": (in_chinese(one.why) if lang == "zh" else one.why),
            }
            for one in scored
        ],
        fastp=fast_p(best),
        levels=[str(p) for p in fastp.P_VALUES],
        figures=figures,
        damaged=damaged,
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


def _pace(speedup: score.Speedup) -> str:
    if math.isnan(speedup.value):
        return "-"
    return f"{speedup.value:.3g}x" + (f" [{speedup.low:.3g}, {speedup.high:.3g}]" if speedup.known else "")
