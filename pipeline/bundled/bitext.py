"""Sentences and their translations in all languages that the multilingual encoder learns, and FLORES to test it.

Training rows are the parallel text (`train.en-{de,fr}.tsv.gz`, `train.multi.tsv.gz`) and the training part of MLQE-PE:
a source and the human post-edit of its translation, one of the two English. One in `heldout_one_in` English sentences
is held out, by its hash, in all languages at once. The held-out pairs and MLQE-PE's dev part are for validation.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sacremoses import MosesDetokenizer

from pipeline.bundled.texts import LANGUAGES, SentencePair, held_out
from pipeline.files.tables import read_table

QUALITY = Path("mlqe-pe", "mlqe-pe.tsv.gz")
COLUMNS = ("language_pair", "split", "source", "post_edit_tokens")


@dataclass(frozen=True)
class Bitext:
    """Pairs to learn from, and pairs whose English sentence is never learned from."""

    train: list[SentencePair]
    validation: list[SentencePair]


def read_bitext(data: Path, heldout_one_in: int) -> Bitext:
    """All pairs in the folder `data`, each once, in the order of the files; no pair has an empty side."""
    train, validation = dict[SentencePair, None](), dict[SentencePair, None]()
    for pair, dev in (*((pair, False) for pair in _parallel(data / "parallel")), *_post_edits(data / QUALITY)):
        if pair.english.strip() and pair.foreign.strip():
            (validation if dev or held_out(pair.english, heldout_one_in) else train)[pair] = None
    seen = {pair.english for pair in validation}
    return Bitext([pair for pair in train if pair.english not in seen], list(validation))


def read_flores_multi(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """FLORES-200 devtest: language -> (English sentence, its translation), from `test.flores.multi.tsv.gz`."""
    found: dict[str, list[tuple[str, str]]] = {}
    for language, english, foreign in _rows(folder / "test.flores.multi.tsv.gz", 1):
        found.setdefault(language, []).append((english, foreign))
    return found


def _parallel(folder: Path) -> Iterator[SentencePair]:
    for language in LANGUAGES:
        for english, foreign, origin in _rows(folder / f"train.en-{language}.tsv.gz", 0):
            yield SentencePair(english, foreign, language, origin)
    for language, english, foreign, origin in _rows(folder / "train.multi.tsv.gz", 1):
        yield SentencePair(english, foreign, language, origin)


def _post_edits(file: Path) -> Iterator[tuple[SentencePair, bool]]:
    """Pairs of the parts train and dev, and whether they are of dev."""
    detokenizers: dict[str, MosesDetokenizer] = {}
    for _, row in read_table(file, COLUMNS):
        start, end = str(row["language_pair"]).split("-")
        if row["split"] == "test":
            continue
        detokenizer = detokenizers.setdefault(end, MosesDetokenizer(lang=end))
        source, target = str(row["source"]), detokenizer.detokenize(str(row["post_edit_tokens"]).split())
        english, foreign = (source, target) if start == "en" else (target, source)
        yield SentencePair(english, foreign, end if start == "en" else start, "mlqe-pe"), row["split"] == "dev"


def _rows(file: Path, headings: int) -> Iterator[list[str]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number >= headings:
                yield line.rstrip("\n").split("\t")
