"""GPTRank with a judge whose taste is known: wins counted by hand, ties, answers that say nothing."""

import re
from pathlib import Path
from typing import Any

import numpy
import pytest
from scripted_server import Reply, serving

from pipeline.core.errors import InputError, ModelError
from pipeline.core.params import from_mapping
from pipeline.evaluate.metrics import Texts, known_metrics
from pipeline.evaluate.metrics.gptrank import Contest, Params, beaten

JUDGE = {
    "endpoint": "http://127.0.0.1:9/v1", "model": "scripted", "max_new_tokens": 20, "timeout_seconds": 5.0,
    "retries": 0, "wait_seconds": 0.0, "at_once": 2, "prompt_price": 0.0, "answer_price": 0.0,
}  # fmt: skip
CANDIDATES = ("nice long text", "long text", "text", "other text")
TEXTS = Texts((("z",),) * 4, (None,) * 4, CANDIDATES)
LONE = Texts((*TEXTS.references, ("alone",)), (None,) * 5, (*CANDIDATES, "nice"))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def params(endpoint: str, **changes: Any) -> Params:
    values = {"judge": JUDGE | {"endpoint": endpoint}, "list_size": 8, "prompts": None, "seed": 1, **changes}
    return from_mapping(values, Params, "evaluate.gptrank")


def shown(prompt: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Z]): (.*)$", prompt, re.MULTILINE))


def by_words(prompt: str, before: int) -> Reply:
    """Prefers more words; equal numbers are a tie."""
    assert "Reference: z" in prompt
    lengths = {letter: len(text.split()) for letter, text in shown(prompt).items()}
    steps = [[a for a in lengths if lengths[a] == size] for size in sorted(set(lengths.values()), reverse=True)]
    if "Preference:" in prompt:
        return Reply(f"Words count.\nPreference: {'tie' if len(steps) == 1 else steps[0][0]}")
    return Reply("Words count.\n**Ranking:** " + " > ".join(" = ".join(step) for step in steps))


@pytest.mark.parametrize("name", ["gptrank", "gptrank_pairwise"])
def test_shares_of_beaten_rivals_by_hand(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    # 3 words beat all; 2 words beat one word and tie with 2 words: (1 + 1/2) of 3.
    metric = known_metrics()[name]
    with serving(by_words) as server:
        found = metric.score(LONE, params(server.endpoint), 0)
        assert found == pytest.approx([1.0, 0.5, 0.0, 0.5, numpy.nan], nan_ok=True)
        asked = 1 if name == "gptrank" else 12
        assert len(server.prompts) == asked
        assert f"{name}: 0 of {asked} answers could not be understood" in capsys.readouterr().err
        assert metric.score(LONE, params(server.endpoint), 0) == pytest.approx(found, nan_ok=True)
        assert len(server.prompts) == asked
        assert f"0 answers asked for, {asked} from the cache" in capsys.readouterr().err


def test_a_judge_that_always_takes_the_first_gives_ties_in_both_orders() -> None:
    with serving(lambda prompt, before: Reply("Preference: A")) as server:
        found = known_metrics()["gptrank_pairwise"].score(TEXTS, params(server.endpoint), 0)
    assert found == pytest.approx([0.5] * 4)


@pytest.mark.parametrize(
    "answer", ["Ranking: A > B", "Ranking: A > A > B > C", "I cannot say.", "", "Ranking: A > B > C > E"]
)
def test_what_cannot_be_understood_is_a_counted_tie(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda prompt, before: Reply(answer)) as server:
        found = known_metrics()["gptrank"].score(TEXTS, params(server.endpoint), 0)
    assert found == pytest.approx([0.5] * 4)
    assert "1 of 1 answers could not be understood and count as ties" in capsys.readouterr().err


def test_many_candidates_are_dealt_into_lists() -> None:
    texts = Texts((("z",),) * 5, (None,) * 5, tuple("x " * size for size in range(1, 6)))
    with serving(by_words) as server:
        found = known_metrics()["gptrank"].score(texts, params(server.endpoint, list_size=3), 0)
        assert sorted(len(shown(prompt)) for prompt in server.prompts) == [2, 3]
    assert found.mean() == pytest.approx(0.5) and set(found.tolist()) == {0.0, 0.5, 1.0}


def test_points_of_a_contest_by_hand() -> None:
    found = beaten([Contest("z", (0, 1)), Contest("z", (0, 2)), Contest("z", (0, 1))], [[0, 1], [1, 0], None], 4)
    assert found == pytest.approx([(1 + 0 + 0.5) / 3, (0 + 0.5) / 2, 1.0, numpy.nan], nan_ok=True)


def test_an_absent_judge_and_a_bad_template_are_told(tmp_path: Path) -> None:
    metric = known_metrics()["gptrank"]
    with pytest.raises(ModelError, match="gives no answer"):
        metric.score(TEXTS, params("http://127.0.0.1:9/v1"), 0)
    with pytest.raises(InputError, match=r"ranking.txt.jinja: cannot be read"):
        metric.score(TEXTS, params("http://127.0.0.1:9/v1", prompts=str(tmp_path)), 0)
    (tmp_path / "ranking.txt.jinja").write_text("{{ unknown }}", encoding="utf-8")
    with pytest.raises(InputError, match=r"ranking.txt.jinja: is no usable template \('unknown' is undefined\)"):
        metric.score(TEXTS, params("http://127.0.0.1:9/v1", prompts=str(tmp_path)), 0)


def test_a_prompt_of_ones_own_is_used(tmp_path: Path) -> None:
    (tmp_path / "ranking.txt.jinja").write_text("{{ reference }}|{{ candidates | join(',') }}", encoding="utf-8")
    with serving(lambda prompt, before: Reply("Ranking: A = B = C = D")) as server:
        known_metrics()["gptrank"].score(TEXTS, params(server.endpoint, prompts=str(tmp_path)), 0)
        assert server.prompts == ["z|A,B,C,D"]
