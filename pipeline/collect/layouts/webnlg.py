"""WebNLG 2017's human evaluation (paper, section 5.3): 9 systems over 223 inputs, three aspects each.

`all_data_final_averaged.csv` has a row for each candidate: `mr` (the input triples), `team`, `text`, the mean ratings
`fluency`, `grammar`, `semantics` from 1 to 3, and the scores `bleu`, `meteor`, `ter`. `MRs.txt`, `sample-ids.txt` and
`gold-sample-reference{N}.lex` are parallel, one line for each input, and an empty line if an input has fewer
references. A candidate makes one row for each aspect, rating_id "<corpus>/<id>/<aspect>". `segment` is the input's id
and `source` its triples, so splits never share an input, unless a corpus is split by system.

As in the paper, texts that people wrote (the team `webnlg`) and void predictions are left out, and counted. A void
prediction is an empty text or "null" (168 rows of `vietnam`). This leaves 4,772 pairs of a candidate and a reference;
the paper counts 4,677.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pipeline.collect.corpus import (
    OTHER_PAIR,
    Corpus,
    FileIndex,
    Layout,
    Loaded,
    Rating,
    is_chosen,
    number_on_scale,
    open_parts,
)
from pipeline.core.errors import InputError
from pipeline.files.lines import check_same_length, number, read_lines
from pipeline.files.tables import Row, read_table, text

LAYOUT = Layout(raw=True, standardised=False, by_system=True)
ARCHIVES = r"webnlg[-_]?(20)?17.*"
ASPECTS = ("fluency", "grammar", "semantics")
RATED = "all_data_final_averaged.csv"
PEOPLE = "webnlg"
VOID = ("", "null")
NOT_A_SYSTEM = "written by people"
NO_OUTPUT = "the system gave nothing"
PUBLISHED = ("bleu", "meteor", "ter")


@dataclass(frozen=True)
class Input:
    """One input: its id and its references, at least one."""

    segment: str
    references: tuple[str, ...]


def load(corpus: Corpus) -> Loaded:
    """Three ratings for each candidate, in the order of the file; `language_pairs` without "*" drops them all."""
    index = open_parts(corpus.parts, ARCHIVES)
    place = corpus.parts[0].path
    inputs = _read_inputs(index, place)
    file = _file(index, RATED, place)
    loaded = Loaded([], Counter())
    assert corpus.scale is not None, "LAYOUT says that ratings are raw"
    ids: set[str] = set()
    for line, row in read_table(file, ("id", "mr", "team", "text", *ASPECTS, *PUBLISHED)):
        if row["id"] in ids:
            raise InputError("id occurs twice", file=file, line=line, value=row["id"])
        ids.add(row["id"])
        ratings = _ratings(row, inputs, corpus.scale, file, line)
        reason = _reason(row, corpus)
        if reason is None:
            loaded.ratings.extend(ratings)
        else:
            loaded.dropped[reason] += len(ratings)
    return loaded


def _reason(row: Row, corpus: Corpus) -> str | None:
    """Why the candidate of `row` is left out; None if it is not."""
    if not is_chosen(None, corpus.language_pairs):
        return OTHER_PAIR
    if row["team"] == PEOPLE:
        return NOT_A_SYSTEM
    return NO_OUTPUT if row["text"].strip() in VOID else None


def _published(row: Row, file: Path, line: int) -> tuple[tuple[str, float], ...]:
    """The scores that WebNLG published for a candidate: BLEU and METEOR (0-1), and TER (percent), negated."""
    scores = {name: number(row[name], name, file, line) for name in PUBLISHED}
    return tuple({**scores, "ter": -scores["ter"]}.items())


def _ratings(row: Row, inputs: dict[str, Input], scale: float, file: Path, line: int) -> list[Rating]:
    source = text(row["mr"], "mr", file, line)
    if source not in inputs:
        raise InputError("mr is not in MRs.txt", file=file, line=line, value=source)
    reference, *others = inputs[source].references
    candidate = text(row["text"], "text", file, line)
    published = _published(row, file, line)
    raw = {aspect: number_on_scale(row[aspect], aspect, scale, str(file), line) for aspect in ASPECTS}
    return [
        Rating(
            key=f"{row['id']}/{aspect}",
            aspect=aspect,
            reference=reference,
            other_references=tuple(others),
            candidate=candidate,
            source=source,
            language_pair=None,
            system=row["team"],
            segment=inputs[source].segment,
            year=None,
            raw=raw[aspect],
            z=None,
            score=raw[aspect] / scale,
            published=published,
        )
        for aspect in ASPECTS
    ]


def _read_inputs(index: FileIndex, place: str) -> dict[str, Input]:
    """Input triples -> id and references."""
    sources = _file(index, "MRs.txt", place)
    ids_file = _file(index, "sample-ids.txt", place)
    names = [match[0] for match in index.matching(r"gold-sample-reference\d+\.lex")]
    files = [index.all(name)[0] for name in names] or [_file(index, "gold-sample-reference0.lex", place)]
    triples = read_lines(sources)
    ids = [line for line in read_lines(ids_file) if line]  # as published, the file ends with an empty line
    check_same_length(ids_file, ids, sources, triples)
    columns = [read_lines(file) for file in files]
    for file, lines in zip(files, columns, strict=True):
        check_same_length(file, lines, sources, triples)
    found = {}
    for position, triple in enumerate(triples):
        references = tuple(dict.fromkeys(lines[position] for lines in columns if lines[position]))
        if not references:
            raise InputError("the reference is empty in every reference file", file=files[0], line=position + 1)
        found[triple] = Input(ids[position], references)
    return found


def _file(index: FileIndex, name: str, place: str) -> Path:
    found = index.find(name)
    if found is None:
        raise InputError("this file is missing in it", file=place, value=name)
    return found
