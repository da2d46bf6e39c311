"""A tiny causal language model with random weights, for tests."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS = [
    "the",
    "a",
    "old",
    "new",
    "river",
    "town",
    "house",
    "was",
    "built",
    "near",
    "by",
    "in",
    "bridge",
    "A",
    "B",
    ">",
    "=",
    "Ranking:",
    "Preference:",
]


def save_tiny_gpt(folder: Path, positions: int = 16) -> Path:
    """Write a 2-layer, 16-wide GPT-2 over WORDS; its end token "<end>" is its start token too, as GPT-2's."""
    vocabulary = {word: place for place, word in enumerate(["<end>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    specials = {"eos_token": "<end>", "bos_token": "<end>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials).save_pretrained(folder)
    torch.manual_seed(4)
    config = GPT2Config(
        vocab_size=len(vocabulary), n_positions=positions, n_embd=16, n_layer=2, n_head=2, initializer_range=0.4,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder
