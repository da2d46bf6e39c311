"""The benchmark: how well metrics agree with people on rated rows, and which differences are more than chance.

The stage evaluate and `bleurt benchmark` both call `benchmark`. Each trained metric meets the one that was fine-tuned
without pre-training ("bleurt/none"), which isolates what pre-training adds. It also meets the baseline with the highest
average Kendall, which is chosen on the same rows and is therefore slightly flattered.

Several trained metrics make several comparisons. Holm's method corrects their p-values together: all comparisons of one
corpus and aspect that have the same role, such as all variants against the best baseline. The two roles ask different
questions and are corrected apart.

Beside these comparisons, all metrics are put into clusters of significance, as WMT ranks them (`clusters`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pandas

from pipeline.core.params import AtLeastOne, Between, NotNegative, params
from pipeline.core.records import AVERAGE, TRAINED, UNTRAINED
from pipeline.core.shards import generator
from pipeline.evaluate.agreement import (
    Group,
    agreement_table,
    group_rows,
    left_out,
    measure,
)
from pipeline.evaluate.clusters import cluster
from pipeline.evaluate.details import measure_details, systems_left_out
from pipeline.evaluate.metrics import Row
from pipeline.statistics.correlation import pearson
from pipeline.statistics.tests import Paired, holm, interval, paired_bootstrap, paired_permutation, williams

WITHOUT_PRETRAINING = "without pre-training"
BEST_BASELINE = "best baseline"
METHOD = (
    "paired permutation of segments within language pairs, two-sided, on ranks; p_value_holm by Holm over the "
    "comparisons of one corpus, aspect and role; interval by paired bootstrap of segments; Williams' test, two-sided, "
    "for Pearson's r by language pair"
)


@params
class Settings:
    """How agreement is measured and tested.

    `resamples`, `confidence`: of the bootstrap; clusters are cut at 1 - `confidence`. `permutations`: of the tests and
    of soft pairwise accuracy. `darr_gap`: points of 100 by which two translations must differ for people to have told
    them apart. `seed`: of resamples and permutations.
    """

    resamples: AtLeastOne
    permutations: AtLeastOne
    confidence: Between
    darr_gap: NotNegative
    seed: int


@dataclass(frozen=True)
class Findings:
    """Tables of the benchmark.

    `agreement`: the columns of AGREEMENT. `differences`: a row for each comparison (see `compare`). `clusters`: the
    columns of CLUSTERS. `left_out` and `systems_left_out`: what the averages of segments and of systems leave out:
    corpus, aspect, language pair and reason. `years`: corpus -> year of the WMT campaign, None if there is none.
    `system_ratings`: the corpora with people's scores of whole systems.
    """

    agreement: pandas.DataFrame
    differences: pandas.DataFrame
    clusters: pandas.DataFrame
    left_out: pandas.DataFrame
    systems_left_out: pandas.DataFrame
    years: dict[str, int | None]
    system_ratings: list[str]


def benchmark(
    rows: Sequence[Row], scores: pandas.DataFrame, system_scores: pandas.DataFrame, settings: Settings
) -> Findings:
    """Measure and compare metrics on the rated `rows` (RATINGS).

    `scores` has the columns of PREDICTIONS, `system_scores` those of SYSTEM_PREDICTIONS and often no row.
    """
    groups = group_rows(rows, scores, system_scores)
    measured = measure(groups, settings.resamples, settings.darr_gap, settings.seed)
    return Findings(
        agreement=pandas.concat(
            [
                agreement_table(measured, settings.confidence),
                measure_details(groups, settings.permutations, settings.seed),
            ],
            ignore_index=True,
        ),
        differences=compare(groups, measured, settings),
        clusters=cluster(groups, settings.permutations, settings.confidence, settings.seed),
        left_out=_reasons((group, left_out(group)) for group in groups),
        systems_left_out=_reasons((group, systems_left_out(group)) for group in groups if group.systems is not None),
        years={group.corpus: group.year for group in groups},
        system_ratings=sorted({row["corpus"] for row in rows if row.get("system_ratings")}),
    )


def _reasons(found: Iterator[tuple[Group, str | None]]) -> pandas.DataFrame:
    rows = [{**group.names, "reason": reason} for group, reason in found if reason is not None]
    return pandas.DataFrame(rows, columns=["corpus", "aspect", "language_pair", "reason"])


def compare(groups: Sequence[Group], measured: pandas.DataFrame, settings: Settings) -> pandas.DataFrame:
    """A row for each comparison of trained metrics; `measured` is what `measure` returns.

    Columns: corpus, aspect, `metric`, `against`, `role`, statistic, `difference` of average Kendall with `low` and
    `high`, `p_value` (permutation), `p_value_bootstrap`, `p_value_williams` (by language pair), method, `p_value_holm`
    (of `p_value`, over all rows with the same corpus, aspect and role). Undefined numbers are NaN.
    """
    average = measured[(measured["language_pair"] == AVERAGE) & (measured["statistic"] == "kendall")]
    rows = []
    for (corpus, aspect), averages in average.groupby(["corpus", "aspect"]):
        members = [group for group in groups if (group.corpus, group.aspect) == (corpus, aspect)]
        averages = averages.set_index("metric")
        for metric, against, role in _matches(averages["value"]):
            names = {"corpus": corpus, "aspect": aspect, "metric": metric, "against": against, "role": role}
            rng = generator(settings.seed, "evaluate", "permutation", corpus, aspect, metric, against)
            rows.append({**names, **_difference(members, averages.loc[metric], averages.loc[against], settings, rng)})
    found = pandas.DataFrame(rows, columns=COLUMNS)
    found["p_value_holm"] = found.groupby(["corpus", "aspect", "role"])["p_value"].transform(_holm)
    return found.round(dict.fromkeys(NUMBERS, 9))


NUMBERS = ("difference", "low", "high", "p_value", "p_value_holm", "p_value_bootstrap")
COLUMNS = ["corpus", "aspect", "metric", "against", "role", "statistic", *NUMBERS, "p_value_williams", "method"]


def _holm(p_values: pandas.Series) -> list[float]:
    return holm(p_values.tolist())


def _matches(averages: pandas.Series) -> Iterator[tuple[str, str, str]]:
    """(metric, against, role) of every comparison; `averages` has average Kendall by metric."""
    is_trained = averages.index.str.startswith(TRAINED)
    baselines = averages[~is_trained].dropna()
    for metric in averages.index[is_trained]:
        if UNTRAINED in averages.index and metric != UNTRAINED:
            yield metric, UNTRAINED, WITHOUT_PRETRAINING
        if len(baselines):
            yield metric, baselines.idxmax(), BEST_BASELINE


def _difference(
    groups: Sequence[Group], one: pandas.Series, other: pandas.Series, settings: Settings, rng: numpy.random.Generator
) -> Row:
    """The numbers of one comparison; `one` and `other` are rows of `measured`, their names the metrics'."""
    pairs = [
        Paired(g.human, g.scores[one.name].to_numpy(), g.scores[other.name].to_numpy(), g.segments) for g in groups
    ]
    averaged = [pair for group, pair in zip(groups, pairs, strict=True) if left_out(group) is None]
    differences = one["resamples"] - other["resamples"]
    bounds = interval(differences, settings.confidence)
    return {
        "statistic": "kendall",
        "difference": one["value"] - other["value"],
        "low": bounds.low,
        "high": bounds.high,
        "p_value": paired_permutation(averaged, settings.permutations, rng),
        "p_value_bootstrap": paired_bootstrap(differences),
        "p_value_williams": {
            group.language_pair: round(_williams(pair), 9) for group, pair in zip(groups, pairs, strict=True)
        },
        "method": METHOD,
    }


def _williams(pair: Paired) -> float:
    return williams(
        pearson(pair.human, pair.first),
        pearson(pair.human, pair.second),
        pearson(pair.first, pair.second),
        len(pair.human),
    )


def as_records(table: pandas.DataFrame) -> list[dict[str, Any]]:
    """The rows of `table` as JSON holds them: null for what is undefined.

    >>> as_records(pandas.DataFrame([{"low": numpy.nan, "by_pair": {"de-en": numpy.nan}}]))
    [{'low': None, 'by_pair': {'de-en': None}}]
    """
    return [{key: _defined(value) for key, value in row.items()} for row in table.to_dict("records")]


def _defined(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _defined(one) for key, one in value.items()}
    return None if isinstance(value, float) and numpy.isnan(value) else value
