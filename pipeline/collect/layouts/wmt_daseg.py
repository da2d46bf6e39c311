"""WMT 2015 and 2016: `DAseg.newstest{Y}.human.{lp}` beside `.reference.`, `.mt-system.` and `.source.`, parallel lines.

A line of `human` is a z-score, the mean of standardised judgements; systems and raw scores are not published. A pair
whose source file is missing is taken without sources.
"""

from collections import Counter

from pipeline.collect.corpus import (
    ADEQUACY,
    OTHER_PAIR,
    Corpus,
    FileIndex,
    Layout,
    Loaded,
    Rating,
    is_chosen,
    open_parts,
)
from pipeline.core.errors import InputError
from pipeline.files.lines import check_same_length, number, read_lines

LAYOUT = Layout()
ARCHIVES = r"DAseg-wmt-newstest201[56]"


def load(corpus: Corpus) -> Loaded:
    """All chosen language pairs that are there, in the order of their names."""
    index = open_parts(corpus.parts, ARCHIVES)
    found = index.matching(r"DAseg\.newstest(\d{4})\.human\.([a-z]+-[a-z]+)")
    place = corpus.parts[0].path
    if not found:
        raise InputError(
            "holds no DAseg.newstest*.human.*; put DAseg-wmt-newstest2015.tar.gz or …2016 there", file=place
        )
    years = sorted({match[1] for match in found})
    if len(years) > 1:
        raise InputError("holds several years; make each a corpus of its own", file=place, value=", ".join(years))
    loaded = Loaded([], Counter())
    for match in found:
        _load_pair(index, years[0], match[2], corpus, loaded)
    return loaded


def _load_pair(index: FileIndex, year: str, pair: str, corpus: Corpus, loaded: Loaded) -> None:
    files = {kind: index.find(f"DAseg.newstest{year}.{kind}.{pair}") for kind in ("human", "reference", "mt-system")}
    human = files["human"]
    assert human is not None
    ratings = read_lines(human)
    if not is_chosen(pair, corpus.language_pairs):
        loaded.dropped[OTHER_PAIR] += len(ratings)
        return
    texts = {}
    for kind, file in {**files, "source": index.find(f"DAseg.newstest{year}.source.{pair}")}.items():
        if file is None and kind != "source":
            raise InputError(f"DAseg.newstest{year}.{kind}.{pair} is missing beside it", file=human)
        if file is not None:
            texts[kind] = read_lines(file)
            check_same_length(file, texts[kind], human, ratings)
    for position, reference in enumerate(texts["reference"]):
        line = position + 1
        if not reference:
            raise InputError("the reference is empty", file=str(files["reference"]), line=line)
        z = number(ratings[position], "the rating", human, line)
        loaded.ratings.append(
            Rating(
                key=f"{pair}/{line}",
                aspect=ADEQUACY,
                reference=reference,
                other_references=(),
                candidate=texts["mt-system"][position],
                source=(texts["source"][position] or None) if "source" in texts else None,
                language_pair=pair,
                system=None,
                segment=str(line),
                year=int(year),
                raw=None,
                z=z,
                score=z,
            )
        )
