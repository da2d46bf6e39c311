"""Trains one many-language Marian model: English to French and German, or back.

A small Transformer (Vaswani et al. 2017) in transformers' Marian classes, so that CTranslate2 converts it.
The schedule is warm-up, plateau, linear decay; a run resumes from `work/state.pt` with the same batches.

    python -m pipeline.bundled.translator --direction en-x --data DATA/parallel --work W --out models/bundled/...
"""

import argparse
import json
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from pipeline.bundled.parallel import LANGUAGES, SentencePair, read_parallel


@dataclass(frozen=True)
class TranslatorRecipe:
    """Sizes and schedule of one run. `train_pairs` counts pairs seen, repeats included.

    The first `short_pairs` come from pairs of at most `short_pieces` pieces a side (a curriculum, Platanios et al.
    2019): cross-attention learns its first alignments several times sooner on short sentences.
    """

    vocabulary: int
    width: int
    feed_forward: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    train_pairs: int
    short_pairs: int
    short_pieces: int
    batch_tokens: int
    max_pieces: int
    learning_rate: float
    warmup_steps: int
    decay_fraction: float
    label_smoothing: float
    heldout_one_in: int
    seed: int


def train_pieces(pairs: list[SentencePair], folder: Path, size: int) -> None:
    """Learn a shared unigram vocabulary of `size` ids (three special, two language tokens) into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = sorted({p.english for p in pairs} | {p.foreign for p in pairs})
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(folder / "source"),
        vocab_size=size - 3,
        character_coverage=0.9998,
        input_sentence_size=200_000,
        shuffle_input_sentence=True,
        num_threads=1,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.model"))
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    ordered = ["</s>", "<unk>", *(p for p in pieces if p not in {"<s>", "</s>", "<unk>"})]
    ordered += [*LANGUAGES.values(), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(ordered)}, ensure_ascii=False))
    (folder / "source.model").rename(folder / "source.spm")
    (folder / "source.vocab").unlink()
    shutil.copy(folder / "source.spm", folder / "target.spm")
    tokenizer = MarianTokenizer(
        str(folder / "source.spm"), str(folder / "target.spm"), str(folder / "vocab.json"), model_max_length=512
    )
    tokenizer.save_pretrained(folder)


def new_model(recipe: TranslatorRecipe, vocabulary: int) -> MarianMTModel:
    """A freshly initialised Marian model; `<pad>` is the last id and starts the decoder from a zero vector."""
    torch.manual_seed(recipe.seed)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=recipe.width,
        encoder_layers=recipe.encoder_layers,
        decoder_layers=recipe.decoder_layers,
        encoder_attention_heads=recipe.heads,
        decoder_attention_heads=recipe.heads,
        encoder_ffn_dim=recipe.feed_forward,
        decoder_ffn_dim=recipe.feed_forward,
        activation_function="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        init_std=recipe.width**-0.5,  # the library's 0.02 is for wide models: here cross-attention would hardly start
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=vocabulary - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
        decoder_start_token_id=vocabulary - 1,
        bos_token_id=None,
        max_position_embeddings=256,
    )
    model = MarianMTModel(config)
    model.generation_config.bad_words_ids = [[vocabulary - 1]]
    model.generation_config.num_beams = 4
    model.generation_config.max_length = 256
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight
        embedding.normal_(std=recipe.width**-0.5)
        embedding[-1].zero_()
    return model


Example = tuple[list[int], list[int]]


def curriculum(examples: list[Example], recipe: TranslatorRecipe) -> Iterator[list[int]]:
    """Batches of the short pairs until `short_pairs` have been seen, then of all pairs, without end."""
    short = [i for i, sides in enumerate(examples) if max(map(len, sides)) <= recipe.short_pieces]
    seen = 0
    for batch in batches([examples[i] for i in short], recipe.batch_tokens, recipe.seed):
        if seen >= recipe.short_pairs:
            break
        seen += len(batch)
        yield [short[i] for i in batch]
    yield from batches(examples, recipe.batch_tokens, recipe.seed)


def _ids(tokenizer: MarianTokenizer, texts: list[str]) -> list[list[int]]:
    """What `tokenizer(texts)` gives, without its per-sentence Python overhead (20 times faster)."""
    vocabulary, unknown = tokenizer.get_vocab(), tokenizer.unk_token_id
    split = tokenizer.spm_source.encode(texts, out_type=str)
    return [[*(vocabulary.get(piece, unknown) for piece in row), tokenizer.eos_token_id] for row in split]


def encode(tokenizer: MarianTokenizer, pairs: list[SentencePair], direction: str, max_pieces: int) -> list[Example]:
    """Source and target ids of every pair whose two sides fit into `max_pieces`, in the order of `pairs`."""
    english = _ids(tokenizer, [p.english for p in pairs])
    foreign = _ids(tokenizer, [p.foreign for p in pairs])
    examples = []
    for pair, en, x in zip(pairs, english, foreign, strict=True):
        if max(len(en), len(x)) > max_pieces:
            continue
        code = tokenizer.convert_tokens_to_ids(LANGUAGES[pair.language])
        examples.append(([code, *en], x) if direction == "en-x" else (x, en))
    return examples


def batches(examples: list[Example], batch_tokens: int, seed: int) -> Iterator[list[int]]:
    """Endless batches of indices: shuffled in passes, similar lengths together, at most `batch_tokens` a side."""
    rng = random.Random(seed)
    while True:
        order = list(range(len(examples)))
        rng.shuffle(order)
        made: list[list[int]] = []
        for start in range(0, len(order), 20_000):
            window = sorted(order[start : start + 20_000], key=lambda i: tuple(map(len, examples[i])))
            batch: list[int] = []
            longest = 0
            chunk = []
            for i in window:
                longest = max(longest, *map(len, examples[i]))
                if batch and longest * (len(batch) + 1) > batch_tokens:
                    chunk.append(batch)
                    batch, longest = [], max(map(len, examples[i]))
                batch.append(i)
            chunk.append(batch)
            rng.shuffle(chunk)
            made += chunk
        yield from made


def _pad(rows: list[list[int]], value: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def loss_of(model: MarianMTModel, batch: list[Example], label_smoothing: float) -> tuple[torch.Tensor, int]:
    """Summed label-smoothed cross-entropy and the number of target tokens; padding never meets the softmax."""
    pad = model.config.pad_token_id
    source = _pad([s for s, _ in batch], pad)
    target = _pad([t for _, t in batch], pad)
    shifted = torch.cat([torch.full((len(batch), 1), pad), target[:, :-1]], 1)
    mask = (source != pad).long()
    hidden = model.model(
        input_ids=source, attention_mask=mask, decoder_input_ids=shifted, use_cache=False
    ).last_hidden_state
    keep = target != pad
    logits = hidden[keep] @ model.get_input_embeddings().weight[:-1].T
    loss = torch.nn.functional.cross_entropy(logits, target[keep], label_smoothing=label_smoothing, reduction="sum")
    return loss, int(keep.sum())


def rate_at(recipe: TranslatorRecipe, step: int, seen: int) -> float:
    """Learning rate after `step` updates and `seen` pairs: linear warm-up, plateau, linear decay to zero."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    left = 1 - seen / recipe.train_pairs
    return recipe.learning_rate * warm * min(1.0, max(left, 0.0) / recipe.decay_fraction)


def train(recipe: TranslatorRecipe, direction: str, data: Path, work: Path, out: Path) -> None:
    """Train until `train_pairs` have been seen, saving state every few minutes, then write `out` in half precision."""
    text = read_parallel(data, recipe.heldout_one_in)
    pieces = work / "pieces"
    if not (pieces / "vocab.json").exists():
        train_pieces(text.train, pieces, recipe.vocabulary)
    tokenizer = MarianTokenizer.from_pretrained(pieces)
    examples = encode(tokenizer, text.train, direction, recipe.max_pieces)
    model = new_model(recipe, len(tokenizer))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    step, seen = 0, 0
    state_file = work / f"{direction}.pt"
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, seen = state["step"], state["seen"]
    print(f"{direction}: {model.num_parameters():,} parameters, {len(examples):,} pairs, from step {step}", flush=True)
    stream = curriculum(examples, recipe)
    for _ in range(step):
        next(stream)
    started, saved, tally, tokens, first_seen = time.time(), time.time(), 0.0, 0, seen
    while seen < recipe.train_pairs:
        batch = [examples[i] for i in next(stream)]
        for group in optimizer.param_groups:
            group["lr"] = rate_at(recipe, step, seen)
        loss, count = loss_of(model, batch, recipe.label_smoothing)
        torch.autograd.backward(loss / count)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        model.get_input_embeddings().weight.grad[-1].zero_()
        optimizer.step()
        optimizer.zero_grad()
        step, seen, tally, tokens = step + 1, seen + len(batch), tally + float(loss.detach()), tokens + count
        if step % 100 == 0:
            speed = (seen - first_seen) / (time.time() - started)
            print(f"step {step} seen {seen:,} loss {tally / tokens:.3f} ({speed:.0f} pairs/s)", flush=True)
            tally, tokens = 0.0, 0
        if time.time() - saved > 240 or seen >= recipe.train_pairs:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "seen": seen}
            torch.save(state, state_file.with_suffix(".tmp"))
            state_file.with_suffix(".tmp").replace(state_file)
            saved = time.time()
    out.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)


RECIPE = TranslatorRecipe(
    vocabulary=6000,
    width=256,
    feed_forward=512,
    heads=4,
    encoder_layers=3,
    decoder_layers=1,
    train_pairs=220_000,
    short_pairs=50_000,
    short_pieces=12,
    batch_tokens=1000,
    max_pieces=80,
    learning_rate=8e-4,
    warmup_steps=200,
    decay_fraction=0.25,
    label_smoothing=0.1,
    heldout_one_in=150,
    seed=1,
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--direction", choices=["en-x", "x-en"], required=True)
    for name in ("data", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    train(RECIPE, arguments.direction, arguments.data, arguments.work, arguments.out)
