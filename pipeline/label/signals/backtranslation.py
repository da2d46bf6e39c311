"""Backtranslation likelihood (section 4.2, A.3): how probable is the candidate as a backtranslation of the reference?

The reference z is translated into a pivot language, one best translation z*. The score of the candidate z~ is
log P(z~ | z*) under the model from the pivot, by teacher forcing, divided by the number of tokens of z~. As in the
paper, P(z* | z) is taken to be 1. Two pivots (the paper's are French and German) and both directions give four numbers.

The paper leaves open what a token is. Here it is a piece of the translation model, and the end of the sentence counts
as one, in the sum and in the number; so an empty text has a finite score too, log P(end | z*). The translation of an
empty text is empty. A text that is longer than the model's positions is cut, with a warning.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy
import pyarrow
from pydantic import model_validator

from pipeline.core.models import locate
from pipeline.core.params import AtLeastOne, params
from pipeline.teachers.translator import Pivots, load_translator

COLUMNS = (
    "backtranslation_1_reference_candidate",  # first pivot: of z~, given z's translation
    "backtranslation_1_candidate_reference",  # of z, given z~'s translation
    "backtranslation_2_reference_candidate",  # second pivot
    "backtranslation_2_candidate_reference",
)
"""Mean log probability of a token each, in nats; 0 or less, higher is better. Pivots as params.yaml orders them."""

PIVOTS = 2

log = logging.getLogger(__name__)


@params
class Params:
    """The language of the texts, the models of each pivot, and how wide the search for z* is."""

    language: str
    """ISO 639-1 code of references and candidates."""
    pivots: Pivots
    """Two other languages."""
    beam_width: AtLeastOne
    batch_sentences: AtLeastOne

    @model_validator(mode="after")
    def _two_other_languages(self) -> "Params":
        if len(self.pivots) != PIVOTS or self.language in self.pivots:
            named = ", ".join(self.pivots) or "none"
            raise ValueError(f"pivots: must be two languages other than {self.language}, not {named}")
        return self


def models(params: Params) -> tuple[Path, ...]:
    """Folders of the models of both pivots, each once."""
    names = sorted({name for pivot in params.pivots.values() for name in (pivot.to, pivot.back)})
    return tuple(locate(name) for name in names)


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Mean log probability of a token, (rows, 4) float32, see COLUMNS."""
    references = pairs.column("reference").to_pylist()
    candidates = pairs.column("candidate").to_pylist()
    by_pivot = [_through(language, references, candidates, params) for language in params.pivots]
    values = numpy.concatenate(by_pivot, axis=1).astype(numpy.float32)
    assert values.shape == (len(references), len(COLUMNS)), values.shape
    return values


def _through(language: str, references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """(rows, 2) float64: the candidate given the reference's translation, then the reverse."""
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
