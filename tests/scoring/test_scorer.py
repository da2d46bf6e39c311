"""BleurtScorer: transformers' own scores in any batching, each pair once, streams, threads, settings, signatures."""

import copy
import itertools
import pickle
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import pipeline.scoring
from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.scoring import chunks
from pipeline.scoring.chunks import Pair
from pipeline.scoring.scorer import BleurtScorer

Texts = list[str]


def rows_computed(scorer: BleurtScorer, call: Callable[[], object]) -> int:
    """How many rows the model reads during `call`."""
    seen: list[int] = []
    hook = scorer._replicas.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    call()
    hook.remove()
    return sum(seen)


def test_the_package_exports_the_scorer_lazily() -> None:
    assert pipeline.scoring.BleurtScorer is BleurtScorer
    with pytest.raises(AttributeError, match="no attribute 'Bleurt'"):
        _ = pipeline.scoring.Bleurt


def test_scores_are_those_of_transformers_one_pair_at_a_time(
    scorer: BleurtScorer, references: Texts, candidates: Texts
) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(scorer.checkpoint).eval()
    tokenizer = AutoTokenizer.from_pretrained(scorer.checkpoint)
    with torch.inference_mode():
        expected = [
            float(model(**tokenizer([z], [c], return_tensors="pt")).logits[0, 0])
            for z, c in zip(references, candidates, strict=True)
        ]
    assert scorer.score(references, candidates) == pytest.approx(expected, abs=1e-5)
    assert len(set(expected)) == 5


def test_batching_and_order_change_no_score(checkpoint: Path, references: Texts, candidates: Texts) -> None:
    narrow = BleurtScorer(checkpoint, device="cpu", batch_tokens=1)
    expected = narrow.score(references, candidates)
    wide = BleurtScorer(checkpoint, device="cpu", batch_tokens=10_000)
    for size in (None, 1, 2):
        assert wide.score(references, candidates, batch_size=size) == pytest.approx(expected, abs=1e-5)
    assert wide.score(references[::-1], candidates[::-1]) == pytest.approx(expected[::-1], abs=1e-5)


def test_each_distinct_pair_is_computed_once(scorer: BleurtScorer, references: Texts, candidates: Texts) -> None:
    found: list[float] = []
    again = [f" {text} " for text in candidates]
    assert rows_computed(scorer, lambda: found.extend(scorer.score(references * 2, candidates + again))) == 5
    assert found[:5] == found[5:]


def test_batch_size_bounds_the_rows_of_a_batch(scorer: BleurtScorer, references: Texts, candidates: Texts) -> None:
    sizes: list[int] = []
    hook = scorer._replicas.model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    scorer.score(references, candidates, batch_size=2)
    hook.remove()
    assert sorted(sizes) == [1, 2, 2]


def test_of_several_references_the_highest_or_the_mean_counts(checkpoint: Path, scorer: BleurtScorer) -> None:
    several = ["the cat sat", "a dog ran", ""]
    singles = [scorer.score([text], ["the cat ran"])[0] for text in several[:2]]
    assert scorer.score([several], ["the cat ran"]) == pytest.approx([max(singles)], abs=1e-5)
    mean = BleurtScorer(checkpoint, device="cpu", multi="mean")
    assert mean.score([several], ["the cat ran"]) == pytest.approx([sum(singles) / 2], abs=1e-5)
    assert singles[0] != pytest.approx(singles[1], abs=1e-3)


def test_no_pairs_have_no_scores(scorer: BleurtScorer) -> None:
    assert scorer.score([], []) == []


def test_chunks_change_no_score(
    scorer: BleurtScorer, references: Texts, candidates: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = scorer.score(references * 3, candidates * 3)
    monkeypatch.setattr(chunks, "CHUNK_PAIRS", 4)
    assert scorer.score(references * 3, candidates * 3) == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 1)
    assert scorer.score(references * 3, candidates * 3) == pytest.approx(expected, abs=1e-5)


def test_an_endless_stream_is_read_three_chunks_ahead_at_most(
    scorer: BleurtScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_PAIRS", 2)
    read = itertools.count()

    def endless() -> Iterator[Pair]:
        while next(read) >= 0:
            yield Pair(("the cat",), "a cat")

    stream = scorer.stream(endless())
    scores = [next(stream).score for _ in range(5)]
    stream.close()
    assert len(scores) == 5 and next(read) <= 10
    assert set(scores) == set(scorer.score(["the cat"], ["a cat"]))


def test_a_pair_is_truncated_where_it_has_more_tokens_than_are_read(checkpoint: Path) -> None:
    scorer = BleurtScorer(checkpoint, device="cpu", max_tokens=12)
    fits, long = "the cat sat on", "the cat sat on the"
    assert [len(scorer.tokenizer(fits, text)["input_ids"]) for text in ("the cat sat on the", long + " mat")] == [
        12,
        13,
    ]
    with pytest.warns(UserWarning, match="^1 of 3 pairs have more than 12 tokens and were cut; long='windows'"):
        found = scorer.score_detailed([fits] * 3, ["the cat sat on the", f"{long} mat", "the"])
    assert [scored.truncated for scored in found] == [False, True, False]
    with pytest.warns(UserWarning, match="^1 of 1 pairs") as caught:
        scorer.score([fits], [f"{long} mat"])
    assert caught[0].filename == __file__, "a warning names the caller's line"


def test_long_pairs_are_read_in_windows_on_request(checkpoint: Path) -> None:
    scorer = BleurtScorer(checkpoint, device="cpu", max_tokens=20, long="windows")
    first, second = "the cat sat on the mat.", "a dog ran."
    (whole,) = scorer.score_detailed([f"{first} {second}"], [f"{first} {second}"])
    parts = scorer.score([first, second], [first, second])
    assert (whole.windows, whole.truncated) == (2, False)
    assert whole.score == pytest.approx((6 * parts[0] + 3 * parts[1]) / 9, abs=1e-5)
    (short,) = scorer.score_detailed([first], ["the cat sat"])
    assert short.windows == 1


def test_a_window_that_does_not_fit_is_still_truncated(checkpoint: Path) -> None:
    scorer = BleurtScorer(checkpoint, device="cpu", max_tokens=10, long="windows")
    with pytest.warns(UserWarning, match="1 of 1 pairs"):
        (found,) = scorer.score_detailed(["cat"], ["c" * 50])
    assert (found.truncated, found.windows) == (True, 1)


def test_several_copies_share_the_work(
    checkpoint: Path, scorer: BleurtScorer, references: Texts, candidates: Texts
) -> None:
    two = BleurtScorer(checkpoint, device=["cpu", "cpu"], batch_tokens=20)
    assert two.score(references, candidates) == pytest.approx(scorer.score(references, candidates), abs=1e-5)


def test_threads_may_share_a_scorer(scorer: BleurtScorer, references: Texts, candidates: Texts) -> None:
    expected = scorer.score(references, candidates)
    turns = [(number, references[number:] + references[:number]) for number in range(5)]
    with ThreadPoolExecutor(8) as threads:
        found = [
            (number, threads.submit(scorer.score, mine, candidates[number:] + candidates[:number]))
            for number, mine in turns * 4
        ]
        for number, scores in found:
            assert scores.result() == pytest.approx(expected[number:] + expected[:number], abs=1e-5)


def test_bf16_is_another_precision_with_another_signature(checkpoint: Path, scorer: BleurtScorer) -> None:
    rough = BleurtScorer(checkpoint, device="cpu", precision="bf16")
    assert (scorer.precision, rough.precision) == ("float32", "bf16")
    assert rough.signature() != scorer.signature()
    change = abs(rough.score(["the cat sat"], ["a dog ran"])[0] - scorer.score(["the cat sat"], ["a dog ran"])[0])
    assert 0 < change < 0.1


def test_a_scorer_can_be_copied_and_sent(scorer: BleurtScorer) -> None:
    assert copy.deepcopy({"metric": scorer})["metric"] is scorer
    sent = pickle.loads(pickle.dumps(scorer))
    assert sent.signature() == scorer.signature()
    assert sent.score(["a dog"], ["the cat"]) == scorer.score(["a dog"], ["the cat"])


def test_equal_signatures_mean_equal_checkpoints_and_settings(checkpoint: Path, tmp_path: Path) -> None:
    def signature(folder: Path, **settings: object) -> str:
        return str(BleurtScorer(folder, device="cpu", **settings).signature())

    copied = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    (copied / "README.md").write_text("a card", encoding="utf-8")
    first = signature(checkpoint)
    assert first == signature(copied)
    assert first.endswith("|output:adequacy|" + first.split("|output:adequacy|")[1])
    assert first.endswith(
        "|precision:float32|max_tokens:64|references:max|long:cut|character_references:undone|edges:2|activation:gelu"
        "|reads:reference"
    )
    others = [{"max_tokens": 32}, {"multi": "mean"}, {"long": "windows"}, {"character_references": "kept"}]
    assert len({first, *(signature(copied, **other) for other in others)}) == 5
    weights = load_file(copied / "model.safetensors")
    weights["classifier.bias"] += 1
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    assert signature(copied) != first


def test_of_several_outputs_one_is_the_score(new_checkpoint: Callable[..., Path]) -> None:
    folder = new_checkpoint("fluency", "adequacy")
    chosen = {name: BleurtScorer(folder, device="cpu", output=name) for name in (None, "adequacy", "fluency")}
    scores = {name: scorer.score(["the cat"], ["a dog"])[0] for name, scorer in chosen.items()}
    assert scores[None] == scores["adequacy"] != scores["fluency"]
    assert chosen["fluency"].signature().output == "fluency"
    with pytest.raises(ModelError, match="has the outputs fluency, adequacy; name one of these, not 'grammar'"):
        BleurtScorer(folder, device="cpu", output="grammar")


def test_the_only_output_is_the_score_whatever_its_name(new_checkpoint: Callable[..., Path]) -> None:
    assert BleurtScorer(new_checkpoint("semantics"), device="cpu").output == "semantics"


@pytest.mark.parametrize(
    ("references", "candidates", "message"),
    [
        (["a", "b"], ["a"], "references: has 2 entries, but candidates has 1."),
        ("a", ["a"], "references: must be a list of texts, not one text: 'a'."),
        (["a"], "a", "candidates: must be a list of texts, not one text: 'a'."),
        (["a", None], ["a", "b"], "references, line 2: must be text."),
        ([["a"], ["b", 7]], ["a", "b"], "references, line 2: must be text: 7."),
        ([[]], ["a"], "references, line 1: holds no text."),
        (["a"], [float("nan")], "candidates, line 1: must be text: nan."),
        (["a"], ["b\ud83d"], "candidates, line 1: not valid UTF-8: 'b\\ud83d'."),
    ],
)
def test_what_is_no_text_is_refused(scorer: BleurtScorer, references: list, candidates: list, message: str) -> None:
    with pytest.raises(InputError) as refused:
        scorer.score(references, candidates)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"multi": "min"}, "^multi: must be one of max, mean, not 'min'"),
        ({"long": "drop"}, "^long: must be one of cut, windows, not 'drop'"),
        ({"precision": "fp8"}, "^precision: must be one of auto, float32, bf16, int8, not 'fp8'"),
        ({"max_tokens": 65}, "^max_tokens: must lie between 5 and 64 for this model, not 65"),
        ({"device": "tpu"}, "^device: 'tpu' is not a device that torch finds on this machine"),
    ],
)
def test_settings_that_cannot_be_met_are_named(checkpoint: Path, settings: dict[str, str], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        BleurtScorer(checkpoint, **{"device": "cpu", **settings})


def test_a_damaged_checkpoint_is_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    (folder / "model.safetensors").write_bytes((checkpoint / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(ModelError, match=f"^{folder}: cannot be loaded"):
        BleurtScorer(folder, device="cpu")


def test_weights_that_give_no_number_are_no_metric(checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] += numpy.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="gives some pairs no finite score"):
        BleurtScorer(folder, device="cpu").score(["a"], ["b"])


def test_settings_below_one_are_refused(checkpoint: Path, scorer: BleurtScorer) -> None:
    for settings, message in (
        ({"device": []}, "device: must name at least one"),
        ({"max_tokens": 0}, "max_tokens: must be at least 1, not 0"),
        ({"batch_tokens": -5}, "batch_tokens: must be at least 1, not -5"),
    ):
        with pytest.raises(ParamsError, match=message):
            BleurtScorer(checkpoint, **settings)
    with pytest.raises(ParamsError, match="batch_size: must be at least 1, not -1"):
        scorer.score(["a"], ["b"], batch_size=-1)
