"""Paraphrases out of parallel text: which sentences are paired, how they are joined, and files that are no good."""

import gzip
from pathlib import Path

import pytest

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.params import from_mapping
from pipeline.grade.grading import ParaphraseParams, paraphrased


def paraphrase_params(*paths: Path, longest: int = 1) -> ParaphraseParams:
    sources = [{"name": path.name, "path": str(path), "sha256": None} for path in paths]
    section = {"sources": sources, "min_words": 3, "max_overlap": 0.5, "longest": longest}
    return from_mapping(section, ParaphraseParams, "grade.paraphrases")


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


def test_two_sources_of_one_name_are_refused() -> None:
    with pytest.raises(ParamsError, match=r"^grade\.paraphrases\.sources: two of them are called a\.tsv\.$"):
        paraphrase_params(Path("a.tsv"), Path("b") / "a.tsv")


def test_nothing_can_overlap_by_less_than_nothing() -> None:
    section = {"sources": [], "min_words": 3, "max_overlap": 0.0, "longest": 1}
    with pytest.raises(ParamsError, match=r"^grade\.paraphrases\.max_overlap: must be above 0, not 0\.0\.$"):
        from_mapping(section, ParaphraseParams, "grade.paraphrases")
