"""Mask-filling: which words are masked, that the search is a beam search, and how the text is put together."""

import dataclasses
import itertools
import shutil
from collections import Counter

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from tiny_filler import save_tiny_filler
from transformers import AutoModelForMaskedLM, BertConfig, BertModel, RobertaConfig, RobertaForMaskedLM

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.records import Reason
from pipeline.perturb.attempts import MaskStyle
from pipeline.perturb.techniques import mask_fill as module
from pipeline.perturb.techniques.mask_fill import Masked, MaskFiller, MaskFillParams, draw_words, load_filler, mask_fill

RANDOM, SPAN = MaskStyle.RANDOM, MaskStyle.SPAN
WORDS = ["The", "cat", "sat", "Zürich", "on", "12", "(red)", "dog's", "mat,", ".", "Ünï", "日本", "e.g.", "x-y"]
SIZES = st.lists(st.integers(1, 20), max_size=60)
TEXTS = [
    "The cat sat on the mat.",
    "A red dog ran, and the cat sat (on the house).",
    "Paris!",
    "In Zürich 42 birds sing; don't they?",
    "   ",
    "The dogs   ran on, on and on:  the birds sat in Paris, as ever, and the small red house was theirs.",
]


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_filler(tmp_path_factory.mktemp("filler"))


@pytest.fixture
def params(folder):
    return MaskFillParams(
        model=str(folder),
        share=1.0,
        copies=2,
        styles=(RANDOM, SPAN),
        max_masks=15,
        max_mask_share=1.0,
        beam_width=3,
        batch_tokens=200,
    )


def seeded(seed: int = 0) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


@given(st.sampled_from([RANDOM, SPAN]), SIZES, st.floats(0, 1), st.integers(0, 2**32))
def test_masks_are_at_most_15_and_words_distinct(style, sizes, share, seed):
    words = draw_words(style, sizes, 15, share, seeded(seed))
    assert words == sorted(set(words))
    assert sum(sizes[word] for word in words) <= 15
    assert len(words) <= max(1, int(share * len(sizes)))
    if sizes and max(sizes) <= 15:
        assert words != []


@given(SIZES, st.integers(0, 2**32))
def test_spans_are_contiguous(sizes, seed):
    words = draw_words(SPAN, sizes, 15, 1.0, seeded(seed))
    if words:
        assert words == list(range(words[0], words[-1] + 1))


@pytest.mark.parametrize("style", [RANDOM, SPAN])
def test_number_of_masked_words_is_uniform(style):
    rng = seeded(3)
    counts = Counter(len(draw_words(style, [1] * 30, 15, 1.0, rng)) for _ in range(6000))
    assert sorted(counts) == list(range(1, 16))
    assert chisquare([counts[n] for n in range(1, 16)]).pvalue > 0.01


def test_span_starts_are_uniform():
    rng = seeded(4)
    starts = Counter(draw_words(SPAN, [1] * 6, 1, 1.0, rng)[0] for _ in range(6000))
    assert chisquare([starts[n] for n in range(6)]).pvalue > 0.01


def test_span_ends_before_the_word_that_does_not_fit():
    drawn = {tuple(draw_words(SPAN, [2, 2, 9], 4, 1.0, seeded(seed))) for seed in range(50)}
    assert drawn == {(0,), (1,), (0, 1), ()}


def test_half_of_the_words_at_most():
    rng = seeded(5)
    assert {len(draw_words(RANDOM, [1] * 8, 15, 0.5, rng)) for _ in range(300)} == {1, 2, 3, 4}


def brute_force(folder, masked: Masked, width: int) -> list[tuple[int, ...]]:
    """Beam search with one full forward pass a hypothesis; no batch, no padding."""
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    allowed = [i for i in range(model.config.vocab_size) if i >= 6]  # behind [PAD] … [unused0]
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for step, position in enumerate(masked.positions):
        grown = []
        for score, filled in beam:
            ids = list(masked.ids)
            for place, piece in zip(masked.positions[:step], filled, strict=True):
                ids[place] = piece
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([ids])).logits[0, position, allowed]
            grown += [(score + log, (*filled, allowed[i])) for i, log in enumerate(logits.log_softmax(-1).tolist())]
        beam = sorted(grown, key=lambda item: -item[0])[:width]
    return [filled for _, filled in beam]


@pytest.mark.parametrize("width", [1, 4])
def test_fill_equals_a_plain_beam_search(folder, width):
    filler = MaskFiller(str(folder))
    sentences = filler.read(TEXTS)
    masked = [
        filler.mask(sentences[0], [1, 2, 4]),
        filler.mask(sentences[1], [0, 3, 5, 6, 9]),
        filler.mask(sentences[2], [0]),
        filler.mask(sentences[3], [1, 2]),
    ]
    expected = [brute_force(folder, one, width) for one in masked]
    for batch_tokens in (1, 10_000):
        found = filler.fill(masked, width, batch_tokens)
        assert [[tuple(ids) for ids in one] for one in found] == expected


def test_beam_finds_what_greedy_search_misses(folder):
    filler = MaskFiller(str(folder))
    sentences = filler.read(TEXTS)
    masked = [filler.mask(sentences[1], words) for words in itertools.combinations(range(6), 4)]
    greedy = [one[0] for one in filler.fill(masked, 1, 1000)]
    assert greedy != [one[0] for one in filler.fill(masked, 8, 1000)]


def test_special_and_unused_pieces_are_never_filled_in(folder):
    filler = MaskFiller(str(folder))
    (sentence,) = filler.read(["cat"])
    (hypotheses,) = filler.fill([filler.mask(sentence, [0])], 10_000, 10_000)
    filled = {filler.tokenizer.convert_ids_to_tokens(ids[0]) for ids in hypotheses}
    assert filled == {piece for piece in filler.tokenizer.get_vocab() if not piece.startswith("[")}


@pytest.mark.parametrize("batch_tokens", [1, 90, 100_000])
def test_batching_changes_no_text(params, batch_tokens):
    other = dataclasses.replace(params, batch_tokens=batch_tokens)
    assert mask_fill(TEXTS, other, seeded(7)) == mask_fill(TEXTS, params, seeded(7))


def test_every_segment_has_its_attempts(params):
    attempts = mask_fill(TEXTS, params, seeded())
    assert [(a.segment, a.tag) for a in attempts] == [(i, f"mask{c}") for i in range(6) for c in (1, 2)]
    assert [a.reason for a in attempts if a.segment == 4] == [Reason.UNMASKABLE] * 2
    assert all(1 <= a.masks <= 15 for a in attempts if a.segment != 4)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=10))
def test_words_that_are_not_masked_stay_as_written(folder, words):
    text = "  ".join(words)
    params = MaskFillParams(str(folder), 1.0, 1, (SPAN,), 3, 1.0, 2, 500)
    (attempt,) = mask_fill([text], params, seeded())
    sentence = load_filler(str(folder)).read([text])[0]
    sizes = [len(word) for word in sentence.words]
    rng = seeded()
    rng.permutation(1)
    rng.integers(1)
    masked = draw_words(SPAN, sizes, 3, 1.0, rng)
    if not masked:
        assert attempt.reason == Reason.UNMASKABLE
        return
    first, last = sentence.words[masked[0]][0], sentence.words[masked[-1]][-1]
    before, behind = text[: sentence.pieces[first].start].rstrip(), text[sentence.pieces[last].end :].lstrip()
    assert attempt.candidate.startswith(before)
    assert attempt.candidate.endswith(behind)
    assert attempt.candidate != text


def test_unchanged_only_where_the_beam_has_nothing_else(params, monkeypatch):
    filler = load_filler(params.model)
    vocabulary = filler.tokenizer.get_vocab()
    ranked = [[[vocabulary["paris"]], [vocabulary["house"]]]]
    monkeypatch.setattr(filler, "fill", lambda masked, *_: ranked * len(masked))
    one = dataclasses.replace(params, copies=1, styles=(SPAN,), max_masks=1)
    rng_that_masks_paris = seeded(next(s for s in range(99) if _first_word(s)))
    assert mask_fill(["Paris!"], one, rng_that_masks_paris)[0].candidate == "House!"
    ranked[0].pop()
    rng_that_masks_paris = seeded(next(s for s in range(99) if _first_word(s)))
    assert mask_fill(["Paris!"], one, rng_that_masks_paris)[0].candidate == "Paris!"


@pytest.mark.parametrize(
    ("lowercase", "expected"), [(True, ["We Paris Paris", "A Paris sat"]), (False, ["We paris Paris", "A paris sat"])]
)
def test_only_words_of_a_filler_that_lower_cases_get_their_usual_spelling(
    params, tmp_path, monkeypatch, lowercase, expected
):
    one = dataclasses.replace(params, model=str(save_tiny_filler(tmp_path, lowercase=lowercase)), copies=1)
    filler = load_filler(one.model)
    filled = [[filler.tokenizer.get_vocab()["paris"]]]
    monkeypatch.setattr(filler, "fill", lambda masked, *_: [filled] * len(masked))
    monkeypatch.setattr(module, "draw_words", lambda *_: [1])
    attempts = mask_fill(["We ran Paris", "A cat sat"], one, seeded())
    assert [attempt.candidate for attempt in attempts] == expected


def _first_word(seed: int) -> bool:
    rng = seeded(seed)
    rng.permutation(1)
    rng.integers(1)
    return draw_words(SPAN, [1, 1], 1, 1.0, rng) == [0]


def test_segment_beyond_the_models_positions_is_too_long(params):
    attempts = mask_fill(["cat " * 10_000, "cat " * 62, "cat " * 63], dataclasses.replace(params, copies=1), seeded())
    assert [a.reason for a in attempts] == [Reason.TOO_LONG, None, Reason.TOO_LONG]  # 64 positions, two are special


def test_a_word_of_too_many_pieces_cannot_be_masked(params):
    (attempt,) = mask_fill(["z" * 16], dataclasses.replace(params, copies=1), seeded())
    assert attempt.reason == Reason.UNMASKABLE


def test_share_of_the_segments(params):
    attempts = mask_fill(TEXTS, dataclasses.replace(params, share=0.5), seeded())
    assert len({a.segment for a in attempts}) == 3
    assert mask_fill([], params, seeded()) == []


@pytest.mark.parametrize(
    ("key", "value"), [("share", 1.1), ("copies", 0), ("max_masks", 0), ("beam_width", 0), ("max_mask_share", -0.5)]
)
def test_params_out_of_range_are_refused_by_name(params, key, value):
    with pytest.raises(ParamsError, match=f"^perturb.mask_fill.{key}: must be "):
        dataclasses.replace(params, **{key: value})


def test_no_style_is_refused(params):
    with pytest.raises(ParamsError, match=r"perturb.mask_fill.styles: must name at least one"):
        dataclasses.replace(params, styles=())


def test_other_architecture_is_refused(tmp_path):
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    RobertaForMaskedLM(RobertaConfig(**sizes, intermediate_size=8)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"is a roberta model; the mask filler needs a BERT model"):
        MaskFiller(str(tmp_path))


def test_an_encoder_without_its_language_model_head_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    BertModel(BertConfig.from_pretrained(folder)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=rf"^{tmp_path}: \d+ weights of BertForMaskedLM are missing.* cls"):
        MaskFiller(str(tmp_path))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_folder_with_a_cut_file_is_refused(folder, tmp_path, file):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:100])
    with pytest.raises(ModelError, match=f"^{tmp_path}: cannot be loaded "):
        MaskFiller(str(tmp_path))
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=f"^{tmp_path}: cannot be loaded "):
        MaskFiller(str(tmp_path))
