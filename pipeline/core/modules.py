"""This project's modules: the members of a kind by name (law 3), what a module imports (law 2), a fingerprint (law 5).

A signal, a perturbation, a metric, a layout, a recipe or a subcommand is a module of its kind's package. Nothing lists
them: who needs one asks here, at run time. The import is dynamic on purpose: no member is in the import closure of
another, so that editing one re-runs only what uses it (law 2).

The import closure of a module inside this project is what a stage depends on; the fingerprint is that of its code.
"""

import ast
import functools
import hashlib
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

from pipeline.core.errors import ParamsError

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds dvc.yaml and the package `pipeline`."""


def names(package: str) -> tuple[str, ...]:
    """Names of the modules in `package`, sorted; its folder is read anew at every call.

    >>> names("pipeline.label.signals")[:2]
    ('backtranslation', 'bertscore')
    """
    folder = importlib.import_module(package)
    return tuple(sorted(found.name for found in pkgutil.iter_modules(folder.__path__)))


def load(package: str, name: str, key: str) -> ModuleType:
    """The module `name` of `package`; a ParamsError that begins with `key` if there is none.

    >>> load("pipeline.label.signals", "bleu", "signals").__name__
    'pipeline.label.signals.bleu'
    """
    known = names(package)
    if name not in known:
        raise ParamsError(f"{key}: must be one of {', '.join(known)}, not {name!r}.")
    return importlib.import_module(f"{package}.{name}")


def load_all(package: str) -> dict[str, ModuleType]:
    """Every module of `package` by its name."""
    return {name: importlib.import_module(f"{package}.{name}") for name in names(package)}


def _file_of(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.is_file():
            return file
    return None


def imported_modules(file: Path) -> set[str]:
    """Names of this project's modules that `file` imports, also inside functions; packages only if imported by name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            inside = {name for name in members if _file_of(name)}
            found |= inside or {node.module}
    return {name for name in found if name.split(".")[0] == "pipeline" and _file_of(name)}


@functools.cache
def import_closure(module: str) -> tuple[Path, ...]:
    """Files of `module` and of all that it imports from this project, sorted, as absolute paths.

    Files `__init__.py` of packages count only if the package itself is imported by name; ours hold docstrings and
    contracts of members.
    """
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        file = _file_of(waiting.pop())
        if file is None or file in found:
            continue
        found.add(file)
        waiting += sorted(imported_modules(file))
    return tuple(sorted(found))


@functools.cache
def code_fingerprint(module: str) -> str:
    """SHA-256 over the closure's file names and bytes: changes when any line that the stage can run changes."""
    digest = hashlib.sha256()
    for file in import_closure(module):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
