"""`bleurt compare`: compare systems with the first one: intervals, significance, changed segments.

  bleurt compare -r ref.txt -t base.txt a.txt b.txt
  bleurt compare -r ref.txt -t base.txt a.txt --baselines bleu chrf ter bertscore --format latex

Every system is compared with the first: mean scores and bootstrap intervals, p-values of the paired bootstrap and of
paired approximate randomisation, both also corrected by Holm for the number of comparisons, the shares of segments that
got better or worse by more than --tie_width, and the segments that changed most. If the checkpoint is calibrated,
"preferred" is the mean of P(A better than B) over the segments: an estimate of the share in which people would rate the
system higher than the first. The output says on which pairs P was calibrated, and its calibration error. If these are
pairs of candidates of different references, which people compare less surely than two candidates of one reference, the
share may lie too near to one half. Segment scores come from `bleurt score`, the tests from
`pipeline.statistics.system_comparison`. --baselines are the metrics of `pipeline.evaluate.metrics`: corpus scores if
they have one (bleu, chrf, ter), else means over the segments. They read character references (`&quot;`) as our metric
does; for the numbers that another tool gives the same files, add --character_references kept.
"""

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.evaluate.benchmark import as_records
from pipeline.evaluate.metrics import Texts, known_metrics
from pipeline.files.character_references import unescaped
from pipeline.scoring import output
from pipeline.scoring.calibration import ONE_REFERENCE
from pipeline.scoring.coloured_text import plain
from pipeline.scoring.contenders import (
    SystemScores,
    add_encoder_arguments,
    baseline_scores,
    metric_name,
    settled_for,
)
from pipeline.scoring.inputs import (
    Segment,
    add_entailment,
    add_input_arguments,
    add_scorer_arguments,
    at_least_one,
    scorer_of,
    segments_of,
)
from pipeline.scoring.output import Format
from pipeline.scoring.unusual_texts import CharacterReferences, clean
from pipeline.statistics.system_comparison import METHOD, Difference, Outcome, Settings, compare_scores, most_changed

if TYPE_CHECKING:
    import pandas

    from pipeline.scoring.scorer import BleurtScorer

Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add_input_arguments(parser)
    add_scorer_arguments(parser)
    add_entailment(parser.add_argument)
    output.add_arguments(parser)
    group = parser.add_argument_group("comparison")
    add = group.add_argument
    add("--resamples", type=at_least_one, default=1000, metavar="N", help="of the bootstrap (default 1000)")
    add("--permutations", type=at_least_one, default=10_000, metavar="N", help="of the randomisation (default 10000)")
    add("--confidence", type=float, default=0.95, metavar="P", help="of the intervals (default 0.95)")
    add("--tie_width", type=float, default=0.05, metavar="D",
        help="two scores that differ by at most so much are a tie (default 0.05)")  # fmt: skip
    add("--changed", type=int, default=5, metavar="N", help="show the N segments that changed most (default 5)")
    add("--seed", type=int, default=1, metavar="N", help="of resamples and permutations (default 1)")
    add("--baselines", nargs="+", action="extend", type=metric_name, default=[], metavar="NAME",
        help="familiar metrics beside ours: bleu, chrf, ter, bertscore, and all others of the benchmark")  # fmt: skip
    add_encoder_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Score all systems, compare them, print."""
    values = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Settings)}
    settings = from_mapping(values, Settings, "compare")
    with segments_of(arguments) as given:
        names, segments = list(given.systems), list(given)
    if len(names) < 2:
        raise ParamsError("compare needs two systems at least: name a file for each after -t.")
    scorer = scorer_of(arguments)
    scores = score_systems(scorer, names, segments, arguments.batch_size)
    outcome = compare_scores(scores, settings)
    known = known_metrics()
    baselines = [known[name] for name in dict.fromkeys(arguments.baselines)]
    systems = [texts_of_system(segments, system, scorer.character_references) for system in range(len(names))]
    familiar = baseline_scores(baselines, settled_for(baselines, arguments), systems, settings)
    found = report(names, segments, scores, outcome, familiar, scorer, settings, arguments.changed)
    if arguments.format is Format.JSON:
        print(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        print(render(found, arguments.format, arguments.width))
    return 0


def texts_of_system(
    segments: Sequence[Segment], system: int, character_references: CharacterReferences = CharacterReferences.UNDONE
) -> Texts:
    """What baselines read of one system; an empty reference is left out if the segment has another one."""
    read = unescaped if character_references is CharacterReferences.UNDONE else str
    references = [
        tuple(text for text in map(read, segment.references) if clean(text, CharacterReferences.KEPT))
        or (read(segment.references[0]),)
        for segment in segments
    ]
    sources = tuple(None if segment.source is None else read(segment.source) for segment in segments)
    return Texts(tuple(references), sources, tuple(read(segment.candidates[system]) for segment in segments))


def score_systems(
    scorer: "BleurtScorer", names: Sequence[str], segments: Sequence[Segment], batch_size: int | None
) -> numpy.ndarray:
    """Scores of every system on every segment: float64 (systems, segments); warns of what was cut or flagged."""
    from pipeline.scoring.chunks import Pair
    from pipeline.scoring.results import Total

    pairs = (Pair(one.references, candidate, one.source) for one in segments for candidate in one.candidates)
    found = list(scorer.stream(pairs, batch_size))
    for place, system in enumerate(names):
        total = Total(system)
        for scored in found[place :: len(names)]:
            total.add(scored)
        for warning in total.warnings(scorer.signature()):
            print(warning, file=sys.stderr)
    return numpy.array([scored.score for scored in found]).reshape(len(segments), -1).T


def report(
    names: Sequence[str],
    segments: Sequence[Segment],
    scores: numpy.ndarray,
    outcome: Outcome,
    familiar: Sequence[SystemScores],
    scorer: "BleurtScorer",
    settings: Settings,
    changed: int,
) -> Row:
    """Everything that was found, as JSON holds it; null if undefined."""
    systems = [
        {"system": name, "score": one.mean, "low": number(one.interval.low), "high": number(one.interval.high)}
        for name, one in zip(names, outcome.standings, strict=True)
    ]
    comparisons = []
    for place, found in enumerate(outcome.differences, start=1):
        moved = scores[place] - scores[0]
        comparison = _comparison(found)
        comparison["preferred"] = preferred(scorer, moved)
        comparison["changed"] = [
            {
                "segment": row + 1,
                "before": float(scores[0, row]),
                "after": float(scores[place, row]),
                "references": list(segments[row].references),
                "candidate_before": segments[row].candidates[0],
                "candidate_after": segments[row].candidates[place],
            }
            for row in most_changed(moved, max(0, changed))
        ]
        comparisons.append({"system": names[place], "against": names[0], **comparison})
    return {
        "segments": len(segments),
        "systems": systems,
        "comparisons": comparisons,
        "baselines": [
            {
                "metric": one.metric,
                "scores": dict(zip(names, one.scores, strict=True)),
                "p_values": dict(zip(names, one.p_values, strict=True)),
                "signature": one.signature,
            }
            for one in familiar
        ],
        "method": METHOD,
        "preferred_note": preferred_note(scorer),
        "settings": dataclasses.asdict(settings),
        "signature": str(scorer.signature()),
    }


def _comparison(found: Difference) -> Row:
    p_values = ("p_bootstrap", "p_randomisation", "p_bootstrap_holm", "p_randomisation_holm")
    return {
        "difference": found.mean,
        "low": number(found.interval.low),
        "high": number(found.interval.high),
        **{name: number(getattr(found, name)) for name in p_values},
        "better": found.better,
        "worse": found.worse,
        "tied": found.tied,
    }


def preferred(scorer: "BleurtScorer", differences: numpy.ndarray) -> float | None:
    """Mean of P(A better than B) over segments whose scores differ by `differences`; None if not calibrated."""
    if scorer.calibration is None:
        return None
    found = [scorer.calibration.probability_better(float(value)) for value in differences]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known else None


def preferred_note(scorer: "BleurtScorer") -> str | None:
    """On which pairs "preferred" was calibrated; None if the checkpoint is not calibrated."""
    if scorer.calibration is None or scorer.calibration.slope is None:
        return None
    found = scorer.calibration
    pairs = f"preferred: P(better) was calibrated on {found.pairs:,} pairs of candidates of {found.shared()}"
    if found.pairs_of != ONE_REFERENCE:
        return f"{pairs}; the share is an estimate and may lie too near to one half."
    if found.error is None:
        return f"{pairs}."
    return f"{pairs}; its calibration error on held-out references is {found.error:.1f} points of 100."


def number(value: float) -> float | None:
    """`value`, or JSON's null if it is undefined."""
    return None if math.isnan(value) else value


def render(found: Row, format: Format, width: int | None) -> str:
    """The findings as tables; text also shows the segments that changed most."""
    tables = [(title, as_records(table)) for title, table in _tables(found).items() if len(table)]
    notes = [
        f"{found['segments']:,} segments. {found['method']}. A segment whose scores differ by at most "
        f"{found['settings']['tie_width']:g} is a tie. A cell is empty if its number is undefined.",
        *filter(None, [found["preferred_note"]]),
        *(f"{one['metric']}: {one['signature']}" for one in found["baselines"]),
        found["signature"],
    ]
    mark = "% " if format is Format.LATEX else ""
    blocks = [f"{mark}{title}\n\n{output.table(rows, format, width)}" for title, rows in tables]
    changes = _changes(found) if format is Format.TEXT else []
    return "\n\n".join([*blocks, *changes, "\n".join(f"{mark}{note}" for note in notes)])


def _tables(found: Row) -> dict[str, "pandas.DataFrame"]:
    """Title -> table; there is a column "preferred" if the checkpoint is calibrated."""
    import pandas

    first, confidence = found["systems"][0]["system"], f"{100 * found['settings']['confidence']:g}% interval"
    systems, comparisons = pandas.DataFrame(found["systems"]), pandas.DataFrame(found["comparisons"])
    sizes = ["system", "difference", "low", "high", "better", "worse", "tied"]
    sizes += ["preferred"] if comparisons["preferred"].notna().any() else []
    p_values = {name: name[2:].replace("_", " ") for name in comparisons if name.startswith("p_")}
    familiar = systems[["system"]].copy()
    for metric in found["baselines"]:
        familiar[metric["metric"]] = familiar["system"].map(metric["scores"])
        familiar[f"p {metric['metric']}"] = familiar["system"].map(metric["p_values"])
    return {
        f"scores ({confidence})": systems,
        f"differences from {first} ({confidence}), shares of segments": comparisons[sizes],
        f"p-values against {first}": comparisons[["system", *p_values]].rename(columns=p_values),
        f"familiar metrics (p against {first})": familiar if found["baselines"] else familiar[:0],
    }


def _changes(found: Row) -> list[str]:
    blocks = []
    for comparison in found["comparisons"]:
        name, first = comparison["system"], comparison["against"]
        width = max(len("reference"), len(name), len(first))
        lines = [f"segments that changed most, {name} against {first}"]
        for one in comparison["changed"]:
            moved = one["after"] - one["before"]
            lines.append(f"segment {one['segment']}: {one['before']:.3f} -> {one['after']:.3f} ({moved:+.3f})")
            texts = [*(("reference", text) for text in one["references"])]
            texts += [(first, one["candidate_before"]), (name, one["candidate_after"])]
            lines += [f"  {title:<{width}}  {plain(text)}" for title, text in texts]
        if comparison["changed"]:
            blocks.append("\n".join(lines))
    return blocks
