"""Segments to score, from parallel text files, tables and standard input, of any length; and the flags that name them.

Subcommands share the flags that say what to score, and how. Flags of other tools work too.

Everything is read twice: once to check and count all of it, before a model is loaded or a score written, then again
segment by segment, so that memory does not grow with the input. Standard input and pipes, which can be read only once,
are copied to a temporary file first.

- Text files (see `pipeline.files.lines`): a line for each segment; one or several files of references, one file for
  each system, at most one file of sources.
- Tables (see `pipeline.files.tables`), also on standard input: columns `candidate`, `reference` or `references`, and
  perhaps `source`. All columns are kept in `Segment.fields`.
"""

import argparse
import contextlib
import enum
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.core.errors import InputError, ParamsError
from pipeline.files.lines import STANDARD_INPUT, rereadable, stream_lines
from pipeline.files.tables import REFERENCES, Table, kind, open_table, reference_texts

if TYPE_CHECKING:
    from pipeline.scoring.scorer import BleurtScorer

Name = TypeVar("Name", bound=enum.StrEnum)

FLAGS = {"reference": "-r", "source": "-s"}


@dataclass(frozen=True, slots=True)
class Segment:
    """References, the candidate of each system, and the source; `fields`: all columns of a table's row.

    There is a reference or a source; `Segments.without` says where one of the two is missing.
    """

    references: tuple[str, ...]
    candidates: tuple[str, ...]
    source: str | None
    fields: dict[str, Any] | None = None


@dataclass(frozen=True)
class Segments:
    """Checked segments that can be read again and again.

    `systems`: names of the systems, in the order of `Segment.candidates`. `columns`: all names in `Segment.fields`.
    `without`: "reference" or "source", if it is missing anywhere -> the first line (None: everywhere).
    """

    systems: tuple[str, ...]
    count: int
    read: Callable[[], Iterator[Segment]]
    columns: frozenset[str] = frozenset()
    without: Mapping[str, int | None] = field(default_factory=dict)

    def check(self, needed: Sequence[str]) -> None:
        """An InputError if a text that a checkpoint needs beside the candidate is missing."""
        for name in needed:
            if name in self.without:
                problem = f"has no {name}, which the checkpoint reads; give it with {FLAGS[name]} or as a column"
                raise InputError(problem, file=self.systems[0], line=self.without[name])

    def __iter__(self) -> Iterator[Segment]:
        """All segments, in order."""
        return self.read()


@contextlib.contextmanager
def text_files(references: Sequence[str], candidates: Sequence[str], source: str | None = None) -> Iterator[Segments]:
    """Parallel text files, each named by its path or "-"; a file of candidates is a system.

    Unequal numbers of lines, no lines, and bytes that are not UTF-8 are InputErrors.
    """
    names = [*references, *candidates, *([] if source is None else [source])]
    for name in names:
        if kind(Path(name)):
            raise InputError("is a table: give it with --input", file=name)
    again = [name for name in candidates if candidates.count(name) > 1]
    again += [name for name in names if name == STANDARD_INPUT][1:]
    if again:
        raise InputError("is given twice", file=again[0])
    with tempfile.TemporaryDirectory(prefix="bleurt-") as folder:
        files = [rereadable(name, Path(folder) / f"{number}.txt") for number, name in enumerate(names)]
        counts = [sum(1 for _ in stream_lines(file, name)) for file, name in zip(files, names, strict=True)]
        for name, count in zip(names, counts, strict=True):
            if count != counts[0]:
                raise InputError(f"has {counts[0]} lines, but {name} has {count}", file=names[0])
        last = len(references) + len(candidates)

        def read() -> Iterator[Segment]:
            columns = [stream_lines(file, name) for file, name in zip(files, names, strict=True)]
            for row in zip(*columns, strict=True):
                yield Segment(
                    row[: len(references)], row[len(references) : last], None if source is None else row[last]
                )

        _refuse_empty(counts[0], names[0])
        without = [name for name, given in (("reference", references), ("source", source)) if not given]
        yield Segments(tuple(candidates), counts[0], read, without=dict.fromkeys(without))


@contextlib.contextmanager
def table(name: str = STANDARD_INPUT) -> Iterator[Segments]:
    """A table, named by its path or "-"; its name is that of its one system.

    Missing columns, malformed rows, cells that are not text, and tables without rows are InputErrors.
    """
    with open_table(name) as opened:
        count, columns, without = 0, set[str](), dict[str, int | None]()
        for line, segment in _segments(opened):
            count += 1
            columns.update(segment.fields or ())
            for what, there in (("reference", segment.references), ("source", segment.source is not None)):
                if not there:
                    without.setdefault(what, line)
        _refuse_empty(count, opened.name)
        yield Segments((opened.name,), count, partial(_rows, opened), frozenset(columns), without)


def _refuse_empty(count: int, name: str) -> None:
    if count == 0:
        raise InputError("holds no segment", file=name)


def _rows(opened: Table) -> Iterator[Segment]:
    return (segment for _, segment in _segments(opened))


def _segments(opened: Table) -> Iterator[tuple[int, Segment]]:
    for line, row in opened.rows(("candidate", (*REFERENCES, "source"))):
        references, source = reference_texts(row, opened.name, line), row.get("source")
        if not references and source is None:
            raise InputError("has no reference", file=opened.name, line=line)
        for what, cell in (("candidate", row["candidate"]), ("source", "" if source is None else source)):
            if not isinstance(cell, str):
                raise InputError(f"{what} is not text", file=opened.name, line=line, value=cell)
        yield line, Segment(tuple(references), (row["candidate"],), source, row)


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """What to score: -r, -t, -s, or --input."""
    add = parser.add_argument_group("input (without any, a table on standard input)").add_argument
    add("-r", "--references", "-reference_file", "--reference_file", nargs="+", action="extend",
        metavar="FILE", default=[],
        help="references, one segment a line; several files are several references")  # fmt: skip
    add("-t", "--translations", "-candidate_file", "--candidate_file", nargs="+", action="extend",
        metavar="FILE", default=[], help="candidates, a file for each system")  # fmt: skip
    add(
        "-s",
        "--sources",
        action=Once,
        metavar="FILE",
        help="sources, which some checkpoints read; a candidate that copies its source is flagged",
    )
    add("-i", "--input", "-sentence_pairs_file", "--sentence_pairs_file", action=Once, metavar="FILE",
        help="JSONL, CSV, TSV or Parquet with the columns reference and candidate")  # fmt: skip


def add_scorer_arguments(parser: argparse.ArgumentParser) -> None:
    """How to score: the settings of BleurtScorer."""
    add = parser.add_argument_group("metric").add_argument
    add_checkpoint(add)
    add("--batch_size", "-bleurt_batch_size", "--bleurt_batch_size", type=at_least_one, metavar="N",
        help="pairs of a batch, at most")  # fmt: skip
    add("--batch_tokens", type=at_least_one, metavar="N", help="tokens of a batch, at most, padding included")
    add("--max_tokens", type=at_least_one, metavar="N", help="tokens of a pair that are read")
    add("--long", choices=["cut", "windows"], default="cut",
        help="what happens to longer pairs: cut (default), windows")  # fmt: skip
    add("--multi", choices=["max", "mean"], default="max", help="over several references: max (default), mean")
    add_character_references(add)
    add("--output", metavar="NAME", help="the output that is the score, if the checkpoint has several")
    add("--device", nargs="+", action="extend", metavar="NAME", help="cpu, cuda, cuda:1, mps; several share the work")
    add_precision(add)
    add("--processes", type=at_least_one, default=1, metavar="N",
        help="processes that share the CPU and the weights (default 1)")  # fmt: skip


def add_precision(add: Callable[..., Any]) -> None:
    """The numbers that a metric computes in; `add` as below."""
    add("--precision", choices=["auto", "float32", "bf16", "int8"], default="auto",
        help="auto (default): bf16 on GPUs that compute in it, else float32; bf16 and int8 are faster on CPUs with the "
        "instructions, and scores move a little")  # fmt: skip


def add_entailment(add: Callable[..., Any]) -> None:
    """A classifier beside the metric; `add` as below."""
    add("--entailment", action=Once, metavar="MODEL",
        help="a classifier of entailment, such as bundled:entailment-base: lowers the scores of near-copies that "
        "contradict their reference, such as those with a wrong name or number")  # fmt: skip


def add_checkpoint(add: Callable[..., Any]) -> None:
    """Which checkpoint; `add` is the `add_argument` of a parser or of a group."""
    add("-c", "--checkpoint", "--model", "-bleurt_checkpoint", "--bleurt_checkpoint", action=Once, metavar="NAME",
        help="a folder, or a name as in params.yaml; the bundled metric by default")  # fmt: skip


def add_character_references(add: Callable[..., Any]) -> None:
    """What happens to character references; `add` as above."""
    add("--character_references", choices=["undone", "kept"], default="undone",
        help="&quot; and the like: undone (default; read as the characters that people saw), kept")  # fmt: skip


class Once(argparse.Action):
    """A flag that may be given once, under any of its names."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, *_: Any) -> None:
        """Keep the value, or end with an error."""
        if getattr(namespace, self.dest) is not None:
            parser.error(f"argument {'/'.join(self.option_strings)}: is given twice")
        setattr(namespace, self.dest, values)


def one_of(kind: type[Name]) -> Callable[[str], Name]:
    """A reader of names of the enumeration `kind`, in upper or lower case; its error lists them."""

    def read(text: str) -> Name:
        found = {str(one).lower(): one for one in kind}.get(text.lower())
        if found is None:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(kind)}, not {text!r}")
        return found

    return read


def at_least_one(text: str) -> int:
    """A whole number from 1 on the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def scorer_of(arguments: argparse.Namespace) -> "BleurtScorer":
    """The scorer that `add_scorer_arguments` describes."""
    from pipeline.scoring.scorer import BleurtScorer

    names = ("checkpoint", "device", "max_tokens", "batch_tokens", "multi", "long", "precision", "output", "processes")
    settings = {name: getattr(arguments, name) for name in (*names, "character_references")}
    return BleurtScorer(**settings, entailment=getattr(arguments, "entailment", None))


def input_files(arguments: argparse.Namespace) -> list[str]:
    """The files that `add_input_arguments` names."""
    single = [name for name in (arguments.sources, arguments.input) if name is not None]
    return [*arguments.references, *arguments.translations, *single]


def segments_of(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[Segments]:
    """The segments that `add_input_arguments` describes."""
    given = bool(arguments.references), bool(arguments.translations)
    if arguments.input is not None:
        if any(given) or arguments.sources is not None:
            raise ParamsError("--input holds everything: it goes without -r, -t and -s.")
        return table(arguments.input)
    if arguments.translations and (arguments.references or arguments.sources is not None):
        return text_files(arguments.references, arguments.translations, arguments.sources)
    if any(given) or arguments.sources is not None or sys.stdin is None or sys.stdin.isatty():
        raise ParamsError("Give references with -r and candidates with -t, or --input, or a table on standard input.")
    return table()
