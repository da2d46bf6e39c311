"""The version of this package. `bleurt --version` needs no more than this."""

import importlib.metadata

PACKAGE = "bleurt-pipeline"


def package_version() -> str:
    """Version of the installed package; "uninstalled" if it runs from its source without installation."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return "uninstalled"
