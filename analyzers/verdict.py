"""What is said first of an implementation: exactly one word, its interval, and the conditions it holds under.

The words, in the order in which they are decided:

    skipped      it was not run, and why
    failed       it could not be run to its end (the kind: crash, hang, compile-error, ...)
    wrong        its answers are not the reference's, or not its own (mismatch, stops-computing, unsound, ...)
    void         the task cannot tell right from wrong: a trivial answer passes, or the reference draws its answers
    impossible   its own counted work needs longer than the time it was seen to take
    undecided    the interval of the speed-up does not say which is faster
    faster, slower, same

A speed-up is a number of the last three alone. A condition is a part of the same sentence; one that `spoils` it makes
a win that counts nowhere. A program's ranges have no verdict: nothing is compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from analyzers.reasons import in_chinese
from analyzers.speedup import THRESHOLD

NAN = math.nan

WORDS = ("skipped", "failed", "wrong", "void", "impossible", "undecided", "faster", "slower", "same")
PACED = ("faster", "slower", "same")
"""Verdicts that carry a speed-up."""
BROKE = ("compile-error", "load-error", "error", "crash", "corrupt", "hang", "memory-limit")
"""What became of an implementation that could not be run to its end; whatever else is not ok is wrong."""
WIDE = 0.05
"""Half-width of an interval, relative, from which a speed-up says so itself."""
LONGEST = 120
"""Characters of somebody else's words in a sentence: an exception's, a list's. `Verdict.why` has all of them."""

Language = tuple[str, str]
SENTENCES: Mapping[str, Language] = {
    "faster": ("{value} as fast as the reference {interval}", "比参考实现快，加速比 {value} {interval}"),
    "slower": ("takes {inverse} the reference's time {interval}", "比参考实现慢，耗时为其 {times} 倍 {interval}"),
    "same": ("as fast as the reference {interval}", "与参考实现一样快 {interval}"),
    "undecided": (
        "neither {least} faster nor {least} slower for sure {interval}",
        "快慢是否相差 {least} 尚无定论 {interval}",
    ),
    "void": ("void: the task cannot tell right from wrong ({kind})", "无效：此题区分不出对错（{kind}）"),
    "impossible": ("impossible: {kind}", "不可能：{kind}"),
    "wrong": ("{kind}: {why}", "{kind}：{why}"),
    "failed": ("{kind}: {why}", "{kind}：{why}"),
    "skipped": ("not run: {why}", "未运行：{why}"),
}
_UNSURE: Language = ("not sure which is faster {interval}", "快慢未定 {interval}")
"""Undecided, where the interval is not what decides."""
CONDITIONS: Mapping[str, Language] = {
    "reduced": ("in {used} where the task has {task}", "以 {used} 计算，而题目为 {task}"),
    "library": ("by the library: none of its own kernels ran", "由库完成：自有 kernel 均未运行"),
    "fallback": ("by a fallback ({place})", "走了回退路径（{place}）"),
    "clocks": ("two clocks disagree: {said}", "两种计时不一致：{said}"),
    "unbuilt": ("by the library: its own extension does not compile here", "由库完成：自有扩展在此无法编译"),
    "caller": ("by the caller's clock, launching and waiting included", "按调用方的时钟计，含启动与等待"),
    "few": ("too few rounds to decide", "轮数太少，不足以判定"),
    "wide": ("interval wide: +-{half}", "置信区间较宽：±{half}"),
    "algorithm": (
        "by another algorithm: its counted work is {share} of the task's model",
        "换了算法：实测工作量为题目模型的 {share}",
    ),
    "unexplained": (
        "below the task's floor: another algorithm or skipped work, `--ncu` would tell",
        "低于题目下限：换了算法或少做了工作，用 `--ncu` 可以分辨",
    ),
    "switched": ("by switches of torch's that the reference has not", "靠改动 torch 的开关，参考实现没有这样做"),
    "frozen": ("by weights prepared once: later ones do not reach it", "权重只预处理一次：之后的改动不起作用"),
    "fragile": ("fragile: {what}", "不稳健：{what}"),
    "still": ("{what} never changes, so whether it is computed is not known", "{what} 从不变化，是否真的计算无从判断"),
}
SPOILS = ("reduced", "unexplained")
_KINDS = {
    "inputs with gaps between the elements": "layout",
    "inputs that start one element later": "layout",
    "rows that are one row in memory": "layout",
    "a batch of one": "shape",
}
"""Unusual inputs, as the runner names them, that are not unusual for their values."""
_COMPARED = re.compile(r"output|\d+ outputs?, the reference")
"""How a comparison with the reference's answer begins; anything else is what the implementation said itself."""
_CRASHED = re.compile(
    r"the process of .+ has ended|.*\bCUDA\b.*(illegal|misaligned address|unspecified launch failure|device-side assert"
    r"|invalid program counter|hardware stack error|launch timed out)",
    re.I,
)
"""What is no refusal: the process is gone, or an error of the GPU after which its context is of no use."""
_DID = {"crashes on": _CRASHED, "hangs on": re.compile(r"no answer within "), "wrong for": _COMPARED}
"""What an implementation does, and how a note of that begins; it refuses whatever else it says."""


class Condition(msgspec.Struct, frozen=True):
    """What a verdict holds under: a name of CONDITIONS and the values its sentence takes."""

    code: str
    values: dict[str, str] = {}

    @property
    def spoils(self) -> bool:
        """Whether a win under it counts as none."""
        return self.code in SPOILS

    def text(self, lang: str = "en") -> str:
        values = {key: brief(in_chinese(one) if lang == "zh" else one) for key, one in self.values.items()}
        return CONDITIONS[self.code][lang == "zh"].format(**values)


def brief(text: str) -> str:
    """Text on one line, cut after LONGEST characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3].rstrip() + "..."


def weakness(notes: Sequence[str]) -> str:
    """What a fragile implementation does on how many unusual inputs, "refuses 2 layouts, wrong for 1 unusual input"; "" without.

    notes: "the input: what came of it", as the runner writes them; an exception is a refusal, unless it says of a crash.
    """
    counts: dict[tuple[str, str], int] = {}
    for note in notes:
        name, _, what = note.partition(": ")
        did = next((said for said, like in _DID.items() if like.match(what)), "refuses")
        key = did, _KINDS.get(name, "unusual weight" if name.startswith("weights where") else "unusual input")
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{did} {n} {kind}{'s' if n > 1 else ''}" for (did, kind), n in sorted(counts.items()))


class Verdict(msgspec.Struct, frozen=True):
    """One word for one implementation. `kind`: of failed and wrong the status, of void and impossible what shows it;
    `why`: one line of whoever found it. `speedup` with its 95 % interval: NaN unless it was compared.
    """

    impl: str
    word: str
    kind: str = ""
    why: str = ""
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    conditions: tuple[Condition, ...] = ()

    @property
    def right(self) -> bool:
        """Whether its answers were compared with the reference's and agree."""
        return self.word not in ("skipped", "failed", "wrong")

    @property
    def wins(self) -> bool:
        """Whether it counts as faster wherever wins are counted."""
        return self.word == "faster" and not any(one.spoils for one in self.conditions)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON with the English sentence as `line`; a number that is not known is None."""
        known = {
            name: value if math.isfinite(value) else None
            for name, value in (("speedup", self.speedup), ("low", self.low), ("high", self.high))
        }
        return {**msgspec.to_builtins(self), **known, "wins": self.wins, "line": self.text()}

    def text(self, lang: str = "en") -> str:
        """The verdict as a sentence without the implementation's name, conditions included."""
        kind, why = (brief(in_chinese(one) if lang == "zh" else one) for one in (self.kind, self.why))
        times = f"{1 / self.speedup if self.speedup else NAN:.3g}"
        # An interval that lies on one side of 1 and decides nothing would contradict what is said.
        unsure = self.word == "undecided" and any(one.code in ("clocks", "few") for one in self.conditions)
        said = (_UNSURE if unsure else SENTENCES[self.word])[lang == "zh"].format(
            value=f"{self.speedup:.3g}x",
            inverse=f"{times}x",
            times=times,
            least=f"{THRESHOLD:.0%}",
            interval="" if any(one.code == "clocks" for one in self.conditions) else self._interval(),
            kind=kind,
            why=why,
        )
        comma = "，" if lang == "zh" else ", "
        return comma.join([said.rstrip(), *(one.text(lang) for one in self.conditions)])

    def _interval(self) -> str:
        """The interval, of the time's ratio where that is what the sentence speaks of; nothing when it has no width."""
        low, high = (1 / self.high, 1 / self.low) if self.word == "slower" and self.low > 0 else (self.low, self.high)
        if not (math.isfinite(low) and math.isfinite(high)):
            return ""
        digits = [f"{low:.3g}", f"{high:.3g}"]
        return "" if digits[0] == digits[1] and self.word != "undecided" else f"[{', '.join(digits)}]"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that a verdict is decided from, of one implementation; what is not known stays at its default.

    `status`, `reason`: of the check (ok, mismatch, crash, ...); `unsound`: what compute-sanitizer found in its own
    kernels. `passing`: trivial answers that pass for the task; `random`: the reference draws its answers. `ratio`:
    verdict of the interval of the speed-up, which calls no effect below `threshold` one; `clocks`: what two clocks say
    of it where they contradict each other. `time` [s] of a call; `hard` [s]: the least that the task's model allows;
    `counted_hard` [s]: the least that its own counted work allows, NaN when nothing was counted; `share`: its counted
    work over the model's. `used`, `task`: a precision below the task's, unless it is allowed. `own_ran`: whether a
    kernel of its own source ran (None: not known); `fallback`: the place in the source of the way round it, `unbuilt`: a compiler refused it. `by_caller`: a GPU's work was
    timed by its caller, since the GPU's own clocks saw no work of somebody's. `frozen`: its weights were prepared once, and do not follow those that change.
    `switched`: it sets torch's switches in its calls.
    `fragile`: a note for each unusual input that it is wrong on, refuses, crashes or hangs on. `still`: outputs of several that were the
    same for all inputs.
    """

    impl: str
    status: str = "ok"
    reason: str = ""
    unsound: Sequence[str] = ()
    passing: Sequence[str] = ()
    random: bool = False
    ratio: str = ""
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    threshold: float = NAN
    clocks: str = ""
    time: float = NAN
    hard: float = NAN
    counted_hard: float = NAN
    share: float = NAN
    slack: float = 0.0
    used: str = ""
    task: str = ""
    own_ran: bool | None = None
    fallback: str = ""
    unbuilt: bool = False
    by_caller: bool = False
    frozen: bool = False
    switched: bool = False
    fragile: Sequence[str] = ()
    still: Sequence[str] = ()


def decide(known: Evidence) -> Verdict:
    """The verdict on one implementation."""
    if known.status == "skipped":
        # The sentence says that it was not run; the reason, which also stands by itself, may begin so.
        return Verdict(known.impl, "skipped", "skipped", known.reason.removeprefix("not run: "))
    if known.status in BROKE:
        return Verdict(known.impl, "failed", known.status, known.reason)
    if known.status != "ok":
        return Verdict(known.impl, "wrong", known.status, known.reason)
    if known.unsound:
        return Verdict(known.impl, "wrong", "unsound", known.unsound[0])
    if known.random or known.passing:
        shown = "the reference draws its answers" if known.random else f"{', '.join(known.passing)} would pass"
        return _paced(known, "void", shown, below=False)
    below = known.time < known.hard * (1 - known.slack)
    if below and known.time < known.counted_hard * (1 - known.slack):
        needs = f"{known.time / known.counted_hard:.2f} of the least time that its own counted work needs"
        return _paced(known, "impossible", needs, below=False)
    word = known.ratio if known.ratio in PACED else "undecided"
    return _paced(known, word, "", below=below)


def _paced(known: Evidence, word: str, kind: str, *, below: bool) -> Verdict:
    """A verdict on an implementation that is right and was timed."""
    conditions = _conditions(known, below=below)
    if word == "undecided" and known.clocks:
        conditions = (Condition("clocks", {"said": known.clocks}), *conditions)
    elif word == "undecided" and (known.low > 1 + known.threshold or known.high < 1 / (1 + known.threshold)):
        conditions = (Condition("few"), *conditions)
    return Verdict(known.impl, word, kind, "", known.speedup, known.low, known.high, conditions)


def _conditions(known: Evidence, *, below: bool) -> tuple[Condition, ...]:
    found = []
    if known.used:
        found.append(Condition("reduced", {"used": known.used, "task": known.task}))
    if known.own_ran is False:
        other = Condition("fallback", {"place": known.fallback}) if known.fallback else Condition("library")
        found.append(Condition("unbuilt") if known.unbuilt else other)
    if known.by_caller:
        found.append(Condition("caller"))
    if below:
        counted = math.isfinite(known.counted_hard)
        found.append(Condition("algorithm", {"share": f"{known.share:.2g}"}) if counted else Condition("unexplained"))
    half = (known.high - known.low) / 2 / known.speedup if known.speedup > 0 else NAN
    if half > WIDE:
        found.append(Condition("wide", {"half": f"{half:.0%}"}))
    if known.switched:
        found.append(Condition("switched"))
    if known.frozen:
        found.append(Condition("frozen"))
    if known.fragile:
        found.append(Condition("fragile", {"what": weakness(known.fragile)}))
    if known.still:
        found.append(Condition("still", {"what": ", ".join(known.still)}))
    return tuple(found)
