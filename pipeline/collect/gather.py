"""Loads every corpus, divides the rows into splits and writes one table of ratings, with its counts.

Corpora stand in the order of the params, and rows in the order of their corpus. Loading takes seconds, so the stage is
not resumed by shards: a killed run starts again.
"""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

from pipeline.collect.corpus import LAYOUTS, TEST, TRAIN, VALIDATION, CollectParams, Corpus, Loaded, Rating
from pipeline.collect.drift import skew
from pipeline.collect.splits import (
    Entry,
    check_scales,
    drop_leaks,
    entries_of,
    hold_out_validation,
)
from pipeline.core import modules, work
from pipeline.core.errors import InputError
from pipeline.core.records import RATINGS
from pipeline.core.scripts import length
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.files.character_references import unescaped

TOO_LONG = "a reference or the candidate is too long"
EMPTY = "the reference is empty"


def load(corpus: Corpus) -> Loaded:
    """The ratings of `corpus`, read by the module of its layout."""
    loaded: Loaded = modules.load(LAYOUTS, corpus.layout, "layout").load(corpus)
    return loaded


def collect(params: CollectParams, out: Path) -> dict[str, Any]:
    """Write OUT/part-*.parquet and OUT/counts.json, and return the counts.

    An InputError if a corpus has no rating left.
    """
    entries: list[Entry] = []
    dropped: dict[str, Counter[str]] = {}
    for corpus in params.corpora:
        if corpus.name in params.without:
            continue
        if params.language_pairs is not None:
            corpus = dataclasses.replace(corpus, language_pairs=params.language_pairs)
        loaded = cleaned(load(corpus), params.undo_character_references, params.max_words)
        dropped[corpus.name] = loaded.dropped
        if not loaded.ratings:
            reasons = f" ({_reasons(loaded.dropped)})" if loaded.dropped else ""
            raise InputError(f"no rating of corpus {corpus.name} is left{reasons}", file=corpus.parts[0].path)
        entries += entries_of(corpus, loaded, params.seed)
    drop_leaks(entries, params, dropped)
    check_scales(entries)
    skew(entries, params, dropped)
    hold_out_validation(entries, params)
    counts = _counts(entries, dropped)
    _write([entry for entry in entries if entry.split is not None], counts, params.rows_per_shard, out)
    return counts


def cleaned(loaded: Loaded, undo_character_references: bool, max_words: int) -> Loaded:
    """The ratings with texts as raters saw them.

    A rating with an empty reference, or with a text of more than `max_words` words (`pipeline.core.scripts.length`: two
    characters count as a word in scripts without blanks), is left out and counted.
    """
    dropped = loaded.dropped.copy()
    kept = []
    for rating in map(_unescaped, loaded.ratings) if undo_character_references else loaded.ratings:
        texts = (rating.reference, *rating.other_references, rating.candidate)
        if not rating.reference.strip():
            dropped[EMPTY] += 1
        elif any(length(text) > max_words for text in texts):
            dropped[TOO_LONG] += 1
        else:
            kept.append(rating)
    return Loaded(kept, dropped)


def _unescaped(rating: Rating) -> Rating:
    """`rating` with the character references of HTML and XML in its texts undone."""
    return dataclasses.replace(
        rating,
        reference=unescaped(rating.reference),
        other_references=tuple(filter(str.strip, map(unescaped, rating.other_references))),
        candidate=unescaped(rating.candidate),
        source=None if rating.source is None else unescaped(rating.source),
    )


def _counts(entries: list[Entry], dropped: dict[str, Counter[str]]) -> dict[str, Any]:
    by_corpus = {}
    for name, reasons in dropped.items():
        kept = Counter(entry.split for entry in entries if entry.corpus == name and entry.split is not None)
        rows_in = kept.total() + reasons.total()
        by_corpus[name] = {
            "rows_in": rows_in,
            "rows_out": kept.total(),
            "dropped": dict(reasons),
            "by_split": {split: kept[split] for split in (TRAIN, VALIDATION, TEST)},
        }
    total: Counter[str] = sum(dropped.values(), Counter())
    splits = Counter(entry.split for entry in entries if entry.split is not None)
    return {
        "rows_in": splits.total() + total.total(),
        "rows_out": splits.total(),
        "dropped": dict(total),
        "by_corpus": by_corpus,
        "by_split": {split: splits[split] for split in (TRAIN, VALIDATION, TEST)},
    }


def _write(entries: list[Entry], counts: dict[str, Any], rows_per_shard: int, out: Path) -> None:
    for shard, start in enumerate(range(0, len(entries), rows_per_shard)):
        rows = [_row(entry) for entry in entries[start : start + rows_per_shard]]
        write_shard(out / shard_name(shard), table_of(rows, RATINGS))
    work.write_json(out / "counts.json", counts)


def _row(entry: Entry) -> dict[str, Any]:
    rating = entry.rating
    return {
        "rating_id": f"{entry.corpus}/{rating.key}",
        "corpus": entry.corpus,
        "split": entry.split,
        "aspect": rating.aspect,
        "reference": rating.reference,
        "other_references": list(rating.other_references),
        "candidate": rating.candidate,
        "source": rating.source,
        "language_pair": rating.language_pair,
        "system": rating.system,
        "segment": rating.segment,
        "year": rating.year,
        "raw": rating.raw,
        "z": rating.z,
        "score": rating.score,
        "published": rating.published or None,
        "system_ratings": rating.system_ratings or None,
    }


def _reasons(dropped: Counter[str]) -> str:
    return ", ".join(f"{count} dropped: {reason}" for reason, count in sorted(dropped.items()))
