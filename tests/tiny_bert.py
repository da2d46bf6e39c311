"""Tiny random BERTs and sentences, as fixtures of tests/label and tests/teachers (imported by their conftest.py)."""

import random
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizer

TEXT = "the a old new river town house was is built near by in 1910 and large small bridge over it . ,"
WORDS = TEXT.split()
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_tokenizer(folder: Path) -> None:
    """WordPiece over WORDS; "bridges" becomes two pieces and "unheard" is unknown."""
    vocabulary = {token: place for place, token in enumerate([*SPECIALS, *WORDS, "##s"])}
    BertTokenizer(vocab=vocabulary).save_pretrained(folder)


def config(**changes: object) -> BertConfig:
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
    return BertConfig(
        vocab_size=len(SPECIALS) + len(WORDS) + 1,
        max_position_embeddings=40,
        initializer_range=0.4,  # large, so that vectors of different tokens point in different directions
        **{**sizes, **changes},
    )


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random BERT: 3 layers, 32 wide, inputs of up to 40 tokens."""
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(1)
    BertModel(config()).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random classifier whose labels stand in MNLI's order, in capitals."""
    folder = tmp_path_factory.mktemp("classifier")
    torch.manual_seed(2)
    labels = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
    BertForSequenceClassification(config(id2label=labels, num_labels=3)).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def sentences() -> tuple[list[str], list[str]]:
    """30 references and candidates of 1 to 20 words; references come up to three times, as perturbed ones do."""
    draw = random.Random(3)
    references, candidates = [], []
    for _ in range(30):
        fresh = [draw.choice(WORDS) for _ in range(draw.randint(1, 20))]
        words = draw.choice(references[-2:]).split() if references and draw.random() < 0.5 else fresh
        references.append(" ".join(words))
        candidates.append(" ".join(draw.choice(WORDS) if draw.random() < 0.3 else word for word in words))
    candidates[4] += " bridges unheard"
    candidates[5] = references[5]
    return references, candidates
