"""Graded candidates: each kind does what it says, nothing is graded twice, and every attempt is accounted for."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import GRADED, SEGMENTS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.grade.candidates import GradeParams, ShardedGrades, grade_shard
from pipeline.grade.kinds import Kind, Pool, Sentence, candidate, names_in
from pipeline.grade.paraphrases import ParaphraseParams, paraphrased

TEXT = "On Monday the mayor of Lyon opened 14 schools, but he did not pay for three of them."
POOL = Pool(
    ["The bridge was closed in spring, because the ice had broken two of its pillars.", "Nobody came."],
    ["Oslo", "Berlin", "New York"],
)


def made(kind: Kind, times: int = 200, text: str = TEXT) -> set[str | None]:
    rng = numpy.random.default_rng(0)
    return {candidate(kind, Sentence("1", text, "A paraphrase.", "Un texte."), POOL, rng) for _ in range(times)}


def test_a_wrong_name_is_another_of_its_family_or_of_the_pool() -> None:
    texts = made(Kind.WRONG_NAME)
    assert TEXT not in texts and None not in texts
    assert TEXT.replace("Lyon", "Oslo") in texts and TEXT.replace("Lyon", "Berlin") in texts
    assert TEXT.replace("Monday", "Friday") in texts and TEXT.replace("Monday", "Oslo") not in texts
    assert TEXT.replace("Lyon", "New York") not in texts  # as many words as before


def test_names_are_whole_words_in_any_script_of_letters() -> None:
    assert names_in("With José Dvořák, Ann met McDonald, BBC and Anna.") == ["José Dvořák", "Ann", "McDonald", "Anna"]
    texts = made(Kind.WRONG_NAME, text="First Ann met Annette in May.")
    assert "First Oslo met Annette in May." in texts and not any("Osloette" in str(text) for text in texts)


def test_one_number_changes() -> None:
    texts = made(Kind.WRONG_NUMBER)
    assert {TEXT.replace("14", "94"), TEXT.replace("14", "10"), TEXT.replace("three", "hundred")} <= texts
    assert TEXT not in texts and not any("04" in str(text) for text in texts)


def test_the_meaning_turns() -> None:
    assert made(Kind.NEGATED) == {TEXT.replace(" not", ""), TEXT.replace("opened", "closed")}
    assert made(Kind.NEGATED, text="He will win more.") == {"He will not win more.", "He will win less."}
    assert made(Kind.NEGATED, text="They can't win.") == {"They can win."}
    assert made(Kind.NEGATED, text="Is he there?") == {None}
    assert made(Kind.NEGATED, text="He won not only gold but fame.") == {"He lost not only gold but fame."}
    assert made(Kind.NEGATED, text="The twenty-first came.") == {None}
    assert made(Kind.NEGATED, text="He did his work.") == {None}
    assert made(Kind.NEGATED, text="I shan't go, it ain't right.") == {None}
    assert made(Kind.NEGATED, text="Can't they go?") == {"Can they go?"}
    assert made(Kind.NEGATED, text="Won't they go?") == {"Will they go?"}
    assert made(Kind.NEGATED, text="They didn’t win.") == {"They did win."}


def test_other_kinds() -> None:
    words = TEXT.split()
    assert made(Kind.IDENTICAL) == {TEXT}
    assert made(Kind.PARAPHRASE) == {"A paraphrase."}
    assert made(Kind.UNTRANSLATED) == {"Un texte."}
    assert made(Kind.EMPTY) == {"", "."}
    assert made(Kind.UNRELATED) == set(POOL.texts)
    assert made(Kind.EXTRA_CLAUSE) - {None} == {TEXT[:-1] + ", because the ice had broken two of its pillars."}
    assert all(Counter(str(text).split()) == Counter(words) for text in made(Kind.SCRAMBLED))
    for text in made(Kind.HALF):
        assert 0.3 * len(words) - 1 <= len(str(text).split()) <= 0.6 * len(words) + 1 and str(text) in TEXT
    for text in made(Kind.REPEATED):
        assert set(str(text).split()) <= set(words)
        assert max(Counter(str(text).split()).values()) >= 3 and str(text) != TEXT


@pytest.mark.parametrize(
    "kind", [Kind.WRONG_NAME, Kind.WRONG_NUMBER, Kind.NEGATED, Kind.REPEATED, Kind.SCRAMBLED, Kind.HALF]
)
def test_what_a_text_does_not_allow_is_not_made(kind: Kind) -> None:
    assert made(kind, text="it rains") == {None}


def test_paraphrases_translate_the_same_sentence_and_differ_enough(tmp_path: Path) -> None:
    lines = [
        "I saw the film.\tJe vis\tx",
        "The film was seen.\tJe vis\tx",
        "I saw a film.\tJe vis\tx",
        "Go on now.\tVa\tx",
    ]
    with gzip.open(tmp_path / "fr.tsv.gz", "wt") as file:
        file.write("\n".join(lines))
    params = paraphrase_params(tmp_path / "fr.tsv.gz")
    found = paraphrased(params, 1)
    assert {frozenset((s.text, s.paraphrase)) for s in found} == {
        frozenset(("I saw the film.", "The film was seen.")),
        frozenset(("I saw a film.", "The film was seen.")),
    }
    assert {s.foreign for s in found} == {"Je vis"} and len({s.id for s in found}) == 2
    other = [f"So say {i} of us.\tSo {i}\nThat is what {i} say.\tSo {i}" for i in range(9)]
    (tmp_path / "de.tsv").write_text("\n\n".join(other) + "\n")
    both = paraphrase_params(tmp_path / "fr.tsv.gz", tmp_path / "de.tsv", longest=4)
    joined = paraphrased(both, 3)
    assert max(str(s.foreign).count("So") for s in joined) > 1 and sum(str(s.foreign).count("So") for s in joined) == 9
    for sentence in joined:
        texts = (sentence.text, str(sentence.paraphrase), str(sentence.foreign))
        numbers = [[word for word in text.split() if word.isdigit()] for text in texts]
        assert numbers[0] == numbers[1] == numbers[2], "parts belong together"
        assert not ("vis" in texts[2] and "So" in texts[2]), "one language"
    (tmp_path / "gaps.tsv").write_text(
        "\tBonjour le monde\tCC-BY\nHello all\t\n\nIt rains a lot now.\tx\nSome more water falls.\tx\n"
    )
    assert {s.foreign for s in paraphrased(paraphrase_params(tmp_path / "gaps.tsv", longest=1), 1)} == {"x"}
    (tmp_path / "bad.tsv").write_text("one column\n")
    with pytest.raises(InputError, match=r"bad\.tsv, line 1: needs two columns"):
        paraphrased(paraphrase_params(tmp_path / "bad.tsv"), 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b broken", "not a whole gzip file"),
        (gzip.compress(b"caf\xe9 au lait ici\tx\n"), "line 1: not valid UTF-8"),
        (gzip.compress(b"one two three\tx\n"), "has no two sentences with the same translation"),
        (gzip.compress(b""), "has no two sentences with the same translation"),
    ],
)
def test_parallel_text_that_is_no_good_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.tsv.gz").write_bytes(content)
    with pytest.raises(InputError, match=message):
        paraphrased(paraphrase_params(tmp_path / "x.tsv.gz"), 1)


def test_many_versions_of_one_sentence_do_not_make_a_square_of_pairs(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("".join(f"a{i} b{i} c{i}\tx\n" for i in range(200)))
    assert len(paraphrased(paraphrase_params(tmp_path / "x.tsv"), 1)) == 45


def paraphrase_params(*paths: Path, longest: int = 1) -> ParaphraseParams:
    sources = [{"name": path.name, "path": str(path), "sha256": None} for path in paths]
    section = {"sources": sources, "min_words": 3, "max_overlap": 0.5, "longest": longest}
    return from_mapping(section, ParaphraseParams, "grade.paraphrases")


def grade_params(**changes: Any) -> GradeParams:
    paraphrases = {"sources": [], "min_words": 3, "max_overlap": 0.6, "longest": 1}
    kinds = {kind.value: {"grade": float(-number), "weight": 1.0} for number, kind in enumerate(Kind)}
    section = {"seed": 1, "kinds": kinds, "draws": 4, "segments": None, "paraphrases": paraphrases, **changes}
    return from_mapping(section, GradeParams, "grade")


def test_a_shard_has_its_grades_and_accounts_for_every_attempt(tmp_path: Path) -> None:
    rows = [{"segment_id": f"1-{i}", "title": "T", "text": TEXT.replace("14", str(20 + i))} for i in range(30)]
    file = tmp_path / shard_name(0)
    write_shard(file, table_of(rows, SEGMENTS))
    outcome = grade_shard(0, [file], ShardedGrades(grade_params(), 1))
    found = outcome.table.to_pylist()
    assert outcome.rows_in == 30 * 4 and outcome.table.schema == GRADED
    assert len({row["pair_id"] for row in found}) == len(found)
    assert len({(row["reference"], row["candidate"]) for row in found}) == len(found)
    assert all(row["grade"] == grade_params().kinds[row["kind"]].grade for row in found)
    assert {"paraphrase", "untranslated"}.isdisjoint(row["kind"] for row in found)
    assert {row["kind"] for row in found} >= {"identical", "half", "negated", "wrong_name", "empty"}
    assert grade_shard(0, [file], ShardedGrades(grade_params(), 1)).table.equals(outcome.table)
    kinds = {kind.value: {"grade": 1.0, "weight": float(kind in ("half", "empty"))} for kind in Kind}
    two = grade_shard(0, [file], ShardedGrades(grade_params(kinds=kinds), 1)).table.to_pylist()
    assert {row["kind"] for row in two} == {"half", "empty"}
    few = grade_shard(0, [file], ShardedGrades(grade_params(segments=10), 2))
    assert few.rows_in == 5 * 4


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ParamsError, match=r"grade\.kinds: must name identical, "):
        grade_params(kinds={"identical": {"grade": 1.0, "weight": 1.0}})
    with pytest.raises(ParamsError, match=r"grade\.kinds\.empty\.weight: must be 0 or more"):
        grade_params(kinds={kind.value: {"grade": 1.0, "weight": 1.0 - 2.0 * (kind == "empty")} for kind in Kind})
    with pytest.raises(ParamsError, match=r"grade\.kinds: must give a weight to a kind other than these"):
        grade_params(kinds={kind.value: {"grade": 1.0, "weight": float(kind == "paraphrase")} for kind in Kind})
    with pytest.raises(ParamsError, match=r"grade\.draws"):
        grade_params(draws=0)
    with pytest.raises(ParamsError, match=r"grade\.segments"):
        grade_params(segments=0)
