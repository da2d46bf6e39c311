"""Backtranslation likelihood (section 4.2, A.3): how probable is the candidate as a backtranslation of the reference?

For each of two pivots: z is translated to z*, one best translation; the score of z~ is log P(z~ | z*) under the model
from the pivot, by teacher forcing, divided by the number of tokens of z~. As in the paper, P(z* | z) is taken to be 1.
Two pivots, the paper's are French and German, and both directions give four numbers.

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
from pipeline.core.models import locate
from pipeline.core.records import SIGNAL_COLUMNS
from pipeline.teachers.translator import Pivot, load_translator

PIVOTS = 2
"""Each gives two of the signal's columns, in the order in which params.yaml names them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Params:
    """The text's language, models for each pivot, and how wide the search for z* is."""

    language: str
    """ISO 639-1 code of references and candidates."""
    pivots: dict[str, Pivot]
    """Two other languages."""
    beam_width: int
    batch_sentences: int

    def __post_init__(self) -> None:
        if len(self.pivots) != PIVOTS or self.language in self.pivots:
            named = ", ".join(self.pivots) or "none"
            raise ParamsError(
                f"label.backtranslation.pivots: must be two languages other than {self.language}, not {named}."
            )
        for key in ("beam_width", "batch_sentences"):
            if getattr(self, key) < 1:
                raise ParamsError(f"label.backtranslation.{key}: must be at least 1, not {getattr(self, key)}.")


def models(params: Params) -> tuple[Path, ...]:
    """Folders of the models of all pivots, each once."""
    names = sorted({name for pivot in params.pivots.values() for name in (pivot.to, pivot.back)})
    return tuple(locate(name) for name in names)


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Mean log probability of a token, nats, 0 or less, higher is better: (rows, 4) float32, see SIGNAL_COLUMNS.

    Columns: first pivot z~ given z, first pivot z given z~, then the second pivot's two.
    """
    references = pairs.column("reference").to_pylist()
    candidates = pairs.column("candidate").to_pylist()
    by_pivot = [_through(language, references, candidates, params) for language in params.pivots]
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
    scored = back.log_likelihood(sources, targets, params.language, params.batch_sentences)
    cut = to.truncated + back.truncated - cut_before
    if cut:
        log.warning("%d texts were cut to the %s models' %d positions", cut, language, to.positions)
    return scored.per_token().reshape(2, -1).T
