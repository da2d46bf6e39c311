"""Labels a shard of pairs with one signal (section 4.2), which is found by its name.

A signal is a module `pipeline.label.signals.NAME` with
  Params                  its section `label.NAME` of params.yaml, a class made by `params` (it may have no field)
  COLUMNS                 names of its columns, which begin with the signal's name
  score(pairs, params)    the values, (rows, columns) float32, rows in the order of `pairs`
  models(params)          the folders of the models that it uses, fetched and checked before any work starts
There is no list of signals. To add one, add its module, its values in params.yaml and its test.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy
import pyarrow

from pipeline.core import modules
from pipeline.core.records import PAIRS
from pipeline.core.shards import read_shard
from pipeline.core.work import Outcome

SIGNALS = "pipeline.label.signals"
"""The package whose modules are the signals."""


class Signal(Protocol):
    """What every module of SIGNALS offers."""

    Params: type[Any]
    COLUMNS: tuple[str, ...]

    def score(self, pairs: pyarrow.Table, params: Any) -> numpy.ndarray: ...

    def models(self, params: Any) -> tuple[Path, ...]: ...


def load_signal(name: str) -> Signal:
    """The module of the signal `name`; a ParamsError if there is none."""
    return cast(Signal, modules.load(SIGNALS, name, "signals"))


def label_schema(signal: Signal) -> pyarrow.Schema:
    """Schema of a shard of labels: `pair_id` and the signal's columns, float32; no value is null."""
    columns = [pyarrow.field(name, pyarrow.float32(), nullable=False) for name in signal.COLUMNS]
    return pyarrow.schema([PAIRS.field("pair_id"), *columns])


def label_shard(name: str, index: int, inputs: Sequence[Path], params: Any) -> Outcome:
    """Shard `index` of the signal `name`: one row for each pair of the shard `inputs[0]`, in the same order."""
    (file,) = inputs
    pairs, signal = read_shard(file, PAIRS), load_signal(name)
    shape = (pairs.num_rows, len(signal.COLUMNS))
    values = signal.score(pairs, params) if pairs.num_rows else numpy.zeros(shape, numpy.float32)
    assert values.shape == shape and values.dtype == numpy.float32, (name, values.shape, values.dtype)
    assert numpy.isfinite(values).all(), f"{name}: a value is not finite in shard {index}"
    arrays = [pairs.column("pair_id"), *(pyarrow.array(column) for column in values.T)]
    table = pyarrow.Table.from_arrays(arrays, schema=label_schema(signal))
    return Outcome(table, rows_in=pairs.num_rows, rows_out=table.num_rows, dropped={})
