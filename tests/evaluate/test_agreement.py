"""Agreement tables on small groups whose values are known."""

import math
from typing import Any

import numpy
import pandas
import pytest

from pipeline.core.records import PREDICTIONS
from pipeline.evaluate import agreement
from pipeline.evaluate.agreement import Group, agreement_table, darr_rule, left_out, measure
from pipeline.evaluate.benchmark import Settings, as_records, compare
from pipeline.statistics.tests import holm


def rated(number: int, pair: str | None, score: float, **changes: Any) -> dict[str, Any]:
    return {
        "rating_id": f"r{number}",
        "corpus": "wmt18",
        "aspect": "adequacy",
        "language_pair": pair,
        "system": None,
        "candidate": f"candidate {number}",
        "segment": f"s{number // 2}",
        "year": 2018,
        "reference": f"reference {number // 2}",
        "score": score,
        "raw": None,
        "z": score,
        **changes,
    }


Scores = dict[str, dict[str, float]]
"""Metric -> rating -> score."""


def as_table(scores: Scores) -> pandas.DataFrame:
    """As PREDICTIONS."""
    rows = [(rating, metric, score) for metric, known in scores.items() for rating, score in known.items()]
    return pandas.DataFrame(rows, columns=PREDICTIONS.names)


def group_rows(rows: list[dict[str, Any]], scores: Scores) -> list[Group]:
    return agreement.group_rows(rows, as_table(scores))


def one(found: pandas.DataFrame, metric: str, pair: str, statistic: str, corpus: str = "wmt18") -> Any:
    """The only measurement of this kind."""
    chosen = found[(found["corpus"] == corpus) & (found["metric"] == metric)]
    (row,) = chosen[(chosen["language_pair"] == pair) & (chosen["statistic"] == statistic)].itertuples()
    return row


def as_rows(found: pandas.DataFrame, confidence: float) -> list[dict[str, Any]]:
    return agreement_table(found, confidence).to_dict("records")


def settings(permutations: int, confidence: float = 0.9) -> Settings:
    return Settings(resamples=50, permutations=permutations, confidence=confidence, darr_gap=25.0, seed=1)


HUMAN = [1.0, 2.0, 3.0, 4.0, 5.0]
ROWS = [rated(i, "de-en", h) for i, h in enumerate(HUMAN)] + [rated(10 + i, "cs-en", h) for i, h in enumerate(HUMAN)]
SWAPPED = [2.0, 1.0, 4.0, 3.0, 5.0]
SCORES = {
    "bleurt/all": dict(zip([r["rating_id"] for r in ROWS], SWAPPED + HUMAN, strict=True)),
    "constant": {row["rating_id"]: 0.5 for row in ROWS},
}


def test_values_by_pair_and_their_average() -> None:
    found = measure(group_rows(ROWS, SCORES), 50, 25.0, seed=1)
    mine = found[found["metric"] == "bleurt/all"]
    values = mine.set_index(["language_pair", "statistic"])["value"]
    assert values["de-en", "kendall"] == pytest.approx(0.6)
    assert values["cs-en", "kendall"] == pytest.approx(1.0)
    assert values["average", "kendall"] == pytest.approx(0.8)
    assert values["average", "pearson"] == pytest.approx(0.9)
    assert ("de-en", "darr") not in values.index
    assert one(found, "bleurt/all", "average", "kendall").count == 10


def test_a_metric_takes_part_where_it_scored_every_row_of_the_corpus() -> None:
    other = [rated(20 + i, pair, h, corpus="mine") for i, (pair, h) in enumerate([("de-en", 1.0), ("cs-en", 2.0)])]
    known = {row["rating_id"]: 1.0 for row in other}
    scores = {"constant": SCORES["constant"] | known, "one": known, "half": {"r20": 1.0, **SCORES["constant"]}}
    took_part = {(group.corpus, group.language_pair): set(group.scores) for group in group_rows(ROWS + other, scores)}
    assert took_part == {
        ("mine", "cs-en"): {"constant", "one"},
        ("mine", "de-en"): {"constant", "one"},
        ("wmt18", "cs-en"): {"constant", "half"},
        ("wmt18", "de-en"): {"constant", "half"},
    }


def test_an_undefined_pair_leaves_the_average_undefined() -> None:
    rows = as_rows(measure(group_rows(ROWS, SCORES), 50, 25.0, seed=1), 0.9)
    constant = [row for row in rows if row["metric"] == "constant"]
    assert len(constant) == 9
    assert all(math.isnan(row[name]) for row in constant for name in ("value", "low", "high"))


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ([rated(20, "fi-en", 1.0)], "fewer than two rated segments"),
        ([rated(20 + i, "fi-en", 3.0) for i in range(4)], "all human ratings are equal"),
    ],
)
def test_a_pair_on_which_people_say_nothing_changes_no_average_and_no_comparison(
    extra: list[dict[str, Any]], reason: str
) -> None:
    scores = SCORES | {"sentbleu": dict(zip(SCORES["bleurt/all"], HUMAN + SWAPPED, strict=True))}
    wider = {
        metric: by_row | {row["rating_id"]: float(i) for i, row in enumerate(extra)}
        for metric, by_row in scores.items()
    }
    results = []
    for rows, by_metric in ((ROWS, scores), (ROWS + extra, wider)):
        groups = group_rows(rows, by_metric)
        found = measure(groups, 50, 25.0, seed=1)
        records = as_records(compare(groups, found, settings(50)))
        averages = [row for row in as_rows(found, 0.9) if row["language_pair"] == "average"]
        results.append((str(averages), [{**record, "p_value_williams": None} for record in records]))
    assert results[0] == results[1]
    assert [(group.language_pair, left_out(group)) for group in groups] == [
        ("cs-en", None),
        ("de-en", None),
        ("fi-en", reason),
    ]
    assert math.isnan(one(found, "sentbleu", "fi-en", "kendall").value)


def test_an_average_of_no_pair_is_undefined_and_counts_nothing() -> None:
    groups = group_rows(ROWS[:1], SCORES)
    found = measure(groups, 50, 25.0, seed=1)
    average = one(found, "bleurt/all", "average", "kendall")
    assert math.isnan(average.value) and average.count == 0
    assert as_records(compare(groups, found, settings(9))) == []


def test_intervals_hold_the_value_and_every_metric_meets_the_same_resamples() -> None:
    rows = [rated(i + 100 * j, pair, float(i)) for i in range(20) for j, pair in enumerate(("de-en", "cs-en"))]
    swapped = {row["rating_id"]: row["score"] + 7 * (int(row["score"]) * 7 % 5) for row in rows}
    found = measure(group_rows(rows, {"bleurt/all": swapped, "copy": swapped}), 200, 25.0, seed=1)
    first, other = (one(found, m, "average", "kendall") for m in ("bleurt/all", "copy"))
    assert numpy.array_equal(first.resamples, other.resamples, equal_nan=True)
    for row in as_rows(found, 0.95):
        if row["metric"] == "bleurt/all":
            assert -1 <= row["low"] <= row["value"] <= row["high"] <= 1


def test_darr_uses_raw_ratings_of_the_same_segment() -> None:
    raw = [90.0, 40.0, 80.0, 50.0, 10.0]  # segments (90, 40), (80, 50), (10): the swapped metric agrees on both
    rows = [rated(i, "de-en", h, raw=r) for i, (h, r) in enumerate(zip(HUMAN, raw, strict=True))]
    found = measure(group_rows(rows, {"m": SCORES["bleurt/all"]}), 50, 25.0, seed=1)
    measured = one(found, "m", "de-en", "darr")
    assert (measured.value, measured.count) == (1.0, 2)


def test_several_judgements_of_an_output_are_one_for_darr() -> None:
    # two judges give A 90 and 60, B 20 and 50; C has A's words from another system, which is an output of its own
    judged = [("m", "A", 90.0), ("m", "A", 60.0), ("m", "B", 20.0), ("m", "B", 50.0), ("n", "A", 70.0)]
    rows = [
        rated(i, "de-en", raw, raw=raw, segment="s", reference="r", system=system, candidate=text)
        for i, (system, text, raw) in enumerate(judged)
    ]
    scores = {"m": {row["rating_id"]: float(row["candidate"] == "A") for row in rows}}
    (group,) = group_rows(rows, scores)
    assert group.points.tolist() == pytest.approx([75, numpy.nan, 35, numpy.nan, 70], nan_ok=True)
    measured = one(measure([group], 50, 25.0, seed=1), "m", "de-en", "darr")
    assert (measured.value, measured.count) == (1.0, 2)


def test_one_segment_has_a_value_but_no_interval_and_is_not_averaged() -> None:
    alone = [rated(50 + i, "fi-en", h, segment="s", reference="r") for i, h in enumerate(HUMAN)]
    scores = {"bleurt/all": SCORES["bleurt/all"] | dict(zip((r["rating_id"] for r in alone), SWAPPED, strict=True))}
    groups = group_rows(ROWS + alone, scores)
    found = measure(groups, 50, 25.0, seed=1)
    measured = one(found, "bleurt/all", "fi-en", "kendall")
    assert measured.value == pytest.approx(0.6) and numpy.isnan(measured.resamples).all()
    assert [left_out(group) for group in groups] == [None, None, "fewer than two rated segments"]
    assert one(found, "bleurt/all", "average", "kendall").count == 10


def test_darr_of_own_ratings_counts_points_of_100_on_any_scale() -> None:
    # On a scale of 5: 80 and 55 points of 100, exactly the gap, and 80 and 60. 100 * (2.75 / 5) is 55.00000000000001.
    raw = [4.0, 2.75, 4.0, 3.0, 5.0]
    rows = [rated(i, None, r / 5, raw=r, z=None, year=None, corpus="own") for i, r in enumerate(raw)]
    found = measure(group_rows(rows, {"m": SCORES["bleurt/all"]}), 50, 25.0, seed=1)
    measured = one(found, "m", "all", "darr", "own")
    assert (measured.value, measured.count) == (1.0, 1)


def test_darr_of_a_metric_that_ties_on_all_pairs_is_undefined_where_ties_are_left_out() -> None:
    raw = [90.0, 40.0, 80.0, 50.0, 10.0]
    rows = [rated(i, "de-en", h, raw=r, year=2017) for i, (h, r) in enumerate(zip(HUMAN, raw, strict=True))]
    found = measure(group_rows(rows, {name: SCORES[name] for name in ("bleurt/all", "constant")}), 50, 25.0, seed=1)
    for pair in ("de-en", "average"):
        known, tied = (one(found, m, pair, "darr") for m in ("bleurt/all", "constant"))
        assert (known.value, known.count) == (1.0, 2)
        assert math.isnan(tied.value) and numpy.isnan(tied.resamples).all() and tied.count == 0


def test_equal_segment_numbers_of_different_references_are_different_segments() -> None:
    rows = [rated(i, "de-en", h, segment="1", reference="ab"[i % 2]) for i, h in enumerate(HUMAN)]
    (group,) = group_rows(rows, {"m": SCORES["bleurt/all"]})
    assert group.segments.tolist() == [0, 1, 0, 1, 0]


def test_rows_without_segment_or_language_pair_group_by_reference() -> None:
    rows = [rated(i, None, h, segment=None) for i, h in enumerate(HUMAN)]
    (group,) = group_rows(rows, {"m": SCORES["bleurt/all"]})
    assert group.language_pair == "all"
    assert group.segments.tolist() == [0, 0, 1, 1, 2]


def test_darr_rule_changed_in_2018() -> None:
    assert darr_rule(2017, 25.0) == (0.0, False)
    assert darr_rule(2018, 25.0) == (25.0, True)
    assert darr_rule(None, 25.0) == (25.0, True)


def test_comparisons_name_rivals_and_skip_undefined_baselines() -> None:
    rng = numpy.random.default_rng(0)
    rows = [rated(2 * i, "de-en", float(h)) for i, h in enumerate(rng.normal(size=60))]
    noise = {"bleurt/all": 0.1, "bleurt/none": 2.0, "sentbleu": 3.0, "chrf++": 0.5}
    scores = {
        metric: {row["rating_id"]: row["score"] + scale * rng.normal() for row in rows}
        for metric, scale in noise.items()
    }
    scores["ter"] = {row["rating_id"]: 0.0 for row in rows}
    groups = group_rows(rows, scores)
    found = measure(groups, 100, 25.0, seed=1)
    records = as_records(compare(groups, found, settings(99, 0.95)))
    named = {(record["metric"], record["against"], record["role"]) for record in records}
    assert named == {
        ("bleurt/all", "bleurt/none", "without pre-training"),
        ("bleurt/all", "chrf++", "best baseline"),
        ("bleurt/none", "chrf++", "best baseline"),
    }
    gain = next(record for record in records if record["role"] == "without pre-training")
    values = [one(found, m, "average", "kendall").value for m in ("bleurt/all", "bleurt/none")]
    assert gain["difference"] == pytest.approx(values[0] - values[1], abs=1e-8)
    assert gain["p_value"] == pytest.approx(0.01)
    assert gain["low"] < gain["difference"] < gain["high"]
    assert gain["p_value_williams"]["de-en"] < 1e-6


def noisy(seed: int, noise: dict[str, float]) -> tuple[list[dict[str, Any]], Scores]:
    """Sixty rows, and metrics that are people's ratings with more or less noise."""
    rng = numpy.random.default_rng(seed)
    rows = [rated(2 * i, "de-en", float(h)) for i, h in enumerate(rng.normal(size=60))]
    scores = {
        metric: {row["rating_id"]: row["score"] + scale * rng.normal() for row in rows}
        for metric, scale in noise.items()
    }
    return rows, scores


def test_p_values_of_several_comparisons_are_corrected_by_role() -> None:
    """Twelve variants against one baseline are twelve chances to find a difference that is none."""
    noise = {f"bleurt/{letter}": 0.9 for letter in "abcdefghijk"} | {"bleurt/none": 0.9, "chrf++": 1.0}
    rows, scores = noisy(3, noise)
    groups = group_rows(rows, scores)
    found = compare(groups, measure(groups, 50, 25.0, seed=1), settings(199))
    assert found["role"].value_counts().to_dict() == {"best baseline": 12, "without pre-training": 11}
    for _, part in found.groupby("role"):
        assert part["p_value_holm"].tolist() == pytest.approx(holm(part["p_value"].tolist()), abs=1e-8)
        smallest = part["p_value"].min()
        assert part["p_value_holm"].min() == pytest.approx(min(1.0, len(part) * smallest), abs=1e-8)
    assert "Holm" in found["method"].iloc[0]


def test_corpora_and_aspects_are_corrected_apart() -> None:
    rows, scores = noisy(4, {"bleurt/all": 0.5, "chrf++": 1.5})
    other = [{**row, "rating_id": f"other {row['rating_id']}", "corpus": "wmt19"} for row in rows]
    scores = {
        metric: known | {f"other {rating}": score for rating, score in known.items()}
        for metric, known in scores.items()
    }
    groups = group_rows(rows + other, scores)
    found = compare(groups, measure(groups, 50, 25.0, seed=1), settings(99))
    assert found["corpus"].tolist() == ["wmt18", "wmt19"]
    assert found["p_value_holm"].tolist() == found["p_value"].tolist()
