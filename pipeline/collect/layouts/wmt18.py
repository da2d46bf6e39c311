"""WMT 2018 and 2019: `ad-seg-scores-{lp}.csv` (SYS SID RAW.SCR Z.SCR N) and the texts of newstest{Y}.

Ratings and texts are two archives; N, the number of judgements, is not kept. Names of systems differ between the two:
`repaired` holds the rules. In 2019 ratings of one pair (zh-en) stand twice; the sentence-level turkle ones count.
"""

import re
from collections import Counter
from pathlib import Path

from pipeline.collect.corpus import Corpus
from pipeline.collect.layouts.wmt17 import check_texts, systems_of
from pipeline.collect.rating import ADEQUACY, NO_REFERENCE, NO_TEXTS, OTHER_PAIR, Loaded, Rating, chosen
from pipeline.collect.wmt_texts import PairTexts, open_texts
from pipeline.core.errors import InputError
from pipeline.files.index import FileIndex, open_parts
from pipeline.files.lines import number, read_columns

ARCHIVES = {
    2018: r"newstest2018-humaneval|wmt18-metrics-task-nohybrids",
    2019: r"newstest2019-humaneval|wmt19-submitted-data-v3-txt-minimal",
}
PUBLISHED = {
    2018: "newstest2018-humaneval.tar.gz and wmt18-metrics-task-nohybrids.tgz",
    2019: "newstest2019-humaneval.tar.gz and wmt19-submitted-data-v3-txt-minimal.tgz",
}
PREFERRED = "turkle-sntlevel-humaneval-newstest2019"

LEFT_OUT = frozenset({"HUMAN", "RBMT.6722"})
LEFT_OUT_REASON = "HUMAN or RBMT.6722, which WMT leaves out"

OUTPUT_NAMES = {
    "UAlacant_-_NM": "UAlacant_-_NMT+RBMT.6722",
    "Helsinki-NLP.6889": "Helsinki_NLP.6889",
    "Facebook-FAIR.6937": "Facebook_FAIR.6937",
    "DBMS-KU-KKEN.6726": "DBMS-KU_KKEN.6726",
    "Ju-Saarland.6525": "Ju_Saarland.6525",
    "aylien-mt-gu-en-multilingual.6826": "aylien_mt_gu-en_multilingual.6826",
    "rug-kken-morfessor.6677": "rug_kken_morfessor.6677",
    "talp-upc-2019-kken.6657": "talp_upc_2019_kken.6657",
    "Frank-s-MT.6127": "Frank_s_MT.6127",
}
"""Name in the ratings -> name in the output files, where they differ."""


def repaired(system: str, year: int, language_pair: str) -> str:
    """The name that the output file has.

    >>> repaired("Frank-s-MT.6127", 2019, "fi-en"), repaired("Unsupervised.6929", 2019, "de-cs")
    ('Frank_s_MT.6127', 'Unsupervised.de-cs.6929')
    """
    if year == 2019 and language_pair == "zh-en":
        system = re.sub(r"[-._]?zh-en$", "", system)
    if language_pair == "de-cs" and system in ("Unsupervised.6929", "Unsupervised.6935"):
        return system.replace(".", ".de-cs.")
    return OUTPUT_NAMES.get(system, system)


def load_wmt18(corpus: Corpus, year: int) -> Loaded:
    """All chosen language pairs that are there, in the order of their names, each in the order of its ratings."""
    index = open_parts(corpus.parts, ARCHIVES[year])
    pairs = [match[1] for match in index.matching(r"ad-seg-scores-([a-z]+-[a-z]+)\.csv")]
    if not pairs:
        place = corpus.parts[0].path
        raise InputError(f"holds no ad-seg-scores-*.csv; put {PUBLISHED[year]} there", file=place)
    loaded = Loaded([], Counter())
    for pair in pairs:
        _load_pair(index, year, pair, corpus, loaded)
    check_texts(loaded, PUBLISHED[year], corpus)
    return loaded


def _load_pair(index: FileIndex, year: int, pair: str, corpus: Corpus, loaded: Loaded) -> None:
    file = _rating_file(index, pair)
    rows = read_columns(file, ("SYS", "SID", "RAW.SCR", "Z.SCR"))
    if not chosen(pair, corpus.language_pairs):
        loaded.dropped[OTHER_PAIR] += len(rows)
        return
    texts = open_texts(index, year, pair)
    for line, (rated, segment, raw, z) in rows:
        scores = number(raw, "RAW.SCR", file, line), number(z, "Z.SCR", file, line)
        if rated in LEFT_OUT:
            loaded.dropped[LEFT_OUT_REASON] += 1
        elif texts is None:
            loaded.dropped[NO_TEXTS] += 1
        else:
            made = _rating(
                texts,
                file,
                line,
                year=year,
                pair=pair,
                system=repaired(rated, year, pair),
                segment=segment,
                scores=scores,
            )
            if made is None:
                loaded.dropped[NO_REFERENCE] += 1
            else:
                loaded.ratings.append(made)


def _rating_file(index: FileIndex, pair: str) -> Path:
    files = index.all(f"ad-seg-scores-{pair}.csv")
    files = [file for file in files if PREFERRED in file.parts] or files
    for other in files[1:]:  # an archive beside its unpacked folder gives the same file twice
        if other.read_bytes() != files[0].read_bytes():
            raise InputError(f"stands twice, also as {other}; name one year's folder", file=files[0])
    return files[0]


def _rating(
    texts: PairTexts,
    file: Path,
    line: int,
    *,
    year: int,
    pair: str,
    system: str,
    segment: str,
    scores: tuple[float, float],
) -> Rating | None:
    position = texts.position(segment, file, line)
    reference = texts.reference(position)
    name = systems_of(system, texts, file, line)[0]
    if reference is None:
        return None
    return Rating(
        key=f"{pair}/{line}",
        aspect=ADEQUACY,
        reference=reference,
        other_references=(),
        candidate=texts.candidate(name, position),
        source=texts.source(position),
        language_pair=pair,
        system=system,
        segment=segment,
        year=year,
        raw=scores[0],
        z=scores[1],
        score=scores[1],
    )
