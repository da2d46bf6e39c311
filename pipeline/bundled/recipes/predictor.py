"""The bundled predictor: what Predictor-Estimator knows of translations before it has seen a rating (Kim et al. 2017).

One predictor (`pipeline.metric.predictor`) serves several language pairs, each in its own direction, over one
vocabulary. It learns to say every piece of a human translation. The softmax over the whole vocabulary would take most
of the time on a CPU. So training asks which piece of a sample is the right one (sampled softmax, Jean et al. 2015): the
sample is the pieces of the batch and some drawn at random. What is measured, and what quality estimation reads, is the
whole softmax. Languages with little text come more often than by their number of rows.
"""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from pipeline.bundled.bitext import read_bitext, read_flores_multi
from pipeline.bundled.shared_pieces import learn_pieces
from pipeline.bundled.texts import SentencePair
from pipeline.core import runtime
from pipeline.core.errors import ParamsError
from pipeline.core.models import load, load_tokenizer
from pipeline.core.params import AtLeastOne, Share, ShareBelowOne, params
from pipeline.core.shards import generator
from pipeline.metric.pairs import EncodedPairs, encode_pairs
from pipeline.metric.prediction import batches_of
from pipeline.metric.predictor import Predictor, PredictorConfig, Said
from pipeline.training.loop import fit
from pipeline.training.schedule import BatchPlan, Schedule

MODELS = ("predictor",)
INPUTS = ("mlqe-pe", "parallel")

BATCH_TOKENS = 4096
"""Tokens of a batch without training, padding included; changes speed only."""

Text = tuple[str, str]
"""A source and its translation."""


@params
class Params:
    """Sizes and schedule.

    `language_pairs`: shell patterns of the directions that are learned. A pair with n rows is drawn in proportion to
    n ** `balance`. `vocabulary` pieces come from at most `piece_texts` sentences of a side of each pair. `width`: of
    `PredictorConfig`. `sampled`: pieces drawn at random for the softmax of a batch; as many as the vocabulary has make
    it exact. A pair is cut to `max_tokens`. One in `heldout_one_in` English sentences is held out; `validation_pairs`
    of each language pair choose the step.
    """

    language_pairs: tuple[str, ...]
    balance: Share
    vocabulary: AtLeastOne
    piece_texts: AtLeastOne
    width: AtLeastOne
    dropout: ShareBelowOne
    sampled: AtLeastOne
    max_tokens: AtLeastOne
    heldout_one_in: AtLeastOne
    validation_pairs: AtLeastOne
    batch_rows: AtLeastOne
    schedule: Schedule


def make(model: str, params: Params, data: Path, work: Path, out: Path) -> None:
    """Make the vocabulary, then train, or continue, and write `out` in half precision."""
    bitext = read_bitext(data, params.heldout_one_in)
    train, validation = (directed(part, params.language_pairs) for part in (bitext.train, bitext.validation))
    check_found(params.language_pairs, train, validation)
    tokenizer = _pieces(train, params, work / "tokenizer")
    seed, device = params.schedule.seed, runtime.device()
    rows = drawn_rows({pair: len(texts) for pair, texts in train.items()}, params)
    pairs = encoded([text for texts in train.values() for text in texts], tokenizer, params.max_tokens)
    held = [
        texts[place]
        for pair, texts in validation.items()
        for place in generator(seed, "validation", pair).permutation(len(texts))[: params.validation_pairs]
    ]
    held_pairs = encoded(held, tokenizer, params.max_tokens)
    torch.manual_seed(seed)
    config = PredictorConfig(
        len(tokenizer), params.width, tokenizer.cls_token_id, hidden_dropout_prob=params.dropout,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    predictor = Predictor(config).to(device)
    shares = torch.from_numpy(piece_shares(pairs, rows, len(tokenizer))).to(device)
    plan = BatchPlan(pairs.lengths[rows], params.batch_rows, seed)
    counts = ", ".join(f"{pair} {len(texts):,}" for pair, texts in train.items())
    print(f"{counts}; {len(tokenizer):,} pieces, {predictor.num_parameters():,} parameters", flush=True)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        return sampled_loss(predictor, model(**pairs.batch(rows[batch], device)), shares, params.sampled)

    def evaluate(_: torch.nn.Module) -> float:
        return float(said_well(predictor, held_pairs)[0].mean())

    def log(step: int, point: dict[str, float]) -> None:
        print(step, point, flush=True)

    history = fit(predictor, loss, plan.rows, params.schedule, work / "state.pt", evaluate=evaluate, log=log)
    print(f"best validation {history.best_score:.4f} at step {history.best_step}", flush=True)
    predictor.half().cpu().save_pretrained(out)
    tokenizer.save_pretrained(out)


def scores(params: Params, data: Path, models: Path) -> dict[str, Any]:
    """By language pair, on FLORES-200 devtest: mean log probability of a piece, and share of those said best."""
    folder, found = models / "predictor", {}
    predictor, tokenizer = load(Predictor, folder).to(runtime.device()), load_tokenizer(folder)
    flores = read_flores_multi(data / "parallel")
    pairs = [SentencePair(*both, language, "flores") for language, texts in flores.items() for both in texts]
    for pair, texts in sorted(directed(pairs, params.language_pairs).items()):
        likely, best = said_well(predictor, encoded(texts, tokenizer, params.max_tokens))
        found[pair] = {"log_probability": round(float(likely.mean()), 4), "best": round(float(best.mean()), 4)}
    return {"predictor_flores200_devtest": found}


def directed(pairs: Iterable[SentencePair], patterns: Sequence[str]) -> dict[str, list[Text]]:
    """Language pair -> its sources and translations, for the pairs that match one of `patterns`."""
    found: dict[str, list[Text]] = {}
    for pair in pairs:
        for name, text in (
            (f"{pair.language}-en", (pair.foreign, pair.english)),
            (f"en-{pair.language}", (pair.english, pair.foreign)),
        ):
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                found.setdefault(name, []).append(text)
    return found


def check_found(patterns: Sequence[str], train: Iterable[str], validation: Iterable[str]) -> None:
    """A ParamsError if one of `patterns` matches no language pair to learn from, or none to choose by."""
    for pattern in patterns:
        for what, known in (("parallel", train), ("held-out parallel", validation)):
            if not fnmatch.filter(known, pattern):
                raise ParamsError(f"bundled.predictor.language_pairs: there is no {what} text of {pattern!r}.")


def _pieces(train: Mapping[str, Sequence[Text]], params: Params, folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in `folder`, made of some sentences of each side of each pair if there is none."""
    if not (folder / "tokenizer.json").exists():
        chosen = []
        for pair, texts in train.items():
            places = generator(params.schedule.seed, "pieces", pair).permutation(len(texts))[: params.piece_texts]
            chosen += [side for place in places.tolist() for side in texts[place]]
        learn_pieces(chosen, params.vocabulary, folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def encoded(texts: Sequence[Text], tokenizer: PreTrainedTokenizerFast, max_tokens: int) -> EncodedPairs:
    """Sources and translations in tokens."""
    return encode_pairs(tokenizer, [source for source, _ in texts], [target for _, target in texts], max_tokens)


def drawn_rows(sizes: Mapping[str, int], params: Params) -> NDArray[numpy.int64]:
    """The pair of every row of a run, (steps * batch_rows,); `sizes` counts each language pair's, one after the other.

    Every row of a language pair is drawn once before any is drawn again.
    """
    rng, starts = generator(params.schedule.seed, "rows"), numpy.cumsum([0, *sizes.values()])
    counts = numpy.array(list(sizes.values()), dtype=numpy.float64) ** params.balance
    wanted = rng.multinomial(params.schedule.steps * params.batch_rows, counts / counts.sum())
    found = []
    for start, size, count in zip(starts, sizes.values(), wanted.tolist(), strict=False):
        passes = [start + rng.permutation(size) for _ in range(-(-count // size))]
        found.append(numpy.concatenate([numpy.zeros(0, numpy.int64), *passes])[:count])
    return numpy.concatenate(found)


def piece_shares(pairs: EncodedPairs, rows: NDArray[numpy.int64], pieces: int) -> NDArray[numpy.float64]:
    """Which share of the targets of `rows` each of so many `pieces` has: (pieces,), sum 1."""
    counts = numpy.zeros(pieces)
    for row, times in zip(*numpy.unique(rows, return_counts=True), strict=True):
        numpy.add.at(counts, pairs.ids[pairs.starts[row] + pairs.seconds[row] : pairs.starts[row + 1]], times)
    shares: NDArray[numpy.float64] = counts / counts.sum()
    return shares


def sampled_loss(predictor: Predictor, said: Said, shares: torch.Tensor, sampled: int) -> torch.Tensor:
    """Mean cross-entropy of telling the pieces in `said` from the others of a sample of the vocabulary.

    The sample holds the pieces of the batch and `sampled` drawn at random (torch's generator, which the loop seeds at
    every step). With N pieces in the batch, piece w, whose share of all targets is `shares[w]`, is in it with the
    chance Q = 1 - (1 - sampled / vocabulary) (1 - share) ** N. Where the network says p(w), w is the right one of a
    sample with a probability in proportion to p(w) / Q(w), so that the best p is the same as without a sample. A sample
    of the whole vocabulary gives the usual loss.
    """
    vectors, pieces = said.vectors[said.there], said.pieces[said.there]
    sampled = min(sampled, len(shares))
    drawn = torch.randperm(len(shares))[:sampled].to(pieces.device)
    sample = torch.unique(torch.cat([pieces, drawn]))
    products = torch.nn.functional.linear(vectors, predictor.embeddings.weight[sample], predictor.bias[sample])
    chances = 1 - (1 - sampled / len(shares)) * (1 - shares[sample]) ** len(pieces)
    logits = products.float() - chances.clamp(min=1e-9).log().float()
    return torch.nn.functional.cross_entropy(logits, torch.searchsorted(sample, pieces))


@torch.inference_mode()
def said_well(predictor: Predictor, pairs: EncodedPairs) -> tuple[torch.Tensor, torch.Tensor]:
    """For each piece of all targets of `pairs`: its log probability, and 1 if it is the most probable one, else 0."""
    likely, best = [], []
    for batch in batches_of(pairs, BATCH_TOKENS):
        said = predictor(**pairs.batch(batch, str(predictor.device)))
        found, pieces = predictor.log_probabilities(said.vectors[said.there]), said.pieces[said.there]
        likely.append(found.gather(1, pieces.unsqueeze(1)).squeeze(1).double().cpu())
        best.append((found.argmax(1) == pieces).double().cpu())
    return torch.cat(likely), torch.cat(best)
