"""A tiny Marian model with random weights, in transformers layout, for tests."""

import json
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

TEXTS = (
    "the cat sat on the mat.",
    "a dog ran to the red house, and the cat slept.",
    "seven small birds sing in an old tree.",
    "le chat dort dans la maison.",
    "der Hund schläft im Haus.",
    "who wrote the letter?",
)


def save_tiny_marian(
    folder: Path, languages: tuple[str, ...] = (), seed: int = 0, activation: str = "relu", end_bias: float = 2.0
) -> Path:
    """Write a 2+1-layer, 16-wide model of 64 positions over pieces of TEXTS; `languages` join the vocabulary.

    The higher `end_bias`, the sooner do translations end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5),
        model_prefix=str(folder / "source"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "source.vocab").unlink()
    spm = (folder / "source.model").rename(folder / "source.spm")
    (folder / "target.spm").write_bytes(spm.read_bytes())
    model = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    ordered = ["</s>", "<unk>", *(p for p in pieces if p not in {"<s>", "</s>", "<unk>"}), *languages, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(ordered)}))
    tokenizer = MarianTokenizer(str(spm), str(folder / "target.spm"), str(folder / "vocab.json"))
    tokenizer.save_pretrained(folder)
    random_marian(len(ordered), seed, activation, end_bias).save_pretrained(folder)
    return folder


def random_marian(vocabulary: int, seed: int, activation: str, end_bias: float) -> MarianMTModel:
    """Weights wide enough that the predictions are far from uniform; `<pad>` is last and its embedding zero."""
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        activation_function=activation,
        dropout=0.0,
        init_std=0.4,
        scale_embedding=True,
        pad_token_id=vocabulary - 1,
        eos_token_id=0,
        forced_eos_token_id=None,
        decoder_start_token_id=vocabulary - 1,
        max_position_embeddings=64,
    )
    model = MarianMTModel(config)
    with torch.no_grad():
        model.get_input_embeddings().weight[-1].zero_()
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] = end_bias
    return model
