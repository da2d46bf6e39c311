"""What every stage of a profile computes and keeps, counted from params.yaml and the shapes of its models.

A forward pass costs 2 FLOPs for each weight of its matrices and each token, a training step three times that; attention
and embeddings are left out, a few per cent at the lengths here. Stages that need no model are counted in seconds of a
core. Counts of texts that come from elsewhere (outputs of systems, parallel text) are as many as the params draw.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipeline.core.errors import ParamsError
from pipeline.core.params import load_models, load_names, load_params
from pipeline.extract.extraction import ExtractParams
from pipeline.finetune.lessons import FinetuneParams
from pipeline.perturb.techniques import backtranslate, mask_fill, system_outputs, translate, word_drop
from pipeline.pretrain.pretraining import PretrainParams

FLOAT_BYTES = 4


class Kind(StrEnum):
    """How a stage uses a device: each kind has a rate of its own."""

    TRAINING = "training"
    READING = "reading"
    DECODING = "decoding"


@dataclass(frozen=True)
class Work:
    """One kind of work of one stage: FLOPs of models, seconds of a core, bytes that stay on disk and in memory.

    `runs` is how many devices the FLOPs can be spread over: a variant trains on one, shards on any number (None).
    `memory` is that of the largest process.
    """

    stage: str
    kind: Kind
    flops: float = 0.0
    core_seconds: float = 0.0
    disk: float = 0.0
    memory: float = 0.0
    runs: int | None = None


@dataclass(frozen=True)
class Shape:
    """A transformer: layers of the encoder and the decoder, their width, that of the feed-forward part, vocabulary."""

    layers: int
    decoder_layers: int
    width: int
    feed_forward: int
    vocabulary: int

    @property
    def encoder(self) -> int:
        """Weights of the encoder's matrices."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.feed_forward)

    @property
    def decoder(self) -> int:
        """Weights of the decoder's matrices, which attend twice, and of its output layer."""
        layer = 8 * self.width**2 + 2 * self.width * self.feed_forward
        return self.decoder_layers * layer + self.output

    @property
    def output(self) -> int:
        """Weights of the layer over the vocabulary, which are those of the embeddings."""
        return self.vocabulary * self.width

    @property
    def weights(self) -> int:
        """All of them."""
        return self.encoder + (self.decoder if self.decoder_layers else self.output)


@dataclass(frozen=True)
class Counts:
    """Sizes of a profile: segments, pairs, tokens of a segment, and the bytes of the dump's XML."""

    segments: float
    pairs: float
    tokens: float
    xml_bytes: float


class Planner:
    """The work of all stages of the profile that `params` names; `rates` is rates.yaml."""

    def __init__(self, params: Path, rates: dict[str, Any]) -> None:
        self.params, self.rates = params, rates
        self.models = load_models(params)
        self.extract = load_params(params, "extract", ExtractParams)
        self.pretrain = load_params(params, "pretrain", PretrainParams)
        self.finetune = load_params(params, "finetune", FinetuneParams)
        self.counts = self._counts()

    def rate(self, name: str) -> float:
        """The value of one measured rate or stated assumption."""
        return float(self.rates["rates"][name]["value"])

    def shape(self, model: str) -> Shape:
        """Shape of a model; a ParamsError if rates.yaml does not have it."""
        name = model.partition("@")[0]
        if name not in self.rates["shapes"]:
            raise ParamsError(f"plan: pipeline/plan/rates.yaml has no shape of the model {name}.")
        return Shape(**self.rates["shapes"][name])

    def work(self) -> list[Work]:
        """Everything that is to do, in the order of the stages; `collect`, `grade` and `report` take minutes."""
        return [*self._extract(), *self._perturb(), *self._label(), *self._training()]

    def _technique(self, module: Any) -> Any:
        return load_params(self.params, f"perturb.{module.__name__.rsplit('.', 1)[1]}", module.Params)

    def _counts(self) -> Counts:
        file = Path(self.extract.source)
        known = file.stat().st_size * self.rate("xml_bytes_a_packed_byte") if file.is_file() else None
        small = self.rate("xml_bytes_of_the_excerpt") if "shortened" in self.extract.source else None
        size = small or known or self.rate("xml_bytes_of_a_full_dump")
        segments = self.extract.segments or size * self.rate("sentences_a_byte")
        masks, back = self._technique(mask_fill), self._technique(backtranslate)
        made = segments * (masks.share * masks.copies + back.share * len(back.pivots))
        made += self._technique(system_outputs).pairs + self._technique(translate).pairs
        pairs = made * (1 + self._technique(word_drop).share)
        return Counts(segments, pairs, self.rate("tokens_a_segment"), size)

    def _extract(self) -> list[Work]:
        counts, wanted = self.counts, self.extract.segments
        every = counts.xml_bytes * self.rate("sentences_a_byte")
        sampled = wanted is not None and counts.xml_bytes > self.rate("xml_bytes_of_the_excerpt")
        cleaned = min(every, (wanted or 0) * self.extract.sentences_per_segment) if sampled else every
        seconds = counts.xml_bytes * self.rate("read_core_seconds_a_byte")
        seconds += cleaned * self.rate("clean_core_seconds_a_sentence")
        packed = counts.xml_bytes / self.rate("xml_bytes_a_packed_byte")
        disk = packed * (1 + self.rate("kept_bytes_a_packed_byte"))  # the dump and its articles
        memory = self.rate("extract_worker_bytes")
        return [Work("extract", Kind.READING, core_seconds=seconds, disk=disk, memory=memory)]

    def _perturb(self) -> list[Work]:
        counts, masks, back = self.counts, self._technique(mask_fill), self._technique(backtranslate)
        filler = self.shape(masks.model)
        passes = 1 + (masks.max_masks - 1) / 2 * masks.beam_width  # the mean number of masks, the first without a beam
        fill = passes * 2 * counts.tokens * (filler.encoder + filler.output / counts.tokens)
        found = [Work("perturb", Kind.READING, counts.segments * masks.share * masks.copies * fill)]
        ways = [self.shape(name) for pivot in back.pivots.values() for name in (pivot.to, pivot.back)]
        translated = sum(self._translated(way, back.beam_width) for way in ways)
        found.append(Work("perturb", Kind.DECODING, counts.segments * back.share * translated))
        disk = counts.pairs * self.rate("pair_bytes")
        return [*found, Work("perturb", Kind.READING, disk=disk)]

    def _translated(self, model: Shape, beam_width: int) -> float:
        """FLOPs of translating a segment: the output has as many tokens as the input."""
        return 2 * self.counts.tokens * (model.encoder + beam_width * model.decoder)

    def _label(self) -> list[Work]:
        pairs, tokens = self.counts.pairs, self.counts.tokens
        found = []
        for signal in load_names(self.params, "signals"):
            if signal in ("bleu", "rouge"):
                seconds = pairs * self.rate(f"{signal}_core_seconds_a_pair")
                found.append(Work(f"label {signal}", Kind.READING, core_seconds=seconds))
            elif signal in ("bertscore", "entailment"):
                model = self.shape(self.models["matcher" if signal == "bertscore" else "entailment"])
                found.append(Work(f"label {signal}", Kind.READING, pairs * 2 * 2 * tokens * model.encoder))
            elif signal == "backtranslation":
                found += self._likelihoods()
        return found

    def _likelihoods(self) -> list[Work]:
        """Both texts of a pair are translated (references once for all their pairs), then read in both directions."""
        texts, reads = self.counts.pairs + self.counts.segments, 2 * self.counts.pairs
        decoding = reading = 0.0
        for pivot in self.models["pivots"].values():
            to, back = self.shape(pivot["to"]), self.shape(pivot["back"])
            decoding += texts * self._translated(to, 1)
            reading += reads * 2 * self.counts.tokens * (back.encoder + back.decoder)
        name = "label backtranslation"
        return [Work(name, Kind.DECODING, decoding), Work(name, Kind.READING, reading)]

    def _training(self) -> list[Work]:
        variants = load_names(self.params, "variants")
        learning = sum(variant != "none" for variant in variants)
        tokens = 2 * self.counts.tokens + 3
        model = self.shape(self.pretrain.encoder)
        found = []
        for stage, params, runs in (
            ("pretrain", self.pretrain, learning),
            ("finetune", self.finetune, len(variants) * self.finetune.members),
        ):
            schedule = params.schedule
            pairs = schedule.steps * params.batch_pairs
            flops = runs * pairs * tokens * 6 * model.encoder
            weights = (model.encoder + model.output) * FLOAT_BYTES
            state = 4 * weights  # weights, two moments of Adam, the best weights
            encoded = self.counts.pairs * (2 * tokens + 20) if stage == "pretrain" else 0.0
            labels = self.counts.pairs * 14 * FLOAT_BYTES if stage == "pretrain" else 0.0
            disk, memory = runs * (state + weights) + encoded, state + weights + labels
            found.append(Work(stage, Kind.TRAINING, flops, disk=disk, memory=memory, runs=runs))
        return found
