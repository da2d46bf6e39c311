"""Members of a kind, found by name: the modules of one folder (law 3).

A signal, a perturbation, a metric, a layout, a recipe or a subcommand is a module of its kind's package. Nothing lists
them: who needs one asks here, at run time. The import is dynamic on purpose: no member is in the import closure of
another, so that editing one re-runs only what uses it (law 2).
"""

import importlib
import pkgutil
from types import ModuleType

from pipeline.core.errors import ParamsError


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
