"""ROUGE-N precision, recall and F (section 4.2, A.3), by the library rouge-score, on tokens split at white space.

In scripts without spaces every character is a token. Case is kept, as in the paper's code.

The paper took ROUGE-N of the seq2seq library, bigrams by default, which intersects sets of n-grams. rouge-score clips
counts, as ROUGE's definition says. The two differ only if a sentence repeats an n-gram.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy
import pyarrow
from pydantic import Field
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import Tokenizer

from pipeline.core.params import params
from pipeline.core.scripts import words

COLUMNS = ("rouge_precision", "rouge_recall", "rouge_fmeasure")
"""In [0, 1] each; higher is better."""


@params
class Params:
    """`n`: order of the n-grams; the paper's code takes 2."""

    n: Annotated[int, Field(ge=1, le=9)]


class SpaceTokenizer(Tokenizer):  # type: ignore[misc]
    """Splits at white space, or into characters if the script has none, and changes nothing else."""

    def tokenize(self, text: str) -> list[str]:
        """Tokens of `text`."""
        return words(text)[0]


def models(params: Params) -> tuple[Path, ...]:
    """None."""
    return ()


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Precision, recall and F of each pair, (rows, 3) float32 in [0, 1]."""
    return rouge(pairs.column("reference").to_pylist(), pairs.column("candidate").to_pylist(), params)


def rouge(references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """ROUGE-N of each candidate against its reference, (n, 3) float32 in [0, 1], higher is better.

    Columns: precision, recall, F. If a side has fewer than N tokens, and so no n-gram, all three are 0.
    For "a b c d" and "a b c" with N = 2: bigrams ab, bc, cd and ab, bc; precision 2/2, recall 2/3, F 0.8.
    """
    name = f"rouge{params.n}"
    scorer = RougeScorer([name], tokenizer=SpaceTokenizer())
    rows = [scorer.score(z, c)[name] for z, c in zip(references, candidates, strict=True)]
    return numpy.array(rows, numpy.float32).reshape(-1, 3)
