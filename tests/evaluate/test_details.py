"""Statistics of systems and of segments with ties, and clusters: on small groups whose values are known."""

import math
from typing import Any

import numpy
import pandas
import pytest

from pipeline.core.records import AVERAGE, PREDICTIONS, SYSTEM_PREDICTIONS
from pipeline.evaluate.agreement import group_rows
from pipeline.evaluate.clusters import cluster
from pipeline.evaluate.details import measure_details, systems_left_out


def rated(number: int, pair: str | None, score: float, **changes: Any) -> dict[str, Any]:
    return {
        "rating_id": f"r{number}", "corpus": "wmt18", "aspect": "adequacy", "language_pair": pair, "system": None,
        "candidate": f"candidate {number}", "segment": f"s{number}", "year": 2018, "reference": "reference",
        "score": score, "raw": None, "z": score, **changes,
    }  # fmt: skip


def as_table(scores: dict[str, dict[str, float]]) -> pandas.DataFrame:
    """As PREDICTIONS."""
    rows = [(rating, metric, score) for metric, known in scores.items() for rating, score in known.items()]
    return pandas.DataFrame(rows, columns=PREDICTIONS.names)


def one(found: pandas.DataFrame, metric: str, pair: str, statistic: str) -> Any:
    """The only measurement of this kind."""
    chosen = found[(found["metric"] == metric) & (found["language_pair"] == pair)]
    (row,) = chosen[chosen["statistic"] == statistic].itertuples()
    return row


def details(rows: list[dict[str, Any]], scores: dict[str, dict[str, float]], systems: Any = None) -> pandas.DataFrame:
    return measure_details(group_rows(rows, as_table(scores), systems), permutations=200, seed=1)


# Four systems of three segments; people's means are 1, 2, 3 and 4, whatever the segment.
OF_SYSTEMS = [
    rated(10 * system + segment, "de-en", system + segment - 1.0, segment=f"s{segment}", system="abcd"[system - 1])
    for system in (1, 2, 3, 4)
    for segment in (0, 1, 2)
]


def system_table(scores: dict[str, float], pair: str = "de-en") -> pandas.DataFrame:
    rows = [("wmt18", pair, system, "bleu", score) for system, score in scores.items()]
    return pandas.DataFrame(rows, columns=SYSTEM_PREDICTIONS.names)


def test_systems_are_compared_with_peoples_mean_ratings() -> None:
    segments = {"chrf++": {row["rating_id"]: -row["score"] for row in OF_SYSTEMS}}
    systems = system_table({"a": 1.0, "b": 3.0, "c": 2.0, "d": 4.0})
    found = details(OF_SYSTEMS, segments, systems)
    for pair in ("de-en", "average"):
        tau, r = one(found, "bleu", pair, "system_kendall"), one(found, "bleu", pair, "system_pearson")
        # one of six pairs of systems is ordered the wrong way: (5 - 1) / 6; squares sum to 5, products to 4: 4 / 5
        assert (tau.value, tau.count) == (pytest.approx(2 / 3), 4)
        assert (r.value, r.count) == (pytest.approx(0.8), 4)
        assert math.isnan(tau.low) and math.isnan(tau.high)
        accuracy = one(found, "bleu", pair, "pairwise_accuracy")
        assert (accuracy.value, accuracy.count) == (pytest.approx(5 / 6), 6)
        assert one(found, "chrf++", pair, "system_pearson").value == pytest.approx(-1.0)
    assert "kendall" not in set(found[found["metric"] == "bleu"]["statistic"])


def test_without_systems_there_is_no_statistic_of_systems() -> None:
    nameless = [{**row, "system": None} for row in OF_SYSTEMS]
    found = details(nameless, {"chrf++": {row["rating_id"]: row["score"] for row in OF_SYSTEMS}})
    assert set(found["statistic"]) == {"tau23_pooled", "tau23_item", "acc23_best_pooled", "acc23_best_item"}


def test_two_systems_are_too_few_and_equal_ones_say_nothing() -> None:
    none = pandas.DataFrame(columns=PREDICTIONS.names)
    two = [row for row in OF_SYSTEMS if row["system"] in "ab"]
    (few,) = group_rows(two, none, system_table({"a": 1.0, "b": 2.0}))
    assert systems_left_out(few) == "fewer than 3 systems"
    equal = [{**row, "score": 1.0} for row in OF_SYSTEMS]
    (same,) = group_rows(equal, none, system_table({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}))
    assert systems_left_out(same) == "all systems have the same mean rating"
    assert measure_details([few, same], 50, seed=1).empty


def test_an_output_that_two_systems_share_counts_for_both() -> None:
    shared = [row for row in OF_SYSTEMS if row["system"] in "abc"]
    shared.append(rated(99, "de-en", 7.0, segment="s3", system="a+c"))
    (group,) = group_rows(
        shared, as_table({"m": {row["rating_id"]: 0.0 for row in shared}}), system_table({"a": 1.0, "b": 2.0, "c": 3.0})
    )
    assert group.systems is not None
    # (0 + 1 + 2 + 7) / 4, (1 + 2 + 3) / 3, (2 + 3 + 4 + 7) / 4
    assert group.systems["human"].tolist() == [2.5, 2.0, 4.0]
    assert list(group.systems) == ["human", "m", "bleu"]


def test_a_metric_that_misses_a_system_does_not_take_part() -> None:
    none = pandas.DataFrame(columns=PREDICTIONS.names)
    (group,) = group_rows(OF_SYSTEMS, none, system_table({"a": 1.0, "b": 2.0, "c": 3.0}))
    assert group.systems is not None and list(group.systems) == ["human"]


def test_published_scores_of_systems_stand_for_the_mean_ratings() -> None:
    published = dict(zip("abcd", (4.0, 3.0, 2.0, 1.0), strict=True))
    rows = [{**row, "system_ratings": [(row["system"], published[row["system"]])]} for row in OF_SYSTEMS]
    scores = {"m": {row["rating_id"]: row["score"] for row in rows}}
    assert one(details(rows, scores), "m", "de-en", "system_kendall").value == -1.0
    rows[0] = rows[1] = rows[2] = {**rows[0], "system_ratings": None}  # system a has none: nobody's is used
    rows = [
        {**row, "rating_id": old["rating_id"], "score": old["score"]} for row, old in zip(rows, OF_SYSTEMS, strict=True)
    ]
    assert one(details(rows, scores), "m", "de-en", "system_kendall").value == 1.0


def test_a_system_far_from_the_rest_is_left_out() -> None:
    """People's means are 1, 2, 3, 4 and -50; the metric knows the bad one and has the others the wrong way round."""
    rows = [*OF_SYSTEMS, rated(99, "de-en", -50.0, system="e")]
    scores = {"m": {row["rating_id"]: -row["score"] if row["score"] > -9 else -50.0 for row in rows}}
    found = details(rows, scores)
    assert one(found, "m", AVERAGE, "system_pearson").value > 0.99
    without = one(found, "m", AVERAGE, "system_pearson_inliers")
    assert (without.value, without.count) == (pytest.approx(-1.0), 4)
    assert one(found, "m", AVERAGE, "system_kendall_inliers").value == pytest.approx(-1.0)


def test_pairs_of_systems_weigh_the_same_over_language_pairs() -> None:
    """de-en: all 6 pairs right; cs-en: none of 3."""
    other = [{**row, "rating_id": f"c{row['rating_id']}", "language_pair": "cs-en"} for row in OF_SYSTEMS[:9]]
    scores = {"m": {row["rating_id"]: row["score"] for row in OF_SYSTEMS}}
    scores["m"] |= {row["rating_id"]: -row["score"] for row in other}
    found = details(OF_SYSTEMS + other, scores)
    average = one(found, "m", AVERAGE, "pairwise_accuracy")
    assert (average.value, average.count) == (pytest.approx(6 / 9), 9)
    assert one(found, "m", AVERAGE, "system_kendall").value == pytest.approx(0.0)


def test_soft_pairwise_accuracy_reads_segments_that_all_systems_have() -> None:
    rows = [
        rated(20 * system + segment, "de-en", system + segment % 3, segment=f"s{segment}", system="abc"[system])
        for system in range(3)
        for segment in range(11)
    ]
    scores = {"same": {row["rating_id"]: 2 * row["score"] for row in rows}}
    scores["other"] = {rating: -value for rating, value in scores["same"].items()}
    found = details(rows[1:], scores)  # system a lacks one segment
    soft = one(found, "same", "de-en", "soft_pairwise_accuracy")
    assert (soft.value, soft.count) == (1.0, 10)
    assert one(found, "other", "de-en", "soft_pairwise_accuracy").value < 0.1
    assert "soft_pairwise_accuracy" not in set(details(rows[2:], scores)["statistic"])


def test_ties_are_counted_in_all_rows_in_systems_and_in_items() -> None:
    # Two systems, two items. People: a 1 1, b 1 2; metric: a 1 2, b 3 4.
    human, metric = {"a": (1.0, 1.0), "b": (1.0, 2.0)}, {"a": (1.0, 2.0), "b": (3.0, 4.0)}
    rows = [
        rated(2 * "ab".index(system) + item, "de-en", human[system][item], system=system, segment=f"s{item}")
        for system in "ab"
        for item in (0, 1)
    ]
    scores = {"m": {row["rating_id"]: metric[row["system"]][int(row["segment"][1])] for row in rows}}
    found = details(rows, scores)
    tau = {averaged: one(found, "m", "de-en", f"tau23_{averaged}").value for averaged in ("pooled", "system", "item")}
    # pooled: three of six pairs right; systems: a wrong, b right; items: the first wrong, the second right
    assert tau == {"pooled": 0.0, "system": 0.0, "item": 0.0}
    # pooled, threshold 1: a tied rightly, b tied wrongly, the middle pair tied rightly: gains 2, loses 1 of 6
    assert one(found, "m", "de-en", "acc23_best_pooled").value == pytest.approx(4 / 6)
    assert one(found, "m", "de-en", "acc23_best_system").value == pytest.approx(0.5)


def test_an_output_of_two_systems_is_one_row_of_its_item_and_one_of_each_system() -> None:
    rows = [rated(0, "de-en", 1.0, system="a+b", segment="s0"), rated(1, "de-en", 2.0, system="a", segment="s1"),
            rated(2, "de-en", 0.0, system="b", segment="s1")]  # fmt: skip
    found = details(rows, {"m": {"r0": 1.0, "r1": 2.0, "r2": 3.0}})
    assert one(found, "m", "de-en", "tau23_system").value == 0.0  # a's pair right, b's wrong
    assert one(found, "m", "de-en", "tau23_system").count == 4
    assert one(found, "m", "de-en", "tau23_item").value == -1.0  # the one pair of s1
    assert one(found, "m", "de-en", "tau23_item").count == 3


def test_clusters_part_good_metrics_from_bad_ones() -> None:
    rng = numpy.random.default_rng(1)
    rows = [rated(i, ("de-en", "cs-en")[i % 2], float(h)) for i, h in enumerate(rng.normal(size=120))]
    noise = {"poor": 9.0, "good": 0.2, "fair": 0.21, "bad": 9.0}
    scores = {
        name: {row["rating_id"]: row["score"] + width * rng.normal() for row in rows} for name, width in noise.items()
    }
    scores["constant"] = {row["rating_id"]: 1.0 for row in rows}
    groups = group_rows(rows, as_table(scores))
    found = cluster(groups, permutations=200, confidence=0.95, seed=1)
    for statistic in ("kendall", "pearson"):
        mine = found[found["statistic"] == statistic].set_index("metric")
        assert mine["cluster"].to_dict() == {"good": 1, "fair": 1, "poor": 2, "bad": 2}
        assert mine["value"].is_monotonic_decreasing
        assert [len(below) for below in mine["p_values"]] == [3, 2, 1, 0]
        assert mine.loc["good", "p_values"]["poor"] == pytest.approx(1 / 201)
    assert found.equals(cluster(groups, permutations=200, confidence=0.95, seed=1))


def test_where_people_say_nothing_there_is_no_cluster() -> None:
    rows = [rated(i, "de-en", 1.0) for i in range(4)]
    groups = group_rows(rows, as_table({"m": {row["rating_id"]: 1.0 for row in rows}}))
    assert cluster(groups, permutations=9, confidence=0.95, seed=1).empty
