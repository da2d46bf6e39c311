"""`bleurt explain`: attributions with an oracle, kept signals, text and page that carry no commands."""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_filler import save_tiny_filler

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import load_tokenizer
from pipeline.metric.checkpoint import HEADS, TARGETS, Head, save_targets
from pipeline.metric.tasks import Loss, Scaling, Targets, tasks_of
from pipeline.scoring import coloured_text
from pipeline.scoring.__main__ import main
from pipeline.scoring.attribution import MAX_STEPS, TOLERANCE, Attribution, Baseline, Word, attribute
from pipeline.scoring.cli import explain
from pipeline.scoring.coloured_text import Panel
from pipeline.scoring.inputs import Segment
from pipeline.scoring.scorer import BleurtScorer

NewCheckpoint = Callable[..., Path]
REFERENCE, CANDIDATE = "the cat sat on the mat.", "the dogs ran, paris"


class Linear(torch.nn.Module):
    """A model whose score is twice the sum of the first feature of all embeddings."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, 3)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embedding

    def forward(self, input_ids: torch.Tensor, **_: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=2 * self.embedding(input_ids)[..., :1].sum(1))


def test_a_linear_models_attributions_are_its_weights_times_the_way(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(save_tiny_filler(tmp_path))
    torch.manual_seed(1)
    model = Linear(len(tokenizer))
    found = attribute(model, tokenizer, "the cat", "dogs", 64, Baseline.PAD)
    vectors = model.embedding.weight[:, 0].tolist()

    def worth(*pieces: str) -> float:
        return sum(2 * (vectors[tokenizer.convert_tokens_to_ids(p)] - vectors[tokenizer.pad_token_id]) for p in pieces)

    assert [(word.start, word.end) for word in found.reference] == [(0, 3), (4, 7)]
    assert [word.value for word in found.reference] == pytest.approx([worth("the"), worth("cat")], abs=1e-5)
    (dogs,) = found.candidate
    assert (dogs.start, dogs.end) == (0, 4) and dogs.value == pytest.approx(worth("dog", "##s"), abs=1e-5)
    assert found.gap == pytest.approx(0, abs=1e-5) and found.steps == 32


@pytest.mark.parametrize("head", Head)
@pytest.mark.parametrize("baseline", Baseline)
def test_attributions_are_complete(new_checkpoint: NewCheckpoint, head: Head, baseline: Baseline) -> None:
    scorer = BleurtScorer(new_checkpoint("adequacy", head=head), device="cpu")
    found = attribute(scorer.model, scorer.tokenizer, REFERENCE, CANDIDATE, scorer.max_tokens, baseline)
    assert found.score == pytest.approx(scorer.score([REFERENCE], [CANDIDATE])[0], abs=1e-5)  # also: no hook is left
    whole = sum(word.value for word in (*found.reference, *found.candidate))
    assert whole == pytest.approx(found.score - found.baseline - found.gap, abs=1e-5)
    assert abs(found.gap) <= (TOLERANCE if found.steps < MAX_STEPS else 4 * TOLERANCE)
    assert [REFERENCE[word.start : word.end] for word in found.reference] == re.findall(r"\w+|\.", REFERENCE)


def test_words_that_were_cut_off_have_no_attribution(scorer: BleurtScorer) -> None:
    found = attribute(scorer.model, scorer.tokenizer, "the cat", "dog " * 100, 12)
    assert len(found.reference) == 2 and len(found.candidate) == 12 - 3 - 2


def test_an_empty_candidate_leaves_everything_to_the_reference(scorer: BleurtScorer) -> None:
    found = attribute(scorer.model, scorer.tokenizer, "the cat", "", 64)
    assert len(found.reference) == 2 and found.candidate == ()
    nothing = attribute(scorer.model, scorer.tokenizer, "", "", 64)
    assert (nothing.reference, nothing.candidate) == ((), ())
    assert nothing.score == pytest.approx(nothing.baseline, abs=1e-5)


def test_a_tokenizer_without_the_baselines_token_is_refused(scorer: BleurtScorer) -> None:
    tokenizer = load_tokenizer(scorer.checkpoint)
    tokenizer.mask_token = None
    with pytest.raises(ParamsError, match="the tokenizer has no mask token, so it cannot be the baseline"):
        attribute(scorer.model, tokenizer, "a", "b", 64)


@pytest.fixture
def with_head(checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint whose kept head is its own last layer, as "bleu" with mean 1 and deviation 2, and a flag."""
    folder = tmp_path / "kept"
    shutil.copytree(checkpoint, folder)
    weights = load_file(folder / "model.safetensors")
    kept = {name: weights[f"classifier.{name}"].repeat(*times) for name, times in (("weight", (3, 1)), ("bias", (3,)))}
    save_file({f"classifier.{name}": tensor.contiguous() for name, tensor in kept.items()}, folder / HEADS)
    columns = {"bleu": ["bleu"], "flag": ["flag_backtranslation", "flag_mask_fill"]}
    tasks = tasks_of(columns, {"bleu": Loss.JOINT, "flag": Loss.DISTRIBUTION})
    save_targets(folder, Targets(tasks, Scaling((1.0, 0.0, 0.0), (2.0, 1.0, 1.0))))
    return folder


def test_the_kept_head_predicts_in_the_signals_units(with_head: Path) -> None:
    scorer = BleurtScorer(with_head, device="cpu")
    head = explain.load_head(with_head)
    assert head is not None
    found = explain.predict_signals(scorer, head, REFERENCE, CANDIDATE)
    score = scorer.score([REFERENCE], [CANDIDATE])[0]
    assert found["bleu"]["bleu"] == pytest.approx(2 * score + 1, abs=1e-4)
    assert found["flag"] == {"flag_backtranslation": pytest.approx(0.5), "flag_mask_fill": pytest.approx(0.5)}


def test_a_checkpoint_without_a_head_has_no_signals_and_a_damaged_one_is_named(
    checkpoint: Path, with_head: Path
) -> None:
    assert explain.load_head(checkpoint) is None
    save_targets(with_head, Targets(tasks_of({"bleu": ["bleu"]}, {"bleu": Loss.JOINT}), Scaling((0.0,), (1.0,))))
    with pytest.raises(ModelError, match=r"heads\.safetensors: holds no pre-training head that targets\.json"):
        explain.load_head(with_head)
    (with_head / TARGETS).write_text('{"columns": ["bleu"], "mean": [0.0], "deviation": [1.0]}')
    with pytest.raises(ModelError, match=r"targets\.json: names no tasks"):
        explain.load_head(with_head)


EVIL = "<script>alert(1)</script> \x1b[2Jdone & done"


def panel(reference: str, candidate: str, words: tuple[Word, ...] = ()) -> Panel:
    return Panel(
        1, reference, candidate, 0.5, Attribution(0.5, 1.0, 0.0, 32, (), words), {"bleu": {"bleu": 0.25}}, ("n<1>",)
    )


def test_text_and_page_carry_no_commands_and_lose_no_word() -> None:
    words = (Word(0, 8, -0.4), Word(26, 35, 0.1))
    page = coloured_text.page([panel(EVIL, EVIL, words)], "method <m>", "signature <s>")
    assert "<script" not in page and "alert(1)" in page and "n&lt;1&gt;" in page and "signature &lt;s&gt;" in page
    assert "http" not in page and "url(" not in page and "src=" not in page
    shown = re.sub(r"<[^>]+>", "", page.split("<h4>candidate</h4>")[1].split("</p>")[0])
    assert shown.strip("\n") == EVIL.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = coloured_text.terminal([panel(EVIL, EVIL, words)], "m", colour=False)
    assert "\x1b" not in text and "<script>(-0.40)" in text and "·[2Jdone" in text
    assert "costs most: <script> -0.400 (candidate)" in text and "bleu: value 0.25" in text


def test_colours_grow_with_the_value_on_one_scale() -> None:
    panels = [panel("", "a b", (Word(0, 1, -1.0), Word(2, 3, 0.05))), panel("", "a", (Word(0, 1, 0.5),))]
    text = coloured_text.terminal(panels, "m", colour=True)
    strongest, middle = coloured_text.COST_COLOURS[4], coloured_text.GAIN_COLOURS[2]
    assert f"\x1b[38;5;16;48;5;{strongest}ma\x1b[0m b\n" in text  # b is too weak for a colour
    assert f"\x1b[38;5;16;48;5;{middle}ma\x1b[0m" in text


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert coloured_text.coloured(terminal) is True and coloured_text.coloured(io.StringIO()) is False
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured_text.coloured(terminal) is False


@pytest.fixture
def files(tmp_path: Path, references: list[str], candidates: list[str]) -> list[str]:
    """Arguments that name a reference file and a system."""
    for name, lines in (("ref", references), ("sys", candidates)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["-r", str(tmp_path / "ref"), "-t", str(tmp_path / "sys"), "--device", "cpu"]


def test_the_worst_segments_come_lowest_first(
    checkpoint: Path, scorer: BleurtScorer, files: list[str], references: list[str], candidates: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(["explain", *files, "-c", str(checkpoint), "--worst", "2", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    scores = scorer.score(references, candidates)
    lowest = sorted(range(5), key=scores.__getitem__)[:2]
    assert [one["line"] for one in found["pairs"]] == [row + 1 for row in lowest]
    assert found["pairs"][0]["attribution"]["score"] == pytest.approx(scores[lowest[0]], abs=1e-5)
    first = candidates[lowest[0]]
    assert "".join(word["text"] for word in found["pairs"][0]["attribution"]["candidate"]) == re.sub(r"\s", "", first)


def test_a_pair_is_explained_as_text_and_as_a_page(
    with_head: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "new" / "page.html"
    pair = ["--pair", REFERENCE, f" {CANDIDATE}\n"]
    assert main(["explain", *pair, "-c", str(with_head), "--device", "cpu", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("line 1: score ") and "integrated gradients" in out and "bleu: value" in out
    assert out.splitlines()[-1].startswith("bleurt|checkpoint:")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_best_of_several_references_is_explained(
    checkpoint: Path, scorer: BleurtScorer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "pairs.jsonl"
    both = ["paris", REFERENCE]
    table.write_text(json.dumps({"reference": both, "candidate": CANDIDATE}) + "\n", encoding="utf-8")
    main(["explain", "-i", str(table), "-c", str(checkpoint), "--device", "cpu", "--format", "json"])
    (found,) = json.loads(capsys.readouterr().out)["pairs"]
    best = max(both, key=lambda reference: scorer.score([reference], [CANDIDATE])[0])
    assert found["reference"] == best
    assert found["notes"][0].startswith(f"reference {both.index(best) + 1} of 2, which scores highest")


def test_character_references_are_undone_once_before_words_are_explained(new_checkpoint: NewCheckpoint) -> None:
    scorer = BleurtScorer(new_checkpoint("adequacy"), device="cpu")
    segment = Segment(("paris", "the &amp;quot; cat&quot;"), ("the &quot; cat",), None)
    (panel,) = explain.explain(scorer, [segment], None, 1, Baseline.MASK)
    assert panel.candidate == 'the " cat' and panel.reference in ("paris", 'the &quot; cat"')
    (score,) = scorer.score([segment.references], [segment.candidates[0]])
    assert panel.attribution.score == pytest.approx(score, abs=1e-5)


def test_mistakes_are_one_sentence(checkpoint: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    named = ["-c", str(checkpoint)]
    assert main(["explain", *files, *named, "--segments", "2", "6"]) == 2
    assert main(["explain", *files, *named, "--segments", "2", "--worst", "1"]) == 2
    assert main(["explain", *files[:4], files[3] + "x", *named]) == 2
    assert main(["explain", *files, *named, "--pair", "a", "b"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == "error: --segments: there are 5 segments, so none has the number 6."
    assert errors[1] == "error: --segments names what to explain, --worst chooses it: give one of the two."
    assert len(errors) == 4 and errors[3] == "error: --pair goes without -r, -t, -s and --input."


def test_the_shown_score_is_that_of_the_command_score(new_checkpoint: NewCheckpoint) -> None:
    scorer = BleurtScorer(new_checkpoint("adequacy"), device="cpu", max_tokens=16, long="windows")
    segment = Segment(("the cat sat on the mat. " * 4, "a dog ran."), ("the bird sat on the red mat. " * 4,), None)
    (panel_,) = explain.explain(scorer, [segment], None, 1, Baseline.MASK)
    (scored,) = scorer.score_detailed([segment.references], list(segment.candidates))
    assert scored.windows > 1 and panel_.score == pytest.approx(scored.score, abs=1e-5)
    assert panel_.attribution.score != pytest.approx(scored.score, abs=1e-3)
    assert f"line 1: score {scored.score:.3f}" in coloured_text.terminal([panel_], "m", colour=False)
    assert any("the attribution of the first 16 tokens" in note for note in panel_.notes)


def test_the_kept_head_of_a_roberta_like_checkpoint_is_its_projection(with_head: Path) -> None:
    weights = {f"classifier.out_proj.{name[11:]}": value for name, value in load_file(with_head / HEADS).items()}
    kept = explain.load_head(with_head)
    save_file(weights | {"classifier.dense.weight": torch.zeros(2, 2)}, with_head / HEADS)
    found = explain.load_head(with_head)
    assert found is not None and kept is not None and numpy.array_equal(found.weight, kept.weight)
