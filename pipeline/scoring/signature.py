"""What a score depends on, in one line: equal signatures mean equal scores.

Batch size, number of threads and order are not in it, as they change a score by less than 1e-4 in single precision.
"""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.core.packages import DELTAS, WEIGHTS

SCORING_FILES = (
    "config.json", "model*.safetensors", "*.safetensors.index.json", "tokenizer*", "vocab*", "merges.txt", "*.model",
    "*.spm", "special_tokens_map.json", "added_tokens.json",
    "bleurt_config.json", "bert_config.json", "*.index", "variables/variables.index",
)  # fmt: skip
"""Files of a checkpoint that its scores depend on; they do not depend on the kept head of pre-training.

The index of a TensorFlow checkpoint holds the checksums of all its weights.
"""

NO_EDGES = "none"
"""The version of the policy for unusual texts where there is none: texts are read as they are."""

SHOWN_DIGITS = 12
"""Hexadecimal digits of the checkpoint's hash in the one-line form."""


@dataclass(frozen=True)
class Signature:
    """How scores were made; `str()` gives one line, `as_dict()` all of it.

    `checkpoint`: SHA-256 of the files that scores depend on. `output`: name of the checkpoint's output that is the
    score. `version`: of this package. `precision`: "float32", "bf16" or "int8". `references`: "max" or "mean" over
    several. `long`: what happens to pairs of more than `max_tokens` tokens, "cut" or "windows". `character_references`:
    `&quot;` and the like are "undone" or "kept". `edges`: version of the policy for unusual texts, or "none".
    `activation`: of the layers; GELU has an exact form ("gelu") and the original BLEURT's ("gelu_pytorch_tanh"), and
    their scores differ in the third digit. `reads`: what stands beside the candidate, "reference", "source" or "both".
    `entailment`: SHA-256 of the classifier by which contradictions lower scores; None, and not shown, without one.
    """

    checkpoint: str
    output: str
    version: str
    precision: str
    max_tokens: int
    references: str
    long: str
    character_references: str
    edges: str
    activation: str
    reads: str
    entailment: str | None = None

    def __str__(self) -> str:
        """One line: `bleurt|checkpoint:0123456789ab|output:adequacy|version:…`."""
        hashes = {"checkpoint", "entailment"}
        parts = {name: str(value)[:SHOWN_DIGITS] if name in hashes else value for name, value in self.as_dict().items()}
        return "|".join(["bleurt", *(f"{name}:{value}" for name, value in parts.items())])

    def as_dict(self) -> dict[str, str | int]:
        """Its fields that are not None, with whole hashes."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def checkpoint_hash(folder: Path) -> str:
    """SHA-256 over names and bytes of the SCORING_FILES in `folder`, a model's: 64 hexadecimal digits.

    Weights that were added up from changes count as these changes, so that rounding on another machine is no other
    checkpoint.
    """
    files = {file for pattern in SCORING_FILES for file in folder.glob(pattern) if file.is_file()}
    if (folder / DELTAS).exists():
        files = {file for file in files if file.name != WEIGHTS} | {folder / DELTAS}
    digest = hashlib.sha256()
    for file in sorted(files):
        with file.open("rb") as content:
            digest.update(f"{file.name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def activation(config: Any) -> str:
    """The activation of the layers of the model with `config`, by transformers' name."""
    encoder = getattr(config, "encoder", None) or {}
    return str(
        encoder.get("hidden_act") or getattr(config, "hidden_act", None) or getattr(config, "activation", "other")
    )
