"""The bundled translators: one many-language Marian model from English to French and German, and one back.

A small Transformer (Vaswani et al. 2017) in the Marian classes of transformers, so that CTranslate2 converts it. The
learning rate runs through one or more cycles of warm-up, plateau and linear decay; a run that was killed continues with
the batches that it would have had.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from transformers import MarianConfig, MarianMTModel

from pipeline.bundled.texts import LANGUAGES, Example, SentencePair, encode, pieces_for, read_flores, read_parallel
from pipeline.core import runtime
from pipeline.core.batches import pad
from pipeline.core.params import AtLeastOne, AtLeastZero, Positive, Share, ShareBelowOne, params
from pipeline.core.shards import replacing
from pipeline.teachers.translator import load_translator

INTO_ENGLISH = "translator-x-en"
MODELS = ("translator-en-x", INTO_ENGLISH)
INPUTS = ("parallel",)

SAVE_SECONDS = 240.0
"""Seconds between two saves of the state; it is also saved at the end of every cycle."""

BEAM_WIDTH, BATCH_SENTENCES = 4, 64
"""How the stored models translate when they are scored: as the pipeline uses them."""


@params
class Cycle:
    """One rise and fall of the learning rate over `pieces` pieces read (of both sides, repeats included).

    The first `short_pieces_read` come from pairs of at most `short` pieces a side (a curriculum, Platanios et al.
    2019): cross-attention learns its first alignments several times sooner on short sentences. In every later pass,
    the share `joined` of the everyday pairs (Tatoeba, captions) are strung together to longer texts (Kondo et al.
    2021), and the pairs of the other collections, news and parliament, come `formal_repeats` times.
    """

    pieces: AtLeastOne
    learning_rate: Positive
    decay_fraction: Positive
    short: AtLeastZero
    short_pieces_read: AtLeastZero
    joined: Share
    formal_repeats: AtLeastOne


@params
class Params:
    """Sizes and schedule; each cycle starts from the weights of the one before, with a fresh optimizer.

    `batch_tokens` bounds a side of a batch, `max_pieces` a side of a pair; one in `heldout_one_in` English sentences is
    held out.
    """

    vocabulary: AtLeastOne
    width: AtLeastOne
    feed_forward: AtLeastOne
    heads: AtLeastOne
    encoder_layers: AtLeastOne
    decoder_layers: AtLeastOne
    batch_tokens: AtLeastOne
    max_pieces: AtLeastOne
    warmup_steps: AtLeastOne
    label_smoothing: ShareBelowOne
    heldout_one_in: AtLeastOne
    seed: AtLeastZero
    cycles: tuple[Cycle, ...]


def make(model: str, params: Params, data: Path, work: Path, out: Path) -> None:
    """Run the cycles, or continue them, and write `out` in half precision."""
    text = read_parallel(data / "parallel", params.heldout_one_in)
    tokenizer = pieces_for(text.train, work / "pieces", params.vocabulary)
    examples = encode(tokenizer, text.train, model == INTO_ENGLISH, params.max_pieces)
    translator = new_model(params, len(tokenizer)).to(runtime.device())
    print(f"{model}: {translator.num_parameters():,} parameters, {len(examples):,} pairs", flush=True)
    for number, cycle in enumerate(params.cycles, 1):
        train_cycle(translator, examples, params, cycle, work / f"cycle-{number}.pt")
    translator.half().cpu().save_pretrained(out)
    tokenizer.save_pretrained(out)


def scores(params: Params, data: Path, models: Path) -> dict[str, Any]:
    """BLEU and chrF of both models on FLORES-200 devtest and on the held-out pairs of Tatoeba."""
    heldout = read_parallel(data / "parallel", params.heldout_one_in).heldout
    sets = {"flores200_devtest": read_flores(data / "parallel"), "tatoeba_heldout": heldout}
    return {
        name: {
            direction: values
            for model in MODELS
            for direction, values in translation_scores(models / model, model == INTO_ENGLISH, pairs).items()
        }
        for name, pairs in sets.items()
    }


def translation_scores(folder: Path, into_english: bool, pairs: list[SentencePair]) -> dict[str, dict[str, Any]]:
    """`fr-en` or `en-fr`, or with `de` -> corpus BLEU, chrF, their signatures (sacrebleu), the number of pairs."""
    model, found = load_translator(str(folder)), {}
    for language in LANGUAGES:
        chosen = [pair for pair in pairs if pair.language == language]
        english, foreign = [p.english for p in chosen], [p.foreign for p in chosen]
        source, target = (foreign, english) if into_english else (english, foreign)
        guess = model.translate(source, "en" if into_english else language, BEAM_WIDTH, BATCH_SENTENCES)
        values: dict[str, Any] = {"pairs": len(chosen)}
        for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
            values[name] = round(metric.corpus_score(guess, [target]).score, 2)
            values[f"{name}_signature"] = str(metric.get_signature())
        found[f"{language}-en" if into_english else f"en-{language}"] = values
    return found


def new_model(params: Params, vocabulary: int) -> MarianMTModel:
    """A freshly initialised Marian model; `<pad>` is the last id and starts the decoder from a zero vector."""
    torch.manual_seed(params.seed)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=params.width,
        encoder_layers=params.encoder_layers,
        decoder_layers=params.decoder_layers,
        encoder_attention_heads=params.heads,
        decoder_attention_heads=params.heads,
        encoder_ffn_dim=params.feed_forward,
        decoder_ffn_dim=params.feed_forward,
        activation_function="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        init_std=params.width**-0.5,  # the library's 0.02 is for wide models: here cross-attention would hardly start
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
        embedding.normal_(std=params.width**-0.5)
        embedding[-1].zero_()
    return model


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


def curriculum(examples: list[Example], cycle: Cycle, params: Params) -> Iterator[list[Example]]:
    """Batches of the short pairs until `short_pieces_read`, then passes over all pairs, without end."""
    rng = random.Random(params.seed)
    short = [e for e in examples if e.longest <= cycle.short]
    read = 0
    while short and read < cycle.short_pieces_read:
        for batch in batches(rng.sample(short, len(short)), params.batch_tokens, rng):
            read += size_of(batch)
            yield batch
            if read >= cycle.short_pieces_read:
                break
    while True:
        yield from batches(one_pass(examples, cycle, params.max_pieces, rng), params.batch_tokens, rng)


def size_of(batch: list[Example]) -> int:
    """Pieces of both sides."""
    return sum(len(e.source) + len(e.target) for e in batch)


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


def loss_of(model: MarianMTModel, batch: list[Example], label_smoothing: float) -> tuple[torch.Tensor, int]:
    """Summed label-smoothed cross-entropy and the number of target tokens; padding never meets the softmax."""
    padding = model.config.pad_token_id
    source = pad([e.source for e in batch], padding).to(model.device)
    target = pad([e.target for e in batch], padding).to(model.device)
    shifted = torch.cat([torch.full_like(target[:, :1], padding), target[:, :-1]], 1)
    mask = (source != padding).long()
    keep = target != padding
    with runtime.autocast(training=True):
        hidden = model.model(
            input_ids=source, attention_mask=mask, decoder_input_ids=shifted, use_cache=False
        ).last_hidden_state
        logits = (hidden[keep] @ model.get_input_embeddings().weight[:-1].T).float()
    loss = torch.nn.functional.cross_entropy(logits, target[keep], label_smoothing=label_smoothing, reduction="sum")
    return loss, int(keep.sum())


def rate_at(params: Params, cycle: Cycle, step: int, read: int) -> float:
    """Learning rate after `step` updates and `read` pieces: linear warm-up, plateau, linear decay to zero."""
    warm = min(1.0, (step + 1) / params.warmup_steps)
    left = 1 - read / cycle.pieces
    return cycle.learning_rate * warm * min(1.0, max(left, 0.0) / cycle.decay_fraction)


def train_cycle(model: MarianMTModel, examples: list[Example], params: Params, cycle: Cycle, state_file: Path) -> None:
    """One cycle, in place; it continues from `state_file` with the batches that it would have had."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=cycle.learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    step, read = 0, 0
    if state_file.exists():
        state = torch.load(state_file, weights_only=True, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, read = state["step"], state["read"]
        print(f"continuing from step {step}", flush=True)
    stream = curriculum(examples, cycle, params)
    for _ in range(step):
        next(stream)
    started, saved, tally, tokens, first_read = time.monotonic(), time.monotonic(), 0.0, 0, read
    while read < cycle.pieces:
        batch = next(stream)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(params, cycle, step, read)
        loss, count = loss_of(model, batch, params.label_smoothing)
        torch.autograd.backward(loss / count)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        model.get_input_embeddings().weight.grad[-1].zero_()
        optimizer.step()
        optimizer.zero_grad()
        step, read, tally, tokens = step + 1, read + size_of(batch), tally + float(loss.detach()), tokens + count
        if step % 100 == 0:
            speed = (read - first_read) / (time.monotonic() - started)
            print(f"step {step} read {read:,} loss {tally / tokens:.3f} ({speed:.0f} pieces/s)", flush=True)
            tally, tokens = 0.0, 0
        if time.monotonic() - saved > SAVE_SECONDS or read >= cycle.pieces:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "read": read}
            with replacing(state_file) as temporary:
                torch.save(state, temporary)
            saved = time.monotonic()
