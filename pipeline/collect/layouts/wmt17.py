"""WMT 2017: `DA-seglevel.csv` (LP DATA SYSTEM SID HUMAN, z-scores) and the texts of newstest2017.

Takes the metrics task's package as published (its texts lie in an inner archive) and a flat folder of the same files.
SYSTEM `a+b` means that several systems wrote the same and were rated once: one row here, as in the task's own count of
560 a pair (the original BLEURT code makes a row for each). Raw scores are null: they are published apart, by segment
but not by system, and DARR, which needs them, is not used for 2017.
"""

from collections import Counter
from pathlib import Path

from pipeline.collect.corpus import Corpus
from pipeline.collect.rating import ADEQUACY, NO_REFERENCE, NO_TEXTS, OTHER_PAIR, Loaded, Rating, chosen
from pipeline.collect.wmt_texts import PairTexts, open_texts
from pipeline.core.errors import InputError
from pipeline.files.index import open_parts
from pipeline.files.lines import number, read_columns

ARCHIVES = r"wmt17-metrics-task-package|wmt17-metrics-task-no-hybrids"
TEST_SET = "newstest2017"
OTHER_TEST_SET = "another test set than newstest2017"
UNEQUAL_OUTPUTS = "rated as one output of several systems, which differ"


def load_wmt17(corpus: Corpus) -> Loaded:
    """Rows in the order of DA-seglevel.csv."""
    index = open_parts(corpus.parts, ARCHIVES)
    file = index.find("DA-seglevel.csv")
    if file is None:
        place = corpus.parts[0].path
        raise InputError("holds no DA-seglevel.csv; put wmt17-metrics-task-package.tgz there", file=place)
    texts: dict[str, PairTexts | None] = {}
    loaded = Loaded([], Counter())
    for line, (pair, data, system, segment, human) in read_columns(file, ("LP", "DATA", "SYSTEM", "SID", "HUMAN")):
        if data != TEST_SET:
            loaded.dropped[OTHER_TEST_SET] += 1
        elif not chosen(pair, corpus.language_pairs):
            loaded.dropped[OTHER_PAIR] += 1
        else:
            if pair not in texts:
                texts[pair] = open_texts(index, 2017, pair)
            z = number(human, "HUMAN", file, line)
            made = _rating(texts[pair], file, line, pair=pair, system=system, segment=segment, z=z)
            if isinstance(made, str):
                loaded.dropped[made] += 1
            else:
                loaded.ratings.append(made)
    check_texts(loaded, "wmt17-metrics-task-package.tgz", corpus)
    return loaded


def check_texts(loaded: Loaded, archives: str, corpus: Corpus) -> None:
    """Some pairs may lack texts; ratings that lack all of them are an input error."""
    if not loaded.ratings and loaded.dropped[NO_TEXTS]:
        raise InputError(
            f"holds ratings, but no system outputs that they rate; put {archives} there", file=corpus.parts[0].path
        )


def _rating(
    texts: PairTexts | None, file: Path, line: int, *, pair: str, system: str, segment: str, z: float
) -> Rating | str:
    """The row, or the reason why there is none."""
    if texts is None:
        return NO_TEXTS
    position = texts.position(segment, file, line)
    candidates = {texts.candidate(name, position) for name in systems_of(system, texts, file, line)}
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


def systems_of(system: str, texts: PairTexts, file: Path, line: int) -> list[str]:
    """Systems with an output file that `system` names: itself, else the parts of `a+b` that are there."""
    if system in texts.outputs:
        return [system]
    names = [name for name in system.split("+") if name in texts.outputs]
    if not names:
        folder = next(iter(texts.outputs.values())).parent
        raise InputError(f"no output of this system lies in {folder}", file=file, line=line, value=system)
    return names
