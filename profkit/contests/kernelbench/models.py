"""Ask every model every problem, evaluate the answers, and make the table of models.

    <output>/<name>/<model>/level_1_problem_3_sample_0_prompt.txt
                            level_1_problem_3_sample_0_answer.json     text, tokens; no key
                            level_1_problem_3_sample_0_kernel.py       when the answer held code
                            eval_results.json                          official form
    <output>/<name>/models.json                                        the table

What is answered already is not asked again.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlparse

import msgspec

from analyzers.records import number
from profkit.contests.kernelbench.evaluation import evaluate, in_turn
from profkit.contests.kernelbench.files import (
    RESULTS,
    Problem,
    candidates,
    own_of,
    problems,
    read_results,
)
from profkit.contests.prompt import first_code, prompt_for
from profkit.errors import ProfkitError
from profkit.launch.protocol import Progress
from profkit.rundir.files import write_atomic

if TYPE_CHECKING:
    from profkit.record.request import Request

SCHEMA = "profkit-models/1"
EXAMPLE = """[endpoint]
base_url = "https://api.example.com/v1"
api_key_env = "OPENAI_API_KEY"

[task]
problems = "KernelBench"
level = 1
problem_ids = [1, 3]

[[model]]
id = "some-model"
request = {temperature = 0.5}
"""
_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}


class Endpoint(msgspec.Struct, forbid_unknown_fields=True):
    """Endpoint of a model. The key is read from the variable `api_key_env` and never written.

    timeout: seconds; retries: of an overloaded server or a broken connection, by the openai package.
    """

    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = 600.0
    retries: Annotated[int, msgspec.Meta(ge=0)] = 5
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 4


class Model(msgspec.Struct, forbid_unknown_fields=True):
    """One model to ask. `request`: more fields of the request, such as temperature."""

    id: str
    name: str = ""
    request: dict[str, Any] = {}

    @property
    def title(self) -> str:
        return self.name or self.id

    @property
    def folder(self) -> str:
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in self.id)
        return safe.strip(".") or "model"


class Answer(msgspec.Struct):
    """A model's answer, or the `error`. Tokens: the server's counts, 0 without."""

    text: str = ""
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Task(msgspec.Struct, forbid_unknown_fields=True):
    """Problems, and number of answers to each. No problem_ids: the whole level."""

    problems: str
    level: int = 1
    problem_ids: list[int] = []
    samples: Annotated[int, msgspec.Meta(ge=1)] = 1
    output: str = "runs"
    name: str = "models"


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    endpoint: Endpoint
    task: Task
    model: list[Model]


@dataclass(frozen=True)
class Question:
    """One model, one problem, one sample, and the folder of its files."""

    model: Model
    problem: Problem
    sample: int
    folder: Path

    def file(self, what: str) -> Path:
        return self.folder / f"level_{self.problem.level}_problem_{self.problem.id}_sample_{self.sample}_{what}"

    @property
    def answer(self) -> Answer | None:
        """The kept answer; None if missing or damaged."""
        try:
            return msgspec.json.decode(self.file("answer.json").read_bytes(), type=Answer)
        except (OSError, msgspec.DecodeError):
            return None


def read_config(file: Path) -> Config:
    """Read config.toml. Raises ProfkitError with the file and the field."""
    try:
        config = msgspec.toml.decode(file.read_bytes(), type=Config)
    except OSError as error:
        raise ProfkitError(f"{file}: {error.strerror}", fix=f"example:\n{EXAMPLE}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProfkitError(f"{file}: {error}", fix=f"example:\n{EXAMPLE}") from error
    if not config.model:
        raise ProfkitError(f"{file}: no [[model]]", fix="name at least one model")
    double, count = Counter(model.folder for model in config.model).most_common(1)[0]
    if count > 1:
        raise ProfkitError(
            f"{file}: two models share the folder {double!r}", fix="increase the number of samples instead"
        )
    return config


def questions(config: Config, root: Path) -> list[Question]:
    """All questions. Raises ProfkitError for a missing problem."""
    task = config.task
    base = root / task.output / task.name
    return [
        Question(model, problem, sample, base / model.folder)
        for model in config.model
        for problem in problems(root / task.problems, task.level, task.problem_ids)
        for sample in range(task.samples)
    ]


def client_for(endpoint: Endpoint) -> Any:
    """An openai client. Raises ProfkitError if the package or the key is missing."""
    try:
        import openai
    except ImportError as error:
        raise ProfkitError("asking models needs the openai package", fix="pip install 'profkit[llm]'") from error
    variable = endpoint.api_key_env
    key = os.environ.get(variable, "") or ("none" if urlparse(endpoint.base_url).hostname in _LOCAL else "")
    if not key:
        what = f"no API key: the environment variable {variable} is empty"
        raise ProfkitError(what, fix=f"export {variable}=..., or name another one as api_key_env")
    return openai.OpenAI(
        base_url=endpoint.base_url, api_key=key, timeout=endpoint.timeout, max_retries=endpoint.retries
    )


def ask(client: Any, model: Model, prompt: str) -> Answer:
    """Ask one question; a server or connection error is in the answer."""
    import openai

    messages = [{"role": "user", "content": prompt}]
    try:
        reply = client.chat.completions.create(model=model.id, messages=messages, extra_body=model.request or None)
        text, usage = reply.choices[0].message.content or "", reply.usage
    except openai.APIStatusError as error:
        return Answer(error=f"HTTP {error.status_code}: {_short(error)}")
    except (openai.OpenAIError, ValueError) as error:
        return Answer(error=f"{type(error).__name__}: {_short(error.__cause__ or error)}")
    except (AttributeError, IndexError, TypeError):
        return Answer(error="what came back is no chat completion")
    tokens = (usage.prompt_tokens, usage.completion_tokens) if usage is not None else ()
    return Answer(text, "" if text.strip() else "an empty answer", *tokens)


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def ask_all(config: Config, asked: Sequence[Question], *, progress: Progress = lambda _: None) -> None:
    """Ask all unanswered questions, several at a time; each answer is written at once."""
    waiting = [one for one in asked if (kept := one.answer) is None or kept.error]
    client = client_for(config.endpoint) if waiting else None

    def put(question: Question) -> None:
        problem, model = question.problem, question.model
        prompt = prompt_for(f"l{problem.level}p{problem.id}", problem.path.read_text("utf-8", "replace"), [])
        question.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(question.file("prompt.txt"), prompt.encode())
        answer = ask(client, model, prompt)
        write_atomic(question.file("answer.json"), msgspec.json.format(msgspec.json.encode(answer), indent=1))
        code, _ = first_code(answer.text)
        if code:
            write_atomic(question.file("kernel.py"), code.encode())
        progress(f"{model.title} {problem.name} #{question.sample}: {answer.error or 'answered'}")

    pool = ThreadPoolExecutor(max_workers=config.endpoint.concurrency)
    try:
        for done in [pool.submit(put, question) for question in waiting]:
            done.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def evaluate_all(asked: Sequence[Question], request: Request, progress: Progress = lambda _: None) -> None:
    """Evaluate all candidates, one at a time, as they share the device."""

    for folder in dict.fromkeys(question.folder for question in asked):
        mine = [question.problem for question in asked if question.folder == folder]
        if folder.is_dir() and candidates(folder, mine[0].level):
            evaluate([*dict.fromkeys(mine)], folder, mine[0].level, request, runner=in_turn(progress))


def table(config: Config, asked: Sequence[Question]) -> list[dict[str, Any]]:
    """One row per model, in file order; speed-ups are those measured in pairs."""
    return [_row(model, [q for q in asked if q.model.id == model.id]) for model in config.model]


def _row(model: Model, asked: Sequence[Question]) -> dict[str, Any]:
    answers = [answer for question in asked if (answer := question.answer) is not None]
    records = [record for question in asked if (record := _record(question)) is not None]
    right = [record for record in records if record["correctness"]]
    known = [ratio for record in right if (ratio := _own(record, "speedup")) > 0]
    # Why there is no candidate.
    why, missing = (a.error or first_code(a.text)[1] for a in answers), len(asked) - len(answers)

    def share(key: str, p: float) -> float:
        return sum(_own(record, key) > p for record in right) / len(asked)

    return {
        "model": model.title,
        "id": model.id,
        "asked": len(asked),
        "answered": sum(not a.error for a in answers),
        "evaluated": len(records),
        "compiled": sum(bool(r["compiled"]) for r in records),
        "correct": len(right),
        "geo_mean_speedup": geometric_mean(known) if known else None,
        "fast_1": share("speedup", 1),
        "fast_2": share("speedup", 2),
        "fast_1_sure": share("speedup_low", 1),
        "fast_2_sure": share("speedup_low", 2),
        "prompt_tokens": sum(a.prompt_tokens for a in answers),
        "completion_tokens": sum(a.completion_tokens for a in answers),
        "failures": dict(Counter(filter(None, why))) | ({"not asked": missing} if missing else {}),
    }


def _record(question: Question) -> dict[str, Any] | None:
    file = question.folder / RESULTS
    rows = read_results(file).get(str(question.problem.id), []) if file.exists() else []
    return next((row for row in rows if row["sample_id"] == question.sample), None)


def _own(record: dict[str, Any], key: str) -> float:
    """A figure of a speed-up; NaN if it does not count."""
    from profkit.contests.kernelbench.fastp import no_win  # numpy

    own = own_of(record)
    return math.nan if no_win(own) else number(own, key)
