"""The console command `bleurt`, also `python -m pipeline.scoring`.

  bleurt score -r ref.txt -t system.txt

`bleurt --help` lists the subcommands. A subcommand is a module of `pipeline/scoring/cli/`, found by its name: its
docstring is its help and begins with the line "`bleurt NAME`: what it does.", `add_arguments(parser)` declares its
flags, and `run(arguments)` does the work and returns the exit code. The flags of the original BLEURT work too, also
without the word `score`:

  bleurt -candidate_file c.txt -reference_file r.txt -bleurt_checkpoint DIR -scores_file scores.txt

A user's mistake is one sentence on standard error and exit code 2.
"""

import argparse
import importlib
import importlib.util
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.core import modules
from pipeline.core.errors import BleurtError
from pipeline.scoring import cli

DESCRIPTION = """Scores generated text against references, as people would rate it. The flags of the original BLEURT
work without a subcommand: bleurt -candidate_file c.txt -reference_file r.txt"""


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
        parsed.own_process = arguments is None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminated)
        code = int(parsed.run(parsed))
        sys.stdout.flush()
        return code
    except BleurtError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has closed it; print nothing more, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # what no module reports: a full disk under standard output or the temporary folder
        print(f"error: {error.filename or 'output'}: {error.strerror or error}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def summaries() -> dict[str, str]:
    """Subcommand -> what it does, from the first line of its module, which is not imported for that."""
    found = {}
    for name in modules.names(cli.__name__):
        with Path(cli.__path__[0], f"{name}.py").open(encoding="utf-8") as lines:
            summary = re.match(rf'"""`bleurt {name}`: (.+?)\.?("""|$)', lines.readline())
        if summary is not None:
            found[name] = summary[1]
    return found


def _terminated(number: int, _: object) -> None:
    """End the program by an exception, so that temporary files are removed."""
    sys.exit(128 + number)


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    """The arguments; one that its subcommand does not know ends the program with that subcommand's usage."""
    parser, subcommands = _parser(given[0] if given else "")
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        subcommands[given[0]].error(f"unrecognized arguments: {' '.join(unknown)}")
    return parsed


def _parser(wanted: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser with all subcommands; only the module of `wanted` is imported, so only `wanted` gets its flags."""
    parser = argparse.ArgumentParser("bleurt", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action=_Version)
    subparsers = parser.add_subparsers(metavar="SUBCOMMAND", required=True)
    for name, summary in summaries().items():
        if name != wanted:
            subparsers.add_parser(name, help=summary)
            continue
        module = importlib.import_module(f"{cli.__name__}.{name}")
        layout = argparse.RawDescriptionHelpFormatter
        command = subparsers.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=layout, allow_abbrev=False
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser, subparsers.choices


class _Version(argparse.Action):
    """Prints the package's version, which is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from pipeline.scoring.version import package_version

        print(f"bleurt {package_version()}")
        other = importlib.util.find_spec("bleurt")
        if other is not None and "import_path" not in str(other.origin):
            print(f"import bleurt: the original BLEURT is installed and comes first ({other.origin})")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
