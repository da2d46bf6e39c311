"""What a checkpoint reads beside the candidate: the reference (BLEURT), the source (004, section 3.3), or both.

- `reference`: [CLS] reference [SEP] candidate [SEP], as in the paper.
- `source`: [CLS] source [SEP] candidate [SEP]: quality estimation, which needs no reference. 004 takes multilingual
  BERT; an encoder that reads one language learns little more than how fluent the candidate is.
- `both`: [CLS] reference [SEP] source [SEP] candidate [SEP], with the first segment's number for reference and source.
  If they are too long, the source loses its end first. This is the simplest form of what COMET does with three vectors.

`finetune.reads` chooses, and the checkpoint's config.json records it as `reads`.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError, ModelError
from pipeline.core.models import load_config, load_tokenizer


class Reads(enum.StrEnum):
    """Which texts stand beside the candidate."""

    REFERENCE = "reference"
    SOURCE = "source"
    BOTH = "both"

    @property
    def reference(self) -> bool:
        """Whether a reference is read."""
        return self is not Reads.SOURCE

    @property
    def source(self) -> bool:
        """Whether a source is read."""
        return self is not Reads.REFERENCE

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the texts that are read beside the candidate.

        >>> Reads.BOTH.needed, Reads.SOURCE.needed
        (('reference', 'source'), ('source',))
        """
        return tuple(name for name, read in (("reference", self.reference), ("source", self.source)) if read)


@dataclass(frozen=True)
class Beside:
    """How the text beside the candidate is made; `separator` is the token between reference and source."""

    reads: Reads = Reads.REFERENCE
    separator: str = "[SEP]"

    def text(self, reference: str | None, source: str | None) -> str:
        """The text beside the candidate; one that is not read may be None, and one that is missing is an InputError.

        >>> Beside(Reads.BOTH).text("A cat.", "Eine Katze."), Beside(Reads.SOURCE).text(None, "Eine Katze.")
        ('A cat. [SEP] Eine Katze.', 'Eine Katze.')
        """
        given = {"reference": reference, "source": source}
        found = [text for name in self.reads.needed if (text := given[name]) is not None]
        if len(found) < len(self.reads.needed):
            lacks = next(name for name in self.reads.needed if given[name] is None)
            raise InputError(f"has no {lacks}, but the checkpoint reads one", file="a segment")
        return f" {self.separator} ".join(found)

    def texts(self, references: Sequence[str | None], sources: Sequence[str | None]) -> list[str]:
        """`text` of every segment."""
        return [self.text(reference, source) for reference, source in zip(references, sources, strict=True)]


BY_REFERENCE = Beside()


def reads_of(config: Any) -> Reads:
    """What the checkpoint with this configuration reads; a word that is none of Reads is a ModelError."""
    found = getattr(config, "reads", None) or Reads.REFERENCE
    if found not in list(Reads):
        raise ModelError(f"config.json: reads must be one of {', '.join(Reads)}, not {found!r}.")
    return Reads(found)


def beside_of(config: Any, tokenizer: Any) -> Beside:
    """How the checkpoint with this configuration and tokenizer reads."""
    return Beside(reads_of(config), str(getattr(tokenizer, "sep_token", None) or ""))


def beside_in(folder: Path) -> Beside:
    """How the checkpoint in `folder` reads."""
    return beside_of(load_config(folder), load_tokenizer(folder))
