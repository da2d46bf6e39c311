"""A language model that answers prompts: behind any OpenAI-compatible endpoint, or a causal model on this machine.

Answers are asked for at temperature 0 and kept in `.work/judge`, a file for each, so that no prompt is paid for twice.
A request that fails for a reason that may pass (no connection, no answer in time, status 408, 429 or 5xx, an answer
that is not as the protocol says) is tried again, each time after a wait twice as long. What was asked, found in the
cache and tried again, and the tokens, are counted. The environment variable BLEURT_JUDGE_KEY holds the endpoint's key.
"""

import hashlib
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.core import work
from pipeline.core.errors import ModelError
from pipeline.core.params import AtLeastOne, AtLeastZero, ModelName, NotNegative, Positive, params
from pipeline.core.work import write_json

KEY = "BLEURT_JUDGE_KEY"
PASSING = (408, 429)
"""Statuses below 500 that may pass."""


@params
class JudgeParams:
    """Whom to ask, and how.

    `endpoint`: base URL such as "http://127.0.0.1:8000/v1"; null for the causal `model` of a folder or a hub.
    `max_new_tokens`: of an answer. `retries`: further tries, the first after `wait_seconds`. `at_once`: requests that
    wait side by side. `prompt_price`, `answer_price`: of a million tokens.
    """

    endpoint: str | None
    model: ModelName
    max_new_tokens: AtLeastOne
    timeout_seconds: Positive
    retries: AtLeastZero
    wait_seconds: NotNegative
    at_once: AtLeastOne
    prompt_price: NotNegative
    answer_price: NotNegative


@dataclass
class Usage:
    """What answers took: how many were `asked` for and how many were `cached`, tries that failed, tokens, the cost."""

    asked: int = 0
    cached: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost: float = 0.0


class _PassingError(Exception):
    """A failure that may pass."""


class Judge:
    """Answers prompts; `usage` counts. Threads may ask side by side."""

    def __init__(self, settings: JudgeParams) -> None:
        if settings.endpoint is not None and not settings.endpoint.startswith(("http://", "https://")):
            raise ModelError(f"{settings.endpoint}: an endpoint must begin with http:// or https://.")
        self.settings = settings
        self.usage = Usage()
        self._lock = threading.Lock()

    def answers(self, prompts: Sequence[str]) -> list[str]:
        """The answer to each prompt; a ModelError says why there is none."""
        if self.settings.endpoint is None or len(prompts) < 2:
            return [self._answer(prompt) for prompt in prompts]
        with ThreadPoolExecutor(self.settings.at_once) as pool:
            futures = [pool.submit(self._answer, prompt) for prompt in prompts]
            try:
                return [future.result() for future in futures]
            except ModelError:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _answer(self, prompt: str) -> str:
        file = self._file(prompt)
        try:
            kept = str(json.loads(file.read_text(encoding="utf-8"))["answer"])
        except (OSError, ValueError, KeyError, TypeError):
            text, prompt_tokens, answer_tokens = self._ask(prompt)
            tokens = {"prompt_tokens": prompt_tokens, "answer_tokens": answer_tokens}
            write_json(file, {"model": self.settings.model, "prompt": prompt, "answer": text, **tokens})
            price = self.settings.prompt_price * prompt_tokens + self.settings.answer_price * answer_tokens
            self._count(asked=1, cost=price / 1e6, **tokens)
            return text
        self._count(cached=1)
        return kept

    def _count(self, **more: float) -> None:
        with self._lock:
            for name, value in more.items():
                setattr(self.usage, name, getattr(self.usage, name) + value)

    def _file(self, prompt: str) -> Path:
        asked = [self.settings.endpoint, self.settings.model, self.settings.max_new_tokens, prompt]
        name = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        return work.WORK / "judge" / name[:2] / f"{name[2:40]}.json"

    def _ask(self, prompt: str) -> tuple[str, int, int]:
        """The answer, and the tokens of prompt and answer."""
        if self.settings.endpoint is None:
            from pipeline.teachers.language_model import load_language_model

            return load_language_model(self.settings.model).answer(prompt, self.settings.max_new_tokens)
        for attempt in range(self.settings.retries + 1):
            try:
                return self._post(prompt)
            except _PassingError as error:
                if attempt == self.settings.retries:
                    raise ModelError(f"{self.settings.endpoint}: gives no answer ({error}).") from error
                self._count(retried=1)
                time.sleep(self.settings.wait_seconds * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _post(self, prompt: str) -> tuple[str, int, int]:
        body = {
            "model": self.settings.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": self.settings.max_new_tokens,
        }
        headers = {"Content-Type": "application/json"}
        if os.environ.get(KEY):
            headers["Authorization"] = f"Bearer {os.environ[KEY]}"
        url = f"{str(self.settings.endpoint).rstrip('/')}/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.settings.timeout_seconds) as reply:
                return _read(json.loads(reply.read()))
        except urllib.error.HTTPError as error:
            status = f"status {error.code}"
            if error.code >= 500 or error.code in PASSING:
                raise _PassingError(status) from error
            raise ModelError(f"{url}: refuses the request ({status}).") from error
        except (OSError, http.client.HTTPException) as error:
            raise _PassingError(str(getattr(error, "reason", error)) or type(error).__name__) from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise _PassingError("its answer is not as the protocol says") from error


def _read(reply: Any) -> tuple[str, int, int]:
    """The answer of a reply, and the tokens of prompt and answer (0 where the server does not count)."""
    text = reply["choices"][0]["message"]["content"] or ""
    usage = reply.get("usage") or {}
    return str(text), int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)


def described(usage: Usage) -> str:
    """Usage in words.

    >>> described(Usage(asked=2, cached=1, prompt_tokens=1200, answer_tokens=90, cost=0.5))
    '2 answers asked for, 1 from the cache, 0 tries failed, 1,200 + 90 tokens, cost 0.5'
    """
    found = asdict(usage)
    return (
        f"{found['asked']:,} answers asked for, {found['cached']:,} from the cache, {found['retried']:,} tries failed, "
        f"{found['prompt_tokens']:,} + {found['answer_tokens']:,} tokens, cost {found['cost']:.4g}"
    )
