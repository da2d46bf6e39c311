"""The console command `bleurt`, also `python -m pipeline.scoring`.

  bleurt score -r ref.txt -t system.txt

`bleurt --help` lists the subcommands. The flags of the original BLEURT work, also without the word `score`:

  bleurt -candidate_file c.txt -reference_file r.txt -bleurt_checkpoint DIR -scores_file scores.txt

A user's mistake is one sentence on standard error and exit code 2.
"""

import argparse
import importlib
import importlib.util
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.core.errors import BleurtError

SUBCOMMANDS = {
    "score": "score candidates against references",
    "compare": "compare systems with confidence intervals and significance tests",
    "explain": "which words cost the score",
    "selftest": "check that scores do not depend on batch size, order, threads or device",
    "benchmark": "agreement of a checkpoint with human ratings",
    "train": "how to train a metric of one's own",
}

TRAINING = """\
Training is the pipeline: `dvc repro` runs it from raw text and human ratings to a checkpoint and a report.

  make repro                                   # environment, then the whole pipeline with the profile of params.yaml
  dvc exp run -S profile=local                 # on real data in data/real
  dvc exp run -S 'variants=[all,none]'         # with and without pre-training; every key of params.yaml can be set

Own ratings go into data/own/ and are named in params.yaml (README.md, "Your own data"). The metric is then in
models/finetune/VARIANT:

  bleurt score -r ref.txt -t system.txt --checkpoint models/finetune/all
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0].startswith("-") and given[0] not in ("-h", "--help", "--version"):
        given = ["score", *given]
    if sys.stderr is None:  # closed; print(file=None) would write to standard output
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115, it stays open to the end
    try:
        if sys.stdout is None:
            raise BleurtError("standard output is closed; send it to a file or to /dev/null.")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as the input, whatever the terminal's language
        parsed = _parsed(given)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminated)
        code = int(parsed.run(parsed))
        sys.stdout.flush()
        return code
    except BleurtError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # who reads our output has enough; nothing is left to say, also not at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # what no module answers for: a full disk under standard output or the temporary folder
        print(f"error: {error.filename or 'output'}: {error.strerror or error}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _terminated(number: int, _: object) -> None:
    """Ends the program as an exception, so that temporary files are removed."""
    sys.exit(128 + number)


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    """The arguments; one that its subcommand does not know ends the program with that subcommand's usage."""
    parser, subcommands = _parser(given[0] if given else "")
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        subcommands[given[0]].error(f"unrecognized arguments: {' '.join(unknown)}")
    return parsed


def _parser(wanted: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser with all subcommands, of which `wanted` alone knows its arguments, as its module alone is loaded."""
    description = """Scores generated text against references, as people would rate it. The flags of the original
    BLEURT work without a subcommand: bleurt -candidate_file c.txt -reference_file r.txt"""
    parser = argparse.ArgumentParser("bleurt", description=description, allow_abbrev=False)
    parser.add_argument("--version", action=_Version)
    subparsers = parser.add_subparsers(metavar="SUBCOMMAND", required=True)
    for name, summary in SUBCOMMANDS.items():
        if name == "train":
            layout = argparse.RawDescriptionHelpFormatter
            train = subparsers.add_parser(name, help=summary, description=TRAINING, formatter_class=layout)
            train.set_defaults(run=_train)
        elif name == wanted:
            _module(name).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser, subparsers.choices


def _module(name: str) -> Any:
    module = f"pipeline.scoring.cli.{name}"
    if importlib.util.find_spec(module) is None:
        raise BleurtError(f"bleurt {name} is not part of this installation.")
    return importlib.import_module(module)


def _train(_: argparse.Namespace) -> int:
    print(TRAINING, end="")
    return 0


class _Version(argparse.Action):
    """Prints the package's version, which is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from pipeline.scoring.signature import package_version

        print(f"bleurt {package_version()}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
