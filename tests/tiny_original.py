"""Tiny checkpoints as the original BLEURT releases them, with random weights, and a writer of TensorFlow's bundles."""

import io
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import sentencepiece
import torch
from tiny_filler import PIECES, SPECIAL
from transformers import BertConfig, BertForSequenceClassification, RemBertConfig, RemBertForSequenceClassification

from pipeline.core.tensor_bundle import MAGIC, masked_crc

KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "float16": 19}
RESTART_EVERY = 4
POSITIONS = 32


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer: a varint, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def checksum(content: bytes) -> int:
    return masked_crc(numpy.frombuffer(content, numpy.uint8))


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A block of a LevelDB table: keys share their beginning with the one before, but for every fourth."""
    found, restarts, last = b"", [], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % RESTART_EVERY == 0:
            restarts.append(len(found))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        found += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return found + b"".join(struct.pack("<I", place) for place in [*restarts, len(restarts)])


def table(
    entries: list[tuple[bytes, bytes]], entries_of_block: int, compress: Callable[[bytes], bytes] | None
) -> bytes:
    found, handles = b"", []

    def add(content: bytes) -> bytes:
        nonlocal found
        kind = 0 if compress is None else 1
        stored = (content if compress is None else compress(content)) + bytes([kind])
        handle = varint(len(found)) + varint(len(stored) - 1)
        found += stored + struct.pack("<I", checksum(stored))
        return handle

    for first in range(0, len(entries), entries_of_block):
        some = entries[first : first + entries_of_block]
        handles.append((some[-1][0], add(block(some))))
    footer = add(block([])) + add(block(handles))
    return found + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def write_bundle(
    prefix: Path,
    arrays: Mapping[str, numpy.ndarray],
    kinds: Mapping[str, int] | None = None,
    entries_of_block: int = 5,
    compress: Callable[[bytes], bytes] | None = None,
) -> None:
    """Write `arrays` as PREFIX.index and one shard; `kinds`: numbers of types that numpy does not have."""
    data, entries = b"", [(b"", field(1, 1) + field(2, 0))]
    for name in sorted(arrays):
        content = numpy.ascontiguousarray(arrays[name]).tobytes()
        shape = b"".join(field(2, field(1, size)) for size in arrays[name].shape)
        entry = field(1, (kinds or {}).get(name) or KINDS[str(arrays[name].dtype)]) + field(2, shape)
        entry += field(4, len(data)) + field(5, len(content))
        entries.append((name.encode(), entry + varint(6 << 3 | 5) + struct.pack("<I", checksum(content))))
        data += content
    prefix.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{prefix}.index").write_bytes(table(entries, entries_of_block, compress))
    Path(f"{prefix}.data-00000-of-00001").write_bytes(data)


def tensorflow_name(name: str) -> str:
    """The original's name of a weight of transformers: "rembert.encoder.layer.0.output.dense.weight" and the like."""
    if name.startswith("classifier."):
        return "dense/kernel" if name.endswith("weight") else "dense/bias"
    scopes = name.replace("rembert.", "bert.").replace("layer.", "layer_").split(".")
    if scopes[-2].endswith("_embeddings"):
        return "/".join(scopes[:-1])
    norm = scopes[-2] == "LayerNorm"
    last = {"weight": "gamma" if norm else "kernel", "bias": "beta" if norm else "bias"}[scopes[-1]]
    return "/".join([*scopes[:-1], last])


def random_classifier(embedding_size: int | None = None, activation: str = "gelu_pytorch_tanh") -> Any:
    """BertForSequenceClassification, or RemBert's if the embeddings have another width; large random weights."""
    shape = {
        "vocab_size": len(dict.fromkeys([*SPECIAL, *PIECES])), "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": POSITIONS, "num_labels": 1,
        "hidden_act": activation, "pad_token_id": 0,
    }  # fmt: skip
    torch.manual_seed(7)
    if embedding_size is None:
        model = BertForSequenceClassification(BertConfig(**shape))
    else:
        width = {"input_embedding_size": embedding_size, "output_embedding_size": embedding_size}
        special = {"bos_token_id": None, "eos_token_id": None}
        model = RemBertForSequenceClassification(RemBertConfig(**shape, **width, **special))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def small_pieces() -> bytes:
    """A SentencePiece model of 45 pieces or fewer, trained on three sentences."""
    model = io.BytesIO()
    sentences = ["the cat sat on the mat", "a dog ran in the red house", "the small bird sat on the dog"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=45, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        user_defined_symbols=["[CLS]", "[SEP]", "[MASK]"], hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def save_original(
    folder: Path, embedding_size: int | None = None, *, warmed_up: bool = False, pieces_model: bytes | None = None
) -> Any:
    """Write a checkpoint of the original's format, 32 tokens; returns the model that it holds.

    It reads WordPiece, or the pieces of the SentencePiece model `pieces_model`.

    `warmed_up`: a BERT without the last layer, and without bleurt_config.json.
    """
    model = random_classifier(embedding_size)
    folder.mkdir(parents=True, exist_ok=True)
    pieces = list(dict.fromkeys([*SPECIAL, *PIECES]))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "type_vocab_size")  # fmt: skip
    shape = {name: getattr(model.config, name) for name in names} | {"hidden_act": "gelu", "initializer_range": 0.02}
    shape |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    if embedding_size is not None:
        shape["embedding_size"] = embedding_size
    (folder / "bert_config.json").write_text(json.dumps(shape), encoding="utf-8")
    arrays = {}
    for name, weight in model.state_dict().items():
        array, target = weight.numpy(), tensorflow_name(name)
        arrays[target] = array.T if target.endswith("/kernel") else array
    if warmed_up:
        arrays = {name: array for name, array in arrays.items() if not name.startswith("dense/")}
        arrays |= {
            "bert/pooler/dense/bias/adam_m": arrays["bert/pooler/dense/bias"],
            "cls/seq/bias": numpy.zeros(2, "f4"),
        }
        write_bundle(folder / "bert-tiny", arrays)
        return model
    settings = {"name": "tiny", "bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
    settings |= {"do_lower_case": True, "max_seq_length": POSITIONS}
    if pieces_model is not None:
        (folder / "vocab.txt").unlink()
        (folder / "sent_piece.model").write_bytes(pieces_model)
        settings |= {"vocab_file": None, "do_lower_case": None, "sp_model": "sent_piece"}
    (folder / "bleurt_config.json").write_text(json.dumps(settings), encoding="utf-8")
    write_bundle(folder / "variables" / "variables", arrays | {"global_step": numpy.array(3, "int64")})
    return model
