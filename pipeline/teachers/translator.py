"""Translation models in Marian's format, run by CTranslate2: beam search, and scores by teacher forcing.

They make backtranslated candidates (section 4.1) and the backtranslation likelihood (section 4.2). The paper uses
Transformers of tensor2tensor. Here any Marian model in transformers layout will do: a model of one language pair, a
many-target model (its vocabulary has tokens such as `>>fra<<`, and one of them goes before the source), or a
many-source model.

A model is converted on first use, into a git-ignored folder named for the model's bytes. Each batch runs on one thread
and in float32, so that results do not depend on the machine's load.
"""

import functools
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import ctranslate2
import numpy
from numpy.typing import NDArray
from pydantic import BeforeValidator, ValidationInfo
from pydantic_core import PydanticCustomError
from transformers import MarianTokenizer

from pipeline.core import runtime
from pipeline.core.errors import ModelError, StorageError
from pipeline.core.models import from_folder, load, load_config, locate
from pipeline.core.params import MODELS, ModelName, params
from pipeline.core.work import WORK, file_hash
from pipeline.teachers import cublas

ENGLISH = "en"
"""What many-source models translate into. No model needs a token for it."""

THREE_LETTERS = {
    "ar": "ara", "cs": "ces", "da": "dan", "de": "deu", "el": "ell", "en": "eng", "es": "spa", "et": "est",
    "fi": "fin", "fr": "fra", "he": "heb", "hi": "hin", "hu": "hun", "it": "ita", "ja": "jpn", "lt": "lit",
    "lv": "lav", "nl": "nld", "pl": "pol", "pt": "por", "ro": "ron", "ru": "rus", "sv": "swe", "tr": "tur",
    "uk": "ukr", "zh": "zho",
}  # fmt: skip
"""ISO 639-1 code -> ISO 639-3 code, which most language tokens of OPUS-MT hold."""


@params
class Pivot:
    """The two models of a round trip through another language."""

    to: ModelName
    """Translates the text into the other language."""
    back: ModelName
    """Translates from there into the text's language."""


def _pivots_named(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    known = (info.context or {}).get(MODELS, {}).get(value)
    if not isinstance(known, dict):
        rule = "must be a mapping, or the key of one among the profile's models, not {shown}"
        raise PydanticCustomError("no_such_pivots", rule, {"shown": repr(value)})
    return known


Pivots = Annotated[dict[str, Pivot], BeforeValidator(_pivots_named)]
"""ISO 639-1 code of another language -> its models. In params.yaml: the mapping, or its key in the profile's `models`.

`pivots: pivots` takes what the profile says under `models`, such as
`pivots: {fr: {to: ..., back: ...}, de: {to: ..., back: ...}}`.
"""


@dataclass(frozen=True)
class Likelihoods:
    """Scores of n targets by teacher forcing. The end of a sentence counts as one token, in both arrays."""

    log_probability: NDArray[numpy.float64]
    """(n,) float64: natural log P(target and its end | source), 0 or less; higher is more probable."""
    tokens: NDArray[numpy.int64]
    """(n,) int64: pieces of the target, and 1 for its end; at least 1."""

    def per_token(self) -> NDArray[numpy.float64]:
        """(n,) float64: mean log probability of a token, in nats, 0 or less.

        >>> Likelihoods(numpy.array([-6.0]), numpy.array([3])).per_token().tolist()
        [-2.0]
        """
        return self.log_probability / self.tokens


class Translator:
    """One converted model and its tokenizer.

    `positions`: tokens that a source or a target may have. `truncated`: how many texts have been cut to them so far.
    """

    def __init__(self, folder: Path) -> None:
        config = load_config(folder)
        if config.model_type != "marian":
            raise ModelError(f"{folder}: is a {config.model_type} model; translation needs a Marian model.")
        self.folder = folder
        self.positions: int = config.max_position_embeddings
        self.truncated = 0
        with from_folder(folder):
            self._tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
        self._vocabulary = self._tokenizer.get_vocab()
        place = runtime.device()
        on_gpu = place.startswith("cuda") and _gpu_translates()
        self._engine = ctranslate2.Translator(
            str(converted(folder)),
            device="cuda" if on_gpu else "cpu",
            device_index=int(place.partition(":")[2] or 0) if on_gpu else 0,
            compute_type="float32",
            inter_threads=_batches_at_once() if place.startswith("cuda") and not on_gpu else 1,
            intra_threads=1,
        )

    def fits(self, text: str) -> bool:
        """Whether `text` is translated without a cut: its pieces, a language token and the end fit the positions."""
        return len(self._tokenizer.spm_source.encode(text, out_type=str)) <= self.positions - 2

    def translate(self, texts: Sequence[str], language: str, beam_width: int, batch_sentences: int) -> list[str]:
        """The best translation of each text into `language` (ISO 639-1), in order. A blank text gives "".

        Texts that are too long are cut. A translation has at most about twice as many pieces as its source (see
        `_decoding_limit`). Raises a ModelError if the model does not translate into `language`.
        """
        sources = self._sources(texts, language)
        groups: dict[int, list[int]] = defaultdict(list)
        for index, source in enumerate(sources):
            if texts[index].strip():
                groups[_decoding_limit(len(source), self.positions)].append(index)
        translations = [""] * len(texts)
        for limit, indices in sorted(groups.items()):
            results = self._engine.translate_batch(
                [sources[i] for i in indices],
                beam_size=beam_width,
                max_batch_size=batch_sentences,
                max_input_length=0,
                max_decoding_length=limit,
                disable_unk=True,
            )
            for index, result in zip(indices, results, strict=True):
                translations[index] = self._tokenizer.spm_target.decode_pieces(result.hypotheses[0]).strip()
        return translations

    def log_likelihood(
        self, sources: Sequence[str], targets: Sequence[str], language: str, batch_sentences: int
    ) -> Likelihoods:
        """Score each target, a text in `language`, given its source. An empty target scores log P(end of sentence)."""
        assert len(sources) == len(targets), (len(sources), len(targets))
        if not targets:
            return Likelihoods(numpy.zeros(0), numpy.zeros(0, dtype=numpy.int64))
        results = self._engine.score_batch(
            self._sources(sources, language),
            self._targets(targets),
            max_batch_size=batch_sentences,
            max_input_length=0,
        )
        return Likelihoods(
            numpy.array([numpy.sum(numpy.asarray(result.log_probs, dtype=numpy.float64)) for result in results]),
            numpy.array([len(result.log_probs) for result in results], dtype=numpy.int64),
        )

    def _sources(self, texts: Sequence[str], language: str) -> list[list[str]]:
        token = language_token(self._vocabulary, language, self.folder)
        prefix = [] if token is None else [token]
        room = self.positions - 1 - len(prefix)
        pieces = self._tokenizer.spm_source.encode(list(texts), out_type=str)
        return [[*prefix, *self._cut(row, room), self._tokenizer.eos_token] for row in pieces]

    def _targets(self, texts: Sequence[str]) -> list[list[str]]:
        pieces = self._tokenizer.spm_target.encode(list(texts), out_type=str)
        return [self._cut(row, self.positions - 1) for row in pieces]

    def _cut(self, pieces: list[str], room: int) -> list[str]:
        self.truncated += len(pieces) > room
        return pieces[:room]


@functools.cache
def _gpu_translates() -> bool:
    """Whether CTranslate2 can compute on the GPU. If its CUDA library is missing, the first worker says so."""
    if cublas.load():
        return bool(ctranslate2.get_cuda_device_count() > 0)
    if os.environ.get(runtime.WORKER, "0") == "0":
        missing = f"CTranslate2 needs {cublas.LIBRARIES[-1]} (pip install 'bleurt-pipeline[gpu]')"
        print(f"translating on the CPU, {_batches_at_once()} batches at once: {missing}", flush=True)
    return False


def _batches_at_once() -> int:
    """Batches that a process with a GPU translates on the CPU at the same time: its share of the cores.

    Each is computed by one thread, so the translations are those of a machine without a GPU. There, workers are as many
    as cores, and each translates one batch after the other.
    """
    return max(1, runtime.cores() // runtime.workers())


def _decoding_limit(pieces: int, positions: int) -> int:
    """Most pieces of the translation of a source of `pieces` pieces. This limit stops endless repetition early.

    It depends on the source and not on its batch, so that batching changes no translation.

    >>> [_decoding_limit(pieces, 256) for pieces in (1, 16, 17, 200)]
    [48, 48, 80, 256]
    """
    return min(positions, 2 * 16 * -(-pieces // 16) + 16)


def language_token(vocabulary: dict[str, int], language: str, folder: Path) -> str | None:
    """The token that asks a many-target model for `language`, or None if the model needs no token.

    A ModelError says that the vocabulary has such tokens, but none for `language`. ENGLISH is never refused: a
    many-source model often shares the vocabulary of its many-target twin.

    >>> language_token({"a": 0, ">>fra<<": 1}, "fr", Path("model"))
    '>>fra<<'
    """
    for code in (language, THREE_LETTERS.get(language, language)):
        if f">>{code}<<" in vocabulary:
            return f">>{code}<<"
    known = sorted(token for token in vocabulary if token.startswith(">>") and token.endswith("<<"))
    if known and language != ENGLISH:
        raise ModelError(f"{folder}: does not translate into {language!r}; its languages are {', '.join(known)}.")
    return None


class _Converter(ctranslate2.converters.TransformersConverter):  # type: ignore[misc]
    """CTranslate2's converter, which here reads safetensors only."""

    def load_model(self, model_class: Any, model_name_or_path: str, **kwargs: Any) -> Any:
        return load(model_class, Path(model_name_or_path), **kwargs)


def converted(folder: Path) -> Path:
    """The folder of the model in `folder` in CTranslate2's format; the model is converted on first use.

    The folder's name comes from the model's bytes and CTranslate2's version. A conversion is written beside it and
    then renamed, so that workers which start together never meet half of a model; the first to finish wins.
    """
    target = WORK / "ctranslate2" / f"{file_hash(folder)[:24]}-{ctranslate2.__version__}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        _Converter(str(folder)).convert(str(scratch / "model"))
        (scratch / "model").replace(target)
    except OSError as error:
        if not target.is_dir():
            raise StorageError(f"{target}: the converted model could not be written, {error}.") from error
    except (ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"{folder}: CTranslate2 cannot convert this model ({error}).") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


@functools.lru_cache(maxsize=8)
def load_translator(name: str) -> Translator:
    """The translator of the model `name` (see `pipeline.core.models`); a process loads it once."""
    return Translator(locate(name))
