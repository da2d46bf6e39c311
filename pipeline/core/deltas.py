"""Models in little space: a large checkpoint as what it differs by from a packaged encoder, a small one in 8 bits.

Fine-tuning moves each matrix of an encoder by little, in few directions. `deltas.safetensors` keeps, for every matrix,
the best approximation of its change of a given rank (two thin matrices in half precision, by singular value
decomposition), vectors and what the encoder lacks whole. Whatever trained the checkpoint, all weights, adapters or a
mean of several runs, is stored the same way. A model of its own may stand in the same file with its matrices in 8 bits
and a scale for each row, half the size of half precision. On first use the weights are added up again into a folder of
the usual form, which is kept where `pipeline.core.packages` keeps joined models.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from pipeline.core.errors import ModelError
from pipeline.core.packages import DELTAS, WEIGHTS, store
from pipeline.core.shards import writing

NO_BASE = ""
"""Name of the encoder in DELTAS of a model that needs none."""

ROUNDING = 1e-6
"""A change by this share of the largest weight, or less, is none."""

IN, OUT, ADDED, WHOLE = "in/", "out/", "added/", "whole/"
"""Beginnings of the names of tensors: the two thin matrices of a change, a vector's change, a tensor in full."""

BYTES, SCALE = "bytes/", "scale/"
"""Beginnings of the names of a matrix in 8 bits and of what its rows are multiplied by."""


def changes(
    weights: Mapping[str, torch.Tensor], base: Mapping[str, torch.Tensor], rank: int
) -> dict[str, torch.Tensor]:
    """What makes `weights` out of `base`, both by the names of `weights`: matrices approximated at `rank`.

    What changed by no more than rounding does, as a mean of equal weights, is left out. A matrix that `base` lacks is
    kept whole, in half precision.
    """
    found: dict[str, torch.Tensor] = {}
    for name, weight in weights.items():
        if name not in base or base[name].shape != weight.shape:
            found[WHOLE + name] = weight.half() if weight.ndim > 1 and weight.shape[0] > 1 else weight.clone()
            continue
        change = weight.float() - base[name].float()
        if change.abs().max() <= ROUNDING * weight.abs().max():
            continue
        if change.ndim != 2 or min(change.shape) <= rank:
            found[ADDED + name] = change.half() if change.ndim > 1 else change
            continue
        left, values, right = torch.linalg.svd(change, full_matrices=False)
        root = values[:rank].sqrt()
        found[OUT + name] = (left[:, :rank] * root).half().contiguous()
        found[IN + name] = (root.unsqueeze(1) * right[:rank]).half().contiguous()
    return found


def rounded(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`weights` with matrices in 8 bits: a row's largest weight is 127 of its scale. Other tensors are kept whole."""
    found: dict[str, torch.Tensor] = {}
    for name, weight in weights.items():
        if weight.ndim != 2:
            found[WHOLE + name] = weight.clone()
            continue
        scale = weight.float().abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
        found[BYTES + name] = (weight.float() / scale).round().to(torch.int8)
        found[SCALE + name] = scale
    return found


def applied(found: Mapping[str, torch.Tensor], base: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights, float32, that `changes` or `rounded` stood for; tensors of `base` that did not change are there."""
    weights = {name: weight.float() for name, weight in base.items()}
    for key, value in found.items():
        if key.startswith(WHOLE):
            weights[key.removeprefix(WHOLE)] = value.float()
        elif key.startswith(ADDED):
            name = key.removeprefix(ADDED)
            weights[name] = weights[name] + value.float()
        elif key.startswith(OUT):
            name = key.removeprefix(OUT)
            weights[name] = weights[name] + value.float() @ found[IN + name].float()
        elif key.startswith(BYTES):
            weights[key.removeprefix(BYTES)] = value.float() * found[SCALE + key.removeprefix(BYTES)]
    return weights


def write_changes(folder: Path, found: Mapping[str, torch.Tensor], base: str, prefix: str) -> None:
    """Write DELTAS: `base` names the encoder, whose weights are called `prefix` + their name in the checkpoint."""
    with writing(folder / DELTAS):
        save_file(dict(found), folder / DELTAS, {"base": base, "prefix": prefix, "format": "pt"})


def round_weights(folder: Path) -> None:
    """Replace the weights in `folder` by DELTAS in 8 bits, which needs no encoder."""
    write_changes(folder, rounded(load_file(folder / WEIGHTS)), NO_BASE, "")
    (folder / WEIGHTS).unlink()


def encoder_weights(folder: Path, prefix: str) -> dict[str, torch.Tensor]:
    """The weights of the encoder in `folder` under the names that a checkpoint gives them, without its pooler."""
    weights = load_file(folder / WEIGHTS)
    return {prefix + name: weight for name, weight in weights.items() if not name.startswith("pooler.")}


def whole(folder: Path, locate: Callable[[str], Path]) -> Path:
    """A folder with all weights of the checkpoint in `folder`, which holds DELTAS; made on first use.

    `locate` finds the encoder by name; a ModelError if it is missing or DELTAS is damaged.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file())
    digest = hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()
    target = store() / f"{folder.name}-{digest[:16]}"
    if target.is_dir():
        return target
    try:
        with safe_open(folder / DELTAS, "pt") as opened:
            facts, found = opened.metadata() or {}, {key: opened.get_tensor(key) for key in list(opened.keys())}
        base, prefix = facts["base"], facts["prefix"]
    except (SafetensorError, OSError, KeyError) as error:
        raise ModelError(f"{folder / DELTAS}: cannot be read ({error}).") from error
    weights = applied(found, {} if base == NO_BASE else encoder_weights(locate(base), prefix))
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{folder.name}-") as temporary:
            made = Path(temporary) / "model"
            made.mkdir()
            for file in files:
                shutil.copyfile(file, made / file.name)
            save_file(weights, made / WEIGHTS, {"format": "pt"})
            if not target.is_dir():  # another process may have been faster
                made.rename(target)
    return target
