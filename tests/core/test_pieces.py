"""The original's tokenizers: its rules for characters, long words, pieces looked up one by one."""

import unicodedata
from pathlib import Path

import pytest
from tiny_original import small_pieces
from transformers import AutoTokenizer

from pipeline.core.originals import tokenizer_in
from pipeline.core.pieces import SentencePieces, word_pieces

CHINESE = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
           (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))  # fmt: skip


def words_of(text: str, lower_case: bool) -> list[str]:
    """The rules of BERT's basic tokenizer, character by character."""
    spaced = ""
    for character in text:
        if character in "\t\n\r" or unicodedata.category(character) == "Zs":
            spaced += " "
        elif character not in "\0\ufffd" and unicodedata.category(character) not in ("Cc", "Cf"):
            alone = any(first <= ord(character) <= last for first, last in CHINESE)
            spaced += f" {character} " if alone else character
    found = ""
    for word in spaced.split():
        if lower_case:
            plain = unicodedata.normalize("NFD", word.lower())
            word = "".join(character for character in plain if unicodedata.category(character) != "Mn")
        for character in word:
            symbol = character.isascii() and not character.isalnum()
            found += f" {character} " if symbol or unicodedata.category(character).startswith("P") else character
        found += " "
    return found.split()


def split(tokenizer: object, text: str) -> list[str]:
    inner = tokenizer.backend_tokenizer  # type: ignore[attr-defined]
    return [word for word, _ in inner.pre_tokenizer.pre_tokenize_str(inner.normalizer.normalize_str(text))]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    file = tmp_path / "vocab.txt"
    file.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("lower_case", [True, False])
def test_characters_are_read_as_the_original_reads_them(vocabulary: Path, lower_case: bool) -> None:
    """Every seventh assigned character of Unicode between two letters; others were checked once."""
    tokenizer = word_pieces(vocabulary, lower_case, 128)
    private = ("Cn", "Cs", "Co")
    characters = [chr(code) for code in range(1, 0x30000, 7) if unicodedata.category(chr(code)) not in private]
    text = " ".join(f"a{character}B" for character in characters)
    assert split(tokenizer, text) == words_of(text, lower_case)


@pytest.mark.parametrize(
    "text",
    ["ΟΔΟΣ ΣΑΣ Σ ΑΣ'Α ΑΣ' Α.Σ. ΆΣ, ΑΣ2", "İstanbul STRASSE ẞ ǅ", "Zero\u200bwidth\ufeff x\x1cy", "a\ue000b \U0002b820c",
     "漢字kana 𫠠", "Don't!  x^2 $5", "café naïve Ḱ"],
)  # fmt: skip
def test_unusual_words(vocabulary: Path, text: str) -> None:
    assert split(word_pieces(vocabulary, True, 128), text) == words_of(text, True)


def test_a_word_may_have_200_characters(vocabulary: Path) -> None:
    tokenizer = word_pieces(vocabulary, True, 512)
    assert tokenizer("a" * 200)["input_ids"] == [2, 5, *[6] * 199, 3]
    assert tokenizer("a" * 201)["input_ids"] == [2, 1, 3]


def test_the_name_of_a_special_token_is_an_ordinary_word(vocabulary: Path, tmp_path: Path) -> None:
    """The original reads "[SEP]" as three words."""
    word_pieces(vocabulary, True, 512).save_pretrained(tmp_path)
    for tokenizer in (word_pieces(vocabulary, True, 512), AutoTokenizer.from_pretrained(tmp_path)):
        assert tokenizer("a [SEP] b")["input_ids"] == [2, 5, 1, 1, 1, 7, 3]


def test_a_saved_word_piece_tokenizer_is_the_same(vocabulary: Path, tmp_path: Path) -> None:
    word_pieces(vocabulary, True, 64, cut_of_equal_sides="candidate").save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert again(["A" * 150], ["b"])["input_ids"] == [[2, 5, *[6] * 149, 3, 7, 3]]
    assert again(["a"], ["b"])["token_type_ids"] == [[0, 0, 0, 1, 1]]
    assert again.model_max_length == 64
    assert again.init_kwargs["cut_of_equal_sides"] == "candidate"


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> SentencePieces:
    """A small model, loaded from a file."""
    file = tmp_path_factory.mktemp("pieces") / "spm.model"
    file.write_bytes(small_pieces())
    return SentencePieces(str(file), model_max_length=77, cut_of_equal_sides="candidate")


def test_a_pair_is_the_librarys_pieces_between_the_special_ones(pieces: SentencePieces) -> None:
    read = pieces.pieces
    got = pieces(["the cat ☃☃", ""], ["a dog", "x"], padding=False, truncation=False)
    assert (pieces.pad_token_id, pieces.unk_token_id, pieces.cls_token_id, pieces.sep_token_id) == (0, 1, 2, 3)
    first = [read.piece_to_id(piece) for piece in read.encode("the cat ☃☃", out_type=str)]
    second = read.encode("a dog", out_type=int)
    assert got["input_ids"][0] == [2, *first, 3, *second, 3]
    assert 1 in first
    assert got["token_type_ids"][0] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert got.sequence_ids(0) == [None, *[0] * len(first), None, *[1] * len(second), None]
    assert got["input_ids"][1][:2] == [2, 3]


def test_offsets_say_where_a_piece_stands(pieces: SentencePieces) -> None:
    text = "  the cat ran"
    got = pieces(text, "dog", return_offsets_mapping=True)
    words: dict[int, str] = {}
    for side, word, (start, end) in zip(got.sequence_ids(0), got.word_ids(0), got["offset_mapping"], strict=True):
        if side == 0:
            words[word] = words.get(word, "") + text[start:end]
    assert list(words.values()) == ["the", "cat", "ran"]


def test_a_saved_sentence_piece_tokenizer_is_the_same(pieces: SentencePieces, tmp_path: Path) -> None:
    pieces.save_pretrained(tmp_path)
    again = tokenizer_in(tmp_path)
    assert again is not None
    assert again("the cat", "a dog")["input_ids"] == pieces("the cat", "a dog")["input_ids"]
    assert (again.model_max_length, again.init_kwargs["cut_of_equal_sides"]) == (77, "candidate")
    assert len(again) > len(again.all_special_ids)
