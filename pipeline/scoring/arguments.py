"""Command-line arguments that subcommands share: what to score, and how. Flags of other tools work too."""

import argparse
import contextlib
import enum
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.core.errors import ParamsError
from pipeline.scoring.cli import inputs
from pipeline.scoring.cli.inputs import Segments

if TYPE_CHECKING:
    from pipeline.scoring.scorer import BleurtScorer

Name = TypeVar("Name", bound=enum.StrEnum)


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """What to score: -r, -t, -s, or --input."""
    add = parser.add_argument_group("input (without any, a table on standard input)").add_argument
    add("-r", "--references", "-reference_file", "--reference_file", nargs="+", action="extend",
        metavar="FILE", default=[],
        help="references, one segment a line; several files are several references")  # fmt: skip
    add("-t", "--translations", "-candidate_file", "--candidate_file", nargs="+", action="extend",
        metavar="FILE", default=[], help="candidates, a file for each system")  # fmt: skip
    add("-s", "--sources", action=Once, metavar="FILE", help="sources; a candidate that copies its source is flagged")
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
    add("--output", metavar="NAME", help="the output that is the score, if the checkpoint has several")
    add("--device", nargs="+", action="extend", metavar="NAME", help="cpu, cuda, cuda:1, mps; several share the work")
    add("--precision", choices=["auto", "float32", "bf16"], default="auto",
        help="auto (default): bf16 on GPUs that compute in it, else float32")  # fmt: skip


def add_checkpoint(add: Callable[..., Any]) -> None:
    """Which checkpoint; `add` is the `add_argument` of a parser or of a group."""
    add("-c", "--checkpoint", "--model", "-bleurt_checkpoint", "--bleurt_checkpoint", action=Once, metavar="NAME",
        help="a folder, or a name as in params.yaml; the bundled metric by default")  # fmt: skip


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

    names = ("checkpoint", "device", "max_tokens", "batch_tokens", "multi", "long", "precision", "output")
    return BleurtScorer(**{name: getattr(arguments, name) for name in names})


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
        return inputs.table(arguments.input)
    if all(given):
        return inputs.text_files(arguments.references, arguments.translations, arguments.sources)
    if any(given) or arguments.sources is not None or sys.stdin is None or sys.stdin.isatty():
        raise ParamsError("Give references with -r and candidates with -t, or --input, or a table on standard input.")
    return inputs.table()
