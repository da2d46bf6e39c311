"""The text that the bundled models learn from: Wikipedia, pairs of premise and hypothesis, parallel text in pieces.

Mask filler and classifier learn from English text, translators from parallel text. Its rows are English, French or
German, and the source collection, tab-separated (gzip), one file for each language. The hash of its English side
decides whether a sentence pair is held out. So no English sentence is on both sides of the split, in either language.
"""

import csv
import gzip
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
from sacremoses import MosesDetokenizer
from transformers import MarianTokenizer

from pipeline.core.records import SEGMENTS
from pipeline.core.shards import read_folder
from pipeline.extract.extraction import ExtractParams, extract

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
CONJNLI = "conjnli.adversarial_train_15k.tsv.gz"

LABELS = ("entailment", "neutral", "contradiction")

Row = tuple[str, str, int]
"""Premise, hypothesis, place in LABELS."""

LANGUAGES = {"fr": ">>fra<<", "de": ">>deu<<"}
"""Language code in file names -> token of the target language that a many-target Marian model reads (as OPUS-MT)."""

EVERYDAY = {"tatoeba", "multi30k"}
"""Collections of short everyday sentences and captions; the others hold news and parliament."""


def read_wiki_split(folder: Path) -> list[str]:
    """The sentences of WikiSplit's three files as they were before they were split, detokenised."""
    detokenize = MosesDetokenizer("en").detokenize
    texts = []
    for part in ("tune", "test", "validation"):
        with gzip.open(folder / f"wiki-split.{part}.tsv.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                words = line.split("\t")[0].replace("''", '"').replace("``", '"').split()
                texts.append(detokenize(words))
    return texts


def read_wikitext(file: Path) -> list[str]:
    """Paragraphs of a raw WikiText-2 file without its headings; its marks `@-@` become "-" again."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        texts = [line.strip() for line in lines if line.strip() and not line.strip().startswith("=")]
    for mark in ("-", ",", "."):
        texts = [text.replace(f" @{mark}@ ", mark) for text in texts]
    return texts


def sentences_of(paragraphs: list[str], min_words: int) -> list[str]:
    """Sentences of more than `min_words` tokens of WikiText's tokenised paragraphs."""
    found = (sentence.strip().removesuffix(" .") + " ." for text in paragraphs for sentence in text.split(" . "))
    return [sentence for sentence in found if len(sentence.split()) > min_words]


def read_dump(file: Path, work: Path) -> list[str]:
    """The segments that the stage extract finds in the dump `file`; they are kept in the folder `work`."""
    if not (work / "counts.json").exists():
        shape = {"segments_per_shard": 5000, "pages_per_chunk": 8, "min_words": 5, "max_words": 60}
        shape |= {"whole_below": 0, "sentences_per_segment": 1}  # all sentences are wanted
        extract(ExtractParams(source=str(file), sha256=None, segments=None, seed=1, **shape), work)
    texts: list[str] = read_folder(work, SEGMENTS).column("text").to_pylist()
    return texts


def read_snli(file: Path) -> list[Row]:
    """Rows of an SNLI file that have a gold label."""
    rows = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            item = json.loads(line)
            if item["gold_label"] in LABELS:
                rows.append((item["sentence1"], item["sentence2"], LABELS.index(item["gold_label"])))
    return rows


def read_tsv(file: Path) -> list[Row]:
    """Rows of a TSV file with a header and three columns: premise, hypothesis, label."""
    with gzip.open(file, "rt", encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [(row[0], row[1], LABELS.index(row[2])) for row in rows if len(row) == 3 and row[2] in LABELS]


def wikipedia_texts(data: Path, work: Path) -> list[str]:
    """Sentences of WikiSplit, WikiText-2's test part (as paragraphs too), the dump and ConjNLI's premises, each once.

    The dump's segments are kept in `work`.
    """
    folder = data / "wikipedia"
    paragraphs = read_wikitext(folder / "wikitext-2-raw.test.txt.gz")
    texts = {*paragraphs, *sentences_of(paragraphs, 6), *read_wiki_split(folder), *read_dump(folder / DUMP, work)}
    return sorted(texts.union(premise for premise, _, _ in read_tsv(data / "nli" / CONJNLI)))


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


def held_out(english: str, heldout_one_in: int) -> bool:
    """Whether the hash of the sentence `english` puts it among the one in `heldout_one_in` that nothing learns from."""
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
                if not held_out(english, heldout_one_in):
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
    """Every pair whose two sides both fit into `max_pieces`, in the order of `pairs`."""
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
