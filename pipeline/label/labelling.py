"""Labels a shard of pairs with one signal, found by name at run time.

A signal is a module `pipeline.label.signals.<name>` with
  Params                  its section `label.<name>` of params.yaml, a frozen dataclass (it may have no field)
  score(pairs, params)    the values, (rows, columns of the signal) float32, rows in the order of `pairs`
  models(params)          the model folders that the values depend on, found (and fetched) before any work starts
The import is dynamic on purpose: no signal is in the import closure of another, or of the stage, so that editing one
signal re-runs that signal alone (law 2).
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy
import pyarrow

from pipeline.core.records import PAIRS, SIGNAL_COLUMNS, signal_schema
from pipeline.core.shards import read_shard
from pipeline.core.work import Outcome


class Signal(Protocol):
    """What every module `pipeline.label.signals.<name>` offers."""

    Params: type[Any]

    def score(self, pairs: pyarrow.Table, params: Any) -> numpy.ndarray: ...

    def models(self, params: Any) -> tuple[Path, ...]: ...


def module_name(signal: str) -> str:
    """Name of the module of `signal`, one of `SIGNAL_COLUMNS`."""
    assert signal in SIGNAL_COLUMNS, signal
    return f"pipeline.label.signals.{signal}"


def load_signal(signal: str) -> Signal:
    """The module of `signal`, imported."""
    return cast(Signal, importlib.import_module(module_name(signal)))


def label_shard(signal: str, index: int, inputs: Sequence[Path], params: Any) -> Outcome:
    """Shard `index` of `signal`: one row for each pair of the shard `inputs[0]`, none dropped."""
    (file,) = inputs
    pairs = read_shard(file, PAIRS)
    columns = SIGNAL_COLUMNS[signal]
    shape = (pairs.num_rows, len(columns))
    values = load_signal(signal).score(pairs, params) if pairs.num_rows else numpy.zeros(shape, numpy.float32)
    assert values.shape == shape and values.dtype == numpy.float32, (signal, values.shape, values.dtype)
    assert numpy.isfinite(values).all(), f"{signal}: a value is not finite in shard {index}"
    arrays = [pairs.column("pair_id"), *(pyarrow.array(values[:, i]) for i in range(len(columns)))]
    table = pyarrow.Table.from_arrays(arrays, schema=signal_schema(signal))
    return Outcome(table, rows_in=pairs.num_rows, rows_out=table.num_rows, dropped={})
