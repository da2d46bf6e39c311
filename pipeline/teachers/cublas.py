"""The CUDA library that CTranslate2 needs on a GPU: cuBLAS 12. Torch brings another version of it.

The extra `gpu` (pip install 'bleurt-pipeline[gpu]') brings it, in a folder of site-packages that the system does not
search. `load` finds it there; CTranslate2 then takes what the process has loaded already.
"""

import ctypes
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "nvidia.cublas"
"""Where pip puts the library: its folder `lib`."""

LIBRARIES = ("libcublasLt.so.12", "libcublas.so.12")
"""In this order: the second needs the first."""


@functools.cache
def load() -> bool:
    """Whether this process has cuBLAS 12 now: from where the system looks for libraries, else from the package."""
    return any(_loaded(folder) for folder in _folders())


def _folders() -> Iterator[Path | None]:
    """None stands for the system's own places."""
    yield None
    try:
        found = importlib.util.find_spec(PACKAGE)
    except ModuleNotFoundError:  # no package of NVIDIA's
        return
    for folder in (found.submodule_search_locations or ()) if found else ():
        yield Path(folder) / "lib"


def _loaded(folder: Path | None) -> bool:
    try:
        for name in LIBRARIES:
            ctypes.CDLL(name if folder is None else str(folder / name), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True
