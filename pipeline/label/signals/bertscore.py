"""BERTScore precision, recall and F1 (section 4.2, A.3; Zhang et al. 2020), as the package bert-score defines it.

Each token is matched with the most similar token of the other side, by the cosine of their vectors in one layer of an
encoder; precision averages over the candidate's tokens, recall over the reference's. [CLS] and [SEP] may be matched but
carry no weight. The paper used an own implementation over BERT-large; the model and the layer are parameters here.

Ours instead of the package's for speed: each unique string is encoded once, both passes run in batches of similar
length, rows of one reference together, and vectors are dropped after their last use. Values agree with the package
within 1e-4, except where it is undefined or depends on its padding: tokens of which none carries weight give 0 (there:
NaN), and a best cosine below 0 stays below 0 (there: raised to 0 if its batch was padded). Byte-level encoders
(RoBERTa, GPT-2) get no space in front of the text here, where the package asks for one.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import torch
from torch.nn.utils.rnn import pad_sequence

from pipeline.core.batches import token_batches
from pipeline.core.errors import ParamsError
from pipeline.core.models import locate
from pipeline.core.runtime import device
from pipeline.teachers.encoder import Encoded, Transformer, load_encoder

BLOCK_PAIRS = 4096
"""Pairs whose vectors are in memory together: about 0.3 GB at 30 tokens and 384 dimensions."""


@dataclass(frozen=True)
class Matrix:
    """A text: unit vectors of its tokens (T, D), their weights (T,), and whether it holds no token but special ones."""

    vectors: torch.Tensor
    weights: torch.Tensor
    empty: bool


Match = Callable[[Sequence[Matrix], Sequence[Matrix]], torch.Tensor]
"""Texts of n references and of n candidates -> values (n, columns)."""


@dataclass(frozen=True)
class Params:
    """Which encoder, which of its layers, which weights.

    `idf`: weigh tokens by inverse document frequency over the references that are scored together, counted as often as
    they stand there (label: those of the shard); else all alike. `baseline`: precision, recall and F1 of unrelated
    pairs, mapped to 0 while 1 stays 1 ("rescaling"); null for none. `batch_tokens`: size of a padded batch, for speed.
    """

    model: str
    layer: int
    idf: bool
    baseline: tuple[float, ...] | None
    batch_tokens: int

    def __post_init__(self) -> None:
        if self.baseline is not None and (len(self.baseline) != 3 or max(self.baseline) >= 1):
            raise ParamsError(f"label.bertscore.baseline: must be three numbers below 1, not {list(self.baseline)}.")
        if self.batch_tokens < 1:
            raise ParamsError(f"label.bertscore.batch_tokens: must be at least 1, not {self.batch_tokens}.")


def models(params: Params) -> tuple[Path, ...]:
    """The encoder's folder."""
    return (locate(params.model),)


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Precision, recall and F1 of each pair, (rows, 3) float32."""
    return bertscore(pairs.column("reference").to_pylist(), pairs.column("candidate").to_pylist(), params)


def bertscore(references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """BERTScore of each candidate against its reference, (n, 3) float32: precision, recall, F1; at most 1.

    Higher is better; equal texts have 1, and a pair with an empty side 0 (before rescaling, as in the package). Raises
    ModelError where the encoder cannot be used.
    """

    def match(zs: Sequence[Matrix], cs: Sequence[Matrix]) -> torch.Tensor:
        return greedy_match(zs, cs, params.batch_tokens)

    values = compared(references, candidates, params, match, columns=3)
    if params.baseline is not None:
        baseline = torch.tensor(params.baseline)
        values = (values - baseline) / (1 - baseline)
    return numpy.asarray(values, dtype=numpy.float32)


def compared(
    references: Sequence[str], candidates: Sequence[str], params: Params, match: Match, columns: int
) -> torch.Tensor:
    """What `match` makes of the encoded pairs, (n, columns) on the CPU; each distinct text is encoded once."""
    assert len(references) == len(candidates), (len(references), len(candidates))
    values = torch.zeros(len(references), columns)
    if len(references):
        encoder = load_encoder(locate(params.model), params.layer, device())
        texts = {text: i for i, text in enumerate(dict.fromkeys(text.strip() for text in (*references, *candidates)))}
        left, right = [texts[text.strip()] for text in references], [texts[text.strip()] for text in candidates]
        encoded = encoder.tokenize(list(texts))
        weight = token_weights(encoder, [encoded["input_ids"][z] for z in left] if params.idf else None)
        pairs = list(zip(left, right, strict=True))
        for rows, matrices in _blocks(encoder, encoded, weight, pairs, params.batch_tokens):
            values[rows] = match([matrices[left[row]] for row in rows], [matrices[right[row]] for row in rows])
    return values


def token_weights(encoder: Transformer, corpus: Sequence[Sequence[int]] | None) -> torch.Tensor:
    """Weight of every token of the vocabulary, (V,): 1, or its IDF over the token rows `corpus`; 0 for [CLS] and [SEP].

    IDF is log((N + 1) / (d + 1)) for a token that d of the N rows hold, log(N + 1) for one that none holds.
    """
    size = len(encoder.tokenizer)
    if corpus is None:
        weight = torch.ones(size)
        weight[[encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id]] = 0
        return weight
    weight = torch.full((size,), math.log(len(corpus) + 1))
    for token, count in Counter(token for row in corpus for token in set(row)).items():
        weight[token] = math.log((len(corpus) + 1) / (count + 1))
    return weight


def _blocks(
    encoder: Transformer, encoded: Encoded, weight: torch.Tensor, pairs: Sequence[tuple[int, int]], batch_tokens: int
) -> Iterator[tuple[list[int], dict[int, Matrix]]]:
    """Blocks of row numbers with the matrices of their texts, each made once and dropped after its last use.

    Rows of one reference stand together, since those of a shard of pairs are spread over the whole shard.
    """
    order = sorted(range(len(pairs)), key=lambda row: pairs[row][0])
    blocks = [sorted(order[start : start + BLOCK_PAIRS]) for start in range(0, len(pairs), BLOCK_PAIRS)]
    last_block = {text: block for block, rows in enumerate(blocks) for row in rows for text in pairs[row]}
    matrices: dict[int, Matrix] = {}
    for block, rows in enumerate(blocks):
        new = sorted({text for row in rows for text in pairs[row]} - matrices.keys())
        matrices |= _embed(encoder, encoded, weight, new, batch_tokens)
        yield rows, matrices
        for text in [text for text in matrices if last_block[text] == block]:
            del matrices[text]


@torch.inference_mode()
def _embed(
    encoder: Transformer, encoded: Encoded, weight: torch.Tensor, texts: Sequence[int], batch_tokens: int
) -> dict[int, Matrix]:
    specials = encoder.tokenizer.num_special_tokens_to_add()
    weight = weight.to(encoder.device)
    found = {}
    for chosen, inputs in encoder.batches(encoded, texts, batch_tokens):
        states = torch.nn.functional.normalize(encoder.model(**inputs).last_hidden_state, dim=-1)
        weights = weight[inputs["input_ids"]]
        for i, text in enumerate(chosen):
            size = len(encoded["input_ids"][text])
            vectors, own = states[i, :size].clone(), weights[i, :size].clone()  # a view would hold its whole batch
            found[text] = Matrix(vectors, own, empty=size <= specials)
    return found


@torch.inference_mode()
def greedy_match(references: Sequence[Matrix], candidates: Sequence[Matrix], batch_tokens: int) -> torch.Tensor:
    """Precision, recall and F1 of each pair of texts, (n, 3), on the CPU.

    One reference token (1, 0) and candidate tokens (1, 0), (0, 1) of equal weight: precision 1/2, recall 1, F1 2/3.
    """
    values = torch.zeros(len(references), 3)
    lengths = [max(len(z.weights), len(c.weights)) for z, c in zip(references, candidates, strict=True)]
    for rows in token_batches(lengths, batch_tokens):
        z, c = _padded([references[row] for row in rows]), _padded([candidates[row] for row in rows])
        cosine = torch.bmm(c.vectors, z.vectors.transpose(1, 2))  # B, candidate tokens, reference tokens
        cosine.masked_fill_(~(c.real[:, :, None] & z.real[:, None, :]), -1.0)
        precision, recall = _mean(cosine.amax(2), c.weights), _mean(cosine.amax(1), z.weights)
        void = c.empty | z.empty
        precision, recall = precision.masked_fill(void, 0.0), recall.masked_fill(void, 0.0)
        total = precision + recall  # of opposite signs, their harmonic mean has no bounds
        f1 = torch.where((precision > 0) & (recall > 0), 2 * precision * recall / total, 0.0)
        values[rows] = torch.stack([precision, recall, f1], dim=1).cpu()
    return values


@dataclass(frozen=True)
class _Padded:
    vectors: torch.Tensor  # B, T, D
    weights: torch.Tensor  # B, T; 0 where padded
    real: torch.Tensor  # B, T; False where padded
    empty: torch.Tensor  # B


def _padded(texts: Sequence[Matrix]) -> _Padded:
    vectors = pad_sequence([text.vectors for text in texts], batch_first=True)
    weights = pad_sequence([text.weights for text in texts], batch_first=True)
    lengths = torch.tensor([len(text.weights) for text in texts], device=weights.device)
    real = torch.arange(weights.shape[1], device=weights.device) < lengths[:, None]
    return _Padded(vectors, weights, real, torch.tensor([text.empty for text in texts], device=weights.device))


def _mean(best: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted mean over tokens, (B,); 0 where all weights are 0."""
    total = weights.sum(1)
    return torch.where(total > 0, (best * weights).sum(1) / total, 0.0)
