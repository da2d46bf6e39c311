"""How the words of two texts match: BERTScore (Zhang et al. 2020), as the package bert-score defines it.

Each token is matched with the most similar token of the other side, by the cosine of their vectors in one layer of an
encoder. Precision averages over the candidate's tokens, recall over the reference's. [CLS] and [SEP] may be matched but
carry no weight. `compared` serves every other metric that reads the same vectors (MoverScore).

The package supplies two tables: the layer of each model that agrees best with people, and the values of unrelated pairs
("baselines") to rescale by. The matching is ours, for speed: each distinct text is encoded once, both passes run in
batches of similar length, rows of one reference stand together, and vectors are dropped after their last use. Values
agree with the package within 1e-4, with three exceptions. Tokens that all weigh nothing give 0 (there: NaN). A best
cosine below 0 stays below 0 (there: it becomes 0 if its batch was padded). Byte-level encoders (RoBERTa, GPT-2) get no
space in front of the text (there: one).
"""

import csv
import importlib.util
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch

from pipeline.core.batches import pad, token_batches
from pipeline.core.errors import ModelError
from pipeline.core.models import load_config, locate
from pipeline.core.runtime import device
from pipeline.teachers.encoder import Encoded, Transformer, load_encoder

BLOCK_PAIRS = 4096
"""Pairs whose vectors are in memory together: about 0.3 GB at 30 tokens and 384 dimensions."""


@dataclass(frozen=True)
class Matching:
    """Whose vectors are matched and what each token weighs.

    `encoder` is a model's name (see `pipeline.core.models`), and its first `layer` layers are used (0: the embeddings).
    With `idf` a token weighs its inverse document frequency over the references that are scored together, each counted
    as often as it is scored; else all tokens weigh the same. `batch_tokens`: size of a padded batch, for speed only.
    """

    encoder: str
    layer: int
    idf: bool
    batch_tokens: int


@dataclass(frozen=True)
class Matrix:
    """A text: unit vectors of its tokens (T, D), their weights (T,); `empty` if it has only special tokens."""

    vectors: torch.Tensor
    weights: torch.Tensor
    empty: bool


Match = Callable[[Sequence[Matrix], Sequence[Matrix]], torch.Tensor]
"""n references and n candidates -> values (n, columns)."""


def bertscore(references: Sequence[str], candidates: Sequence[str], settings: Matching) -> numpy.ndarray:
    """BERTScore of each candidate against its reference, (n, 3) float32: precision, recall, F1; at most 1.

    Higher is better. Equal texts have 1, a pair with an empty side has 0. Raises ModelError if the encoder cannot be
    used.
    """

    def match(zs: Sequence[Matrix], cs: Sequence[Matrix]) -> torch.Tensor:
        return greedy_match(zs, cs, settings.batch_tokens)

    return numpy.asarray(compared(references, candidates, settings, match, columns=3), dtype=numpy.float32)


def compared(
    references: Sequence[str], candidates: Sequence[str], settings: Matching, match: Match, columns: int
) -> torch.Tensor:
    """The values of `match` for each reference and its candidate, (n, columns) on the CPU."""
    assert len(references) == len(candidates), (len(references), len(candidates))
    values = torch.zeros(len(references), columns)
    if len(references):
        encoder = load_encoder(locate(settings.encoder), settings.layer, device())
        texts = {text: i for i, text in enumerate(dict.fromkeys(text.strip() for text in (*references, *candidates)))}
        left, right = [texts[text.strip()] for text in references], [texts[text.strip()] for text in candidates]
        encoded = encoder.tokenize(list(texts))
        weight = token_weights(encoder, [encoded["input_ids"][z] for z in left] if settings.idf else None)
        pairs = list(zip(left, right, strict=True))
        for rows, matrices in _blocks(encoder, encoded, weight, pairs, settings.batch_tokens):
            values[rows] = match([matrices[left[row]] for row in rows], [matrices[right[row]] for row in rows])
    return values


def token_weights(encoder: Transformer, corpus: Sequence[Sequence[int]] | None) -> torch.Tensor:
    """Weight of every token of the vocabulary, (V,): its IDF over the token rows `corpus`, or 1 if there is no corpus.

    [CLS] and [SEP] weigh 0. IDF is log((N + 1) / (d + 1)) for a token that occurs in d of the N rows.
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

    Rows are ordered by reference: in a shard of pairs those of one reference are far apart.
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
    weights: torch.Tensor  # B, T; 0 at padding
    real: torch.Tensor  # B, T; False at padding
    empty: torch.Tensor  # B


def _padded(texts: Sequence[Matrix]) -> _Padded:
    vectors = pad([text.vectors for text in texts], 0.0)
    weights = pad([text.weights for text in texts], 0.0)
    lengths = torch.tensor([len(text.weights) for text in texts], device=weights.device)
    real = torch.arange(weights.shape[1], device=weights.device) < lengths[:, None]
    return _Padded(vectors, weights, real, torch.tensor([text.empty for text in texts], device=weights.device))


def _mean(best: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted mean over tokens, (B,); 0 if all weights are 0."""
    total = weights.sum(1)
    return torch.where(total > 0, (best * weights).sum(1) / total, 0.0)


def tuned_layer(encoder: str) -> int:
    """The layer that bert-score uses for the model `encoder`: the best on WMT16's ratings; else the model's last layer.

    The package's table has names such as "bert-base-uncased" and "microsoft/mpnet-base". The first of these that it
    holds counts: the name in params.yaml without its revision, `_name_or_path` of the model's config.json, the name of
    the model's folder; each first whole and then without its owner ("google-bert/bert-base-uncased"). If the table's
    layer is above the model's last, the last is used.
    """
    from bert_score.utils import model2layers  # imports matplotlib and pandas, which takes a second

    folder = locate(encoder)
    last = int(load_config(folder).num_hidden_layers)
    known = [model2layers[name] for name in _known_as(encoder, folder) if name in model2layers]
    return min(known[0], last) if known else last


def package_baseline(encoder: str, layer: int, language: str) -> tuple[float, float, float]:
    """Mean precision, recall and F1 of unrelated texts in `language` by bert-score's tables, for one layer of a model.

    The model's name is found as for `tuned_layer`. A ModelError if the package has no such table, or no such layer.
    """
    spec = importlib.util.find_spec("bert_score")
    assert spec is not None and spec.submodule_search_locations, "bert-score is a dependency"
    tables = Path(spec.submodule_search_locations[0], "rescale_baseline", language)
    files = {str(file.relative_to(tables)).removesuffix(".tsv"): file for file in tables.rglob("*.tsv")}
    known = [files[name] for name in _known_as(encoder, locate(encoder)) if name in files]
    if not known:
        raise ModelError(f"{encoder}: bert-score has no baseline of this model for the language {language!r}.")
    with known[0].open(encoding="utf-8", newline="") as lines:
        rows = {int(row["LAYER"]): row for row in csv.DictReader(lines)}
    if layer not in rows:
        raise ModelError(f"{encoder}: bert-score's baseline has layers 0 to {max(rows)}, so none for layer {layer}.")
    return float(rows[layer]["P"]), float(rows[layer]["R"]), float(rows[layer]["F"])


def _known_as(encoder: str, folder: Path) -> list[str]:
    load_config(folder)  # says what is wrong with a broken folder
    stated = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("_name_or_path")
    names = [encoder.partition("@")[0], str(stated or ""), folder.resolve().name]
    return [form for name in names for form in (name, name.rpartition("/")[2])]
