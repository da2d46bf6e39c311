"""WMT 2017: `DA-seglevel.csv` (LP DATA SYSTEM SID HUMAN, z-scores) and the texts of newstest2017.

The metrics task's package is read as published (its texts lie in an inner archive), and so is a flat folder of the same
files. SYSTEM `a+b` means that several systems wrote the same text, which was rated once. It makes one row here, as in
the task's own count of 560 rows a pair; the original BLEURT code makes a row for each system. Raw scores are null: WMT
published them by segment, not by system, and DARR, which needs them, is not used for 2017.

People's scores of whole systems come from `DA-syslevel.csv` (LP HUMAN SYSTEM) if it lies there. They rest on more
judgements than those of the rated segments.
"""

import dataclasses
from collections import Counter
from pathlib import Path

from pipeline.collect.corpus import (
    ADEQUACY,
    NO_REFERENCE,
    NO_TEXTS,
    OTHER_PAIR,
    Corpus,
    Layout,
    Loaded,
    Rating,
    is_chosen,
    open_parts,
)
from pipeline.collect.wmt_archives import PairTexts, check_texts, open_texts
from pipeline.core.errors import InputError
from pipeline.files.lines import number, read_columns

LAYOUT = Layout()
ARCHIVES = r"wmt17-metrics-task-package|wmt17-metrics-task-no-hybrids"
TEST_SET = "newstest2017"
OTHER_TEST_SET = "another test set than newstest2017"
UNEQUAL_OUTPUTS = "rated as one output of several systems, which differ"


def load(corpus: Corpus) -> Loaded:
    """Ratings in the order of DA-seglevel.csv."""
    index = open_parts(corpus.parts, ARCHIVES)
    file = index.find("DA-seglevel.csv")
    if file is None:
        place = corpus.parts[0].path
        raise InputError("holds no DA-seglevel.csv; put wmt17-metrics-task-package.tgz there", file=place)
    texts: dict[str, PairTexts | None] = {}
    of_systems = _system_ratings(index.find("DA-syslevel.csv"))
    loaded = Loaded([], Counter())
    for line, (pair, data, system, segment, human) in read_columns(file, ("LP", "DATA", "SYSTEM", "SID", "HUMAN")):
        if data != TEST_SET:
            loaded.dropped[OTHER_TEST_SET] += 1
        elif not is_chosen(pair, corpus.language_pairs):
            loaded.dropped[OTHER_PAIR] += 1
        else:
            if pair not in texts:
                texts[pair] = open_texts(index, 2017, pair)
            z = number(human, "HUMAN", file, line)
            made = _rating(texts[pair], file, line, pair=pair, system=system, segment=segment, z=z)
            if isinstance(made, str):
                loaded.dropped[made] += 1
            else:
                known = [(name, of_systems.get((pair, name))) for name in system.split("+")]
                ratings = tuple((name, score) for name, score in known if score is not None)
                loaded.ratings.append(dataclasses.replace(made, system_ratings=ratings))
    check_texts(loaded, "wmt17-metrics-task-package.tgz", corpus)
    return loaded


def _system_ratings(file: Path | None) -> dict[tuple[str, str], float]:
    """(language pair, system) -> people's score of the system; nothing without a file."""
    found: dict[tuple[str, str], float] = {}
    if file is not None:
        for line, (pair, human, system) in read_columns(file, ("LP", "HUMAN", "SYSTEM")):
            if (pair, system) in found:
                raise InputError("names a system twice", file=file, line=line, value=f"{pair} {system}")
            found[pair, system] = number(human, "HUMAN", file, line)
    return found


def _rating(
    texts: PairTexts | None, file: Path, line: int, *, pair: str, system: str, segment: str, z: float
) -> Rating | str:
    """The rating, or the reason why there is none."""
    if texts is None:
        return NO_TEXTS
    position = texts.position(segment, file, line)
    candidates = {texts.candidate(name, position) for name in texts.systems(system, file, line)}
    reference = texts.reference(position)
    if reference is None:
        return NO_REFERENCE
    if len(candidates) > 1:
        return UNEQUAL_OUTPUTS
    return Rating(
        key=f"{pair}/{line}",
        aspect=ADEQUACY,
        reference=reference,
        other_references=(),
        candidate=candidates.pop(),
        source=texts.source(position),
        language_pair=pair,
        system=system,
        segment=segment,
        year=2017,
        raw=None,
        z=z,
        score=z,
    )
