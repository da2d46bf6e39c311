"""The committed sample of ratings is whole, follows its guideline, and is what its README says.

`data/sample/` is read as plain text here, not through a loader, so that a broken file is not blamed on a loader.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
import sacrebleu
from scipy.stats import kendalltau

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"
HEADER = "reference\tcandidate\tscore\tsystem\tsegment\tcategory\tdomain"
TIERS = (
    ("perfect",),
    ("paraphrase",),
    ("fluency",),
    ("omission",),
    ("word_order",),
    ("wrong_detail",),
    ("mistranslated", "repetition", "garbled", "half_missing"),  # how these four compare depends on the sentence
    ("negation",),
    ("fluent_wrong",),
    ("unrelated",),
)
"""Categories from the highest expected mean score to the lowest."""


@dataclass(frozen=True)
class Row:
    reference: str
    candidate: str
    score: int
    system: str
    segment: int
    category: str
    domain: str


@pytest.fixture(scope="module")
def lines() -> list[str]:
    text = (SAMPLE / "ratings.tsv").read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


@pytest.fixture(scope="module")
def rows(lines: list[str]) -> list[Row]:
    cells = (line.split("\t") for line in lines[1:])
    return [Row(ref, cand, int(score), sys, int(seg), cat, dom) for ref, cand, score, sys, seg, cat, dom in cells]


@pytest.fixture(scope="module")
def readme() -> str:
    return (SAMPLE / "README.md").read_text(encoding="utf-8")


def _scores(rows: list[Row], column: str) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, column)].append(row.score)
    return groups


def _table(text: str, first: str) -> list[list[str]]:
    """Body rows of the Markdown table whose first heading is `first`, cells stripped."""
    start = re.search(rf"^\| {first} \|.*\n\|---.*\n", text, re.MULTILINE)
    assert start is not None, first
    body = text[start.end() :].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body if line.startswith("|")]


def test_header_and_cells_are_plain_tab_separated_text(lines: list[str]) -> None:
    assert lines[0] == HEADER
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        assert len(cells) == 7, f"line {number}"
        assert [cell for cell in cells if not cell or cell != cell.strip()] == [], f"line {number}"
    assert [line for line in lines if re.search('[\r"\\\\\ufeff]', line)] == []


def test_every_reference_has_enough_distinct_candidates(rows: list[Row]) -> None:
    counts = Counter(row.reference for row in rows)
    assert len(counts) >= 60
    assert min(counts.values()) >= 6
    assert len({(row.reference, row.candidate) for row in rows}) == len(rows)


def test_segments_number_the_references_in_order(rows: list[Row]) -> None:
    by_segment = dict.fromkeys((row.segment, row.reference, row.domain) for row in rows)
    assert [segment for segment, _, _ in by_segment] == list(range(1, len(by_segment) + 1))
    assert len({reference for _, reference, _ in by_segment}) == len(by_segment)
    assert [row.segment for row in rows] == sorted(row.segment for row in rows)


def test_scores_lie_within_the_scale_and_use_all_of_it(rows: list[Row]) -> None:
    scores = [row.score for row in rows]
    assert (min(scores), max(scores)) == (0, 100)
    assert min(Counter(min(score // 10, 9) for score in scores).values()) >= 20


def test_mean_score_falls_from_tier_to_tier_of_the_categories(rows: list[Row]) -> None:
    groups = _scores(rows, "category")
    assert sorted(groups) == sorted(category for tier in TIERS for category in tier)
    means = [[mean(groups[category]) for category in tier] for tier in TIERS]
    for (above, below), tiers in zip(pairwise(means), pairwise(TIERS), strict=True):
        assert min(above) - max(below) > 3, tiers


def test_errors_are_weighed_and_not_priced_by_category(rows: list[Row]) -> None:
    for category, scores in _scores(rows, "category").items():
        if category not in ("perfect", "unrelated"):
            assert max(scores) - min(scores) >= 15, category
            assert len(set(scores)) >= 10, category


def test_a_candidate_equal_to_its_reference_is_rated_100(rows: list[Row]) -> None:
    assert {row.score for row in rows if row.candidate == row.reference} == {100}
    assert {row.category for row in rows if row.candidate == row.reference} == {"perfect"}


def test_neither_place_nor_system_tells_the_category(rows: list[Row]) -> None:
    places: dict[int, set[str]] = defaultdict(set)
    systems: dict[str, set[str]] = defaultdict(set)
    for place, row in enumerate(rows):
        places[place % 7].add(row.category)
        systems[row.system].add(row.category)
    assert min(len(categories) for categories in places.values()) >= 10
    assert min(len(categories) for categories in systems.values()) >= 10


def test_systems_each_write_every_segment_and_differ_in_mean(rows: list[Row]) -> None:
    assert {len(scores) for scores in _scores(rows, "system").values()} == {len({row.segment for row in rows})}
    assert len({(row.system, row.segment) for row in rows}) == len(rows)
    means = sorted(mean(scores) for scores in _scores(rows, "system").values())
    assert min(b - a for a, b in pairwise(means)) > 3


def test_readme_states_the_size_of_the_file(rows: list[Row], readme: str) -> None:
    lengths = [len(reference.split()) for reference in {row.reference for row in rows}]
    domains, same = {row.domain for row in rows}, sum(row.candidate == row.reference for row in rows)
    assert (
        f"- {len(lengths)} references of {min(lengths)} to {max(lengths)} words (mean {mean(lengths):.1f}), "
        f"in {len(domains)} domains\n"
    ) in readme
    overall = mean(row.score for row in rows)
    assert f"reference: {len(rows)} rows, mean score {overall:.1f}; {same} candidates equal" in readme
    assert f"number of the reference, 1 to {len(lengths)};" in readme
    assert [cells[0] for cells in _table(readme, "column")] == HEADER.split("\t")


@pytest.mark.parametrize("column", ["category", "system"])
def test_readme_tables_equal_the_file(rows: list[Row], readme: str, column: str) -> None:
    groups = _scores(rows, column)
    expected = {k: [str(len(v)), f"{mean(v):.1f}", str(min(v)), str(max(v))] for k, v in groups.items()}
    assert {cells[0]: cells[1:] for cells in _table(readme, column)} == expected


def test_readme_states_how_surface_metrics_agree(rows: list[Row], readme: str) -> None:
    human = [row.score for row in rows]
    bleu = [sacrebleu.sentence_bleu(row.candidate, [row.reference]).score for row in rows]
    chrf = [sacrebleu.sentence_chrf(row.candidate, [row.reference], word_order=2).score for row in rows]
    taus = [kendalltau(human, metric).statistic for metric in (bleu, chrf)]
    assert f"is {taus[0]:.2f} for sentence-BLEU and {taus[1]:.2f} for chrF++" in readme


def test_guideline_weighs_every_category_and_its_examples_are_rows(rows: list[Row]) -> None:
    guideline = (SAMPLE / "GUIDELINE.md").read_text(encoding="utf-8")
    assert {cells[0] for cells in _table(guideline, "category")} == {row.category for row in rows}
    assert [cells[0] for cells in _table(guideline, "score")] == ["100", "75", "50", "25", "0"]
    examples = {(int(segment), text, int(score)) for segment, text, score, _ in _table(guideline, "segment")}
    assert len(examples) >= 8
    assert examples - {(row.segment, row.candidate, row.score) for row in rows} == set()
