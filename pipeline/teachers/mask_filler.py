"""A masked language model that fills masks from left to right by beam search (section 4.1, A.1).

Every step fills one mask of each hypothesis, given all that the hypothesis has filled before, and keeps the
`beam_width` most probable ones (the paper: 8). The paper leaves one thing open. Here special and unused pieces are
never filled in, and the other pieces share a step's whole probability.

The model is a BERT with its WordPiece tokenizer, uncased or cased. Its last layer and the language model's head compute
only the position that a step fills: there the layer's query, output and feed-forward part see one token a hypothesis,
which saves about a seventh of a model of six layers. Texts with equal pieces and masks are searched once. The head over
all pieces takes 1% of the time, so it needs no shorter list; hypotheses of one text are never equal.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForMaskedLM

from pipeline.core import runtime
from pipeline.core.batches import pad, token_batches
from pipeline.core.errors import ModelError
from pipeline.core.kernels import CPU_TOKENS, packed
from pipeline.core.models import load, load_config, load_tokenizer, locate


@dataclass(frozen=True)
class Piece:
    """A word piece, and the characters `start` to `end` (exclusive) of the text that it stands for."""

    piece: str
    start: int
    end: int


@dataclass(frozen=True)
class Tokenized:
    """A text as the model reads it."""

    ids: list[int]
    """Of all pieces, with the special tokens at both ends."""
    pieces: list[Piece]
    """Without special tokens: `pieces[i]` has the id `ids[i + 1]`."""
    words: list[list[int]]
    """For each word the indices of its pieces in `pieces`."""


@dataclass(frozen=True)
class Masked:
    """A text's ids with the mask's id at `positions`, which are ascending."""

    ids: list[int]
    positions: list[int]


class MaskFiller:
    """A masked language model in evaluation mode on the runtime's device, and its tokenizer.

    `positions`: tokens that a text may have, special tokens included. `lower_cases`: whether the tokenizer turns
    capitals into small letters, so that pieces say nothing about casing.

    `precision`: "float32", or "bf16" for the linear layers below the head: quicker on a CPU with AVX512-BF16, but near
    ties between hypotheses may turn. The head is in float32 either way, and so are sums and normalisations.
    """

    def __init__(self, name: str, precision: str = "float32") -> None:
        folder = locate(name)
        config = load_config(folder)
        if config.model_type != "bert":
            raise ModelError(f"{name}: is a {config.model_type} model; the mask filler needs a BERT model.")
        self.device = runtime.device()
        self.pass_tokens = CPU_TOKENS if self.device == "cpu" else None  # of a forward pass; None: a step's hypotheses
        self.tokenizer = load_tokenizer(folder)
        model = load(AutoModelForMaskedLM, folder, attn_implementation="sdpa").to(self.device)
        self.head = packed(model.cls)
        self.encoder = packed(model.bert, precision)
        *lower, self.last = self.encoder.encoder.layer
        self.encoder.encoder.layer = torch.nn.ModuleList(lower)
        self.lower_cases = _lower_cases(self.tokenizer)
        self.positions: int = config.max_position_embeddings
        banned = torch.ones(config.vocab_size, dtype=torch.bool)
        for piece, index in self.tokenizer.get_vocab().items():
            banned[index] = index in self.tokenizer.all_special_ids or piece.startswith("[unused")
        self.banned = banned.to(self.device)
        self.allowed = int((~banned).sum())

    def read(self, texts: Sequence[str]) -> list[Tokenized]:
        """Tokenize each text whole, even one that is too long for the model."""
        if not texts:
            return []
        batch = self.tokenizer(list(texts), return_offsets_mapping=True, truncation=False, verbose=False)
        return [_tokenized(encoding) for encoding in batch.encodings]

    def mask(self, text: Tokenized, words: Sequence[int]) -> Masked:
        """Put a mask in place of every piece of `words`, which are indices in `text.words`."""
        positions = [1 + piece for word in words for piece in text.words[word]]
        ids = list(text.ids)
        for position in positions:
            ids[position] = self.tokenizer.mask_token_id
        return Masked(ids, positions)

    @torch.inference_mode()
    def fill(self, texts: Sequence[Masked], beam_width: int, batch_tokens: int) -> list[list[list[int]]]:
        """The hypotheses of each text, the most probable first; a hypothesis has one id for each mask, in order.

        `batch_tokens` limits the pieces in one forward pass, over all hypotheses. It changes speed, not results.
        """
        keys = [(tuple(text.ids), tuple(text.positions)) for text in texts]
        distinct = [Masked(list(ids), list(positions)) for ids, positions in dict.fromkeys(keys)]
        found: list[list[list[int]]] = [[] for _ in distinct]
        for batch in token_batches([len(text.ids) * beam_width for text in distinct], batch_tokens):
            batch.sort(key=lambda i: -len(distinct[i].positions))
            for index, hypotheses in zip(batch, self._search([distinct[i] for i in batch], beam_width), strict=True):
                found[index] = hypotheses
        of_text = dict(zip(dict.fromkeys(keys), found, strict=True))
        return [of_text[key] for key in keys]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The word pieces that `ids` stand for."""
        found: list[str] = self.tokenizer.convert_ids_to_tokens(list(ids))
        return found

    def _search(self, batch: list[Masked], beam_width: int) -> list[list[list[int]]]:
        """Beam search over `batch`, whose texts are sorted by masks, most first: the first `active` have one left."""
        ids = pad([text.ids for text in batch], self.tokenizer.pad_token_id)[:, None].to(self.device)  # (S, 1, T)
        attention = pad([[1] * len(text.ids) for text in batch], 0).to(self.device)  # (S, T)
        positions = pad([text.positions for text in batch], 0).to(self.device)  # (S, masks)
        scores = torch.zeros(len(batch), 1, device=self.device)
        finished: list[list[list[int]]] = []
        for step in range(positions.shape[1]):
            active = sum(len(text.positions) > step for text in batch)
            finished = _filled(ids, batch, active) + finished
            ids, attention, positions = ids[:active], attention[:active], positions[:active]
            logs = self._log_probabilities(ids, attention, positions[:, step]) + scores[:active, :, None]  # (S, B, V)
            width = min(beam_width, ids.shape[1] * self.allowed)
            scores, best = logs.flatten(1).topk(width)  # (S, width)
            parent, token = best // logs.shape[2], best % logs.shape[2]
            ids = ids.gather(1, parent[:, :, None].expand(-1, -1, ids.shape[2]))
            ids.scatter_(2, positions[:, step, None, None].expand(-1, width, 1), token[:, :, None])
        return _filled(ids, batch, 0) + finished

    def _log_probabilities(self, ids: torch.Tensor, attention: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """(S, B, V): of every piece at `position` (S,) of each text."""
        count, beam, width = ids.shape
        rows, real, places = (
            ids.reshape(-1, width),
            attention.repeat_interleave(beam, 0),
            position.repeat_interleave(beam),
        )
        size = max(1, CPU_TOKENS // width) if self.device == "cpu" else len(rows)
        parts = zip(*(torch.split(one, size) for one in (rows, real, places)), strict=True)
        logits = self.head(torch.cat([self._states(*part) for part in parts]))
        logs: torch.Tensor = logits.masked_fill(self.banned, -torch.inf).log_softmax(-1)
        return logs.view(count, beam, -1)

    def _states(self, ids: torch.Tensor, attention: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """(N, D): the last layer's state at `position` (N,) of each row of `ids` (N, T), and of no other token."""
        below = self.encoder(input_ids=ids, attention_mask=attention).last_hidden_state  # N, T, D
        own = self.last.attention.self
        here = below[torch.arange(len(ids), device=ids.device), position][:, None]  # N, 1, D
        query, key, value = (
            layer(states).unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2)  # N, heads, 1 or T, D / heads
            for layer, states in ((own.query, here), (own.key, below), (own.value, below))
        )
        read = attention[:, None, None].bool()
        context = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=read)
        attended = self.last.attention.output(context.transpose(1, 2).flatten(2), here)
        found: torch.Tensor = self.last.output(self.last.intermediate(attended), attended)[:, 0]
        return found


def _filled(ids: torch.Tensor, batch: list[Masked], active: int) -> list[list[list[int]]]:
    """The ids at the masks of the texts after the first `active`: these texts have no mask left."""
    rows = ids[active:].tolist()
    return [[[row[p] for p in batch[i].positions] for row in beam] for i, beam in enumerate(rows, active)]


def _lower_cases(tokenizer: Any) -> bool:
    normalizer = tokenizer.backend_tokenizer.normalizer
    return normalizer is not None and normalizer.normalize_str("A") == "a"


def _tokenized(encoding: Any) -> Tokenized:
    pieces: list[Piece] = []
    words: dict[int, list[int]] = {}
    columns = zip(encoding.word_ids, encoding.tokens, encoding.offsets, strict=True)  # each access copies the list
    for word, piece, (start, end) in columns:
        if word is not None:
            words.setdefault(word, []).append(len(pieces))
            pieces.append(Piece(piece, start, end))
    return Tokenized(list(encoding.ids), pieces, list(words.values()))


@functools.lru_cache(maxsize=2)
def load_filler(name: str, precision: str = "float32") -> MaskFiller:
    """The mask filler of the model `name` (see `pipeline.core.models`); a process loads it once."""
    return MaskFiller(name, precision)
