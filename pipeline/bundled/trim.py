"""Cuts a BERT encoder's WordPiece vocabulary to the pieces that a corpus needs, to fit several models in little room.

Kept: special tokens, every single character of printable ASCII and Latin-1 alone and as a continuation, and the pieces
most frequent in the corpus. A word whose piece is gone is spelled with shorter ones, so nothing becomes unknown that
was known before, apart from scripts that are not Latin. Half of a 22.7 M-parameter MiniLM is its 30,522 embeddings.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import BertConfig, BertTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def choose_pieces(tokenizer: BertTokenizerFast, corpus: Iterable[str], size: int) -> list[str]:
    """`size` pieces in the order of the full vocabulary: special, characters, then by frequency in `corpus`."""
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
    """The tokenizer of `full` with only `pieces`, written to `out`; ids are positions in `pieces`."""
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
    """`weights` with the rows of `pieces` alone in the word embeddings; sets `config.vocab_size` to match."""
    vocabulary = full.get_vocab()
    rows = torch.tensor([vocabulary[piece] for piece in pieces])
    name = "embeddings.word_embeddings.weight"
    config.vocab_size = len(pieces)
    return {**weights, name: weights[name][rows].clone()}
