"""Reference and candidate read apart, by one encoder or several: what RUSE and ESIM have in common (004, section 3.1).

Each encoder has its tokenizer. `TextsApart` is all of them as one: a pair is a row of tokens, the reference in every
encoder's tokens and then the candidate in every encoder's, with segment numbers 0 and 1. The ids of encoder k are
counted on from those of the encoders before it, so that the model knows whose token is whose. Pairs thus go through
`pipeline.metric.pairs` and `pipeline.metric.prediction` as all others do. A pair is cut to `max_tokens` tokens of each
encoder.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig, PreTrainedModel

from pipeline.core.models import settings_of


@dataclass(frozen=True)
class Vocabulary:
    """What is known of one encoder's tokens. `size`: ids lie below it. `longest`: tokens of a text, at most."""

    size: int
    longest: int
    pad_id: int
    unknown_id: int | None
    special_ids: tuple[int, ...]


class TextsApart:
    """The tokenizers of several encoders as one; the part of a fast tokenizer's interface that the metric uses."""

    def __init__(
        self, parts: Sequence[tokenizers.Tokenizer], vocabularies: Sequence[Vocabulary], name_or_path: str = ""
    ) -> None:
        self.parts, self.vocabularies, self.name_or_path = list(parts), list(vocabularies), name_or_path
        sizes = [vocabulary.size for vocabulary in vocabularies]
        self.offsets = [0, *itertools.accumulate(sizes)][:-1]
        self.pad_token_id = vocabularies[0].pad_id
        self.unk_token_id = vocabularies[0].unknown_id if len(sizes) == 1 else None
        self.all_special_ids = [
            id_ + offset for one, offset in zip(vocabularies, self.offsets, strict=True) for id_ in one.special_ids
        ]
        self.model_max_length = min(vocabulary.longest for vocabulary in vocabularies)
        self.init_kwargs: dict[str, Any] = {}

    def __len__(self) -> int:
        """All ids are smaller."""
        return self.offsets[-1] + self.vocabularies[-1].size

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """The most special tokens that an encoder reads of a text, or of both texts of a pair."""
        return (1 + pair) * max(part.num_special_tokens_to_add(is_pair=False) for part in self.parts)

    def __call__(self, references: Sequence[str], candidates: Sequence[str], **_: Any) -> dict[str, list[list[int]]]:
        """`input_ids` of every pair by the encoder that needs most tokens for it; tells how long a pair is."""
        read = [(part.encode_batch(references), part.encode_batch(candidates)) for part in self.parts]
        rows = [[[*r.ids, *c.ids] for r, c in zip(*both, strict=True)] for both in read]
        return {"input_ids": [max(same, key=len) for same in zip(*rows, strict=True)]}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write tokenizer_config.json, and for each encoder a file of the library tokenizers."""
        about = {"tokenizer_class": type(self).__name__, "vocabularies": [asdict(one) for one in self.vocabularies]}
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        for number, part in enumerate(self.parts):
            part.save(str(Path(folder) / f"tokenizer-{number}.json"))

    @classmethod
    def from_pretrained(cls, folder: str | Path, **_: Any) -> "TextsApart":
        """What `save_pretrained` wrote."""
        about = json.loads((Path(folder) / "tokenizer_config.json").read_text(encoding="utf-8"))["vocabularies"]
        parts = [tokenizers.Tokenizer.from_file(str(Path(folder) / f"tokenizer-{i}.json")) for i in range(len(about))]
        vocabularies = [Vocabulary(**{**one, "special_ids": tuple(one["special_ids"])}) for one in about]
        return cls(parts, vocabularies, str(folder))


def texts_apart(given: Sequence[Any], configs: Sequence[Any], longest: Sequence[int]) -> TextsApart:
    """The fast tokenizers `given` of encoders with `configs`, which read `longest` tokens, as one."""
    parts, vocabularies = [], []
    for tokenizer, config, tokens in zip(given, configs, longest, strict=True):
        part = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        part.no_truncation()
        part.no_padding()
        parts.append(part)
        size, special = max(config.vocab_size, len(tokenizer)), tuple(tokenizer.all_special_ids)
        vocabularies.append(Vocabulary(size, tokens, tokenizer.pad_token_id, tokenizer.unk_token_id, special))
    return TextsApart(parts, vocabularies)


class ApartConfig(PreTrainedConfig):  # type: ignore[misc]
    """`encoders` are the encoders' whole configurations, `sizes` and `pad_ids` those of their vocabularies.

    `max_position_embeddings` is the longest input in tokens that all encoders read.
    """

    model_type = "bleurt-apart"

    def __init__(
        self,
        encoders: Sequence[dict[str, Any]] = (),
        sizes: Sequence[int] = (),
        pad_ids: Sequence[int] = (),
        max_position_embeddings: int = 512,
        head_dropout: float = 0.1,
        reads: str = "reference",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.encoders, self.sizes, self.pad_ids = list(encoders), list(sizes), list(pad_ids)
        self.max_position_embeddings, self.head_dropout, self.reads = max_position_embeddings, head_dropout, reads
        for name in ("hidden_size", "num_hidden_layers", "hidden_act"):
            if self.encoders and name in self.encoders[0]:
                setattr(self, name, self.encoders[0][name])

    def encoder_configs(self) -> list[PreTrainedConfig]:
        """The encoders' configurations as their own classes."""
        settings = [dict(encoder) for encoder in self.encoders]
        return [AutoConfig.for_model(one.pop("model_type"), **one) for one in settings]


@dataclass(frozen=True)
class States:
    """A side of B pairs as one encoder sees it: hidden states of every layer (B, T, D), and which tokens are there.

    `words` (B, T) leaves out padding only: the special tokens at both ends of a text count as its words.
    """

    layers: tuple[torch.Tensor, ...]
    words: torch.Tensor


class ApartMetric(PreTrainedModel):  # type: ignore[misc]
    """Encoders that read reference and candidate apart; what becomes of their states is the matter of subclasses."""

    config_class: type[ApartConfig] = ApartConfig
    base_model_prefix = "encoders"

    def __init__(self, config: ApartConfig) -> None:
        super().__init__(config)
        self.encoders = torch.nn.ModuleList([AutoModel.from_config(one) for one in config.encoder_configs()])
        for encoder in self.encoders:
            if getattr(encoder, "pooler", None) is not None:
                setattr(encoder, "pooler", None)  # noqa: B010  no tensor, and no module either

    def states(self, number: int, ids: torch.Tensor, mine: torch.Tensor) -> States:
        """What encoder `number` makes of its tokens among `mine` (B, T) of the rows `ids` (B, T)."""
        first = sum(self.config.sizes[:number])
        mine = mine & (ids >= first) & (ids < first + self.config.sizes[number])
        longest = int(mine.sum(1).max())
        order = mine.long().argsort(dim=1, descending=True, stable=True)[:, :longest]
        words = mine.gather(1, order)
        given = torch.where(words, ids.gather(1, order) - first, self.config.pad_ids[number])
        found = self.encoders[number](input_ids=given, attention_mask=words.long(), output_hidden_states=True)
        return States(tuple(found.hidden_states), words)

    def sides(self, number: int, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> tuple[States, States]:
        """Reference and candidate as encoder `number` sees them."""
        there = mask.bool()
        return self.states(number, ids, there & (types == 0)), self.states(number, ids, there & (types == 1))


def apart_settings(
    encoders: Sequence[Any], tokenizer: TextsApart, names: Sequence[str], dropout: float
) -> dict[str, Any]:
    """What `ApartConfig` and its subclasses take for some encoders (models), their tokenizer and outputs' `names`."""
    return {
        "encoders": [settings_of(one.config) for one in encoders],
        "sizes": [one.size for one in tokenizer.vocabularies],
        "pad_ids": [one.pad_id for one in tokenizer.vocabularies],
        "max_position_embeddings": tokenizer.model_max_length,
        "head_dropout": dropout,
        "id2label": dict(enumerate(names)),
        "label2id": {name: place for place, name in enumerate(names)},
        "problem_type": "regression",
    }


AutoTokenizer.register(ApartConfig, tokenizer_class=TextsApart)
