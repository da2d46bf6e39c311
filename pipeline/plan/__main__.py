"""Prints what a profile costs on a machine: hours, FLOPs, disk and memory of every stage, and the rates behind them.

python -m pipeline.plan --profile paper --machine "8xA100 64 cores"
"""

import argparse
import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline.core.errors import ParamsError
from pipeline.core.runtime import run_main
from pipeline.plan.costs import Kind, Planner, Work

RATES = Path(__file__).with_name("rates.yaml")
_MACHINE = re.compile(r"(?:(?:(?P<count>\d+) ?x ?)?(?P<gpu>[A-Z]+\d+),? +)?(?P<cores>\d+) cores?")
_COLUMNS = ("stage", "hours", "FLOPs", "core hours", "disk GB", "memory GB")


@dataclass(frozen=True)
class Machine:
    """`gpus` of the kind `gpu` (none: 0 and "") and `cores` of the CPU."""

    gpus: int
    gpu: str
    cores: int

    def hours(self, work: Work, rates: dict[str, Any]) -> float:
        """Time that `work` takes, if nothing else runs: on the GPUs if there are any, spread as far as it can be."""
        if self.gpus:
            devices = min(self.gpus, work.runs or self.gpus)
            speed = devices * _value(rates["gpu"][self.gpu]) * _value(rates["utilisation"][work.kind])
        else:
            most = int(_value(rates["core"]["training_cores"])) if work.kind is Kind.TRAINING else self.cores
            speed = min(self.cores, most) * _value(rates["core"][work.kind])
        return (work.flops / speed + work.core_seconds / self.cores) / 3600


def _value(entry: dict[str, Any]) -> float:
    return float(entry["value"])


def machine_of(text: str, rates: dict[str, Any]) -> Machine:
    """The machine that a line describes; a ParamsError if it is none, or if its GPU is not in rates.yaml.

    >>> machine_of("8xA100 64 cores", {"gpu": {"A100": {}}})
    Machine(gpus=8, gpu='A100', cores=64)
    >>> machine_of("2 cores", {"gpu": {}})
    Machine(gpus=0, gpu='', cores=2)
    """
    match = _MACHINE.fullmatch(text.strip())
    if match is None or not int(match["cores"]):
        raise ParamsError(f"--machine: must be like '8xA100 64 cores' or '2 cores', not {text!r}.")
    if match["gpu"] is None:
        return Machine(0, "", int(match["cores"]))
    if match["gpu"] not in rates["gpu"]:
        raise ParamsError(f"--machine: the GPU must be one of {', '.join(rates['gpu'])}, not {match['gpu']!r}.")
    return Machine(int(match["count"] or 1), match["gpu"], int(match["cores"]))


@contextlib.contextmanager
def planner_of(params: Path, profile: str | None, rates: dict[str, Any]) -> Iterator[Planner]:
    """A planner of `params`, with another profile if one is named; it reads the params while it is used."""
    if profile is None:
        yield Planner(params, rates)
        return
    text = re.sub(r"(?m)^profile:.*$", lambda _: f"profile: {profile}", params.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / params.name
        file.write_text(text, encoding="utf-8")
        yield Planner(file, rates)


def rows(work: Sequence[Work], machine: Machine, rates: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row of _COLUMNS for every stage, and one for all of them."""
    stages = list(dict.fromkeys(one.stage for one in work))
    groups = {stage: [one for one in work if one.stage == stage] for stage in stages}
    return [_row(stage, group, machine, rates) for stage, group in {**groups, "all": list(work)}.items()]


def _row(name: str, work: Sequence[Work], machine: Machine, rates: dict[str, Any]) -> tuple[str, ...]:
    hours = sum(machine.hours(one, rates) for one in work)
    flops, core = sum(one.flops for one in work), sum(one.core_seconds for one in work) / 3600
    disk, memory = sum(one.disk for one in work) / 1e9, max(one.memory for one in work) / 1e9
    sizes = (_shown(core, ".1f"), _shown(disk, ".1f"), _shown(memory, ".1f"))
    return (name, f"{hours:,.1f}", _shown(flops, ".1e"), *sizes)


def _shown(value: float, form: str) -> str:
    return f"{value:,{form}}" if value else "-"


def page(planner: Planner, machine: Machine, rates: dict[str, Any]) -> str:
    """The plan as a table in Markdown, and below it what it rests on."""
    work, counts = planner.work(), planner.counts
    lines = [f"| {' | '.join(row)} |" for row in (_COLUMNS, ("---",) * len(_COLUMNS), *rows(work, machine, rates))]
    sizes = f"{counts.xml_bytes / 1e9:,.2f} GB of XML, {counts.segments:,.0f} segments, {counts.pairs:,.0f} pairs"
    used = {f"rates.{name}": entry for name, entry in rates["rates"].items()}
    if machine.gpus:
        used |= {machine.gpu: rates["gpu"][machine.gpu]}
        used |= {f"utilisation.{name}": entry for name, entry in rates["utilisation"].items()}
    else:
        used |= {f"core.{name}": entry for name, entry in rates["core"].items()}
    found = [f"  {name} = {_value(entry):.3g}: {entry['how']}" for name, entry in used.items()]
    return "\n".join([f"{sizes}, at most; evaluate, grade, collect and report are not counted", *lines, "", *found])


def main() -> None:
    """Print the plan of a profile on a machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.add_argument("--profile", help="profile of params.yaml (default: the one that it names)")
    parser.add_argument("--machine", required=True, help="such as '8xA100 64 cores' or '2 cores'")
    arguments = parser.parse_args()
    rates = YAML(typ="safe").load(RATES.read_text(encoding="utf-8"))
    machine = machine_of(arguments.machine, rates)
    with planner_of(arguments.params, arguments.profile, rates) as planner:
        print(page(planner, machine, rates))


if __name__ == "__main__":
    run_main(main)
