"""The parallel text that the bundled translators learn from and are judged on, and its word pieces.

Rows are English, French or German, and the source collection, tab-separated (gzip), one file for each language. The
hash of its English side decides whether a sentence pair is held out. So no English sentence is on both sides of the
split, in either language.
"""

import gzip
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
from transformers import MarianTokenizer

LANGUAGES = {"fr": ">>fra<<", "de": ">>deu<<"}
"""Language code in file names -> token of the target language that a many-target Marian model reads (as OPUS-MT)."""

EVERYDAY = {"tatoeba", "multi30k"}
"""Collections of short everyday sentences and captions; the others hold news and parliament."""


@dataclass(frozen=True)
class SentencePair:
    """One English sentence and its translation; `language` is a key of LANGUAGES, `origin` the collection."""

    english: str
    foreign: str
    language: str
    origin: str


@dataclass(frozen=True)
class ParallelText:
    """Training pairs, and the held-out pairs of Tatoeba (about one in `heldout_one_in` of the English sentences)."""

    train: list[SentencePair]
    heldout: list[SentencePair]


def _held_out(english: str, heldout_one_in: int) -> bool:
    digest = hashlib.sha256(english.strip().lower().encode()).digest()
    return int.from_bytes(digest[:8], "big") % heldout_one_in == 0


def read_parallel(folder: Path, heldout_one_in: int) -> ParallelText:
    """Read `train.en-{fr,de}.tsv.gz` in `folder` and split it by a hash of the English side."""
    train, heldout = [], []
    for language in LANGUAGES:
        with gzip.open(folder / f"train.en-{language}.tsv.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                english, foreign, origin = line.rstrip("\n").split("\t")
                pair = SentencePair(english, foreign, language, origin)
                if not _held_out(english, heldout_one_in):
                    train.append(pair)
                elif origin == "tatoeba":
                    heldout.append(pair)
    return ParallelText(train, heldout)


def read_flores(folder: Path) -> list[SentencePair]:
    """FLORES-200 devtest, 1,012 pairs a language: `test.flores.en-{fr,de}.tsv` in `folder`."""
    pairs = []
    for language in LANGUAGES:
        for line in (folder / f"test.flores.en-{language}.tsv").read_text(encoding="utf-8").splitlines():
            english, foreign = line.split("\t")
            pairs.append(SentencePair(english, foreign, language, "flores"))
    return pairs


def pieces_for(pairs: Sequence[SentencePair], folder: Path, size: int) -> MarianTokenizer:
    """The tokenizer in `folder`; if there is none, it is made of `pairs` first."""
    if not folder.exists():
        scratch = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(scratch, ignore_errors=True)
        _train_pieces(pairs, scratch, size)
        scratch.rename(folder)
    return MarianTokenizer.from_pretrained(folder)


def _train_pieces(pairs: Sequence[SentencePair], folder: Path, size: int) -> None:
    """Learn a shared unigram vocabulary of `size` - 1 ids (three special, two language tokens) into `folder`."""
    folder.mkdir(parents=True)
    sentences = sorted({p.english for p in pairs} | {p.foreign for p in pairs})
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(folder / "source"),
        vocab_size=size - 3,
        character_coverage=0.9998,
        input_sentence_size=200_000,
        shuffle_input_sentence=True,
        num_threads=1,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.model"))
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    ordered = ["</s>", "<unk>", *(p for p in pieces if p not in {"<s>", "</s>", "<unk>"})]
    ordered += [*LANGUAGES.values(), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(ordered)}, ensure_ascii=False))
    (folder / "source.model").rename(folder / "source.spm")
    (folder / "source.vocab").unlink()
    shutil.copy(folder / "source.spm", folder / "target.spm")
    tokenizer = MarianTokenizer(
        str(folder / "source.spm"), str(folder / "target.spm"), str(folder / "vocab.json"), model_max_length=512
    )
    tokenizer.save_pretrained(folder)


@dataclass(frozen=True)
class Example:
    """Ids of the pieces of one pair; the first `marks` ids of the source name the target language."""

    source: list[int]
    target: list[int]
    language: str
    formal: bool
    marks: int

    @property
    def longest(self) -> int:
        """Pieces of the longer side."""
        return max(len(self.source), len(self.target))

    def joined_with(self, other: "Example") -> "Example":
        """Both sentences as one text: one language mark, one end."""
        source = self.source[:-1] + other.source[other.marks :]
        return Example(source, self.target[:-1] + other.target, self.language, self.formal, self.marks)


def encode(
    tokenizer: MarianTokenizer, pairs: Sequence[SentencePair], into_english: bool, max_pieces: int
) -> list[Example]:
    """Every pair of which both sides fit into `max_pieces`, in the order of `pairs`."""
    english = _ids(tokenizer, [p.english for p in pairs])
    foreign = _ids(tokenizer, [p.foreign for p in pairs])
    examples = []
    for pair, en, x in zip(pairs, english, foreign, strict=True):
        formal = pair.origin not in EVERYDAY
        code = tokenizer.convert_tokens_to_ids(LANGUAGES[pair.language])
        if into_english:
            example = Example(x, en, pair.language, formal, 0)
        else:
            example = Example([code, *en], x, pair.language, formal, 1)
        if example.longest <= max_pieces:
            examples.append(example)
    return examples


def _ids(tokenizer: MarianTokenizer, texts: list[str]) -> list[list[int]]:
    """The same ids as `tokenizer(texts)`, 20 times faster: without its work in Python for each sentence."""
    vocabulary, unknown = tokenizer.get_vocab(), tokenizer.unk_token_id
    split = tokenizer.spm_source.encode(texts, out_type=str)
    return [[*(vocabulary.get(piece, unknown) for piece in row), tokenizer.eos_token_id] for row in split]
