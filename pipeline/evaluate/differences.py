"""Is a trained metric better than its rivals, beyond chance? Differences of average Kendall with p-values.

Each trained metric meets the one that was fine-tuned without pre-training ("bleurt/none"), which isolates what
pre-training adds, and the baseline with the highest average, chosen on the same rows and thus a little flattered.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.core.seeds import generator
from pipeline.evaluate.agreement import Group, Key, Measurements, left_out
from pipeline.evaluate.names import AVERAGE, TRAINED, UNTRAINED
from pipeline.statistics.correlation import pearson
from pipeline.statistics.metric_tests import Paired, interval, paired_bootstrap, paired_permutation, williams

METHOD = (
    "paired permutation of segments within language pairs, two-sided, on ranks; interval by paired bootstrap of "
    "segments; Williams' test, two-sided, for Pearson's r by language pair"
)


def compare(
    groups: Sequence[Group], measurements: Measurements, *, permutations: int, confidence: float, seed: int
) -> list[dict[str, Any]]:
    """One record a comparison: who against whom, the difference of average Kendall, its interval and p-values."""
    records = []
    for corpus, aspect in sorted({(group.corpus, group.aspect) for group in groups}):
        members = [group for group in groups if (group.corpus, group.aspect) == (corpus, aspect)]
        for metric, against, role in _matches(measurements, corpus, aspect, list(members[0].scores)):
            rng = generator(seed, "evaluate", "permutation", corpus, aspect, metric, against)
            pairs = [Paired(g.human, g.scores[metric], g.scores[against], g.segments) for g in members]
            averaged = [pair for g, pair in zip(members, pairs, strict=True) if left_out(g) is None]
            first, second = (measurements[Key(corpus, aspect, m, AVERAGE, "kendall")] for m in (metric, against))
            differences = first.resamples - second.resamples
            bounds = interval(differences, confidence)
            records.append(
                {
                    "corpus": corpus,
                    "aspect": aspect,
                    "metric": metric,
                    "against": against,
                    "role": role,
                    "statistic": "kendall",
                    "difference": _number(first.value - second.value),
                    "low": _number(bounds.low),
                    "high": _number(bounds.high),
                    "p_value": _number(paired_permutation(averaged, permutations, rng)),
                    "p_value_bootstrap": _number(paired_bootstrap(differences)),
                    "p_value_williams": {
                        g.language_pair: _number(_williams(pair)) for g, pair in zip(members, pairs, strict=True)
                    },
                    "method": METHOD,
                }
            )
    return records


def _matches(
    measurements: Measurements, corpus: str, aspect: str, metrics: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """(metric, against, role) of every comparison."""
    trained = [metric for metric in metrics if metric.startswith(TRAINED)]
    baselines = [metric for metric in metrics if not metric.startswith(TRAINED)]
    averages = {m: measurements[Key(corpus, aspect, m, AVERAGE, "kendall")].value for m in baselines}
    defined = [metric for metric in baselines if not math.isnan(averages[metric])]
    for metric in trained:
        if UNTRAINED in trained and metric != UNTRAINED:
            yield metric, UNTRAINED, "without pre-training"
        if defined:
            yield metric, max(defined, key=averages.__getitem__), "best baseline"


def _williams(pair: Paired) -> float:
    return williams(
        pearson(pair.human, pair.first),
        pearson(pair.human, pair.second),
        pearson(pair.first, pair.second),
        len(pair.human),
    )


def _number(value: float) -> float | None:
    """Rounded below any meaning; None, JSON's null, where undefined."""
    return None if math.isnan(value) else round(value, 9)
