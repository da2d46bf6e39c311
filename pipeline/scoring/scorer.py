"""BleurtScorer: how close candidates come to their references, as people would rate it. Higher is better.

>>> scorer = BleurtScorer()                                                                        # doctest: +SKIP
>>> scorer.score(references=["The cat sat on the mat."], candidates=["A cat sat on a mat."])       # doctest: +SKIP
[0.83]
>>> print(scorer.signature())                                                                      # doctest: +SKIP
bleurt|checkpoint:3f1c…|output:adequacy|version:0.2.0|precision:float32|max_tokens:128|references:max|long:cut|edges:1

Pairs are scored in chunks: each distinct pair once, in batches of similar length under a budget of tokens, while the
next chunk is being tokenised. A scorer may be used from several threads. What becomes of unusual texts stands in
`pipeline.scoring.unusual_texts`, what a score means in `pipeline.scoring.calibration`.
"""

import enum
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.batches import token_batches
from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import check_max_tokens, load_tokenizer, locate, usable_tokens
from pipeline.metric.checkpoint import load_metric
from pipeline.scoring import unusual_texts as edges
from pipeline.scoring.calibration import load_calibration
from pipeline.scoring.chunks import Chunk, Long, Pair, Part, cut_chunks, pairs_of, prepare
from pipeline.scoring.devices import BATCH_TOKENS, Replicas, check_device, precision_on
from pipeline.scoring.signature import Signature, checkpoint_hash, package_version

DEFAULT_CHECKPOINT = "bundled:metric"
MAX_TOKENS = 128
"""Tokens of a pair that are read unless told otherwise: what the bundled metric was trained on."""

ADEQUACY = "adequacy"
"""The output that is the score of a checkpoint with several."""


Choice = TypeVar("Choice", bound=enum.StrEnum)


class Multi(enum.StrEnum):
    """How the scores against several references become one."""

    MAX = "max"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate's score, higher is better, and what there is to know about it.

    `truncated`: words were left out, as the pair was too long. `percentile`: share of human-rated candidates that score
    lower, 0 to 100; None where the checkpoint is not calibrated. `edge`: one of `edges.Edge`, or None. `windows`: in
    how many windows the pair was read, the most of any of its references.
    """

    score: float
    truncated: bool
    percentile: float | None
    edge: str | None
    windows: int = 1


class BleurtScorer:
    """A checkpoint that scores; nothing about it changes after construction.

    `checkpoint`: a folder or a name as in params.yaml (see `pipeline.core.models`); the bundled metric by default.
    `device`: one, or several that share the work; BLEURT_DEVICE or what there is by default. `max_tokens`: of a pair,
    special tokens included. `batch_tokens`: of a batch, padding included. `multi`: "max" or "mean" over references.
    `long`: "cut" or "windows". `precision`: "auto" is bf16 on GPUs that compute in it, else float32. `output`: name of
    one of the checkpoint's outputs, where it has several.

    A checkpoint that cannot be used is a ModelError, a setting that cannot be met a ParamsError.
    """

    def __init__(
        self,
        checkpoint: str | Path | None = None,
        *,
        device: str | Sequence[str] | None = None,
        max_tokens: int | None = None,
        batch_tokens: int | None = None,
        multi: str = Multi.MAX,
        long: str = Long.CUT,
        precision: str = "auto",
        output: str | None = None,
    ) -> None:
        self._settings = {
            "checkpoint": checkpoint, "device": device, "max_tokens": max_tokens, "batch_tokens": batch_tokens,
            "multi": multi, "long": long, "precision": precision, "output": output,
        }  # fmt: skip
        self._multi, self._long = _choice("multi", Multi, multi), _choice("long", Long, long)
        _check_counts(max_tokens=max_tokens, batch_tokens=batch_tokens)
        if device is not None and not device:
            raise ParamsError("device: must name one at least.")
        devices = [runtime.device()] if device is None else [device] if isinstance(device, str) else list(device)
        self.precision = precision_on(check_device(devices[0]), precision)
        self.checkpoint = locate(str(checkpoint or DEFAULT_CHECKPOINT))
        self.tokenizer = load_tokenizer(self.checkpoint)
        model = load_metric(self.checkpoint, devices[0])
        self.max_tokens = max_tokens or min(MAX_TOKENS, usable_tokens(model.config, self.tokenizer))
        check_max_tokens("max_tokens", self.max_tokens, model.config, self.tokenizer)
        self.batch_tokens = batch_tokens or BATCH_TOKENS[devices[0].split(":")[0]]
        self.output, self._output = _output(model, output, self.checkpoint)
        self.calibration = load_calibration(self.checkpoint)
        self._replicas = Replicas(model, [check_device(name) for name in devices], self.precision)
        self._checkpoint_hash = checkpoint_hash(self.checkpoint)
        self._tokenizing = threading.Lock()  # a fast tokenizer's settings are changed by every call

    @property
    def model(self) -> PreTrainedModel:
        """The model, in evaluation mode; its copy on the first device."""
        return self._replicas.model

    def score(
        self,
        references: Sequence[str | Sequence[str]],
        candidates: Sequence[str],
        batch_size: int | None = None,
        sources: Sequence[str] | None = None,
    ) -> list[float]:
        """A score for each candidate, in order; `references[i]` is a text or a list of texts.

        `batch_size`: pairs of a batch, at most; none by default, as `batch_tokens` bounds it. Lists of unequal length,
        and what is no text, are an InputError.
        """
        return [scored.score for scored in self._scored(pairs_of(references, candidates, sources), batch_size)]

    def score_detailed(
        self,
        references: Sequence[str | Sequence[str]],
        candidates: Sequence[str],
        batch_size: int | None = None,
        sources: Sequence[str] | None = None,
    ) -> list[Scored]:
        """As `score`, with everything that there is to know; sources serve the flag `source_copy` alone."""
        return self._scored(pairs_of(references, candidates, sources), batch_size)

    def _scored(self, pairs: Sequence[Pair], batch_size: int | None) -> list[Scored]:
        """What `pairs` score; the caller's caller is warned of those that were cut."""
        found = list(self.stream(pairs, batch_size))
        cut = sum(scored.truncated for scored in found)
        if cut:
            advice = "; long='windows' reads them whole" if self._long is Long.CUT else ""
            warnings.warn(
                f"{cut} of {len(found)} pairs have more than {self.max_tokens} tokens and were cut{advice}.",
                stacklevel=3,
            )
        return found

    def stream(self, pairs: Iterable[Pair], batch_size: int | None = None) -> Iterator[Scored]:
        """What `pairs` score, in order; of an endless iterable no more than three chunks are in memory."""
        _check_counts(batch_size=batch_size)
        with ThreadPoolExecutor(1) as ahead:
            waiting = None
            for chunk in cut_chunks(pairs):
                following = ahead.submit(self._prepare, chunk)
                if waiting is not None:
                    yield from self._finish(waiting.result(), batch_size)
                waiting = following
            if waiting is not None:
                yield from self._finish(waiting.result(), batch_size)

    def signature(self) -> Signature:
        """What the scores depend on."""
        return Signature(
            checkpoint=self._checkpoint_hash,
            output=self.output,
            version=package_version(),
            precision=self.precision,
            max_tokens=self.max_tokens,
            references=self._multi.value,
            long=self._long.value,
            edges=edges.VERSION,
        )

    def _prepare(self, pairs: Sequence[Pair]) -> Chunk:
        with self._tokenizing:
            return prepare(pairs, self.tokenizer, self.max_tokens, self._long)

    def _finish(self, chunk: Chunk, batch_size: int | None) -> Iterator[Scored]:
        batches = token_batches(chunk.encoded.lengths[chunk.rows].tolist(), self.batch_tokens)
        size = batch_size or max(map(len, batches))
        cut = [chunk.rows[batch[i : i + size]].tolist() for batch in batches for i in range(0, len(batch), size)]
        rows = self._replicas.scores(chunk.encoded, cut, self._output)
        scores = [_weighted(rows, parts) for parts in chunk.texts]
        if not numpy.isfinite(scores).all():
            raise ModelError(f"{self.checkpoint}: gives some pairs no finite score; the checkpoint is damaged.")
        truncated = chunk.truncated.tolist()
        for flag, texts in chunk.pairs:
            mine = [scores[text] for text in texts]
            score = max(mine) if self._multi is Multi.MAX else sum(mine) / len(mine)
            yield Scored(
                score=score,
                truncated=any(truncated[text] for text in texts),
                percentile=self.calibration.percentile(score) if self.calibration else None,
                edge=flag.value if flag else None,
                windows=max(len(chunk.texts[text]) for text in texts),
            )

    def __deepcopy__(self, memo: Any) -> "BleurtScorer":
        """Itself, as nothing about it changes: objects that hold a scorer can be copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to other processes as its settings, and loads its checkpoint there."""
        return _restore, (self._settings,)


def _weighted(rows: NDArray[numpy.float32], parts: Sequence[Part]) -> float:
    if len(parts) == 1:
        return float(rows[parts[0].row])
    return float(numpy.average([rows[part.row] for part in parts], weights=[part.weight for part in parts]))


def _check_counts(**counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ParamsError(f"{name}: must be at least 1, not {value}.")


def _choice(name: str, kind: type[Choice], value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        raise ParamsError(f"{name}: must be one of {', '.join(kind)}, not {value!r}.") from None


def _output(model: PreTrainedModel, wanted: str | None, folder: Path) -> tuple[str, int]:
    """Name and number of the output that is the score."""
    names = [str(model.config.id2label[number]) for number in range(model.config.num_labels)]
    if wanted is None and len(names) == 1:
        return names[0], 0
    name = wanted or ADEQUACY
    if name not in names:
        raise ModelError(f"{folder}: has the outputs {', '.join(names)}; name one of these, not {name!r}.")
    return name, names.index(name)


def _restore(settings: dict[str, Any]) -> BleurtScorer:
    return BleurtScorer(**settings)
