"""Mask-filling (section 4.1, A.1): words of a segment are masked, and a masked language model fills them in again.

Two styles of masking, both by whole words and with one mask for each word piece, at most `max_masks` a segment:
random words, their number uniform; or one contiguous span, its length and then its start uniform. The masks are filled
from left to right by beam search: every step fills one mask of each hypothesis, given all that it has filled before.

Where the paper is silent or we deviate:
- of the beam we take the best hypothesis that changes the text, since a candidate equal to its reference teaches
  nothing (only where there is none, as with a beam of one, is the attempt dropped as unchanged);
- `max_mask_share` can limit the masked share of short sentences (1 is the paper's: no limit);
- special and unused pieces are never filled in;
- words that are not masked keep their spelling (see `pipeline.perturb.splice`).
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from transformers import AutoModelForMaskedLM

from pipeline.core import runtime
from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import load, load_config, load_tokenizer, locate
from pipeline.core.records import Reason
from pipeline.perturb.attempts import Attempt, MaskStyle, Technique, chosen, hold_within
from pipeline.perturb.splice import Piece, splice, usual_spelling


@dataclass(frozen=True)
class MaskFillParams:
    """What is masked, by which model it is filled, and how wide the search is."""

    model: str
    share: float
    """Fraction of the segments, 0 to 1."""
    copies: int
    """Attempts for each drawn segment."""
    styles: tuple[MaskStyle, ...]
    """One of these is drawn for each attempt."""
    max_masks: int
    """Most masks in a segment; the paper's is 15."""
    max_mask_share: float
    """Most words masked, as a share of the segment's words, but one is always allowed."""
    beam_width: int
    """The paper's is 8."""
    batch_tokens: int
    """Word pieces in one forward pass, over all hypotheses; changes speed, not results."""

    def __post_init__(self) -> None:
        hold_within("perturb.mask_fill.share", self.share, 0, 1)
        hold_within("perturb.mask_fill.max_mask_share", self.max_mask_share, 0, 1)
        for key in ("copies", "max_masks", "beam_width", "batch_tokens"):
            hold_within(f"perturb.mask_fill.{key}", getattr(self, key), 1)
        if not self.styles:
            raise ParamsError("perturb.mask_fill.styles: must name at least one of random, span.")


@dataclass(frozen=True)
class Masked:
    """Input ids, framed by special tokens, with mask ids at `positions` (ascending)."""

    ids: list[int]
    positions: list[int]


@dataclass(frozen=True)
class Sentence:
    """A tokenized text: `ids` with special tokens; `pieces` and `words` (indices of pieces, word by word) without."""

    ids: list[int]
    pieces: list[Piece]
    words: list[list[int]]


def draw_words(
    style: MaskStyle, sizes: Sequence[int], max_masks: int, max_mask_share: float, rng: numpy.random.Generator
) -> list[int]:
    """Indices, ascending, of the words to mask; `sizes` are the words' numbers of pieces.

    The number of words is uniform from 1 to `max_masks` or the allowed share of the words. A word that would make more
    than `max_masks` pieces is left out of a random draw, and ends a span; so nothing is drawn where none fits.
    """
    if not sizes:
        return []
    limit = max(1, min(max_masks, int(max_mask_share * len(sizes))))
    count = int(rng.integers(1, limit + 1))
    if style is MaskStyle.SPAN:
        start = int(rng.integers(0, len(sizes) - count + 1))
        total = numpy.cumsum(sizes[start : start + count])
        return list(range(start, start + int((total <= max_masks).sum())))
    drawn: list[int] = []
    room = max_masks
    for word in rng.permutation(len(sizes)).tolist():
        if sizes[word] <= room and len(drawn) < count:
            drawn.append(word)
            room -= sizes[word]
    return sorted(drawn)


class MaskFiller:
    """A BERT masked language model with its uncased or cased WordPiece tokenizer."""

    def __init__(self, name: str) -> None:
        folder = locate(name)
        config = load_config(folder)
        if config.model_type != "bert":
            raise ModelError(f"{name}: is a {config.model_type} model; the mask filler needs a BERT model.")
        self.device = runtime.device()
        self.tokenizer = load_tokenizer(folder)
        self.model = load(AutoModelForMaskedLM, folder, attn_implementation="sdpa").to(self.device)
        self.lower_cases = _lower_cases(self.tokenizer)
        self.positions: int = config.max_position_embeddings
        banned = torch.ones(config.vocab_size, dtype=torch.bool)
        for piece, index in self.tokenizer.get_vocab().items():
            banned[index] = index in self.tokenizer.all_special_ids or piece.startswith("[unused")
        self.banned = banned.to(self.device)
        self.allowed = int((~banned).sum())

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Tokenize, with the characters that every piece stands for."""
        if not texts:
            return []
        batch = self.tokenizer(list(texts), return_offsets_mapping=True, truncation=False, verbose=False)
        return [_sentence(encoding) for encoding in batch.encodings]

    def mask(self, sentence: Sentence, words: Sequence[int]) -> Masked:
        """Put a mask in place of every piece of `words`."""
        positions = [1 + piece for word in words for piece in sentence.words[word]]
        ids = list(sentence.ids)
        for position in positions:
            ids[position] = self.tokenizer.mask_token_id
        return Masked(ids, positions)

    @torch.inference_mode()
    def fill(self, sentences: Sequence[Masked], beam_width: int, batch_tokens: int) -> list[list[list[int]]]:
        """For each sentence its hypotheses, the most probable first; each has one id for every mask, in order."""
        found: list[list[list[int]]] = [[] for _ in sentences]
        for batch in _batches([len(s.ids) * beam_width for s in sentences], batch_tokens):
            batch.sort(key=lambda i: -len(sentences[i].positions))
            for index, hypotheses in zip(batch, self._search([sentences[i] for i in batch], beam_width), strict=True):
                found[index] = hypotheses
        return found

    def _search(self, batch: list[Masked], beam_width: int) -> list[list[list[int]]]:
        """Beam search over `batch`, which stands by falling number of masks: the first `active` are unfinished."""
        ids, attention, positions = self._tensors(batch)  # (S, 1, T), (S, T), (S, masks)
        scores = torch.zeros(len(batch), 1, device=self.device)
        finished: list[list[list[int]]] = []
        for step in range(positions.shape[1]):
            active = sum(len(s.positions) > step for s in batch)
            finished = self._picked(ids, batch, active) + finished
            ids, attention, positions = ids[:active], attention[:active], positions[:active]
            logs = self._log_probabilities(ids, attention, positions[:, step]) + scores[:active, :, None]  # (S, B, V)
            width = min(beam_width, ids.shape[1] * self.allowed)
            scores, best = logs.flatten(1).topk(width)  # (S, width)
            parent, token = best // logs.shape[2], best % logs.shape[2]
            ids = ids.gather(1, parent[:, :, None].expand(-1, -1, ids.shape[2]))
            ids.scatter_(2, positions[:, step, None, None].expand(-1, width, 1), token[:, :, None])
        return self._picked(ids, batch, 0) + finished

    def _tensors(self, batch: list[Masked]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        ids = _padded([s.ids for s in batch], self.tokenizer.pad_token_id)
        attention = _padded([[1] * len(s.ids) for s in batch], 0)
        positions = _padded([s.positions for s in batch], 0)
        return ids[:, None].to(self.device), attention.to(self.device), positions.to(self.device)

    def _log_probabilities(self, ids: torch.Tensor, attention: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """(S, B, V): of every piece at `position` (S,) of the sentences; the LM head runs there alone."""
        count, beam, width = ids.shape
        hidden = self.model.bert(
            input_ids=ids.reshape(-1, width), attention_mask=attention.repeat_interleave(beam, 0)
        ).last_hidden_state  # (S * B, T, D)
        rows = torch.arange(count * beam, device=self.device)
        logits = self.model.cls(hidden[rows, position.repeat_interleave(beam)])
        logs: torch.Tensor = logits.masked_fill(self.banned, -torch.inf).log_softmax(-1)
        return logs.view(count, beam, -1)

    @staticmethod
    def _picked(ids: torch.Tensor, batch: list[Masked], active: int) -> list[list[list[int]]]:
        """The filled ids of the sentences behind the first `active`, which have no mask left."""
        rows = ids[active:].tolist()
        return [[[row[p] for p in batch[i].positions] for row in beam] for i, beam in enumerate(rows, active)]


def _lower_cases(tokenizer: Any) -> bool:
    """Whether the tokenizer turns capitals into small letters, so that its pieces say nothing of casing."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    return normalizer is not None and normalizer.normalize_str("A") == "a"


def _sentence(encoding: Any) -> Sentence:
    pieces: list[Piece] = []
    words: dict[int, list[int]] = {}
    columns = zip(encoding.word_ids, encoding.tokens, encoding.offsets, strict=True)  # each access copies the list
    for word, piece, (start, end) in columns:
        if word is not None:
            words.setdefault(word, []).append(len(pieces))
            pieces.append(Piece(piece, start, end))
    return Sentence(list(encoding.ids), pieces, list(words.values()))


def _batches(costs: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Indices by rising cost, in batches whose size times largest cost is within `limit`, or of one."""
    batch: list[int] = []
    for index in sorted(range(len(costs)), key=lambda i: costs[i]):
        if batch and costs[index] * (len(batch) + 1) > limit:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


@functools.lru_cache(maxsize=2)
def load_filler(name: str) -> MaskFiller:
    """The mask filler of the model `name` (see `pipeline.core.models`), loaded once a process."""
    return MaskFiller(name)


def mask_fill(texts: Sequence[str], params: MaskFillParams, rng: numpy.random.Generator) -> list[Attempt]:
    """`copies` attempts for each drawn segment, segment by segment; `segment` is the index in `texts`."""
    filler = load_filler(params.model)
    sentences = filler.read(texts)
    attempts: list[Attempt] = []
    masked: dict[int, Masked] = {}
    for segment in chosen(len(texts), params.share, rng):
        for copy in range(1, params.copies + 1):
            style = params.styles[int(rng.integers(len(params.styles)))]
            sentence = sentences[segment]
            sizes = [len(word) for word in sentence.words]
            words = draw_words(style, sizes, params.max_masks, params.max_mask_share, rng)
            reason = Reason.TOO_LONG if len(sentence.ids) > filler.positions else None if words else Reason.UNMASKABLE
            if reason is None:
                masked[len(attempts)] = filler.mask(sentence, words)
            attempts.append(Attempt(segment, f"mask{copy}", Technique.MASK_FILL, reason=reason, mask_style=style))
    found = filler.fill(list(masked.values()), params.beam_width, params.batch_tokens)
    spelling = usual_spelling(texts) if filler.lower_cases else {}
    for (index, one), hypotheses in zip(masked.items(), found, strict=True):
        segment = attempts[index].segment
        written = (_written(texts[segment], sentences[segment], one, ids, filler, spelling) for ids in hypotheses)
        candidate = next((text for text in written if text != texts[segment]), texts[segment])
        attempts[index] = dataclasses.replace(attempts[index], candidate=candidate, masks=len(one.positions))
    return attempts


def _written(
    text: str, sentence: Sentence, masked: Masked, ids: list[int], filler: MaskFiller, spelling: dict[str, str]
) -> str:
    filled = filler.tokenizer.convert_ids_to_tokens(ids)
    places = [position - 1 for position in masked.positions]
    return splice(text, sentence.pieces, dict(zip(places, filled, strict=True)), spelling)
