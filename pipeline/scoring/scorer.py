"""BleurtScorer: how close candidates come to their references, as people would rate it. Higher is better.

>>> scorer = BleurtScorer()                                                                        # doctest: +SKIP
>>> scorer.score(references=["The cat sat on the mat."], candidates=["A cat sat on a mat."])       # doctest: +SKIP
[0.83]
>>> print(scorer.signature())                                                                      # doctest: +SKIP
bleurt|checkpoint:3f1c…|output:adequacy|version:0.1.0|…|max_tokens:128|…|edges:2|activation:gelu|reads:reference

Pairs are scored in chunks: each distinct pair once, in batches of similar length under a budget of tokens. Meanwhile
the next chunk is tokenised. Several threads may use one scorer. `pipeline.scoring.unusual_texts` says what happens to
unusual texts, `pipeline.scoring.calibration` what a score means.
"""

import enum
import functools
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import load_tokenizer, locate
from pipeline.core.originals import reads_as_given
from pipeline.metric.beside import Reads, beside_of
from pipeline.metric.checkpoint import load_metric
from pipeline.metric.prediction import BATCH_TOKENS, Replicas, check_device, precision_on, readable_tokens
from pipeline.scoring.calibration import load_calibration
from pipeline.scoring.chunks import Chunk, Long, Pair, Part, cut_chunks, pairs_of, prepare
from pipeline.scoring.contradiction import contradictions, losses
from pipeline.scoring.processes import Processes
from pipeline.scoring.signature import NO_EDGES, Signature, activation, checkpoint_hash
from pipeline.scoring.unusual_texts import VERSION as EDGES_VERSION
from pipeline.scoring.unusual_texts import CharacterReferences, clean
from pipeline.scoring.version import package_version

DEFAULT_CHECKPOINT = "bundled:metric"

ADEQUACY = "adequacy"
"""The output that is the score of a checkpoint with several."""

Choice = TypeVar("Choice", bound=enum.StrEnum)


class Multi(enum.StrEnum):
    """How the scores against several references become one."""

    MAX = "max"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate's score, higher is better, and what else is known about it.

    `truncated`: the pair was too long, so words were left out. `percentile`: share of human-rated candidates that score
    lower, 0 to 100; None if the checkpoint is not calibrated. `edge`: one of `unusual_texts.Edge`, or None. `windows`:
    in how many windows the pair was read; with several references, the largest number. `contradiction`: probability
    that the candidate contradicts a reference of which it is a near-copy (of several, the least); None without a
    classifier of entailment, or if it is none.
    """

    score: float
    truncated: bool
    percentile: float | None
    edge: str | None
    windows: int = 1
    contradiction: float | None = None


class BleurtScorer:
    """A checkpoint that scores; nothing about it changes after construction.

    `checkpoint`: a folder or a name as in params.yaml (see `pipeline.core.models`); by default the bundled metric.
    `device`: one, or several that share the work; by default BLEURT_DEVICE, or a GPU if there is one. `max_tokens`: of
    a pair, special tokens included. `batch_tokens`: of a batch, padding included. `multi`: "max" or "mean" over
    references. `long`: "cut" or "windows" (see `pipeline.scoring.chunks`). `precision`: "auto" is bf16 on GPUs that
    compute in it, else float32; "bf16" and "int8" are faster on CPUs that have them, and scores move a little
    (`pipeline.metric.kernels`). `output`: the output that is the score, if the checkpoint has several.
    `character_references`: "undone" reads `&quot;` as the character that it stands for, "kept" as it is written.
    `processes`: how many score on the CPU and share the weights (`pipeline.scoring.processes`). `entailment`: a
    classifier that lowers near-copies which contradict their reference (`pipeline.scoring.contradiction`).

    A checkpoint that cannot be used is a ModelError. A setting that this machine or checkpoint cannot meet is a
    ParamsError.
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
        character_references: str = CharacterReferences.UNDONE,
        processes: int = 1,
        entailment: str | None = None,
    ) -> None:
        self._settings = {
            "checkpoint": checkpoint, "device": device, "max_tokens": max_tokens, "batch_tokens": batch_tokens,
            "multi": multi, "long": long, "precision": precision, "output": output,
            "character_references": character_references, "processes": processes, "entailment": entailment,
        }  # fmt: skip
        self._multi, self._long = _choice("multi", Multi, multi), _choice("long", Long, long)
        self.character_references = _choice("character_references", CharacterReferences, character_references)
        _check_counts(max_tokens=max_tokens, batch_tokens=batch_tokens, processes=processes)
        if device is not None and not device:
            raise ParamsError("device: must name at least one.")
        devices = [runtime.device()] if device is None else [device] if isinstance(device, str) else list(device)
        self.precision = precision_on(check_device(devices[0]), precision)
        if processes > 1 and devices != ["cpu"]:
            raise ParamsError(f"processes: {processes} share one CPU; on {', '.join(devices)} give 1.")
        threads = torch.get_num_threads()
        if processes > 1:
            torch.set_num_threads(1)  # a process that has started no threads can be forked
        self.checkpoint = locate(str(checkpoint or DEFAULT_CHECKPOINT))
        self.tokenizer = load_tokenizer(self.checkpoint)
        model = load_metric(self.checkpoint, devices[0])
        self.max_tokens = readable_tokens(model.config, self.tokenizer, max_tokens, "max_tokens")
        self.batch_tokens = batch_tokens or BATCH_TOKENS[devices[0].split(":")[0]]
        self.output, self._output = _output(model, output, self.checkpoint)
        self._as_given = reads_as_given(model.config)
        self.beside = beside_of(model.config, self.tokenizer)
        if self.beside.reads is Reads.BOTH and self._long is Long.WINDOWS:
            raise ParamsError("long: must be cut for a checkpoint that reads reference and source, not windows.")
        if entailment is not None and self.beside.reads is not Reads.REFERENCE:
            raise ParamsError("entailment: needs a checkpoint that reads references and no sources.")
        self._entailment = None if entailment is None else locate(entailment)
        self.calibration = load_calibration(self.checkpoint)
        self._config, self.device = model.config, devices[0]
        self._replicas = Replicas(model, [check_device(name) for name in devices], self.precision, owned=True)
        self._outputs = self._replicas.outputs
        if processes > 1:
            self._outputs = Processes(self._replicas, self.checkpoint, processes, threads // processes).outputs
            torch.set_num_threads(threads)
        self._checkpoint_hash = checkpoint_hash(self.checkpoint)
        self._tokenizing = threading.Lock()  # a fast tokenizer's settings are changed by every call

    @functools.cached_property
    def model(self) -> PreTrainedModel:
        """The model with plain weights, in evaluation mode, on the first device.

        If scores come from packed weights, it is loaded when it is first asked for.
        """
        return load_metric(self.checkpoint, self.device) if self._replicas.packed else self._replicas.model

    def clean(self, text: str) -> str:
        """`text` as the model reads it: cleaned (`unusual_texts`), but for an original BLEURT as it is."""
        return text if self._as_given else clean(text, self.character_references)

    def score(
        self,
        references: Sequence[str | Sequence[str]] | None = None,
        candidates: Sequence[str] = (),
        batch_size: int | None = None,
        sources: Sequence[str] | None = None,
    ) -> list[float]:
        """A score for each candidate, in order; `references[i]` is a text or a list of texts.

        A checkpoint that reads sources (`finetune.reads`) needs `sources`, and one that reads only these no references.

        `batch_size`: pairs of a batch, at most; by default only `batch_tokens` bounds a batch. Lists of unequal length,
        and entries that are not text, are an InputError.
        """
        return [scored.score for scored in self._scored(pairs_of(references, candidates, sources), batch_size)]

    def score_detailed(
        self,
        references: Sequence[str | Sequence[str]] | None = None,
        candidates: Sequence[str] = (),
        batch_size: int | None = None,
        sources: Sequence[str] | None = None,
    ) -> list[Scored]:
        """As `score`, with all that is known about each score; the flag `source_copy` needs `sources`."""
        return self._scored(pairs_of(references, candidates, sources), batch_size)

    def _scored(self, pairs: Sequence[Pair], batch_size: int | None) -> list[Scored]:
        """Scores of `pairs`; warns the user, who is two calls above, of pairs that were cut."""
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
        """Scores of `pairs`, in order; at most three chunks are in memory, so `pairs` may be endless."""
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
            character_references=(CharacterReferences.KEPT if self._as_given else self.character_references).value,
            edges=NO_EDGES if self._as_given else EDGES_VERSION,
            activation=activation(self._config),
            reads=self.beside.reads.value,
            entailment=checkpoint_hash(self._entailment) if self._entailment else None,
        )

    def _prepare(self, pairs: Sequence[Pair]) -> Chunk:
        with self._tokenizing:
            return prepare(pairs, self.tokenizer, self.max_tokens, self._long, self.clean, self.beside)

    def _finish(self, chunk: Chunk, batch_size: int | None) -> Iterator[Scored]:
        outputs = self._outputs(chunk.encoded, self.batch_tokens, chunk.rows, batch_size)
        rows = outputs[:, self._output]
        scores = [_weighted(rows, parts) for parts in chunk.texts]
        if not numpy.isfinite(scores).all():
            raise ModelError(f"{self.checkpoint}: gives some pairs no finite score; the checkpoint is damaged.")
        found: dict[int, float] = {}
        if self._entailment is not None:
            read = contradictions(str(self._entailment), *map(list, zip(*chunk.sides, strict=True)))
            scores = (scores - losses(read)).tolist()
            found = {text: float(read[text]) for text in numpy.flatnonzero(~numpy.isnan(read)).tolist()}
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
                contradiction=min((found[text] for text in texts if text in found), default=None),
            )

    def __deepcopy__(self, memo: Any) -> "BleurtScorer":
        """The scorer itself: it never changes, so copies of an object that holds it may share it."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Its settings: another process gets these and loads the checkpoint there."""
        return _restore, (self._settings,)


def _weighted(rows: NDArray[numpy.float32], parts: Sequence[Part]) -> float:
    """Mean of the scores of `parts`, by their weights."""
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
