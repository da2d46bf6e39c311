"""A tiny MPNet with random weights: no segment types, two separators between texts, positions that count from 2."""

from pathlib import Path

import torch
from tiny_filler import PIECES
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import MPNetConfig, MPNetModel, PreTrainedTokenizerFast

SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "[UNK]", "mask_token": "<mask>"}


def save_tiny_mpnet(folder: Path, positions: int = 66) -> Path:
    """Write a 2-layer, 16-wide encoder that reads `positions` - 2 tokens; as published, its tokenizer pads and cuts."""
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*SPECIAL.values(), *PIECES]))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.enable_truncation(12)
    tokenizer.enable_padding(length=12, pad_id=1, pad_token="<pad>")
    roles = {"cls_token": "<s>", "sep_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **SPECIAL, **roles).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = MPNetConfig(
        vocab_size=len(vocabulary), max_position_embeddings=positions, pad_token_id=1, initializer_range=0.5, **sizes
    )
    MPNetModel(config).save_pretrained(folder)
    return folder
