"""The English text that mask filler and classifier learn from: Wikipedia, and pairs of premise and hypothesis."""

import csv
import gzip
import json
from pathlib import Path

from sacremoses import MosesDetokenizer

from pipeline.core.records import SEGMENTS
from pipeline.core.shards import read_folder
from pipeline.extract.extraction import ExtractParams, extract

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
CONJNLI = "conjnli.adversarial_train_15k.tsv.gz"

LABELS = ("entailment", "neutral", "contradiction")

Row = tuple[str, str, int]
"""Premise, hypothesis, place in LABELS."""


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
