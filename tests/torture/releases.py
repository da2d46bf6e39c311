"""What the newest releases are: packages of this environment beside those of requirements.lock. For `make latest`.

python tests/torture/releases.py requirements.lock
"""

import importlib.metadata
import re
import sys
from collections.abc import Mapping
from pathlib import Path


def named(name: str) -> str:
    """The name of a package as all its spellings have it.

    >>> named("Jinja2_X.y")
    'jinja2-x-y'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(file: Path) -> dict[str, str]:
    """Name -> version of every line `name==version`."""
    lines = (line.partition("==") for line in file.read_text(encoding="utf-8").splitlines())
    return {named(name): version.strip() for name, equal, version in lines if equal}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A line for each package that another release stands for, that came or that went; sorted by name.

    >>> differences({"a": "1.0", "b": "2.0", "c": "1.0"}, {"a": "1.1", "c": "1.0", "d": "3.0"})
    ['a 1.0 -> 1.1', 'b 2.0 -> none', 'd none -> 3.0']
    """
    names = sorted({*before, *after})
    found = [(name, before.get(name, "none"), after.get(name, "none")) for name in names]
    return [f"{name} {old} -> {new}" for name, old, new in found if old != new]


def main() -> None:
    """Print the differences, without pip and this project itself."""
    here = {named(one.name): one.version.partition("+")[0] for one in importlib.metadata.distributions()}
    others = {name: version for name, version in here.items() if name not in ("pip", "bleurt-pipeline")}
    lines = differences(locked(Path(sys.argv[1])), others)
    print("\n".join([f"{len(lines)} packages differ from {sys.argv[1]}:", *lines]))


if __name__ == "__main__":
    main()
