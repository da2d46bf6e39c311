"""Clusters of metrics that agree with people equally well, by Kendall and by Pearson: PERM-BOTH on every two metrics.

The correlation is the average over language pairs, as in the headline. A new cluster begins where a metric is worse
than one of the cluster before at the level 1 - `confidence` (see `statistics.clusters`).
"""

from collections.abc import Iterator, Sequence

import numpy
import pandas

from pipeline.core.records import CLUSTERS
from pipeline.core.shards import generator
from pipeline.evaluate.agreement import CORRELATIONS, Group, left_out
from pipeline.evaluate.metrics import Row
from pipeline.statistics.clusters import clusters, perm_both, standardised
from pipeline.statistics.swaps import Differences, kendall_differences, pearson_differences

DIFFERENCES: dict[str, Differences] = {"kendall": kendall_differences, "pearson": pearson_differences}


def cluster(groups: Sequence[Group], permutations: int, confidence: float, seed: int) -> pandas.DataFrame:
    """All metrics of each corpus and aspect by falling correlation, with their clusters; the columns of CLUSTERS.

    A metric whose correlation is undefined is in no cluster.
    """
    rows: list[Row] = []
    for corpus, aspect in sorted({(group.corpus, group.aspect) for group in groups}):
        members = [g for g in groups if (g.corpus, g.aspect) == (corpus, aspect) and left_out(g) is None]
        for statistic in DIFFERENCES if members else ():
            names = {"corpus": corpus, "aspect": aspect, "statistic": statistic}
            rows += [{**names, **one} for one in _ranked(members, names, permutations, 1 - confidence, seed)]
    return pandas.DataFrame(rows, columns=CLUSTERS.names).round({"value": 9})


def _ranked(
    groups: Sequence[Group], names: dict[str, str], permutations: int, level: float, seed: int
) -> Iterator[Row]:
    """Metric, value, cluster and p-values against the metrics below, best metric first."""
    correlation, differences = CORRELATIONS[names["statistic"]][0], DIFFERENCES[names["statistic"]]
    values = {
        metric: float(numpy.mean([correlation(group.human, group.scores[metric].to_numpy()) for group in groups]))
        for metric in groups[0].scores
    }
    known = [metric for metric in values if not numpy.isnan(values[metric])]
    metrics = sorted(known, key=lambda metric: (-values[metric], metric))
    p_values = numpy.full((len(metrics), len(metrics)), numpy.nan)
    for first, second in zip(*numpy.triu_indices(len(metrics), 1), strict=True):
        better, worse = metrics[first], metrics[second]
        parts = [
            standardised(g.human, g.scores[better].to_numpy(), g.scores[worse].to_numpy(), numpy.zeros(len(g.human)))
            for g in groups
        ]
        rng = generator(seed, "evaluate", "clusters", *names.values(), better, worse)
        p_values[first, second] = perm_both(parts, differences, permutations, rng).p_value
    for place, number in enumerate(clusters(p_values, level)):
        below = {metrics[other]: round(float(p_values[place, other]), 9) for other in range(place + 1, len(metrics))}
        yield {"metric": metrics[place], "value": values[metrics[place]], "cluster": number, "p_values": below}
