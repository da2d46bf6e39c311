"""A tiny BERT masked language model with random weights and a WordPiece tokenizer, for tests."""

from pathlib import Path

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
PIECES = [
    *"abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'-()",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"),
]
PIECES += ["the", "cat", "dog", "sat", "on", "mat", "ran", "red", "house", "##s", "##ing", "paris", "small", "bird"]


def save_tiny_filler(folder: Path, seed: int = 0, positions: int = 64, *, lowercase: bool = True) -> Path:
    """Write a 2-layer, 16-wide model whose vocabulary is PIECES, behind the special and one unused piece."""
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*SPECIAL, *PIECES]))}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertWordPieceTokenizer(vocabulary, lowercase=lowercase).save(str(folder / "tokenizer.json"))
    file, casing = str(folder / "tokenizer.json"), {"do_lower_case": lowercase}
    BertTokenizerFast(tokenizer_file=file, model_max_length=positions, **casing).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        initializer_range=0.5,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder
