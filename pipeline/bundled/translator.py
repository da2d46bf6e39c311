"""Trains one many-language Marian model: English to French and German, or back.

A small Transformer (Vaswani et al. 2017) in transformers' Marian classes, so that CTranslate2 converts it.
The schedule is one or more cycles of warm-up, plateau and linear decay; a run resumes with the same batches.

    python -m pipeline.bundled.translator --direction en-x --data DATA/parallel --work W --out models/bundled/...
"""

import argparse
import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from pipeline.bundled.parallel import EVERYDAY, LANGUAGES, SentencePair, read_parallel
from pipeline.core import runtime


@dataclass(frozen=True)
class Cycle:
    """One rise and fall of the learning rate over `pieces` pieces read (source and target, repeats included).

    The first `short_pieces_read` come from pairs of at most `short` pieces a side (a curriculum, Platanios et al.
    2019): cross-attention learns its first alignments several times sooner on short sentences. In every later pass,
    `joined` of the everyday pairs (Tatoeba, captions) are strung together to longer texts (Kondo et al. 2021), and the
    pairs of the other collections, news and parliament, come `formal_repeats` times: the everyday sentences are short.
    """

    pieces: int
    learning_rate: float
    decay_fraction: float
    short: int
    short_pieces_read: int
    joined: float
    formal_repeats: int


@dataclass(frozen=True)
class TranslatorRecipe:
    """Sizes and schedule of one run; each cycle starts from the weights of the one before, with a fresh optimizer."""

    vocabulary: int
    width: int
    feed_forward: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    batch_tokens: int
    max_pieces: int
    warmup_steps: int
    label_smoothing: float
    heldout_one_in: int
    seed: int
    cycles: tuple[Cycle, ...]


def pieces_for(pairs: list[SentencePair], folder: Path, size: int) -> MarianTokenizer:
    """The tokenizer in `folder`, trained first where there is none; runs that start together make the same one."""
    if not folder.exists():
        scratch = folder.with_name(f"{folder.name}-{os.getpid()}")
        train_pieces(pairs, scratch, size)
        try:
            scratch.rename(folder)
        except OSError:  # the other direction's run was first
            shutil.rmtree(scratch)
    return MarianTokenizer.from_pretrained(folder)


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


@dataclass(frozen=True)
class Example:
    """Piece ids of one pair; `marks` is the number of ids in front of the source that name the target language."""

    source: list[int]
    target: list[int]
    language: str
    formal: bool
    marks: int

    @property
    def longest(self) -> int:
        """Pieces of the longer side."""
        return max(len(self.source), len(self.target))

    def joined_with(self, other: "Example") -> "Example":
        """Both sentences as one text: one language mark, one end."""
        source = self.source[:-1] + other.source[other.marks :]
        return Example(source, self.target[:-1] + other.target, self.language, self.formal, self.marks)


def one_pass(examples: list[Example], cycle: Cycle, max_pieces: int, rng: random.Random) -> list[Example]:
    """Every example once, shuffled: formal ones `formal_repeats` times, a share of the others strung together."""
    made = []
    open_texts: dict[str, tuple[Example, int]] = {}
    for example in rng.sample(examples, len(examples)):
        if example.formal:
            made += [example] * cycle.formal_repeats
        elif rng.random() >= cycle.joined:
            made.append(example)
        else:
            text, wanted = open_texts.pop(example.language, (None, 0))
            if text is None:
                open_texts[example.language] = example, rng.randint(16, max_pieces)
                continue
            both = text.joined_with(example)
            if both.longest > max_pieces:
                made += [text, example]
            elif both.longest >= wanted:
                made.append(both)
            else:
                open_texts[example.language] = both, wanted
    made += [text for text, _ in open_texts.values()]
    rng.shuffle(made)
    return made


def curriculum(examples: list[Example], cycle: Cycle, recipe: TranslatorRecipe) -> Iterator[list[Example]]:
    """Batches of the short pairs until `short_pieces_read`, then passes over all pairs, without end."""
    rng = random.Random(recipe.seed)
    short = [e for e in examples if e.longest <= cycle.short]
    read = 0
    while read < cycle.short_pieces_read:
        for batch in batches(rng.sample(short, len(short)), recipe.batch_tokens, rng):
            read += size_of(batch)
            yield batch
            if read >= cycle.short_pieces_read:
                break
    while True:
        yield from batches(one_pass(examples, cycle, recipe.max_pieces, rng), recipe.batch_tokens, rng)


def size_of(batch: list[Example]) -> int:
    """Pieces of both sides."""
    return sum(len(e.source) + len(e.target) for e in batch)


def _ids(tokenizer: MarianTokenizer, texts: list[str]) -> list[list[int]]:
    """What `tokenizer(texts)` gives, without its per-sentence Python overhead (20 times faster)."""
    vocabulary, unknown = tokenizer.get_vocab(), tokenizer.unk_token_id
    split = tokenizer.spm_source.encode(texts, out_type=str)
    return [[*(vocabulary.get(piece, unknown) for piece in row), tokenizer.eos_token_id] for row in split]


def encode(tokenizer: MarianTokenizer, pairs: list[SentencePair], direction: str, max_pieces: int) -> list[Example]:
    """Every pair whose two sides fit into `max_pieces`, in the order of `pairs`; `direction` is en-x or x-en."""
    english = _ids(tokenizer, [p.english for p in pairs])
    foreign = _ids(tokenizer, [p.foreign for p in pairs])
    examples = []
    for pair, en, x in zip(pairs, english, foreign, strict=True):
        formal = pair.origin not in EVERYDAY
        code = tokenizer.convert_tokens_to_ids(LANGUAGES[pair.language])
        if direction == "en-x":
            example = Example([code, *en], x, pair.language, formal, 1)
        else:
            example = Example(x, en, pair.language, formal, 0)
        if example.longest <= max_pieces:
            examples.append(example)
    return examples


def batches(order: list[Example], batch_tokens: int, rng: random.Random) -> Iterator[list[Example]]:
    """Batches over `order`: similar lengths together within windows, at most `batch_tokens` a side, shuffled."""
    for start in range(0, len(order), 20_000):
        window = sorted(order[start : start + 20_000], key=lambda e: (len(e.source), len(e.target)))
        made: list[list[Example]] = [[]]
        longest = 0
        for example in window:
            longest = max(longest, example.longest)
            if made[-1] and longest * (len(made[-1]) + 1) > batch_tokens:
                made.append([])
                longest = example.longest
            made[-1].append(example)
        rng.shuffle(made)
        yield from made


def _pad(rows: list[list[int]], value: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def loss_of(model: MarianMTModel, batch: list[Example], label_smoothing: float) -> tuple[torch.Tensor, int]:
    """Summed label-smoothed cross-entropy and the number of target tokens; padding never meets the softmax."""
    pad = model.config.pad_token_id
    source = _pad([e.source for e in batch], pad).to(model.device)
    target = _pad([e.target for e in batch], pad).to(model.device)
    shifted = torch.cat([torch.full_like(target[:, :1], pad), target[:, :-1]], 1)
    mask = (source != pad).long()
    keep = target != pad
    with runtime.autocast(training=True):
        hidden = model.model(
            input_ids=source, attention_mask=mask, decoder_input_ids=shifted, use_cache=False
        ).last_hidden_state
        logits = (hidden[keep] @ model.get_input_embeddings().weight[:-1].T).float()
    loss = torch.nn.functional.cross_entropy(logits, target[keep], label_smoothing=label_smoothing, reduction="sum")
    return loss, int(keep.sum())


def rate_at(recipe: TranslatorRecipe, cycle: Cycle, step: int, read: int) -> float:
    """Learning rate after `step` updates and `read` pieces: linear warm-up, plateau, linear decay to zero."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    left = 1 - read / cycle.pieces
    return cycle.learning_rate * warm * min(1.0, max(left, 0.0) / cycle.decay_fraction)


def train_cycle(
    model: MarianMTModel, examples: list[Example], recipe: TranslatorRecipe, cycle: Cycle, state_file: Path
) -> None:
    """One cycle, in place; the state is saved every few minutes, and a run continues from it with the same batches."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=cycle.learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    step, read = 0, 0
    if state_file.exists():
        state = torch.load(state_file, weights_only=True, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, read = state["step"], state["read"]
    stream = curriculum(examples, cycle, recipe)
    for _ in range(step):
        next(stream)
    started, saved, tally, tokens, first_read = time.time(), time.time(), 0.0, 0, read
    while read < cycle.pieces:
        batch = next(stream)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(recipe, cycle, step, read)
        loss, count = loss_of(model, batch, recipe.label_smoothing)
        torch.autograd.backward(loss / count)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        model.get_input_embeddings().weight.grad[-1].zero_()
        optimizer.step()
        optimizer.zero_grad()
        step, read, tally, tokens = step + 1, read + size_of(batch), tally + float(loss.detach()), tokens + count
        if step % 100 == 0:
            speed = (read - first_read) / (time.time() - started)
            print(f"step {step} read {read:,} loss {tally / tokens:.3f} ({speed:.0f} pieces/s)", flush=True)
            tally, tokens = 0.0, 0
        if time.time() - saved > 240 or read >= cycle.pieces:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "read": read}
            torch.save(state, state_file.with_suffix(".tmp"))
            state_file.with_suffix(".tmp").replace(state_file)
            saved = time.time()


def train(recipe: TranslatorRecipe, direction: str, data: Path, work: Path, out: Path, start: Path | None) -> None:
    """Run the cycles and write `out` in half precision; `start`, a finished model, stands for all but the last."""
    text = read_parallel(data, recipe.heldout_one_in)
    tokenizer = pieces_for(text.train, start or work / "pieces", recipe.vocabulary)
    examples = encode(tokenizer, text.train, direction, recipe.max_pieces)
    if start is None:
        model = new_model(recipe, len(tokenizer))
    else:
        model = MarianMTModel.from_pretrained(start, dtype=torch.float32).train()
    model.to(runtime.device())
    print(f"{direction}: {model.num_parameters():,} parameters, {len(examples):,} pairs", flush=True)
    for number, cycle in enumerate(recipe.cycles, 1):
        if start is None or number == len(recipe.cycles):
            train_cycle(model, examples, recipe, cycle, work / f"{direction}-{number}.pt")
    out.mkdir(parents=True, exist_ok=True)
    model.half().cpu().save_pretrained(out)
    tokenizer.save_pretrained(out)


RECIPE = TranslatorRecipe(
    vocabulary=6000,
    width=256,
    feed_forward=512,
    heads=4,
    encoder_layers=3,
    decoder_layers=1,
    batch_tokens=1000,
    max_pieces=100,
    warmup_steps=200,
    label_smoothing=0.1,
    heldout_one_in=150,
    seed=1,
    cycles=(
        Cycle(5_700_000, 8e-4, 0.25, short=12, short_pieces_read=950_000, joined=0.0, formal_repeats=1),
        Cycle(14_000_000, 8e-4, 0.6, short=0, short_pieces_read=0, joined=0.4, formal_repeats=4),
        Cycle(14_000_000, 7e-4, 0.75, short=0, short_pieces_read=0, joined=0.5, formal_repeats=6),
    ),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--direction", choices=["en-x", "x-en"], required=True)
    for name in ("data", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="a finished model of the cycles before the last")
    arguments = parser.parse_args()
    train(RECIPE, arguments.direction, arguments.data, arguments.work, arguments.out, arguments.start)
