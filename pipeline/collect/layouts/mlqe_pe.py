"""MLQE-PE (Fomicheva et al. 2020): one neural translation of each sentence, its direct assessments and a post-edit.

A table with the columns `language_pair`, `split` (train, dev, test), `segment`, `source`, `translation`,
`post_edit_tokens`, `mean` (0-100) and `z_mean`. The post-edit stands as tokens; sacremoses makes a text of them, which
is the reference. It was made from the translation itself: an untouched translation equals its reference. The system is
not named, as there is one for each language pair. `hter`, the share of words that the post-editor changed, is kept
beside the rating, negated, where the column is there: an upper mark for metrics without references.
"""

from collections import Counter
from pathlib import Path

from sacremoses import MosesDetokenizer

from pipeline.collect.corpus import (
    ADEQUACY,
    OTHER_PAIR,
    TEST,
    TRAIN,
    VALIDATION,
    Corpus,
    Layout,
    Loaded,
    Rating,
    is_chosen,
    number_on_scale,
)
from pipeline.core.errors import InputError
from pipeline.files.fetch import local
from pipeline.files.lines import number
from pipeline.files.tables import Row, read_table, text

LAYOUT = Layout(splits=True)
SPLITS = {"train": TRAIN, "dev": VALIDATION, "test": TEST}
COLUMNS = ("language_pair", "split", "segment", "source", "translation", "post_edit_tokens", "mean", "z_mean")
SCALE = 100.0


def load(corpus: Corpus) -> Loaded:
    """Ratings in the order of parts and lines; a split that is none of SPLITS is an InputError."""
    loaded = Loaded([], Counter())
    detokenizers: dict[str, MosesDetokenizer] = {}
    for part in corpus.parts:
        file = local(part.path, part.sha256)
        for line, row in read_table(file, COLUMNS):
            pair = text(row["language_pair"], "language_pair", file, line)
            if not is_chosen(pair, corpus.language_pairs):
                loaded.dropped[OTHER_PAIR] += 1
                continue
            split = SPLITS.get(str(row["split"]))
            if split is None:
                raise InputError(f"split is none of {', '.join(SPLITS)}", file=file, line=line, value=row["split"])
            language = pair.split("-")[-1]
            detokenizer = detokenizers.setdefault(language, MosesDetokenizer(lang=language))
            tokens = text(row["post_edit_tokens"], "post_edit_tokens", file, line).split()
            z = number(row["z_mean"], "z_mean", file, line)
            loaded.ratings.append(
                Rating(
                    key=f"{pair}/{row['split']}/{row['segment']}",
                    aspect=ADEQUACY,
                    reference=detokenizer.detokenize(tokens),
                    other_references=(),
                    candidate=text(row["translation"], "translation", file, line),
                    source=text(row["source"], "source", file, line),
                    language_pair=pair,
                    system=None,
                    segment=f"{row['split']}/{row['segment']}",
                    year=None,
                    raw=number_on_scale(row["mean"], "mean", SCALE, str(file), line),
                    z=z,
                    score=z,
                    split=split,
                    published=_published(row, file, line),
                )
            )
    return loaded


def _published(row: Row, file: Path, line: int) -> tuple[tuple[str, float], ...]:
    return (("hter", -number(row["hter"], "hter", file, line)),) if "hter" in row else ()
