"""Checkpoints of other BLEURTs: folders as the original releases them, and conversions of the type "bleurt".

An original checkpoint (google-research/bleurt) is
  bleurt_config.json    name, bert_config_file, vocab_file and do_lower_case or sp_model, max_seq_length
  bert_config.json      the encoder's shape; embedding_size if its embeddings are factorised (BLEURT-20)
  vocab.txt             or sent_piece.model
  variables/variables.index, variables/variables.data-00000-of-00001
A warmed-up BERT has its weights in NAME.index and NAME.data-… beside bert_config.json, and perhaps no
bleurt_config.json. The conversions of bleurt-pytorch are transformers folders whose model type, "bleurt", transformers
does not know.

All of them are models that transformers has: BertForSequenceClassification, or RemBertForSequenceClassification where
the embeddings are factorised. The original computes GELU by its tanh form; a conversion by what its config.json says.
The weights are read as plain arrays (`pipeline.core.tensor_bundle`) or from safetensors, and no code is run.

Ordinary folders cost nothing here: what reads the others is imported when one is met.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pipeline.core.errors import ModelError

if TYPE_CHECKING:
    from pipeline.core.tensor_bundle import TensorBundle

OUTPUT = "adequacy"
"""What the one output of an original checkpoint is called: it predicts WMT's ratings, which ask for adequacy."""

UNNAMED = {0: "LABEL_0"}
"""What transformers calls an output without a name."""

SETTINGS = "original_bleurt"
"""The attribute of a configuration that says how texts are read: {"max_tokens": N, "clean": False}."""

CUT = "cut_of_equal_sides"
"""The setting of a tokenizer that says which of two sides of one length loses its end first."""

CUT_SETTING = {CUT: "candidate"}

ACTIVATIONS = {"gelu": "gelu_pytorch_tanh", "relu": "relu", "tanh": "tanh", "linear": "linear"}
"""The original's names of activations -> transformers'."""

SHAPE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
         "max_position_embeddings", "type_vocab_size")  # fmt: skip
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
OPTIMISER = ("adam_m", "adam_v", "Momentum", "Adam", "Adam_1")
MAPPING = "embedding_hidden_mapping_in"


def found_in(folder: Path) -> "Original | Conversion | None":
    """The checkpoint in `folder` if it is another BLEURT's, else None; nothing but names and config.json is read."""
    if any(folder.glob("*.safetensors")):
        return Conversion(folder) if _read(folder / "config.json").get("model_type") == "bleurt" else None
    if (folder / "bleurt_config.json").is_file() or (folder / "bert_config.json").is_file() or _indexes(folder):
        return Original(folder)
    return None


def tokenizer_in(folder: Path) -> Any | None:
    """The tokenizer in `folder` if transformers does not know its kind, else None."""
    foreign = found_in(folder)
    if foreign is not None:
        return foreign.tokenizer()
    if _read(folder / "tokenizer_config.json").get("tokenizer_class") != "SentencePieces":
        return None
    from pipeline.core.pieces import SentencePieces

    return SentencePieces.from_pretrained(folder, local_files_only=True)


def pair_tokens(config: Any) -> int | None:
    """How many tokens of a pair the checkpoint of `config` reads by default, if it says so.

    A sequence classifier of BERT whose output was never named is a conversion that others made; it reads all it can.
    """
    settings = getattr(config, SETTINGS, None)
    if settings:
        return int(settings["max_tokens"])
    if config.architectures == ["BertForSequenceClassification"] and config.id2label == UNNAMED:
        return int(config.max_position_embeddings)
    return None


def reads_as_given(config: Any) -> bool:
    """Whether the checkpoint of `config` reads texts as they are, without our clean-up."""
    return bool(getattr(config, SETTINGS, None))


def forget(config: Any) -> Any:
    """`config` for a checkpoint that is trained on: it reads texts as ours do."""
    if hasattr(config, SETTINGS):
        delattr(config, SETTINGS)
    return config


class Original:
    """A folder as google-research/bleurt releases it, or a warmed-up BERT."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = _json(folder / "bleurt_config.json", {})
        self.shape = _json(folder / str(self.settings.get("bert_config_file") or "bert_config.json"))

    def check(self) -> None:
        """A ModelError if a file is missing."""
        self._bundle()
        self._vocabulary()

    def scores(self) -> bool:
        """Whether it has a last layer."""
        return "dense/kernel" in self._bundle().variables

    def config(self) -> Any:
        """BertConfig, or RemBertConfig if the embeddings have another width than the layers."""
        file = self.folder / str(self.settings.get("bert_config_file") or "bert_config.json")
        missing = [name for name in SHAPE if not isinstance(self.shape.get(name), int)]
        if missing:
            raise ModelError(f"{file}: does not say {missing[0]} as a whole number.")
        activation = self.shape.get("hidden_act") or "linear"
        if activation not in ACTIVATIONS:
            raise ModelError(f"{file}: the activation {activation!r} is not one of {', '.join(ACTIVATIONS)}.")
        values = {name: self.shape[name] for name in (*SHAPE, *RATES) if name in self.shape}
        return _config(values, self.shape.get("embedding_size"), ACTIVATIONS[activation], self._max_tokens())

    def weights(self) -> dict[str, torch.Tensor]:
        """All variables of encoder, pooler and last layer; a ModelError if one is unknown, cut or damaged."""
        bundle = self._bundle()
        prefix = _prefix(self.config())
        if prefix == "bert" and any(MAPPING in name for name in bundle.variables):
            raise ModelError(
                f"{self.folder}: the weights have factorised embeddings, but its config no embedding_size."
            )
        found = {}
        for name in bundle.variables:
            target = _target(name, prefix)
            if target is not None:
                array = torch.tensor(bundle.read(name), dtype=torch.float32)
                found[target] = array.T.contiguous() if name.endswith("/kernel") else array
            elif name.startswith("dense_") and name.rpartition("/")[2] not in OPTIMISER:
                raise ModelError(f"{self.folder}: has hidden layers behind the encoder ({name}), which are not read.")
        if not found:
            raise ModelError(f"{self.folder}: its TensorFlow checkpoint holds no variable of BERT.")
        return found

    def tokenizer(self) -> Any:
        """SentencePiece if bleurt_config.json names a model of it, else WordPiece."""
        from pipeline.core.pieces import sentence_pieces, word_pieces

        file, pieces = self._vocabulary()
        if pieces:
            return sentence_pieces(file, self._max_tokens(), **CUT_SETTING)
        return word_pieces(file, self.settings.get("do_lower_case"), self._max_tokens(), **CUT_SETTING)

    def _max_tokens(self) -> int:
        return int(self.settings.get("max_seq_length") or self.shape.get("max_position_embeddings") or 0)

    def _vocabulary(self) -> tuple[Path, bool]:
        """The tokenizer's file, and whether it is SentencePiece's."""
        model = self.settings.get("sp_model")
        name = f"{model}.model" if model else str(self.settings.get("vocab_file") or "vocab.txt")
        if not (self.folder / name).is_file():
            raise ModelError(f"{self.folder}: {name}, the vocabulary of the tokenizer, is missing.")
        return self.folder / name, bool(model)

    def _bundle(self) -> "TensorBundle":
        from pipeline.core.tensor_bundle import TensorBundle

        indexes = _indexes(self.folder)
        if len(indexes) != 1:
            what = f"holds {len(indexes)} files *.index" if indexes else "variables/variables.index is missing"
            raise ModelError(f"{self.folder}: is no whole BLEURT checkpoint: {what}.")
        return TensorBundle(indexes[0].with_suffix(""))


class Conversion:
    """A conversion of bleurt-pytorch: config.json of the type "bleurt", safetensors, a tokenizer of the original's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self) -> None:
        """Nothing is missing: the weights are there, and `tokenizer` says what it needs."""

    def scores(self) -> bool:
        """Whether it has a last layer; a conversion does."""
        return True

    def config(self) -> Any:
        """BertConfig or RemBertConfig with the activation of config.json, which may differ from the original's."""
        values = _json(self.folder / "config.json")
        kept = {
            name: values[name] for name in (*SHAPE, *RATES, "layer_norm_eps", "id2label", "label2id") if name in values
        }
        width = values.get("embedding_size")
        return _config(kept, width, values.get("hidden_act", "gelu"), values.get("max_position_embeddings", 512))

    def weights(self) -> dict[str, torch.Tensor]:
        """All weights but the buffers."""
        from safetensors.torch import load_file

        prefix = _prefix(self.config())
        found = {}
        for file in sorted(self.folder.glob("*.safetensors")):
            for name, tensor in load_file(file).items():
                renamed = name.replace("embedding_projection", MAPPING)
                found[f"{prefix}{renamed.removeprefix('bleurt')}" if name.startswith("bleurt.") else renamed] = tensor
        return {name: tensor.float() for name, tensor in found.items() if not name.endswith("_ids")}

    def tokenizer(self) -> Any:
        """SentencePiece if a model of it is there, else tokenizer.json, else WordPiece."""
        from pipeline.core.pieces import saved_pieces, sentence_pieces, word_pieces

        longest = int(self.config().max_position_embeddings)
        models = [self.folder / name for name in ("spm.model", "sent_piece.model") if (self.folder / name).is_file()]
        if models:
            return sentence_pieces(models[0], longest, **CUT_SETTING)
        settings = _json(self.folder / "tokenizer_config.json", {})
        if (self.folder / "tokenizer.json").is_file():
            return saved_pieces(self.folder / "tokenizer.json", longest, **CUT_SETTING)
        if not (self.folder / "vocab.txt").is_file():
            raise ModelError(f"{self.folder}: holds no tokenizer.")
        return word_pieces(self.folder / "vocab.txt", settings.get("do_lower_case"), longest, **CUT_SETTING)


def _config(values: dict[str, Any], width: Any, activation: str, max_tokens: int) -> Any:
    """The configuration of a sequence classifier; `width`: of the embeddings, None if it is that of the layers."""
    from transformers import BertConfig, RemBertConfig

    kind: Any = BertConfig
    extra: dict[str, Any] = {"pad_token_id": 0}
    if width not in (None, values.get("hidden_size")):
        kind = RemBertConfig
        extra |= {"input_embedding_size": width, "output_embedding_size": width, "classifier_dropout_prob": 0.0}
        extra |= {"bos_token_id": None, "eos_token_id": None}
    names = values.pop("id2label", None) or {0: OUTPUT}
    labels = {int(number): name for number, name in names.items()}
    labels = {0: OUTPUT} if labels == UNNAMED else labels
    config = kind(hidden_act=activation, id2label=labels, label2id={name: i for i, name in labels.items()},
                  problem_type="regression", **{"layer_norm_eps": 1e-12, **extra, **values})  # fmt: skip
    setattr(config, SETTINGS, {"max_tokens": min(max_tokens, config.max_position_embeddings), "clean": False})
    return config


def _prefix(config: Any) -> str:
    return str(config.model_type)


def _target(name: str, prefix: str) -> str | None:
    """Transformers' name of the original's variable `name`; None if the metric does not have it.

    >>> _target("bert/encoder/layer_3/attention/self/key/kernel", "bert")
    'bert.encoder.layer.3.attention.self.key.weight'
    >>> _target("dense/bias", "bert"), _target("bert/pooler/dense/bias/adam_m", "bert"), _target("global_step", "bert")
    ('classifier.bias', None, None)
    """
    *scopes, last = name.split("/")
    if scopes == ["dense"] and last in ("kernel", "bias"):
        return f"classifier.{'weight' if last == 'kernel' else last}"
    if not scopes or scopes[0] != "bert" or last in OPTIMISER:
        return None
    last = {"kernel": "weight", "gamma": "weight", "beta": "bias"}.get(last, last)
    parts = [prefix, *(f"layer.{scope[6:]}" if scope.startswith("layer_") else scope for scope in scopes[1:])]
    if last.endswith("_embeddings"):
        return ".".join([*parts, last, "weight"])
    return ".".join([*parts, last]) if last in ("weight", "bias") else None


def _indexes(folder: Path) -> list[Path]:
    saved = folder / "variables" / "variables.index"
    return [saved] if saved.is_file() else sorted(folder.glob("*.index"))


def _read(file: Path) -> dict[str, Any]:
    """The object in `file`; nothing if there is none, which whoever needs the file will say."""
    try:
        return _json(file, {})
    except ModelError:
        return {}


def _json(file: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object in `file`; `default` if there is no file, a ModelError if there is no default either."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if default is None:
            raise ModelError(f"{file}: is missing.") from None
        return default
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: is not JSON.") from error
    if not isinstance(found, dict):
        raise ModelError(f"{file}: does not hold a JSON object.")
    return found
