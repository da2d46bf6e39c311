"""The multilingual encoder's parts: parallel text, alignment, shared pieces, examples, loss, nearest neighbours."""

import gzip
from pathlib import Path

import numpy
import pytest
import torch
from transformers import AutoTokenizer, BertTokenizerFast

from pipeline.bundled.alignment import Links, Rows, aligned_pieces
from pipeline.bundled.bitext import QUALITY, read_bitext, read_flores_multi
from pipeline.bundled.encoder import ENCODER, SPECIAL
from pipeline.bundled.recipes.encoder_multilingual import (
    Lessons,
    Params,
    distance,
    draw_examples,
    framed,
    longest_pairs,
    nearest,
)
from pipeline.bundled.shared_pieces import first_embeddings, learn_pieces, surface_ids
from pipeline.bundled.texts import SentencePair, held_out
from pipeline.core.models import load_tokenizer, locate
from pipeline.training.schedule import Schedule

TEXTS = ["The house is old.", "Das Haus ist alt.", "房子很旧。", "Дом старый.", "घर पुरानो छ।"] * 30


def write(file: Path, lines: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for language in ("fr", "de"):
        rows = [f"Sentence {i}.\t{language} {i}.\ttatoeba" for i in range(40)]
        write(tmp_path / "parallel" / f"train.en-{language}.tsv.gz", [*rows, "Empty.\t\ttatoeba"])
    heading = "language\tenglish\tother"
    write(
        tmp_path / "parallel" / "train.multi.tsv.gz", [f"{heading}\tsource", "cs\tA dev sentence.\tcs 1.\tnewstest2014"]
    )
    write(tmp_path / "parallel" / "test.flores.multi.tsv.gz", [heading, "cs\tOne.\tJedna.", "zh\tOne.\t一。"])
    rows = [
        "language_pair\tsplit\tsource\tpost_edit_tokens",
        "ru-en\ttrain\tДва .\tTwo , dogs .",
        "en-de\tdev\tA dev sentence.\tEin Satz .",
        "en-de\ttest\tNever read.\tNie .",
    ]
    write(tmp_path / QUALITY, rows)
    return tmp_path


def test_no_english_sentence_is_both_learned_and_held_out(data: Path) -> None:
    bitext = read_bitext(data, 8)
    learned, held = {p.english for p in bitext.train}, {p.english for p in bitext.validation}
    assert learned.isdisjoint(held)
    assert {f"Sentence {i}." for i in range(40) if held_out(f"Sentence {i}.", 8)} | {"A dev sentence."} == held
    assert len(learned) == 40 - (len(held) - 1) + 1
    assert SentencePair("Two, dogs.", "Два .", "ru", "mlqe-pe") in bitext.train
    assert "Never read." not in learned | held
    assert "Empty." not in learned | held


def test_flores_is_read_by_language(data: Path) -> None:
    assert read_flores_multi(data / "parallel") == {"cs": [("One.", "Jedna.")], "zh": [("One.", "一。")]}


def test_alignment_by_hand() -> None:
    """Of [1, 2] = [5, 6] and [1] = [5] and [3] = [6]; 9 is the empty piece."""
    foreign, english = Rows.of([[1, 2], [1], [3]]), Rows.of([[5, 6], [5], [6]])
    once = aligned_pieces(foreign, english, [0, 1, 2], 1, 9)
    found = {(int(f), int(e)): float(c) for f, e, c in zip(once.foreign, once.english, once.count, strict=True)}
    assert found == pytest.approx({(1, 5): 1 / 3 + 1 / 2, (1, 6): 1 / 3, (2, 5): 1 / 3, (2, 6): 1 / 3, (3, 6): 1 / 2})
    often = aligned_pieces(foreign, english, [0, 1, 2], 30, 9)
    counts = dict(zip(zip(often.foreign.tolist(), often.english.tolist(), strict=True), often.count, strict=True))
    assert counts[1, 5] > 1.0
    assert counts[1, 6] < 0.1
    few = aligned_pieces(foreign, english, [1], 3, 9)
    assert (few.foreign.tolist(), few.english.tolist()) == ([1], [5])


def test_pieces_keep_accents_and_are_saved_as_they_are(tmp_path: Path) -> None:
    made = learn_pieces([*TEXTS, *["Schön schon CAFÉ"] * 30], 90, tmp_path / "t")
    stored = load_tokenizer(tmp_path / "t")
    for text in ("Das  Haus ist schön.", "房子很旧。", "A café, ｆｕｌｌ"):
        ids = stored(text)["input_ids"]
        assert ids == made(text)["input_ids"]
        assert [ids[0], ids[-1]] == [SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")]
    assert stored("schön")["input_ids"] != stored("schon")["input_ids"]
    assert stored("SCHÖN")["input_ids"] == stored("schön")["input_ids"]
    assert stored("a", "b")["token_type_ids"][-1] == 1
    assert len(AutoTokenizer.from_pretrained(tmp_path / "t")) == len(stored) <= 90


def test_first_embeddings_by_hand() -> None:
    """A translated piece gets its English one; one seen in English text its own; the length is the mean length."""
    full = BertTokenizerFast.from_pretrained(locate(ENCODER))
    rng = numpy.random.default_rng(1)
    known = rng.normal(size=(len(full), 4)).astype(numpy.float32)
    house, die, ing = (full.get_vocab()[piece] for piece in ("house", "die", "##ing"))
    pieces = [*SPECIAL, "▁haus", "▁die", "ing", "子"]
    links = Links(numpy.array([5, 5, 6]), numpy.array([house, die, house]), numpy.array([90.0, 3.0, 2.0]))
    found = first_embeddings(pieces, full, known, [links], numpy.array([0, 0, 0, 0, 0, 0, 5, 0, 0]))
    haus = surface_ids("▁haus", full)
    weighted = 90 * known[house] + known[haus].sum(0) / len(haus)
    assert numpy.dot(found[5], weighted) / numpy.linalg.norm(found[5]) / numpy.linalg.norm(weighted) > 0.999
    mean = (2 * known[house] + 6 * known[die]) / 8
    length = (2 * numpy.linalg.norm(known[house]) + 6 * numpy.linalg.norm(known[die])) / 8
    assert found[6] == pytest.approx(mean / numpy.linalg.norm(mean) * length, abs=1e-5)
    assert found[7] == pytest.approx(known[ing], abs=1e-5)
    assert found[SPECIAL.index("[SEP]")] == pytest.approx(known[full.sep_token_id])


def params(**changes: object) -> Params:
    schedule = Schedule(
        steps=50, learning_rate=1e-3, layer_decay=1.0, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0,
        evaluate_every=10, save_every=10, seed=1,
    )  # fmt: skip
    values = {
        "vocabulary": 90, "piece_texts": 9, "rounds": 2, "balance": 0.5, "joined": 0.5, "max_pieces": 16,
        "contrast": 0.1, "temperature": 0.05, "heldout_one_in": 8, "validation_pairs": 3, "batch_rows": 8,
        "schedule": schedule,
    }  # fmt: skip
    return Params(**{**values, **changes})


def test_examples_are_balanced_and_fit() -> None:
    rows = Rows.of([[7] * (1 + i % 5) for i in range(100)])
    lessons = Lessons(rows, rows, {"de": list(range(90)), "et": list(range(90, 100))})
    examples = draw_examples(lessons, params())
    assert len(examples) == 400
    assert max(sum(int(rows.lengths[r]) for r in example) for example in examples) <= 14
    assert 0.3 < sum(len(example) > 1 for example in examples) / 400 < 0.6
    assert all(len({row < 90 for row in example}) == 1 for example in examples)
    share = sum(example[0] >= 90 for example in examples) / 400
    assert abs(share - 10**0.5 / (10**0.5 + 90**0.5)) < 0.08
    first = [row for example in examples for row in example if row >= 90][:10]
    assert sorted(first) == list(range(90, 100))
    alone = draw_examples(lessons, params(joined=0.0))
    assert {len(example) for example in alone} == {1}


def test_rows_are_framed_by_special_tokens() -> None:
    tokenizer = BertTokenizerFast.from_pretrained(locate(ENCODER))
    rows = Rows.of([[1996], [], [2160, 1012]])
    assert framed(tokenizer, rows, (0, 1, 2)) == [101, 1996, 2160, 1012, 102]


def test_the_loss_by_hand() -> None:
    one, two = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    wanted = torch.stack([one, two])
    assert float(distance(wanted, wanted, 0.0, 1.0)) == 0
    assert float(distance(wanted.flip(0), wanted, 0.0, 1.0)) == pytest.approx(2.0)
    picked = -numpy.log(numpy.e / (numpy.e + 1))
    assert float(distance(wanted, wanted, 3.0, 1.0)) == pytest.approx(3 * picked, abs=1e-6)
    same = torch.stack([one, one])
    assert float(distance(same, same, 3.0, 1.0)) == pytest.approx(0.0, abs=1e-6)


def test_nearest_neighbours_by_hand() -> None:
    english = torch.eye(4)
    foreign = torch.eye(4)[[0, 1, 3, 2]]
    assert nearest(foreign, english) == 0.5
    assert nearest(torch.eye(4)[[0, 0, 2, 3]], torch.eye(4)[[0, 0, 2, 3]]) == 1.0


def test_validation_takes_the_longest_of_each_language() -> None:
    pairs = [SentencePair("a" * n, f"{n}", language, "x") for n in (3, 9, 5) for language in ("de", "cs")]
    pairs.append(SentencePair("a" * 9, "another", "de", "x"))
    assert [(p.language, p.foreign) for p in longest_pairs(pairs, 2)] == [
        ("cs", "9"), ("cs", "5"), ("de", "9"), ("de", "5"),
    ]  # fmt: skip
