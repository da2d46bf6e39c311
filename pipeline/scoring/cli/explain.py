"""`bleurt explain`: show which words cost a score.

  bleurt explain --pair "The bank raised its rates." "The bank cut its rates."
  bleurt explain -r ref.txt -t system.txt --worst 10 --html worst.html
  bleurt explain -r ref.txt -t system.txt --segments 3 17

Every word carries its attribution by integrated gradients (see `pipeline.scoring.attribution`). Words that cost score
are orange, or negative. Of several references the one that scores highest is explained. If the checkpoint keeps its
pre-training head, the signals that this head predicts stand beside the words: BLEU, ROUGE and BERTScore of the pair,
its likelihood given a backtranslation, entailment, and whether it looks backtranslated or mask-filled. Fine-tuning has
moved the encoder under that head since, so read them as hints. The checkpoint keeps the head in `heads.safetensors`;
`targets.json` says which task each of its outputs belongs to.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core.errors import ModelError, ParamsError
from pipeline.scoring.inputs import (
    Segment,
    add_input_arguments,
    add_scorer_arguments,
    at_least_one,
    input_files,
    scorer_of,
    segments_of,
)
from pipeline.scoring.output import check_destinations, written

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from pipeline.metric.tasks import Targets
    from pipeline.scoring.attribution import Baseline
    from pipeline.scoring.coloured_text import Panel
    from pipeline.scoring.scorer import BleurtScorer, Scored

WORST = 5
"""Segments that are explained if none are named."""


@dataclass(frozen=True)
class Head:
    """The head of pre-training: `weight` (columns, features), `bias` (columns,), and what its columns are."""

    weight: "NDArray[numpy.float32]"
    bias: "NDArray[numpy.float32]"
    targets: "Targets"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add_input_arguments(parser)
    add_scorer_arguments(parser)
    group = parser.add_argument_group("explanation")
    add = group.add_argument
    add("--pair", nargs=2, metavar=("REFERENCE", "CANDIDATE"), help="explain this pair of texts, without files")
    add(
        "--segments",
        nargs="+",
        action="extend",
        type=at_least_one,
        metavar="N",
        help="explain these segments, counted from 1",
    )
    add("--worst", type=at_least_one, metavar="N", help=f"explain the N segments that score lowest (default {WORST})")
    add("--baseline", choices=["mask", "pad"], default="mask", help="what words are compared with (default mask)")
    add("--html", type=Path, metavar="FILE", help="also write one HTML page, which opens offline")
    add("--format", choices=["text", "json"], default="text", help="text (default) or json")


def run(arguments: argparse.Namespace) -> int:
    """Score, choose, explain, print."""
    from pipeline.metric.apart import TextsApart
    from pipeline.scoring import coloured_text
    from pipeline.scoring.attribution import Baseline, method

    check_destinations(input_files(arguments), html=arguments.html)
    segments = _segments(arguments)
    scorer = scorer_of(arguments)
    if scorer.beside.reads.source or isinstance(scorer.tokenizer, TextsApart):
        raise ParamsError(f"explain: {scorer.checkpoint} does not read a reference and a candidate as one pair.")
    baseline = Baseline(arguments.baseline)
    panels = explain(scorer, segments, _chosen(arguments, len(segments)), arguments.worst or WORST, baseline)
    if arguments.html is not None:
        with written(arguments.html) as out:
            out.write(coloured_text.page(panels, method(baseline), str(scorer.signature())))
    if arguments.format == "json":
        found = {
            "method": method(baseline),
            "signature": str(scorer.signature()),
            "pairs": [_record(p) for p in panels],
        }
        print(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        print(coloured_text.terminal(panels, method(baseline), coloured_text.coloured(sys.stdout)))
        print(scorer.signature())
    return 0


def _segments(arguments: argparse.Namespace) -> list[Segment]:
    if arguments.pair is not None:
        if arguments.references or arguments.translations or arguments.sources or arguments.input:
            raise ParamsError("--pair goes without -r, -t, -s and --input.")
        return [Segment((arguments.pair[0],), (arguments.pair[1],), None)]
    with segments_of(arguments) as given:
        if len(given.systems) > 1:
            raise ParamsError(f"explain takes one system, not {len(given.systems)}: name one file after -t.")
        return list(given)


def _chosen(arguments: argparse.Namespace, count: int) -> list[int] | None:
    """Numbers of the named segments, from 0; None if the worst are to be found."""
    if arguments.segments is None:
        return None
    if arguments.worst is not None:
        raise ParamsError("--segments names what to explain, --worst chooses it: give one of the two.")
    for place in arguments.segments:
        if place > count:
            raise ParamsError(f"--segments: there are {count} segments, so none has the number {place}.")
    return [place - 1 for place in arguments.segments]


def explain(
    scorer: "BleurtScorer", segments: Sequence[Segment], chosen: Sequence[int] | None, worst: int, baseline: "Baseline"
) -> "list[Panel]":
    """A panel for each of the `chosen` segments, or for the `worst` lowest-scored ones, lowest first."""
    from pipeline.scoring.chunks import Pair

    rows = range(len(segments)) if chosen is None else chosen
    pairs = (Pair(segments[row].references, segments[row].candidates[0], segments[row].source) for row in rows)
    scored = dict(zip(rows, scorer.stream(pairs), strict=True))
    if chosen is None:
        rows = sorted(rows, key=lambda row: scored[row].score)[:worst]
    head = load_head(scorer.checkpoint)
    return [_panel(scorer, row, segments[row], scored[row], head, baseline) for row in rows]


def _panel(
    scorer: "BleurtScorer", row: int, segment: Segment, scored: "Scored", head: Head | None, baseline: "Baseline"
) -> "Panel":
    from pipeline.scoring.attribution import attribute
    from pipeline.scoring.coloured_text import Panel
    from pipeline.scoring.unusual_texts import used_references

    given = {scorer.clean(text): text for text in segment.references}  # the scorer cleans what it scores
    references = used_references(list(given))
    against = scorer.score([given[text] for text in references], [segment.candidates[0]] * len(references))
    best = max(range(len(references)), key=against.__getitem__)
    pair = references[best], scorer.clean(segment.candidates[0])
    found = attribute(scorer.model, scorer.tokenizer, *pair, scorer.max_tokens, baseline, _output_number(scorer))
    signals = predict_signals(scorer, head, *pair) if head else {}
    notes = tuple(_notes(scorer, scored, len(references), best, against[best]))
    return Panel(row + 1, *pair, scored.score, found, signals, notes)


def load_head(folder: Path) -> Head | None:
    """The head that the checkpoint in `folder` keeps; None if it keeps none, a ModelError if it is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from pipeline.metric.checkpoint import HEADS, TARGETS, read_targets

    if not (folder / HEADS).exists() or not (folder / TARGETS).exists():
        return None
    targets = read_targets(folder)
    try:
        weights = load_file(folder / HEADS)
        name = "classifier.out_proj" if "classifier.out_proj.weight" in weights else "classifier"  # as head_of
        weight, bias = (weights[f"{name}.{part}"].float().numpy() for part in ("weight", "bias"))
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelError(f"{folder / HEADS}: holds no pre-training head that {TARGETS} describes.") from error
    if not len(weight) == len(bias) == len(targets.columns):
        raise ModelError(f"{folder / HEADS}: holds no pre-training head that {TARGETS} describes.")
    return Head(weight, bias, targets)


def predict_signals(scorer: "BleurtScorer", head: Head, reference: str, candidate: str) -> dict[str, dict[str, float]]:
    """What `head` predicts of one pair, signal -> column -> value; it reads what the last layer of the model reads."""
    from pipeline.metric.pairs import encode_pairs
    from pipeline.metric.prediction import Replicas
    from pipeline.metric.tasks import named_signals

    encoded = encode_pairs(scorer.tokenizer, [reference], [candidate], scorer.max_tokens)
    (read,) = Replicas(scorer.model, precision="float32").head_inputs(encoded, scorer.batch_tokens)
    if head.weight.shape[1] != len(read):
        raise ModelError(f"{scorer.checkpoint}: the kept head reads {head.weight.shape[1]} features, not {len(read)}.")
    return named_signals((head.weight @ read + head.bias).tolist(), head.targets)


def _output_number(scorer: "BleurtScorer") -> int:
    names = scorer.model.config.id2label
    return next(int(number) for number, name in names.items() if str(name) == scorer.output)


def _notes(scorer: "BleurtScorer", scored: "Scored", references: int, best: int, alone: float) -> Iterator[str]:
    """What else a reader should know; `alone` is the score against only the reference that is explained."""
    if references > 1:
        yield f"reference {best + 1} of {references}, which scores highest: {alone:.3f}"
    if scored.truncated or scored.windows > 1:
        yield f"longer than {scorer.max_tokens} tokens: words without an attribution were not read here"
    if scored.windows > 1:
        yield f"the score is of {scored.windows} windows, the attribution of the first {scorer.max_tokens} tokens"
    if scored.edge:
        yield f"flag {scored.edge}"
    if scored.percentile is not None:
        yield f"higher than {scored.percentile:.0f}% of the human-rated candidates of the calibration"


def _record(panel: "Panel") -> dict[str, Any]:
    """A panel as JSON holds it: every word with its text."""
    found = asdict(panel)
    for side in ("reference", "candidate"):
        for word in found["attribution"][side]:
            word["text"] = found[side][word["start"] : word["end"]]
    return found
