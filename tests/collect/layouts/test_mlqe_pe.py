"""MLQE-PE: its own splits, detokenised post-edits as references, standardised ratings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import OTHER_PAIR, Corpus, Split
from pipeline.collect.layouts.mlqe_pe import load
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]

HEADER = (
    "language_pair\tsplit\tsegment\tsource\ttranslation\ttranslation_tokens\tpost_edit_tokens\thter\tmean\tz_mean\n"
)
ROWS = [
    "ro-en\ttrain\t0\tA venit.\tHe came\tHe came\tHe 's come , he said .\t0.2\t23.0\t-1.5\n",
    "ro-en\tdev\t0\tB.\tThe B.\tThe B .\tThe B .\t0.0\t90\t0.75\n",
    "ne-en\ttest\t7\tC.\tSee.\tSee .\tSea .\t0.5\t50.5\t0.0\n",
    "en-de\ttrain\t1\tYes.\tJa.\tJa .\tJa .\t0.0\t100\t1.0\n",
]


def test_rows_keep_their_split_and_references_are_detokenised(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = write(tmp_path / "mlqe.tsv", HEADER + "".join(ROWS))
    loaded = load(corpus("mlqe_pe", file, split=Split.PUBLISHED, language_pairs=("*-en",)))
    assert [(one.key, one.split) for one in loaded.ratings] == [
        ("ro-en/train/0", "train"),
        ("ro-en/dev/0", "validation"),
        ("ne-en/test/7", "test"),
    ]
    first = loaded.ratings[0]
    assert (first.reference, first.candidate, first.source) == ("He's come, he said.", "He came", "A venit.")
    assert (first.raw, first.z, first.score, first.system) == (23.0, -1.5, -1.5, None)
    assert first.published == (("hter", -0.2),)
    assert loaded.dropped == {OTHER_PAIR: 1}


def test_a_table_without_hter_is_read_as_well(tmp_path: Path, write: Write, corpus: Make) -> None:
    lines = [line.split("\t") for line in (HEADER, *ROWS)]
    file = write(tmp_path / "mlqe.tsv", "".join("\t".join([*line[:7], *line[8:]]) for line in lines))
    assert [one.published for one in load(corpus("mlqe_pe", file, split=Split.PUBLISHED)).ratings] == [()] * 4


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROWS[0].replace("train", "extra"), r"mlqe\.tsv, line 2: split is none of train, dev, test: 'extra'"),
        (ROWS[0].replace("23.0", "101"), r"line 2: mean lies outside the scale 0-100"),
        (ROWS[0].replace("-1.5", "many"), r"line 2: z_mean"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, write: Write, corpus: Make, row: str, message: str) -> None:
    file = write(tmp_path / "mlqe.tsv", HEADER + row)
    with pytest.raises(InputError, match=message):
        load(corpus("mlqe_pe", file, split=Split.PUBLISHED))
