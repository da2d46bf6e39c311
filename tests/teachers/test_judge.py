"""A judge behind an endpoint: slow, wrong, absent, and paid once."""

import socket
from typing import Any

import pytest
from scripted_server import Reply, serving
from tiny_gpt import save_tiny_gpt

from pipeline.core.errors import ModelError
from pipeline.core.params import from_mapping
from pipeline.teachers.judge import Judge, JudgeParams

SETTINGS = {
    "endpoint": None, "model": "scripted", "max_new_tokens": 20, "timeout_seconds": 5.0, "retries": 2,
    "wait_seconds": 0.0, "at_once": 4, "prompt_price": 2.0, "answer_price": 10.0,
}  # fmt: skip


def judge(**changes: Any) -> Judge:
    return Judge(from_mapping({**SETTINGS, **changes}, JudgeParams, "evaluate.gptrank.judge"))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_answers_come_in_order_are_counted_and_paid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_JUDGE_KEY", "key")
    with serving(lambda prompt, before: Reply(prompt.upper())) as server:
        first = judge(endpoint=server.endpoint)
        assert first.answers(["a", "b", "c"]) == ["A", "B", "C"]
        assert sorted(server.prompts) == ["a", "b", "c"]
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer key"}
        assert (first.usage.asked, first.usage.cached, first.usage.prompt_tokens) == (3, 0, 300)
        assert first.usage.cost == pytest.approx((300 * 2 + 30 * 10) / 1e6)
        again = judge(endpoint=server.endpoint)
        assert again.answers(["c", "d"]) == ["C", "D"]
        assert (again.usage.asked, again.usage.cached) == (1, 1)
        assert len(server.prompts) == 4


@pytest.mark.parametrize(
    "failure",
    [
        Reply(status=503),
        Reply(status=429),
        Reply(body=b"no JSON"),
        Reply(body=b'{"choices": []}'),
        Reply("late", wait_seconds=1.0),
    ],
)
def test_a_failure_that_passes_is_tried_again(failure: Reply) -> None:
    with serving(lambda prompt, before: Reply("fine") if before == 2 else failure) as server:
        asked = judge(endpoint=server.endpoint, timeout_seconds=0.3 if failure.wait_seconds else 5.0)
        assert asked.answers(["a"]) == ["fine"]
        assert (asked.usage.asked, asked.usage.retried, len(server.prompts)) == (1, 2, 3)


def test_a_failure_that_stays_is_told() -> None:
    match = r"/v1: gives no answer \(status 500\)"
    with serving(lambda prompt, before: Reply(status=500)) as server, pytest.raises(ModelError, match=match):
        judge(endpoint=server.endpoint).answers(["a", "b"])
    with serving(lambda prompt, before: Reply(status=401)) as server:
        with pytest.raises(ModelError, match=r"chat/completions: refuses the request \(status 401\)"):
            judge(endpoint=server.endpoint).answers(["a"])
        assert len(server.prompts) == 1


def test_an_absent_server_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelError, match="gives no answer"):
        judge(endpoint=endpoint, retries=1).answers(["a"])
    with pytest.raises(ModelError, match="must begin with http"):
        judge(endpoint="file:///etc")


def test_a_causal_model_of_a_folder_answers_too(tmp_path: Any) -> None:
    folder = save_tiny_gpt(tmp_path / "gpt")
    asked = judge(model=str(folder), max_new_tokens=5)
    (answer,) = asked.answers(["the old bridge"])
    assert 0 < asked.usage.answer_tokens <= 5 and asked.usage.prompt_tokens == 3
    assert judge(model=str(folder), max_new_tokens=5).answers(["the old bridge"]) == [answer]
    with pytest.raises(ModelError, match="a prompt has 20 tokens, but the model only 16 positions"):
        asked.answers(["the " * 20])
