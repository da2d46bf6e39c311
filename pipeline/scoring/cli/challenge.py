"""`bleurt challenge`: count how often a metric prefers the candidate that everyone knows to be better.

  bleurt challenge --checkpoint models/finetune/all

An item of a challenge set is a reference with a better and a worse candidate; its category names the two kinds, such as
"paraphrase>wrong entity". The project's own sets, with their guideline, lie in data/challenge/: items.tsv, which is
read unless --items names another table, and second.tsv, which is read once, when a version's metrics are trained. The
table shows the percent of items whose better candidate scores higher, by category, for the checkpoint, sentence BLEU
and chrF++. With --entailment it also shows a classifier of entailment by itself, and the checkpoint with the scores of
contradictions lowered by it. A tie counts as wrong; the number of ties stands beside a metric that has any.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.core.modules import ROOT
from pipeline.scoring import output
from pipeline.scoring.inputs import add_checkpoint
from pipeline.scoring.output import Format

if TYPE_CHECKING:
    import numpy

ITEMS = ROOT / "data" / "challenge" / "items.tsv"
COLUMNS = ("id", "category", "reference", "better", "worse")
ALL = "all"
"""Name of the table's last row: the items of all categories."""

BATCH_TOKENS = 8192
WIDTH = 1
"""Digits after the decimal point of a percentage, unless --width says otherwise."""

Score = Callable[[Sequence[str], Sequence[str]], "Sequence[float] | numpy.ndarray"]
"""References and candidates (pairs,) -> scores (pairs,), higher is better."""


@dataclass(frozen=True)
class Item:
    """A reference and two candidates: `better` says more of it than `worse`; only `worse` may be empty."""

    id: str
    category: str
    reference: str
    better: str
    worse: str


class Tally(NamedTuple):
    """In how many of `total` items the better candidate scored higher, and in how many both scored the same."""

    right: int
    ties: int
    total: int

    @property
    def percent(self) -> float:
        """Percent right; a tie is wrong.

        >>> Tally(3, 1, 4).percent
        75.0
        """
        return 100 * self.right / self.total


def read_items(file: Path) -> list[Item]:
    """The items of a table (CSV, TSV, JSONL or Parquet) with the columns COLUMNS, in its order.

    An InputError if a field other than `worse` is empty, an id occurs twice, candidates are equal, or there is no item.
    """
    from pipeline.files.tables import read_table, text

    items: dict[str, Item] = {}
    for line, row in read_table(file, COLUMNS):
        item = Item(**{name: text(row[name], name, file, line) for name in COLUMNS})
        for name in COLUMNS[:-1]:
            if not getattr(item, name):
                raise InputError(f"{name} is empty", file=file, line=line)
        if item.id in items:
            raise InputError("id occurs twice", file=file, line=line, value=item.id)
        if item.better == item.worse:
            raise InputError("better and worse are the same", file=file, line=line, value=item.better)
        items[item.id] = item
    if not items:
        raise InputError("holds no item", file=file)
    return list(items.values())


def pairwise_accuracy(score: Score, items: Sequence[Item]) -> dict[str, Tally]:
    """Category -> how often `score` prefers the better candidate, in the order in which categories first appear.

    Every distinct pair of reference and candidate is scored once. As an example, let a candidate's score be its length.
    An item with the better candidate "a b" and the worse "a" is then right, and one with "b a" and "c d" is a tie:

    >>> items = [Item("1", "x", "a b", "a b", "a"), Item("2", "x", "a b", "b a", "c d")]
    >>> pairwise_accuracy(lambda references, candidates: [len(text) for text in candidates], items)
    {'x': Tally(right=1, ties=1, total=2)}
    """
    import numpy

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
    from pipeline.core.models import load_config, load_tokenizer, locate
    from pipeline.metric.beside import reads_of
    from pipeline.metric.prediction import predict, readable_tokens

    folder = locate(name)
    config = load_config(folder)
    if config.num_labels != 1:
        aspects = ", ".join(config.id2label.values())
        raise ModelError(f"{name}: gives {config.num_labels} scores ({aspects}), the challenge set needs one.")
    if reads_of(config).source:
        raise ModelError(f"{name}: reads sources, the challenge set has none.")
    max_tokens = readable_tokens(config, load_tokenizer(folder), None, "max_tokens")
    return lambda references, candidates: predict(folder, references, candidates, max_tokens, BATCH_TOKENS)[:, 0]


def entailment_score(name: str) -> Score:
    """Scores of the entailment classifier `name`: the probability that one text follows from the other, less that it
    contradicts it, averaged over both directions; from -1 to 1.
    """
    from pipeline.label.signals.entailment import LABELS, Params, entailment

    params = Params(model=name, batch_tokens=BATCH_TOKENS)
    follows, contradicts = LABELS.index("entailment"), LABELS.index("contradiction")

    def score(references: Sequence[str], candidates: Sequence[str]) -> "numpy.ndarray":
        both = entailment(references, candidates, params) + entailment(candidates, references, params)
        difference: numpy.ndarray = (both[:, follows] - both[:, contradicts]) / 2
        return difference

    return score


def lowered(score: Score, name: str) -> Score:
    """`score`, less what candidates lose that contradict their reference by the entailment classifier `name`."""
    import numpy

    from pipeline.scoring.contradiction import contradictions, losses

    return lambda references, candidates: (
        numpy.asarray(score(references, candidates)) - losses(contradictions(name, references, candidates))
    )


def rows_of(tallies: dict[str, dict[str, Tally]]) -> list[dict[str, Any]]:
    """A row for each category and one for all items: percent right of every metric, and its ties if it has any.

    `tallies`: metric -> category -> tally, the same categories for every metric.
    """
    whole = {
        metric: {**found, ALL: Tally(*map(sum, zip(*found.values(), strict=True)))} for metric, found in tallies.items()
    }
    rows: list[dict[str, Any]] = []
    for category in next(iter(whole.values())):
        row: dict[str, Any] = {"category": category}
        for metric, found in whole.items():
            row["items"] = found[category].total
            row[metric] = found[category].percent
            if found[ALL].ties:
                row[f"{metric} ties"] = found[category].ties
        rows.append(row)
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add_checkpoint(parser.add_argument)
    parser.add_argument("--items", type=Path, default=ITEMS, metavar="FILE",
                        help=f"a table with the columns {', '.join(COLUMNS)} (default: our first set)")  # fmt: skip
    parser.add_argument("--entailment", metavar="MODEL",
                        help="also a classifier of entailment, such as bundled:entailment-base, and the metric with "
                        "the scores of contradictions lowered by it")  # fmt: skip
    output.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Score the items, print the table."""
    from functools import partial

    from pipeline.evaluate.metrics import score_pairs

    if arguments.items == ITEMS and not ITEMS.exists():
        raise ParamsError(
            "--items: name a table of items; the project's own set, data/challenge/items.tsv, is in its repository and "
            "not in an installed package."
        )
    items = read_items(arguments.items)
    scores: dict[str, Score] = {"metric": checkpoint_score(arguments.checkpoint or "bundled:metric")}
    scores |= {name: partial(score_pairs, name) for name in ("sentbleu", "chrf++")}
    if arguments.entailment:
        scores["entailment"] = entailment_score(arguments.entailment)
        scores["metric+entailment"] = lowered(scores["metric"], arguments.entailment)
    rows = rows_of({name: pairwise_accuracy(score, items) for name, score in scores.items()})
    if arguments.format is not Format.JSON:
        mark = "% " if arguments.format is Format.LATEX else ""
        print(f"{mark}Percent of items whose better candidate scores higher; a tie counts as wrong.")
    print(output.table(rows, arguments.format, WIDTH if arguments.width is None else arguments.width))
    return 0
