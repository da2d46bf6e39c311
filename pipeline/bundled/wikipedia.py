"""Readers of Wikipedia text: WikiSplit, raw WikiText-2, a dump."""

import gzip
from pathlib import Path

from sacremoses import MosesDetokenizer

from pipeline.core.records import SEGMENTS
from pipeline.core.shards import read_folder
from pipeline.extract.extraction import ExtractParams, extract

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


def read_wiki_split(folder: Path) -> list[str]:
    """The unsplit sentences of WikiSplit's three files, detokenised."""
    detokenize = MosesDetokenizer("en").detokenize
    texts = []
    for part in ("tune", "test", "validation"):
        with gzip.open(folder / f"wiki-split.{part}.tsv.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                words = line.split("\t")[0].replace("''", '"').replace("``", '"').split()
                texts.append(detokenize(words))
    return texts


def read_wikitext(file: Path) -> list[str]:
    """Paragraph lines of a raw WikiText-2 file, headings left out, its `@-@` marks undone."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        texts = [line.strip() for line in lines if line.strip() and not line.strip().startswith("=")]
    for mark in ("-", ",", "."):
        texts = [text.replace(f" @{mark}@ ", mark) for text in texts]
    return texts


def sentences_of(paragraphs: list[str], min_words: int) -> list[str]:
    """Sentences of at least `min_words` words of WikiText's tokenised paragraphs."""
    found = (sentence.strip().removesuffix(" .") + " ." for text in paragraphs for sentence in text.split(" . "))
    return [sentence for sentence in found if len(sentence.split()) > min_words]


def read_dump(file: Path, work: Path) -> list[str]:
    """The segments that the pipeline extracts from `file`; they are kept in `work`."""
    if not (work / "counts.json").exists():
        shape = {"segments_per_shard": 5000, "pages_per_chunk": 8, "min_words": 5, "max_words": 60}
        extract(ExtractParams(source=str(file), sha256=None, segments=None, seed=1, **shape), work)
    texts: list[str] = read_folder(work, SEGMENTS).column("text").to_pylist()
    return texts
