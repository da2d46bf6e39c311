"""Backtranslation likelihood (section 4.2, A.3): how probable is the candidate as a backtranslation of the reference?

For the pivot French: z is translated to z*, one best translation; the score of z~ is log P(z~ | z*) under the model
from French, by teacher forcing, divided by the number of tokens of z~. As in the paper, P(z* | z) is taken to be 1.
Two pivots and both directions give four numbers.

Where the paper is silent: a token is a piece of the translation model, and the end of sentence counts as one, in the
sum and in the number. So an empty text has a finite score too, log P(end | z*). An empty text's own translation is
empty. A text longer than the model's positions is cut, with a warning.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow

from pipeline.core.errors import ParamsError
from pipeline.core.records import SIGNAL_COLUMNS
from pipeline.model.locate import locate
from pipeline.model.translation import TEXT_LANGUAGE, Pivot, load_translator

PIVOTS = ("fr", "de")
"""In the order of the signal's columns."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Params:
    """Models for each pivot, and how wide the search for z* is."""

    pivots: dict[str, Pivot]
    """Exactly the keys "fr" and "de"."""
    beam_width: int
    batch_sentences: int

    def __post_init__(self) -> None:
        if sorted(self.pivots) != sorted(PIVOTS):
            raise ParamsError(f"label.backtranslation.pivots: must have the keys fr and de, not {sorted(self.pivots)}.")


def models(params: Params) -> tuple[Path, ...]:
    """Folders of the models of all pivots, each once."""
    names = sorted({name for pivot in params.pivots.values() for name in (pivot.to, pivot.back)})
    return tuple(locate(name) for name in names)


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Mean log probability of a token, nats, 0 or less, higher is better: (rows, 4) float32, see SIGNAL_COLUMNS.

    Columns: French z~ given z, French z given z~, German z~ given z, German z given z~.
    """
    references = pairs.column("reference").to_pylist()
    candidates = pairs.column("candidate").to_pylist()
    by_pivot = [_through(language, references, candidates, params) for language in PIVOTS]
    values = numpy.concatenate(by_pivot, axis=1).astype(numpy.float32)
    assert values.shape == (len(references), len(SIGNAL_COLUMNS["backtranslation"])), values.shape
    return values


def _through(language: str, references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """(rows, 2) float64: of the candidate given the reference's translation, then the reverse."""
    to, back = (load_translator(name) for name in (params.pivots[language].to, params.pivots[language].back))
    cut_before = to.truncated + back.truncated
    texts = sorted({*references, *candidates})
    there = to.translate(texts, language, params.beam_width, params.batch_sentences)
    pivot_of = dict(zip(texts, there, strict=True))
    sources = [pivot_of[text] for text in (*references, *candidates)]
    targets = [*candidates, *references]
    scored = back.log_likelihood(sources, targets, TEXT_LANGUAGE, params.batch_sentences)
    cut = to.truncated + back.truncated - cut_before
    if cut:
        log.warning("%d texts were cut to the %s models' %d positions", cut, language, to.positions)
    return scored.per_token().reshape(2, -1).T
