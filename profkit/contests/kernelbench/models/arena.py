"""Ask every model every problem, keep every word, evaluate what came back, and make the table of models.

    <output>/<name>/<model>/level_1_problem_3_sample_0_prompt.txt
                            level_1_problem_3_sample_0_answer.json     text, tokens, tries; no key
                            level_1_problem_3_sample_0_kernel.py       when the answer held code
                            eval_results.json                          official form
    <output>/<name>/models.json                                        the table

What is answered already is not asked again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import msgspec

from profkit.contests.blocks import first_code
from profkit.contests.figures import number
from profkit.contests.kernelbench.evaluation import evaluate
from profkit.contests.kernelbench.fastp import no_win
from profkit.contests.kernelbench.files import (
    Problem,
    Results,
    candidate_name,
    candidates,
    key_of,
    own_of,
    problems,
    read_results,
    results_file,
)
from profkit.contests.kernelbench.models.config import Config, Model
from profkit.contests.kernelbench.models.endpoint import Answer, ask, client_for
from profkit.contests.prompt import prompt_for
from profkit.errors import ProfkitError
from profkit.rundir.files import write_atomic

if TYPE_CHECKING:
    from profkit.record.request import Request

Progress = Callable[[str], None]
SCHEMA = "profkit-models/1"


@dataclass(frozen=True)
class Question:
    """One model, one problem, one sample, and the folder of its files."""

    model: Model
    problem: Problem
    sample: int
    folder: Path

    def file(self, what: str) -> Path:
        return self.folder / candidate_name(self.problem.level, self.problem.id, self.sample, what)


def questions(config: Config, root: Path) -> list[Question]:
    """Everything to ask. Raises ProfkitError for a problem that is not there."""
    task = config.task
    found = problems(root / task.problems, task.level)
    strange = sorted(set(task.problem_ids) - {problem.id for problem in found})
    if strange:
        raise ProfkitError(f"level {task.level} has no problem {strange[0]}", fix="mend problem_ids")
    chosen = [p for p in found if not task.problem_ids or p.id in task.problem_ids]
    base = root / task.output / task.name
    return [
        Question(model, problem, sample, base / model.folder)
        for model in config.model
        for problem in chosen
        for sample in range(task.samples)
    ]


def ask_all(
    config: Config,
    asked: Sequence[Question],
    *,
    progress: Progress = lambda _: None,
) -> None:
    """Ask what has no answer yet, several at a time; each answer is on disk before the next is asked."""
    open_ = [question for question in asked if not _answered(question)]
    clients = {question.model.id: client_for(config.endpoint, question.model) for question in open_}
    pool = ThreadPoolExecutor(max_workers=config.endpoint.concurrency)

    def one(question: Question) -> None:
        prompt = prompt_for(
            f"l{question.problem.level}p{question.problem.id}", question.problem.path.read_text("utf-8"), []
        )
        question.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(question.file("prompt.txt"), prompt.encode())
        answer = ask(clients[question.model.id], config.endpoint, question.model, prompt)
        keep(question, answer)
        progress(
            f"{question.model.title} {question.problem.name} #{question.sample}: {answer.status}"
            + (f" ({answer.error})" if answer.error else "")
        )

    try:
        for done in [pool.submit(one, question) for question in open_]:
            done.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def keep(question: Question, answer: Answer) -> None:
    """Write an answer down, and its code when it holds any."""
    write_atomic(question.file("answer.json"), msgspec.json.format(msgspec.json.encode(answer), indent=1))
    code, _ = first_code(answer.text) if answer.status == "ok" else ("", "")
    if code:
        write_atomic(question.file("kernel.py"), code.encode())


def _answered(question: Question) -> bool:
    answer = read_answer(question)
    return answer is not None and answer.status == "ok"


def read_answer(question: Question) -> Answer | None:
    """The kept answer; None when there is none or it is damaged, so that it is asked again."""
    try:
        return msgspec.json.decode(question.file("answer.json").read_bytes(), type=Answer)
    except (OSError, msgspec.DecodeError):
        return None


def evaluate_all(asked: Sequence[Question], request: Request, progress: Progress = lambda _: None) -> None:
    """Evaluate every candidate there is, one at a time: they share the device."""
    for folder in dict.fromkeys(question.folder for question in asked):
        mine = [question for question in asked if question.folder == folder]
        level = mine[0].problem.level
        if folder.is_dir() and candidates(folder, level):
            evaluate([*dict.fromkeys(q.problem for q in mine)], folder, level, request, progress=progress)


def table(config: Config, asked: Sequence[Question]) -> list[dict[str, Any]]:
    """One row a model, in the order of the file; speed-ups are those measured in pairs."""
    return [_row(model, [q for q in asked if q.model.id == model.id]) for model in config.model]


def _row(model: Model, asked: Sequence[Question]) -> dict[str, Any]:
    answers = [answer for question in asked if (answer := read_answer(question)) is not None]
    records = [record for question in asked if (record := _record(question)) is not None]
    right = [record for record in records if record["correctness"]]
    ratios = [_own(record, "speedup") for record in right]
    lows = [_own(record, "speedup_low") for record in right]
    known = [ratio for ratio in ratios if ratio > 0]
    tokens_in, tokens_out = (_sum(getattr(a, key) for a in answers) for key in ("prompt_tokens", "completion_tokens"))
    n = len(asked)
    return {
        "model": model.title,
        "id": model.id,
        "asked": n,
        "answered": sum(a.status == "ok" for a in answers),
        "code": sum(q.file("kernel.py").is_file() for q in asked),
        "evaluated": len(records),
        "compiled": sum(bool(r["compiled"]) for r in records),
        "correct": len(right),
        "geo_mean_speedup": geometric_mean(known) if known else None,
        "fast_1": sum(ratio > 1 for ratio in ratios) / n if n else 0.0,
        "fast_2": sum(ratio > 2 for ratio in ratios) / n if n else 0.0,
        "fast_1_sure": sum(low > 1 for low in lows) / n if n else 0.0,
        "fast_2_sure": sum(low > 2 for low in lows) / n if n else 0.0,
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "cost": _cost(model, tokens_in, tokens_out),
        "tries": sum(len(a.attempts) for a in answers) + sum(a.status == "ok" for a in answers),
        "seconds": math.fsum(a.seconds for a in answers),
        "failures": _failures(answers, asked),
    }


def _failures(answers: Sequence[Answer], asked: Sequence[Question]) -> dict[str, int]:
    """Why there is no candidate, counted."""
    found: dict[str, int] = {}
    for answer in answers:
        why = answer.error or answer.status if answer.status != "ok" else first_code(answer.text)[1]
        if why:
            found[why] = found.get(why, 0) + 1
    missing = len(asked) - len(answers)
    return found | ({"not asked": missing} if missing else {})


def _record(question: Question) -> dict[str, Any] | None:
    level, problem = question.problem.level, question.problem.id
    file = results_file(question.folder, level)
    results: Results = read_results(file) if file.exists() else {}
    wanted = level, problem, question.sample
    return next((row for row in results.get(str(problem), []) if key_of(problem, row, level) == wanted), None)


def _own(record: dict[str, Any], key: str) -> float:
    """A figure of a speed-up; NaN for one that counts nowhere."""
    own = own_of(record)
    return math.nan if no_win(own) else number(own.get(key))


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _cost(model: Model, tokens_in: int | None, tokens_out: int | None) -> float | None:
    if model.price_in is None or model.price_out is None or tokens_in is None or tokens_out is None:
        return None
    return (model.price_in * tokens_in + model.price_out * tokens_out) / 1e6
