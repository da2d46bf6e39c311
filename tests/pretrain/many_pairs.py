"""Makes any number of labelled pairs out of some sentences, to rehearse pre-training at its full size.

python tests/pretrain/many_pairs.py SEGMENTS OUT PAIRS

SEGMENTS is what the stage `extract` wrote. A reference is one of its sentences with two words of another one, and has
four candidates, in each of which further words are replaced or the last ones dropped. Labels are random numbers: the
pairs are for measuring time and memory, and nothing can be learned from them. OUT gets `perturb` and `label`, in shards
of 20,000 references.
"""

import sys
from pathlib import Path
from typing import Any

import numpy
import pyarrow

from pipeline.core import modules
from pipeline.core.records import PAIRS, SEGMENTS
from pipeline.core.shards import generator, read_folder, shard_name, table_of, write_shard
from pipeline.label.labelling import SIGNALS, label_schema, load_signal

CANDIDATES = 4
SHARD_REFERENCES = 20_000


def write_many_pairs(segments: Path, out: Path, pairs: int) -> None:
    """Write `pairs` pairs to `out/perturb` and a label of every signal of each to `out/label`."""
    sentences = [text.split() for text in read_folder(segments, SEGMENTS).column("text").to_pylist()]
    size = SHARD_REFERENCES * CANDIDATES
    for shard, first in enumerate(range(0, pairs, size)):
        rng = generator(1, "many pairs", shard)
        count = min(size, pairs - first)
        rows = [row for i in range(-(-count // CANDIDATES)) for row in _rows(first // CANDIDATES + i, sentences, rng)]
        table = table_of(rows[:count], PAIRS)
        write_shard(out / "perturb" / shard_name(shard), table)
        for signal in modules.names(SIGNALS):
            schema = label_schema(load_signal(signal))
            values = rng.random((len(schema) - 1, count), numpy.float32)
            labels = [table.column("pair_id"), *map(pyarrow.array, values)]
            write_shard(out / "label" / signal / shard_name(shard), pyarrow.Table.from_arrays(labels, schema=schema))


def _rows(number: int, sentences: list[list[str]], rng: numpy.random.Generator) -> list[dict[str, Any]]:
    """The pairs of the reference `number`."""
    reference = _replaced(sentences[number % len(sentences)], 2, sentences, rng)
    same = {"segment_id": f"{number}-0", "reference": " ".join(reference), "technique": "mask_fill"}
    rows = []
    for place in range(CANDIDATES):
        dropped = int(rng.integers(1, len(reference))) if place == CANDIDATES - 1 else 0
        words = _replaced(reference, 1 + place, sentences, rng)[: len(reference) - dropped]
        own = {"pair_id": f"{number}-0/{place}", "candidate": " ".join(words), "dropped_words": dropped}
        rows.append(dict.fromkeys(PAIRS.names) | same | own)
    return rows


def _replaced(words: list[str], count: int, sentences: list[list[str]], rng: numpy.random.Generator) -> list[str]:
    """`words` with `count` of them, perhaps the same one twice, replaced by words of a drawn sentence."""
    other = sentences[rng.integers(len(sentences))]
    new = list(words)
    for place in rng.integers(len(words), size=count):
        new[place] = other[rng.integers(len(other))]
    return new


if __name__ == "__main__":
    write_many_pairs(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
