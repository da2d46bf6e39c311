"""The mask filler: its search is a beam search, what it never fills in, and the models that it refuses."""

import itertools
import shutil
from collections.abc import Sequence

import pytest
import torch
from tiny_filler import save_tiny_filler
from transformers import AutoModelForMaskedLM, BertConfig, BertModel, RobertaConfig, RobertaForMaskedLM

from pipeline.core.errors import ModelError
from pipeline.core.kernels import LIBRARIES
from pipeline.core.models import locate
from pipeline.teachers.mask_filler import Masked, MaskFiller, Piece

TEXTS = [
    "The cat sat on the mat.",
    "A red dog ran, and the cat sat (on the house).",
    "Paris!",
    "In Zürich 42 birds sing; don't they?",
]


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_filler(tmp_path_factory.mktemp("filler"))


def test_texts_are_read_as_pieces_and_whole_words(folder):
    (text,) = MaskFiller(str(folder)).read(["The catty"])
    assert text.pieces == [
        Piece("the", 0, 3), Piece("cat", 4, 7), Piece("##t", 7, 8), Piece("##y", 8, 9)
    ]  # fmt: skip
    assert text.words == [[0], [1, 2, 3]]
    assert len(text.ids) == 6  # [CLS] and [SEP] around
    masked = MaskFiller(str(folder)).mask(text, [1])
    assert masked.positions == [2, 3, 4]
    assert masked.ids[:2] == text.ids[:2] and len(set(masked.ids[2:5])) == 1


def brute_force(folder, masked: Masked, width: int, allowed: Sequence[int]) -> list[tuple[int, ...]]:
    """Beam search with one full forward pass a hypothesis; no batch, no padding, torch's own linear layers."""
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
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


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("width", [1, 4])
def test_fill_equals_a_plain_beam_search(folder, width, library, monkeypatch):
    monkeypatch.setenv("BLEURT_KERNELS", library)
    filler = MaskFiller(str(folder))
    sentences = filler.read(TEXTS)
    masked = [
        filler.mask(sentences[0], [1, 2, 4]),
        filler.mask(sentences[1], [0, 3, 5, 6, 9]),
        filler.mask(sentences[2], [0]),
        filler.mask(sentences[3], [1, 2]),
    ]
    allowed = range(6, len(filler.tokenizer))  # behind [PAD] … [unused0]
    expected = [brute_force(folder, one, width, allowed) for one in masked]
    for batch_tokens in (1, 10_000):
        found = filler.fill(masked, width, batch_tokens)
        assert [[tuple(ids) for ids in one] for one in found] == expected


def test_the_bundled_filler_fills_as_a_plain_beam_search():
    """Its hypotheses on the committed sample depend on no batch, no library and no shortened last layer."""
    filler = MaskFiller("bundled:mask-filler")
    texts = [
        "The old harbour of the city was closed in 1974, and most ships moved to the new one.",
        "He was born in Paris.",
    ]
    first, second = filler.read(texts)
    masked = [filler.mask(first, [1, 2, 7, 12]), filler.mask(second, [4]), filler.mask(first, [14, 15])]
    special = {*filler.tokenizer.all_special_ids}
    vocabulary = filler.tokenizer.get_vocab()
    allowed = sorted(i for piece, i in vocabulary.items() if i not in special and not piece.startswith("[unused"))
    expected = [brute_force(locate("bundled:mask-filler"), one, 4, allowed) for one in masked]
    found = filler.fill(masked, 4, 4096)
    assert [[tuple(ids) for ids in one] for one in found] == expected


def test_equal_texts_are_searched_once(folder, monkeypatch):
    filler = MaskFiller(str(folder))
    sentences = filler.read([TEXTS[0], TEXTS[2], TEXTS[0]])
    masked = [filler.mask(sentence, [0]) for sentence in sentences]
    expected = [filler.fill([one], 3, 1000)[0] for one in masked]
    rows = []
    real = filler._states
    monkeypatch.setattr(filler, "_states", lambda ids, *rest: rows.append(len(ids)) or real(ids, *rest))
    assert filler.fill(masked, 3, 1000) == expected
    assert sum(rows) == 2


def test_bf16_moves_log_probabilities_a_little(folder):
    plain, rounded = MaskFiller(str(folder)), MaskFiller(str(folder), "bf16")
    masked = plain.mask(plain.read(TEXTS)[1], [1, 2])
    given = torch.tensor([[masked.ids]]), torch.ones(1, len(masked.ids), dtype=torch.long), torch.tensor([2])
    with torch.inference_mode():
        moved = (plain._log_probabilities(*given) - rounded._log_probabilities(*given))[:, :, ~plain.banned]
    assert 0 < moved.abs().max() < 0.25


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
