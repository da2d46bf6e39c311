"""data/facts: the table is as its README says, and shares no wording with the challenge sets."""

import csv
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED_WORDS = 5
SCORES = {"paraphrase": 0.9, "wrong_name": -0.3, "wrong_number": -0.3, "negated": -0.5}


def table(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def sequences(text: str) -> set[tuple[str, ...]]:
    """All runs of SHARED_WORDS words."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + SHARED_WORDS]) for i in range(len(words) - SHARED_WORDS + 1)}


def test_the_table_is_as_its_readme_says() -> None:
    rows = table(ROOT / "data/facts/ratings.tsv")
    pairs = [(row["reference"], row["candidate"]) for row in rows]
    assert len(set(pairs)) == len(pairs)
    assert all(reference and candidate and reference != candidate for reference, candidate in pairs)
    assert all(float(row["score"]) == SCORES[row["kind"]] for row in rows)
    readme = (ROOT / "data/facts/README.md").read_text(encoding="utf-8")
    for kind, count in Counter(row["kind"] for row in rows).items():
        assert f"| {kind} | {count} | {SCORES[kind]} |" in readme
    assert f"{len(rows)} candidates of {len({reference for reference, _ in pairs})} references" in readme


def test_it_shares_no_wording_with_the_challenge_sets() -> None:
    challenge = set[tuple[str, ...]]()
    for name in ("items.tsv", "second.tsv"):
        for row in table(ROOT / "data/challenge" / name):
            challenge |= {run for column in ("reference", "better", "worse") for run in sequences(row[column])}
    rows = table(ROOT / "data/facts/ratings.tsv")
    found = [
        row["candidate"] for row in rows if (sequences(row["reference"]) | sequences(row["candidate"])) & challenge
    ]
    assert found == []
