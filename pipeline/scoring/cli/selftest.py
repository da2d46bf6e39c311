"""`bleurt selftest`: check that a checkpoint scores here as it should.

Prints PASS. If something is off, it prints what, and exits with 1. Golden pairs are scored in single precision, again
and again: in other batches, in another order, with other numbers of threads, and on the CPU as well if the device is
another one. No score may change by 1e-4.

If the checkpoint's folder holds `selftest.json`, scores must also equal those of that file, within the same limit: this
installation then computes what the author's did. `bleurt selftest --write` writes it, on the author's machine.

Scores of the original BLEURT's checkpoints that were published are compared as well, by the checkpoint's name
(`pipeline.scoring.documented_scores`). A name says little about the weights, so a difference there is no failure.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy

from pipeline.core.errors import ModelError
from pipeline.core.work import write_json
from pipeline.scoring.inputs import add_checkpoint

if TYPE_CHECKING:
    from pipeline.scoring.scorer import BleurtScorer

FILE = "selftest.json"
LIMIT = 1e-4
"""A score that changes by this much or more is off."""

BATCH_SIZES = (1, 2, 7)
SEED = 1

PAIRS = (
    ("The cat sat on the mat.", "The cat sat on the mat."),
    ("The cat sat on the mat.", "A cat was sitting on a mat."),
    ("The cat sat on the mat.", "The cat did not sit on the mat."),
    ("The cat sat on the mat.", "Interest rates rose again in March."),
    ("The cat sat on the mat.", ""),
    ("", "The cat sat on the mat."),
    ("Yes.", "No."),
    ("The minister resigned on Monday after the vote.", "After the vote on Monday the minister stepped down."),
    ("The minister resigned on Monday after the vote.", "The minister resigned on Friday after the vote."),
    ("The minister resigned on Monday after the vote.", "The minister resigned."),
    ("The minister resigned on Monday after the vote.", "THE MINISTER RESIGNED ON MONDAY AFTER THE VOTE"),
    ("The minister resigned on Monday after the vote.", "minister the Monday vote on after the resigned."),
    ("In 2019 it sold 1,250 boats for $3.5 million.", "It sold 1,520 boats in 2019, for 3.5 million dollars."),
    ("Zoë paid €5 at the café in Łódź.", "Zoe paid 5 euros in the cafe in Lodz."),
    ("We won 🎉 and the crowd sang!", "We won, and the crowd sang!"),
    ("Москва не сразу строилась.", "Moscow was not built at once."),
    ("今日は雨が降っています。", "今日は晴れています。"),
    ("Press  the\tred button,\nthen wait.", "Press the red button, then wait."),
    ("the the the the the the the the", "the the the"),
    ("&quot;Fish &amp; chips&quot; costs &#163;9.", '"Fish & chips" costs nine pounds.'),
    (
        "The old bridge, which had carried carts, then trams and in the end thousands of cars a day, was closed for "
        "good in spring: its piers had sunk by a hand's breadth and nobody could say how long its arches would hold.",
        "In spring the old bridge was shut for ever: its piers had sunk by the breadth of a hand, and no one could say "
        "how long its arches would stand, although they had borne carts, trams and thousands of cars every day.",
    ),
)
"""(reference, candidate): the usual, the unusual, the short and the long."""


@dataclass(frozen=True)
class Check:
    """What was changed, and the largest change of a score that followed; NaN if a score is no number."""

    what: str
    change: float

    @property
    def passed(self) -> bool:
        """Smaller than LIMIT."""
        return self.change < LIMIT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add_checkpoint(add)
    add("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps")
    add("--write", action="store_true", help=f"write {FILE} into the checkpoint's folder")


def run(arguments: argparse.Namespace) -> int:
    """Check, print, and return 0, or 1 if something is off."""
    from pipeline.scoring.scorer import BleurtScorer

    scorer = BleurtScorer(arguments.checkpoint, device=arguments.device, precision="float32")
    if arguments.write:
        print(f"wrote {write(scorer)}")
    checks = check(scorer)
    for one in checks:
        print(f"{'PASS' if one.passed else 'OFF '}  {one.what:<44} largest change {one.change:.1e}")
    off = [one.what for one in checks if not one.passed]
    for line in documented(scorer):
        print(line)
    if not (scorer.checkpoint / FILE).exists():
        print(f"(no {FILE} in {scorer.checkpoint}: nothing says what the scores should be)", file=sys.stderr)
    print(scorer.signature())
    print(f"OFF: {'; '.join(off)}" if off else "PASS")
    return 1 if off else 0


def check(scorer: "BleurtScorer") -> list[Check]:
    """Every check of `scorer`, which computes in single precision."""
    expected = _expected(scorer)
    pairs = [pair for pair, _ in expected] if expected else list(PAIRS)
    found = _scores(scorer, pairs)
    checks = [Check("scored again", _change(found, _scores(scorer, pairs)))]
    checks += [Check(f"batches of {size}", _change(found, _scores(scorer, pairs, size))) for size in BATCH_SIZES]
    checks += _in_other_orders(scorer, pairs, found)
    checks += _with_threads(scorer, pairs, found)
    checks += _on_the_cpu(scorer, pairs, found)
    if expected:
        wanted = numpy.array([score for _, score in expected])
        checks.append(Check(f"the scores of {FILE}", _change(wanted, found)))
    return checks


def documented(scorer: "BleurtScorer") -> list[str]:
    """A line for each published list of scores of a checkpoint of this name: whether ours agree."""
    from pipeline.scoring.documented_scores import published_for

    lines = []
    for one in published_for(scorer.checkpoint):
        pairs = [(reference, candidate) for reference, candidate, _ in one.pairs]
        change = _change(numpy.array([score for *_, score in one.pairs]), _scores(scorer, pairs))
        said = "PASS" if change < one.within else "DIFF"
        lines.append(f"{said}  {'published scores of ' + one.name:<44} largest change {change:.1e} ({one.source})")
        if said == "DIFF":
            lines.append(f"      more than {one.within:g}: other weights under this name, or something is off here")
    return lines


def write(scorer: "BleurtScorer") -> Path:
    """Write the scores of PAIRS as those to expect of this checkpoint; returns the file."""
    scores = _scores(scorer, PAIRS).tolist()
    entries = [{"reference": z, "candidate": c, "score": s} for (z, c), s in zip(PAIRS, scores, strict=True)]
    file = scorer.checkpoint / FILE
    write_json(file, {"signature": scorer.signature().as_dict(), "pairs": entries})
    return file


def _expected(scorer: "BleurtScorer") -> list[tuple[tuple[str, str], float]]:
    """Pairs and scores of the checkpoint's own file, if there is one; a file for other weights is a ModelError."""
    file = scorer.checkpoint / FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        made_for = content["signature"]["checkpoint"]
        found = [((str(p["reference"]), str(p["candidate"])), float(p["score"])) for p in content["pairs"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{file}: does not hold golden pairs; write it again with bleurt selftest --write.") from error
    if made_for != scorer.signature().checkpoint:
        raise ModelError(f"{file}: was written for other weights than those that lie beside it.")
    return found


def _scores(scorer: "BleurtScorer", pairs: Sequence[tuple[str, str]], batch_size: int | None = None) -> numpy.ndarray:
    references, candidates = zip(*pairs, strict=True)
    return numpy.array(scorer.score(references, candidates, batch_size=batch_size))


def _change(expected: numpy.ndarray, found: numpy.ndarray) -> float:
    return float(numpy.abs(expected - found).max())


def _in_other_orders(scorer: "BleurtScorer", pairs: Sequence[tuple[str, str]], found: numpy.ndarray) -> list[Check]:
    orders = {
        "reversed order": numpy.arange(len(pairs))[::-1],
        "shuffled order": numpy.random.default_rng(SEED).permutation(len(pairs)),
    }
    return [
        Check(what, _change(found[order], _scores(scorer, [pairs[i] for i in order], batch_size=3)))
        for what, order in orders.items()
    ]


def _with_threads(scorer: "BleurtScorer", pairs: Sequence[tuple[str, str]], found: numpy.ndarray) -> list[Check]:
    """One thread, two, and as many as there are cores; what was set before is set again."""
    import torch

    before = torch.get_num_threads()
    checks = []
    try:
        for threads in sorted({1, 2, os.cpu_count() or 1}):
            torch.set_num_threads(threads)
            checks.append(Check(f"threads: {threads}", _change(found, _scores(scorer, pairs))))
    finally:
        torch.set_num_threads(before)
    return checks


def _on_the_cpu(scorer: "BleurtScorer", pairs: Sequence[tuple[str, str]], found: numpy.ndarray) -> list[Check]:
    """The same on the CPU, if the device is another one."""
    from pipeline.scoring.scorer import BleurtScorer

    device = scorer.device.split(":")[0]
    if device == "cpu":
        return []
    other = BleurtScorer(scorer.checkpoint, device="cpu", max_tokens=scorer.max_tokens, precision="float32")
    return [Check(f"device: {device} and cpu", _change(found, _scores(other, pairs)))]
