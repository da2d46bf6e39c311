"""The bundled multilingual encoder: the packaged MiniLM under a vocabulary of many languages, taught by itself.

The student has the teacher's layers, and embeddings that parallel text gives (`pipeline.bundled.shared_pieces`). It
learns to give a sentence the vector which the teacher gives its English translation (Reimers and Gurevych 2020). A
vector is the mean of the last states, of length 1. Differences: beside the squared distance there is a loss that tells
the right teacher's vector from those of the batch; short sentences are strung together to longer texts; English text of
Wikipedia keeps the student's English; and languages with little text come more often than by their number of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast, PreTrainedTokenizerFast

from pipeline.bundled import encoder
from pipeline.bundled.alignment import Rows, aligned_pieces
from pipeline.bundled.bitext import read_bitext, read_flores_multi
from pipeline.bundled.encoder import ENCODER
from pipeline.bundled.shared_pieces import first_embeddings, learn_pieces
from pipeline.bundled.texts import SentencePair, wikipedia_texts
from pipeline.core.batches import pad, token_batches
from pipeline.core.models import load, locate
from pipeline.core.params import AtLeastOne, NotNegative, Positive, Share, params
from pipeline.core.shards import generator, replacing
from pipeline.teachers.sentence_vectors import sentence_vectors
from pipeline.training.schedule import BatchPlan, Schedule

MODELS = ("encoder-multilingual",)
INPUTS = ("mlqe-pe", "nli", "parallel", "wikipedia")

EMBEDDINGS = "embeddings.word_embeddings.weight"

BATCH_TOKENS = 4096
"""Tokens of a batch without training, padding included; changes speed only."""

SAME = 0.95
"""Cosine of two teacher's vectors from which on neither is wrong for the other's text."""


@params
class Params:
    """Sizes and schedule.

    `vocabulary` pieces come from at most `piece_texts` sentences a language. `rounds` of expectation maximisation
    align them. A language with n sentences is drawn in proportion to n ** `balance`. A share `joined` of the examples
    are several sentences, up to `max_pieces`. `contrast` weighs the loss inside the batch, at `temperature`.
    One in `heldout_one_in` English sentences is held out; `validation_pairs` a language, the longest, choose the step.
    """

    vocabulary: AtLeastOne
    piece_texts: AtLeastOne
    rounds: AtLeastOne
    balance: Share
    joined: Share
    max_pieces: AtLeastOne
    contrast: NotNegative
    temperature: Positive
    heldout_one_in: AtLeastOne
    validation_pairs: AtLeastOne
    batch_rows: AtLeastOne
    schedule: Schedule


@dataclass(frozen=True)
class Lessons:
    """What the student reads and what the teacher reads: rows of ids without special tokens, of the same pairs."""

    student: Rows
    teacher: Rows
    languages: dict[str, list[int]]
    """Language -> its rows."""


def make(model: str, params: Params, data: Path, work: Path, out: Path) -> None:
    """Make the vocabulary and the first embeddings, then train, or continue, and write `out`."""
    bitext = read_bitext(data, params.heldout_one_in)
    texts = wikipedia_texts(data, work / "segments")
    pairs = [*bitext.train, *(SentencePair(text, text, "en", "wikipedia") for text in texts)]
    tokenizer = _pieces(pairs, params, work / "tokenizer")
    source = locate(ENCODER)
    full = BertTokenizerFast.from_pretrained(source)
    lessons = read_lessons(pairs, tokenizer, full, params.max_pieces)
    teacher = load(BertModel, source, add_pooling_layer=False)
    student = new_student(teacher, source, _first(lessons, tokenizer, full, teacher, params, work / "first.npy"))
    examples = draw_examples(lessons, params)
    print(f"{len(pairs):,} pairs, {len(tokenizer):,} pieces, {student.num_parameters():,} parameters", flush=True)
    lengths = [sum(int(lessons.student.lengths[row]) for row in rows) for rows in examples]
    plan = BatchPlan(lengths, params.batch_rows, params.schedule.seed)
    held = longest_pairs(bitext.validation, params.validation_pairs)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        chosen = [examples[i] for i in batch]
        with torch.inference_mode():
            wanted = vectors(teacher.to(student.device), [framed(full, lessons.teacher, rows) for rows in chosen])
        given = vectors(model, [framed(tokenizer, lessons.student, rows) for rows in chosen])
        return distance(given, wanted.clone(), params.contrast, params.temperature)

    def evaluate(model: torch.nn.Module) -> float:
        english, foreign = (
            tokenizer([getattr(pair, side) for pair in held], truncation=True, max_length=params.max_pieces)
            for side in ("english", "foreign")
        )
        return nearest(embed(model, foreign["input_ids"]), embed(model, english["input_ids"]))

    encoder.train(student, tokenizer, loss, plan.rows, params.schedule, evaluate, work / "state.pt", out)


def scores(params: Params, data: Path, models: Path) -> dict[str, Any]:
    """Share of FLORES-200 devtest's sentences whose nearest English neighbour is their translation, by language."""
    found, folder = {}, str(models / "encoder-multilingual")
    for language, pairs in sorted(read_flores_multi(data / "parallel").items()):
        english, foreign = ([pair[side] for pair in pairs] for side in (0, 1))
        ours, theirs = (torch.from_numpy(sentence_vectors(folder, side, BATCH_TOKENS)) for side in (foreign, english))
        found[language] = round(nearest(ours, theirs), 4)
    return {"encoder_multilingual_nearest_flores200_devtest": found}


def _pieces(pairs: list[SentencePair], params: Params, folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in `folder`, made of up to `piece_texts` sentences of each language if there is none."""
    if not (folder / "tokenizer.json").exists():
        texts: dict[str, set[str]] = {"en": set()}
        for pair in pairs:
            texts.setdefault(pair.language, set()).add(pair.foreign)
        rng = generator(params.schedule.seed, "pieces")
        chosen = []
        for language in sorted(texts):
            known = sorted(texts[language])
            chosen += [known[i] for i in rng.permutation(len(known))[: params.piece_texts]]
        learn_pieces(chosen, params.vocabulary, folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def read_lessons(
    pairs: list[SentencePair], tokenizer: PreTrainedTokenizerFast, full: BertTokenizerFast, max_pieces: int
) -> Lessons:
    """Ids of both sides of every pair, each cut so that `max_pieces` hold it with its special tokens."""
    languages: dict[str, list[int]] = {}
    for row, pair in enumerate(pairs):
        languages.setdefault(pair.language, []).append(row)
    plain = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    options = {**plain, "truncation": True, "max_length": max_pieces - 2}
    student = Rows.of(tokenizer([pair.foreign for pair in pairs], **options)["input_ids"])
    teacher = Rows.of(full([pair.english for pair in pairs], **options)["input_ids"])
    return Lessons(student, teacher, languages)


def _first(
    lessons: Lessons,
    tokenizer: PreTrainedTokenizerFast,
    full: BertTokenizerFast,
    teacher: BertModel,
    params: Params,
    file: Path,
) -> torch.Tensor:
    """The student's first word embeddings; they are kept in `file`."""
    if not file.exists():
        foreign = {language: rows for language, rows in lessons.languages.items() if language != "en"}
        links = [
            aligned_pieces(lessons.student, lessons.teacher, rows, params.rounds, len(full))
            for rows in foreign.values()
        ]
        ids = [lessons.student[row] for row in lessons.languages.get("en", [])]
        counts = numpy.bincount(Rows.of(ids).flat, minlength=len(tokenizer))
        known = teacher.get_input_embeddings().weight.detach().numpy()
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        with replacing(file) as temporary, temporary.open("wb") as stream:
            numpy.save(stream, first_embeddings(pieces, full, known, links, counts))
    return torch.from_numpy(numpy.load(file))


def new_student(teacher: BertModel, source: Path, embeddings: torch.Tensor) -> BertModel:
    """A copy of `teacher`, which the folder `source` holds, over the word `embeddings` (pieces, D), without dropout."""
    config = BertConfig.from_pretrained(
        source, vocab_size=len(embeddings), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    student = BertModel(config, add_pooling_layer=False)
    student.load_state_dict({**teacher.state_dict(), EMBEDDINGS: embeddings})
    return student


def draw_examples(lessons: Lessons, params: Params) -> list[tuple[int, ...]]:
    """As many examples as the schedule reads: rows of one language each, one row or several strung together.

    Every row of a language is drawn once before any is drawn again.
    """
    rng = generator(params.schedule.seed, "examples")
    names = sorted(lessons.languages)
    shares = numpy.array([len(lessons.languages[name]) for name in names]) ** params.balance
    wanted = rng.choice(len(names), params.schedule.steps * params.batch_rows, p=shares / shares.sum())
    left: dict[str, list[int]] = {name: [] for name in names}

    def draw(name: str) -> int:
        if not left[name]:
            left[name] = rng.permutation(lessons.languages[name]).tolist()
        return left[name].pop()

    examples = []
    for name in (names[place] for place in wanted):
        rows = [draw(name)]
        room = int(rng.integers(params.max_pieces // 4, params.max_pieces - 2)) if rng.random() < params.joined else 0
        used = _longer(lessons, rows[0])
        while used < room:
            row = draw(name)
            used += _longer(lessons, row)
            if used > params.max_pieces - 2:
                break
            rows.append(row)
        examples.append(tuple(rows))
    return examples


def _longer(lessons: Lessons, row: int) -> int:
    return int(max(lessons.student.lengths[row], lessons.teacher.lengths[row]))


def framed(tokenizer: Any, ids: Rows, rows: Sequence[int]) -> list[int]:
    """The ids of `rows`, one after the other, between [CLS] and [SEP]."""
    return [tokenizer.cls_token_id, *(i for row in rows for i in ids[row]), tokenizer.sep_token_id]


def vectors(model: torch.nn.Module, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Unit vectors (rows, D): the mean of the last states. [PAD] has the id 0 in both vocabularies."""
    ids = pad(rows, 0).to(next(model.parameters()).device)
    mask = (ids != 0).long()
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
    kept = mask[:, :, None]
    return torch.nn.functional.normalize((states * kept).sum(1) / kept.sum(1), dim=-1)


def distance(given: torch.Tensor, wanted: torch.Tensor, contrast: float, temperature: float) -> torch.Tensor:
    """Mean squared distance of unit vectors (B, D), and `contrast` times the cross-entropy of picking the right one.

    Each side picks among the other side's B vectors. Rows whose wanted vectors are nearly the same do not compete.
    """
    squared = (given - wanted).square().sum(-1).mean()
    if not contrast:
        return squared
    rivals = (wanted @ wanted.T < SAME) | torch.eye(len(wanted), dtype=torch.bool, device=wanted.device)
    logits = (given @ wanted.T / temperature).masked_fill(~rivals, -1e4)
    right = torch.arange(len(wanted), device=wanted.device)
    both = (torch.nn.functional.cross_entropy(side, right) for side in (logits, logits.T))
    return squared + contrast * sum(both) / 2


def longest_pairs(pairs: Sequence[SentencePair], count: int) -> list[SentencePair]:
    """The `count` pairs of each language with the most English characters, one for each English sentence."""
    found: dict[str, dict[str, SentencePair]] = {}
    for pair in sorted(pairs, key=lambda pair: (-len(pair.english), pair.english, pair.foreign)):
        known = found.setdefault(pair.language, {})
        if len(known) < count:
            known.setdefault(pair.english, pair)
    return [pair for language in sorted(found) for pair in found[language].values()]


@torch.inference_mode()
def embed(model: Any, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Unit vectors (rows, D) of ids with special tokens, on the CPU."""
    found = torch.zeros(len(rows), model.config.hidden_size)
    for batch in token_batches([len(row) for row in rows], BATCH_TOKENS):
        found[batch] = vectors(model, [rows[i] for i in batch]).cpu()
    return found


def nearest(foreign: torch.Tensor, english: torch.Tensor) -> float:
    """Share of the rows of `foreign` (rows, D), in [0, 1], to which the same row of `english` is the nearest.

    Rows of `english` that are equal to the right one are right too.
    """
    cosines = foreign @ english.T
    return float((cosines.diagonal() >= cosines.max(1).values - 1e-6).double().mean())
