"""The import closure of a module inside this project: what a stage depends on (law 2), and its fingerprint (law 5)."""

import ast
import functools
import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds dvc.yaml and the package `pipeline`."""


def _file_of(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.is_file():
            return file
    return None


def imported_modules(file: Path) -> set[str]:
    """Names of this project's modules that `file` imports, also inside functions; packages only if imported by name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in members if _file_of(name)}
            names |= modules or {node.module}
    return {name for name in names if name.split(".")[0] == "pipeline" and _file_of(name)}


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
