"""Masking for the mask filler's training, and the texts that it reads."""

import gzip
from pathlib import Path

import torch

from pipeline.bundled.recipes.mask_filler import choose_masks
from pipeline.bundled.texts import read_wikitext, sentences_of

MASK, SPECIALS, VOCABULARY = 4, 5, 1000


def test_masks_hit_the_wished_share_and_never_a_special_piece() -> None:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(SPECIALS, VOCABULARY, (200, 50), generator=draw)
    ids[:, 0], ids[:, -1] = 2, 0
    masked, chosen = choose_masks(ids, SPECIALS, 0.3, MASK, VOCABULARY, draw)
    assert not chosen[:, 0].any() and not chosen[:, -1].any()
    inner = chosen[:, 1:-1]
    assert abs(inner.float().mean() - 0.3) < 0.02
    assert (masked[~chosen] == ids[~chosen]).all()
    became = masked[chosen]
    assert abs((became == MASK).float().mean() - 0.8) < 0.03
    assert abs((became == ids[chosen]).float().mean() - 0.1) < 0.03


def test_wikitext_loses_its_headings_and_marks(tmp_path: Path) -> None:
    file = tmp_path / "raw.txt.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write(" \n = Heading = \n A 1 @,@ 000 @-@ mile walk ended here . It rained on all of them . \n")
    assert read_wikitext(file) == ["A 1,000-mile walk ended here . It rained on all of them ."]
    assert sentences_of(read_wikitext(file), 4) == [
        "A 1,000-mile walk ended here .",
        "It rained on all of them .",
    ]
