"""One question and its answer over an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
import time
from typing import Any
from urllib.parse import urlparse

import msgspec

from profkit.errors import ProfkitError

_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
_TRANSPORT = {"openai", "httpx", "httpx2", "httpcore", "httpcore2", "h11", "h2"}


class Endpoint(msgspec.Struct, forbid_unknown_fields=True):
    """Where to ask. The key is read from the variable `api_key_env` and never written down.

    timeout: seconds; retries: of what may pass: an overloaded server, a broken connection, a cut or empty answer.
    """

    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = 600.0
    retries: int = 5
    concurrency: int = 4


class Model(msgspec.Struct, forbid_unknown_fields=True):
    """One model to ask.

    `extra` goes into the request as it is. base_url and api_key_env override the endpoint's.
    """

    id: str
    name: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    system: str = ""
    base_url: str = ""
    api_key_env: str = ""
    extra: dict[str, Any] = {}

    @property
    def title(self) -> str:
        return self.name or self.id

    @property
    def folder(self) -> str:
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in self.id)
        return safe.strip(".") or "model"


class Answer(msgspec.Struct):
    """What came back. `status`: ok, empty, cut or failed. Tokens: the server's counts or None."""

    status: str
    text: str = ""
    error: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    tries: int = 1


def client_for(endpoint: Endpoint, model: Model) -> Any:
    """An openai client. Raises ProfkitError when the package or the key is missing."""
    try:
        import openai
    except ImportError as error:
        raise ProfkitError("asking models needs the openai package", fix="pip install 'profkit[llm]'") from error
    base, variable = model.base_url or endpoint.base_url, model.api_key_env or endpoint.api_key_env
    key = os.environ.get(variable, "") or ("none" if urlparse(base).hostname in _LOCAL else "")
    if not key:
        raise ProfkitError(
            f"no API key for {model.title}: the environment variable {variable} is empty",
            fix=f"export {variable}=..., or name another one as api_key_env",
        )
    return openai.OpenAI(base_url=base, api_key=key, timeout=endpoint.timeout, max_retries=endpoint.retries)


def ask(client: Any, endpoint: Endpoint, model: Model, prompt: str) -> Answer:
    """Ask until the answer is whole or the retries are used up; no server error is raised."""
    began, tries = time.monotonic(), 0
    while True:
        answer, tries = _once(client, model, prompt), tries + 1
        if answer.status in ("ok", "failed") or tries > endpoint.retries:
            answer.tries, answer.seconds = tries, time.monotonic() - began
            return answer


def _once(client: Any, model: Model, prompt: str) -> Answer:
    import openai

    answer = Answer("ok")
    try:
        with client.chat.completions.create(**_request(model, prompt)) as pieces:
            for piece in pieces:
                if (usage := getattr(piece, "usage", None)) is not None:
                    answer.prompt_tokens, answer.completion_tokens = usage.prompt_tokens, usage.completion_tokens
                for choice in piece.choices or []:
                    answer.text += (choice.delta.content or "") if choice.delta is not None else ""
                    answer.finish_reason = choice.finish_reason or answer.finish_reason
    except openai.APIStatusError as error:
        return Answer("failed", error=f"HTTP {error.status_code}: {_short(error)}")
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _TRANSPORT and not isinstance(error, (OSError, ValueError)):
            raise
        return Answer("cut", error=f"{type(error).__name__}: {_short(error.__cause__ or error)}")
    if not answer.finish_reason:
        answer.status = "cut"
        answer.error = f"the answer ended after {len(answer.text)} characters without a finish_reason"
    elif not answer.text.strip():
        answer.status, answer.error = "empty", f"an empty answer (finish_reason {answer.finish_reason})"
    return answer


def _request(model: Model, prompt: str) -> dict[str, Any]:
    system = [{"role": "system", "content": model.system}] if model.system else []
    asked = {"temperature": model.temperature, "max_tokens": model.max_tokens, "extra_body": model.extra or None}
    return {
        "model": model.id,
        "messages": [*system, {"role": "user", "content": prompt}],
        "stream": True,
        "stream_options": {"include_usage": True},
        **{name: value for name, value in asked.items() if value is not None},
    }


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
