"""Models of a hub (`owner/name`, `owner/name@revision`): what the hub says of them, and their files in its cache.

huggingface_hub fetches; HF_ENDPOINT names another hub, HF_TOKEN who asks, HF_HOME where the cache lies. What it leaves
open is done here. Failures that may pass are tried again: a busy hub, a cut connection, silence. Weights are held
against the SHA-256 that the hub states, because a mirror may send other bytes of the same length. Whatever else is
wrong is one sentence.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    SafetensorsParsingError,
    XetDownloadError,
)

from pipeline.core.errors import ModelError
from pipeline.core.packages import sha256_of

WANTED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.spm")
"""Files of a repository that are fetched: weights in the one format that is read, and what tokenizers need."""

UNWANTED = ("*/*",)
"""The same model for other programs, and parts of larger ones."""

WAIT_SECONDS = (1.0, 2.0, 4.0, 8.0)
"""Pauses before further attempts."""

PASSING = (408, 429, 500, 502, 503, 504)
"""HTTP statuses that may be others a moment later."""

FAILURES = (OSError, ValueError, RuntimeError, httpx2.HTTPError, XetDownloadError)
"""What huggingface_hub raises; a HfHubHTTPError is an OSError, and so is a file that it lacks."""

GATED = "the hub gives it only to those who accepted its terms"
LOGIN = "accept them on its page, then log in with `hf auth login` or set HF_TOKEN"

T = TypeVar("T")

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ADVICE = "give a folder, or run where the hub can be reached"


class _DamagedError(Exception):
    """A file came with other bytes than the hub states."""


@dataclass(frozen=True)
class Listing:
    """What the hub says of a model: the commit of its revision, and the size in bytes of each file to be fetched."""

    commit: str
    sizes: dict[str, int]

    def weights(self) -> list[str]:
        """Names of the files with weights, in order; none if there are no safetensors."""
        return sorted(name for name in self.sizes if name.endswith(".safetensors"))


def is_pinned(name: str) -> bool:
    """Whether `name` fixes a commit: a branch, a tag or a pull request may move.

    >>> is_pinned("owner/name@main"), is_pinned("owner/name@" + 40 * "0")
    (False, True)
    """
    return _COMMIT.fullmatch(name.partition("@")[2]) is not None


def fetched(name: str) -> Path:
    """The folder of the model `name` in the cache, fetched if it is not there; a ModelError says why it cannot be."""
    repository, _, revision = name.partition("@")

    def fetch() -> Path:
        folder = Path(
            snapshot_download(
                repository, revision=revision or None, allow_patterns=list(WANTED), ignore_patterns=list(UNWANTED)
            )
        )
        _check_sums(folder)
        return folder

    folder = _asked(name, fetch)
    if not any(folder.glob("*.safetensors")):
        raise ModelError(no_weights(name))
    return folder


def is_off() -> bool:
    """Whether HF_HUB_OFFLINE forbids to ask the hub; its cache is read all the same."""
    return bool(constants.HF_HUB_OFFLINE)


def listing(name: str, kind: str = "model") -> Listing:
    """What the hub says of the model (or "dataset") `name`; nothing is fetched. A ModelError if it cannot be had.

    All files of a data set count, but of a model only those that would be fetched.
    """
    repository, _, revision = name.partition("@")

    def ask() -> Any:
        return HfApi().repo_info(repository, revision=revision or None, repo_type=kind, files_metadata=True)

    info = _asked(name, ask)
    sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or []}
    if kind == "model":
        sizes = {one: size for one, size in sizes.items() if "/" not in one and any(map(Path(one).match, WANTED))}
    return Listing(str(info.sha), sizes)


def config(name: str, found: Listing) -> dict[str, Any]:
    """The config.json of the model `name`, which is fetched; ModelErrors as `listing`."""
    repository = name.partition("@")[0]
    file = _asked(name, lambda: hf_hub_download(repository, "config.json", revision=found.commit))
    values: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
    return values


def parameters(name: str, found: Listing) -> int:
    """Number of parameters by the headers of the weights of `name`; only these are read. ModelErrors as `listing`.

    This meets what only the files themselves tell: a gate, and a file that is no safetensors.
    """
    repository = name.partition("@")[0]

    def count() -> int:
        heads = [
            HfApi().parse_safetensors_file_metadata(repository, one, revision=found.commit) for one in found.weights()
        ]
        return sum(sum(head.parameter_count.values()) for head in heads)

    return _asked(name, count)


def no_weights(name: str) -> str:
    """The sentence for a repository without safetensors."""
    advice = "name a revision that has one, such as owner/name@refs/pr/NUMBER, or a folder"
    return f"{name}: holds no *.safetensors file; other weight formats are not loaded: {advice}."


def patiently(attempt: Callable[[], T]) -> T:
    """What `attempt` gives, tried again while its failure may pass; the last failure is raised."""
    for wait in WAIT_SECONDS:
        try:
            return attempt()
        except Exception as error:
            if not _may_pass(error):
                raise
            print(f"the hub: {_short(error)}; trying again in {wait:g} s", flush=True)
            time.sleep(wait)
    return attempt()


def _asked(name: str, attempt: Callable[[], T]) -> T:
    try:
        return patiently(attempt)
    except (*FAILURES, SafetensorsParsingError, _DamagedError) as error:
        raise ModelError(f"{name}: {_sentence(error)}.") from error


def _may_pass(error: BaseException) -> bool:
    """Whether the failure, or what it came from, is one of the network's or a damaged file."""
    for one in _causes(error):
        if isinstance(one, HfHubHTTPError):
            return one.response.status_code in PASSING
        if isinstance(one, httpx2.TransportError | _DamagedError | XetDownloadError):
            return True
    return isinstance(error, OSError) and "Consistency check failed" in str(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, and what it was raised from, the first cause last."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _sentence(error: BaseException) -> str:
    """What is wrong, and what to do, without the name of the model and the full stop."""
    if isinstance(error, GatedRepoError):
        return f"{GATED} (HTTP {error.response.status_code}); {LOGIN}"
    if isinstance(error, RevisionNotFoundError):
        return "the hub has the model, but no such revision"
    if isinstance(error, RepositoryNotFoundError):
        return "neither a local folder nor a model of the hub that it shows without (another) login"
    if isinstance(error, _DamagedError):
        return f"{error}; nothing of it is kept"
    return f"neither a local folder nor to be had from the hub ({_short(error)}); {_ADVICE}"


def _short(error: BaseException) -> str:
    """The kind of the first cause, with its HTTP status or its text."""
    cause = list(_causes(error))[-1]
    if isinstance(cause, _DamagedError):
        return "a file came with other bytes than the hub states"
    if isinstance(cause, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE switches it off"
    status = getattr(getattr(cause, "response", None), "status_code", None)
    if status is not None:
        return f"HTTP {status}"
    if isinstance(cause, HFValidationError | EntryNotFoundError):
        return type(cause).__name__
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:120]}".rstrip(": ")


def _check_sums(folder: Path) -> None:
    """_DamagedError if a file has another SHA-256 than the cache calls it, and the file is removed.

    The cache names a large file by the SHA-256 that the hub states; a small one by git's number.
    """
    for file in folder.glob("*"):  # a repository of which nothing is wanted has no folder
        blob = file.resolve()
        if _SHA256.fullmatch(blob.name) and (found := sha256_of(blob)) != blob.name:
            blob.unlink()
            file.unlink()
            raise _DamagedError(f"{file.name} came with SHA-256 {found}, but the hub states {blob.name}")
