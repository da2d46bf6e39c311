"""What a score does not need stays out of its process: two thirds of what transformers imports.

Importing transformers imports torch's compiler (which imports sympy), its distributed tensors, scipy and accelerate,
to decorate functions and to name classes that scoring never meets. `bleurt score` is a process of its own, so before it
imports transformers it says that these packages are absent, which transformers allows for, and puts a stand-in in the
compiler's place. The stand-in imports the compiler as soon as anything but a decorator is asked of it.

Only commands call this, never a library: in a user's own process transformers finds everything that is installed.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"
COMPILER_PART = "torch._dynamo._trace_wrapped_higher_order_op"
"""transformers imports one class of it, for masks of models that are exported."""

UNNEEDED = ("is_accelerate_available", "is_peft_available", "is_scipy_available", "is_sklearn_available")
"""Questions of transformers whose answer becomes no."""

DECORATORS = ("allow_in_graph", "assume_constant_result", "disable")
"""Names of the compiler that mark functions for it; here they change nothing."""


def lighten() -> None:
    """Keep what scoring does not need out of this process; nothing if transformers is imported already."""
    if "transformers" in sys.modules or COMPILER in sys.modules:
        return
    import torch

    sys.modules[COMPILER], sys.modules[COMPILER_PART] = _StandIn(COMPILER), _StandIn(COMPILER_PART)
    sys.modules[COMPILER].__path__ = [f"{torch.__path__[0]}/_dynamo"]
    with (
        _replaced(torch.distributed, "is_available", lambda: False),
        _replaced(torch.compiler, "disable", _marked),
        _replaced(torch.compiler, "allow_in_graph", _marked),
    ):
        from transformers.utils import import_utils

        import_utils.is_torch_distributed_available()  # keeps its answer
        for question in UNNEEDED:
            _answer_no(import_utils, question)
        importlib.import_module("transformers.modeling_utils")


@contextlib.contextmanager
def _replaced(place: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def _answer_no(module: ModuleType, question: str) -> None:
    utils = importlib.import_module("transformers.utils")
    for place in (module, utils):
        if hasattr(place, question):
            setattr(place, question, lambda *_, **__: False)


def _marked(given: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator, with or without arguments, that changes nothing."""
    return given if callable(given) else _marked


class _StandIn(ModuleType):
    """A module that is imported when something is asked of it that is no decorator."""

    def __getattr__(self, name: str) -> Any:
        if name in DECORATORS:
            return _marked
        if name == "TransformGetItemToIndex":
            return _later
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)


def _later(*given: Any, **named: Any) -> Any:
    return _real(COMPILER_PART).TransformGetItemToIndex(*given, **named)


def _real(name: str) -> ModuleType:
    """The module itself, in place of its stand-in."""
    for stood_in in (COMPILER, COMPILER_PART):
        if isinstance(sys.modules.get(stood_in), _StandIn):
            del sys.modules[stood_in]
    return importlib.import_module(name)
