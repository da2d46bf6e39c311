"""Which words cost a score: integrated gradients on the input embeddings (Sundararajan, Taly, Yan 2017).

The score is followed along a straight line of embeddings. The line starts at a baseline, the same pair with [MASK] (or
[PAD]) for every word piece, and ends at the pair itself. A piece's attribution is the step of its embedding from start
to end, times the mean gradient of the score along the line. Special tokens, positions and segment types stay the same,
so only words carry attribution. The pieces of a word are summed.

Completeness: all attributions sum to score of the pair - score of the baseline. The mean gradient is a Gauss-Legendre
sum, refined until completeness holds to `TOLERANCE`; the rest is reported as the gap.

An attribution is in the score's unit. A negative one says that the word cost score, compared with a pair in which no
word is known. This is a statement about the model, not about the sentence, and words share the credit for what they
say together.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pipeline.core.errors import ParamsError
from pipeline.metric.pairs import kept_tokens

TOLERANCE = 0.005
"""Largest gap, in units of the score, at which refining stops."""

MIN_STEPS, MAX_STEPS = 32, 256
"""Number of points on the line: it doubles from the first to the second until the gap is small."""

BATCH_TOKENS = 2048
"""Tokens of a batch of points. Speed and memory only."""


class Baseline(enum.StrEnum):
    """What replaces every word piece at the start of the line."""

    MASK = "mask"
    PAD = "pad"


@dataclass(frozen=True)
class Word:
    """`text[start:end]` of its sentence, and its attribution in units of the score."""

    start: int
    end: int
    value: float


@dataclass(frozen=True)
class Attribution:
    """The words of both sentences, without those that were cut off; their values sum to `score - baseline - gap`."""

    score: float
    baseline: float
    gap: float
    steps: int
    reference: tuple[Word, ...]
    candidate: tuple[Word, ...]


def method(baseline: Baseline) -> str:
    """The method in words, for the reader."""
    return f"integrated gradients on the input embeddings, from the pair with [{baseline.value.upper()}] for every word"


def attribute(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    reference: str,
    candidate: str,
    max_tokens: int,
    baseline: Baseline = Baseline.MASK,
    output: int = 0,
) -> Attribution:
    """Attribute output number `output` of `model`, in single precision, to the words of one pair.

    The pair is cut to `max_tokens` as in scoring. A tokenizer without the token of `baseline` is a ParamsError.
    """
    filler = tokenizer.mask_token_id if baseline is Baseline.MASK else tokenizer.pad_token_id
    if filler is None:
        raise ParamsError(f"the tokenizer has no {baseline.value} token, so it cannot be the baseline.")
    # as lists: alone, an empty candidate would lose its [SEP]
    encoded = tokenizer([reference], [candidate], truncation=False, verbose=False, return_offsets_mapping=True)
    sides = encoded.sequence_ids(0)
    kept = kept_tokens(sides, max_tokens, tokenizer) if len(sides) > max_tokens else list(range(len(sides)))
    words = numpy.array([sides[place] is not None for place in kept])
    device = next(model.parameters()).device
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in encoded]
    inputs = {name: torch.tensor([[encoded[name][0][place] for place in kept]], device=device) for name in names}
    embeddings = model.get_input_embeddings()
    with torch.no_grad():
        end = embeddings(inputs["input_ids"])
        blank = inputs["input_ids"].masked_fill(torch.from_numpy(words).to(device), filler)
        start = embeddings(blank)
    line = _Line(model, inputs, start, end, output)
    base, score = line.scores(torch.tensor([0.0, 1.0], device=device)).tolist()
    values, steps = _refined(line, score - base)
    pieces = values.sum(-1)[0].double().cpu().numpy()
    gap = score - base - float(pieces.sum())
    reference_words, candidate_words = (_words(encoded, side, kept, pieces) for side in (0, 1))
    return Attribution(score, base, gap, steps, reference_words, candidate_words)


@dataclass(frozen=True)
class _Line:
    """The line from `start` to `end`, embeddings (1, T, D), with the other inputs of the pair."""

    model: PreTrainedModel
    inputs: Mapping[str, torch.Tensor]
    start: torch.Tensor
    end: torch.Tensor
    output: int

    def scores(self, places: torch.Tensor) -> torch.Tensor:
        """Scores at `places` (B,) between 0 and 1, without gradients: (B,)."""
        with torch.no_grad():
            return self._at(self._points(places))

    def gradient(self, places: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Gradients of the score at `places` (B,), summed with `weights` (B,): (1, T, D)."""
        with torch.enable_grad():
            points = self._points(places).requires_grad_()
            (found,) = torch.autograd.grad(self._at(points).sum(), points)
        return (found * weights[:, None, None]).sum(0, keepdim=True)

    def _points(self, places: torch.Tensor) -> torch.Tensor:
        return self.start + places[:, None, None] * (self.end - self.start)

    def _at(self, points: torch.Tensor) -> torch.Tensor:
        inputs = {name: tensor.expand(len(points), -1) for name, tensor in self.inputs.items()}
        with _embedding(self.model, points):
            scores: torch.Tensor = self.model(**inputs).logits[:, self.output]
        return scores.float()


@contextmanager
def _embedding(model: PreTrainedModel, points: torch.Tensor) -> Iterator[None]:
    """Inside, the model's word embeddings give `points` (B, T, D), whatever ids it is given."""

    def replace(module: torch.nn.Module, inputs: Any, found: torch.Tensor) -> torch.Tensor:
        return points

    handle = model.get_input_embeddings().register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def _refined(line: _Line, whole: float) -> tuple[torch.Tensor, int]:
    """Attributions (1, T, D) that sum to `whole` within TOLERANCE, or those of MAX_STEPS points; and how many."""
    steps = MIN_STEPS
    while True:
        values = _integral(line, steps)
        if abs(whole - float(values.double().sum())) <= TOLERANCE or steps >= MAX_STEPS:
            return values, steps
        steps *= 2


def _integral(line: _Line, steps: int) -> torch.Tensor:
    """Attributions (1, T, D) from gradients at `steps` points."""
    nodes, weights = numpy.polynomial.legendre.leggauss(steps)
    device, total = line.end.device, torch.zeros_like(line.end)
    size = max(1, BATCH_TOKENS // line.end.shape[1])
    for first in range(0, steps, size):
        places = torch.tensor((nodes[first : first + size] + 1) / 2, dtype=torch.float32, device=device)
        share = torch.tensor(weights[first : first + size] / 2, dtype=torch.float32, device=device)
        total += line.gradient(places, share)
    return total * (line.end - line.start)


def _words(encoded: Any, side: int, kept: Sequence[int], pieces: numpy.ndarray) -> tuple[Word, ...]:
    """The words of sentence `side` (0: reference, 1: candidate), each with the sum of its pieces.

    `kept` are the places of the tokens that the model read, `pieces` their attributions.
    """
    spans: dict[int, tuple[int, int, float]] = {}
    owners, words = encoded.sequence_ids(0), encoded.word_ids(0)
    for place, piece in zip(kept, pieces, strict=True):
        if owners[place] != side:
            continue
        left, right = encoded["offset_mapping"][0][place]
        start, end, value = spans.get(words[place], (left, right, 0.0))
        spans[words[place]] = (min(start, left), max(end, right), value + float(piece))
    return tuple(Word(*span) for span in spans.values())
