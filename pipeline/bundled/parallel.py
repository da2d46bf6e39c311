"""The parallel text that the bundled translators learn from and are judged on.

Rows are English, French or German, and the source collection, tab-separated (gzip), one file a language.
A sentence pair is held out when the hash of its English side says so, so that no English sentence stands
on both sides of the split, in either language.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = {"fr": ">>fra<<", "de": ">>deu<<"}
"""Language code in file names -> target token that a many-target Marian model reads (the OPUS-MT convention)."""

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
    """Training pairs and the held-out Tatoeba pairs (about `1 in heldout_one_in` of the English sentences)."""

    train: list[SentencePair]
    heldout: list[SentencePair]


def _held_out(english: str, heldout_one_in: int) -> bool:
    digest = hashlib.sha256(english.strip().lower().encode()).digest()
    return int.from_bytes(digest[:8], "big") % heldout_one_in == 0


def read_parallel(folder: Path, heldout_one_in: int) -> ParallelText:
    """Read `train.en-{fr,de}.tsv.gz` under `folder` and split it by a hash of the English side."""
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
    """FLORES-200 devtest, 1,012 pairs a language: `test.flores.en-{fr,de}.tsv` under `folder`."""
    pairs = []
    for language in LANGUAGES:
        for line in (folder / f"test.flores.en-{language}.tsv").read_text(encoding="utf-8").splitlines():
            english, foreign = line.split("\t")
            pairs.append(SentencePair(english, foreign, language, "flores"))
    return pairs
