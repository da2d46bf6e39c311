"""A challenge set: pairs of candidates of which everyone knows the better one, and how often a metric knows it too.

An item is a reference with a better and a worse candidate; its category names the two kinds, such as
"paraphrase>wrong entity". The project's own set, with its guideline, is `data/challenge/`.

    python -m pipeline.scoring.cli.challenge --checkpoint models/finetune/all

prints the metric's pairwise accuracy by category, sentence BLEU and chrF++ beside it.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy

from pipeline.core.closure import ROOT
from pipeline.core.errors import InputError, ModelError
from pipeline.core.models import load_tokenizer, locate, usable_tokens
from pipeline.core.runtime import run_main
from pipeline.evaluate.metrics.counts import count_words
from pipeline.evaluate.names import Baseline
from pipeline.files.tables import read_table, text
from pipeline.metric.checkpoint import load_metric
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import outputs

ITEMS = ROOT / "data" / "challenge" / "items.tsv"
COLUMNS = ("id", "category", "reference", "better", "worse")
ALL = "all"
"""Name of the table's last line: the items of all categories."""

MAX_TOKENS = 128
BATCH_TOKENS = 8192

Score = Callable[[Sequence[str], Sequence[str]], Sequence[float] | numpy.ndarray]
"""References and candidates (pairs,) -> scores (pairs,), higher is better."""


@dataclass(frozen=True)
class Item:
    """`better` says more of `reference` than `worse` does; only `worse` may be empty."""

    id: str
    category: str
    reference: str
    better: str
    worse: str


class Tally(NamedTuple):
    """Of `total` items, in how many the better candidate scored higher, and in how many both scored the same."""

    right: int
    ties: int
    total: int

    def __str__(self) -> str:
        """Percent right, a tie being wrong, and the number of ties where there are any.

        >>> str(Tally(3, 0, 4)), str(Tally(3, 1, 4))
        ('75.0', '75.0 (1 tied)')
        """
        percent = f"{100 * self.right / self.total:.1f}"
        return f"{percent} ({self.ties} tied)" if self.ties else percent


def read_items(file: Path) -> list[Item]:
    """The items of a table with the columns COLUMNS (CSV, TSV, JSONL or Parquet), in its order.

    InputError: an empty field other than `worse`, an id that stands twice, equal candidates, no item at all.
    """
    items: dict[str, Item] = {}
    for line, row in read_table(file, COLUMNS):
        item = Item(**{name: text(row[name], name, file, line) for name in COLUMNS})
        for name in COLUMNS[:-1]:
            if not getattr(item, name):
                raise InputError(f"{name} is empty", file=file, line=line)
        if item.id in items:
            raise InputError("id stands twice", file=file, line=line, value=item.id)
        if item.better == item.worse:
            raise InputError("better and worse are the same", file=file, line=line, value=item.better)
        items[item.id] = item
    if not items:
        raise InputError("holds no item", file=file)
    return list(items.values())


def pairwise_accuracy(score: Score, items: Sequence[Item]) -> dict[str, Tally]:
    """Category -> how often `score` prefers the better candidate, in the order in which categories first appear.

    Every distinct pair of reference and candidate is scored once. Scoring a candidate by its length, an item
    ("a b", better "a b", worse "a") is right and an item ("a b", better "b a", worse "c d") a tie:

    >>> items = [Item("1", "x", "a b", "a b", "a"), Item("2", "x", "a b", "b a", "c d")]
    >>> pairwise_accuracy(lambda references, candidates: [len(text) for text in candidates], items)
    {'x': Tally(right=1, ties=1, total=2)}
    """
    pairs = list(dict.fromkeys((item.reference, text) for item in items for text in (item.better, item.worse)))
    values = score([reference for reference, _ in pairs], [candidate for _, candidate in pairs])
    scores = dict(zip(pairs, map(float, values), strict=True))
    for (_, candidate), value in scores.items():
        if not numpy.isfinite(value):
            raise ModelError(f"The metric gives {value} for the candidate {candidate!r}; it must give a number.")
    tallies: dict[str, Tally] = {}
    for item in items:
        better, worse = scores[item.reference, item.better], scores[item.reference, item.worse]
        right, ties, total = tallies.get(item.category, Tally(0, 0, 0))
        tallies[item.category] = Tally(right + (better > worse), ties + (better == worse), total + 1)
    return tallies


def checkpoint_score(name: str) -> Score:
    """Scores of the fine-tuned checkpoint `name` (a folder, "bundled:metric", a hub name), which has one output."""
    folder = locate(name)
    model, tokenizer = load_metric(folder), load_tokenizer(folder)
    if model.config.num_labels != 1:
        aspects = ", ".join(model.config.id2label.values())
        raise ModelError(f"{name}: gives {model.config.num_labels} scores ({aspects}), the challenge set needs one.")
    max_tokens = min(MAX_TOKENS, usable_tokens(model.config, tokenizer))

    def score(references: Sequence[str], candidates: Sequence[str]) -> list[float]:
        found = outputs(model, encode_pairs(tokenizer, references, candidates, max_tokens), BATCH_TOKENS)
        return [float(value) for value in found[:, 0]]

    return score


def table(tallies: dict[str, dict[str, Tally]]) -> str:
    """Lines of text: percent right by category (rows) and metric (columns), and of all items; no line feed at the end.

    `tallies`: metric -> category -> tally, the same categories for every metric.
    """
    columns = [{**found, ALL: Tally(*map(sum, zip(*found.values(), strict=True)))} for found in tallies.values()]
    rows = [["category", "items", *tallies]]
    rows += [[name, str(columns[0][name].total), *(str(column[name]) for column in columns)] for name in columns[0]]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def main() -> None:
    """Parse the command line, score the items, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, help="a folder, bundled:NAME or a hub name")
    parser.add_argument("--items", type=Path, default=ITEMS)
    arguments = parser.parse_args()
    items = read_items(arguments.items)
    scores: dict[str, Score] = {"metric": checkpoint_score(arguments.checkpoint)}
    scores |= {name.value: partial(count_words, name) for name in (Baseline.SENTBLEU, Baseline.CHRF)}
    print("Percent of items whose better candidate scores higher; a tie counts as wrong.")
    print(table({name: pairwise_accuracy(score, items) for name, score in scores.items()}))


if __name__ == "__main__":
    run_main(main)
