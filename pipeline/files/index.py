"""Finds a corpus's files by name, however deep they lie: in published archives, unpacked ones and flat folders."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.params import params
from pipeline.files.fetch import is_archive, local

MAX_DEPTH = 3
"""How deep archives may lie inside archives; WMT17's texts are an archive inside its package."""


@params
class Part:
    """One place that a corpus lies in.

    `path`: a folder, a file, an archive (.tar.gz, .tgz, .zip), the http(s) URL of a file or an archive, or, for the
    layout hub, the name of a data set there (`owner/name@revision` pins it). `sha256`: of the file or archive. Without
    it nothing is checked, and the sum of a download is printed, so that it can be pinned.
    """

    path: str
    sha256: str | None = None


class FileIndex:
    """All files below some folders, by name."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.paths: dict[str, list[Path]] = {}
        for folder in folders:
            for place, _, names in os.walk(folder):
                for name in names:
                    if not name.startswith("."):
                        self.paths.setdefault(name, []).append(Path(place) / name)

    def all(self, name: str) -> list[Path]:
        """Every file of this name: those below a folder `txt` first (as WMT packs), then the shallowest."""
        return sorted(self.paths.get(name, []), key=lambda path: ("txt" not in path.parts, len(path.parts), str(path)))

    def find(self, name: str) -> Path | None:
        """The first of `all`, if any."""
        return next(iter(self.all(name)), None)

    def matching(self, pattern: str) -> list[re.Match[str]]:
        """Full matches of file names, sorted by name."""
        return [match for name in sorted(self.paths) if (match := re.fullmatch(pattern, name))]


def open_parts(parts: Sequence[Part], archives: str) -> FileIndex:
    """An index of the files of `parts`, and of every archive inside them whose name without ending matches `archives`.

    A part that is neither a folder nor an archive is an InputError.
    """
    places = [local(part.path, part.sha256) for part in parts]
    for part, place in zip(parts, places, strict=True):
        if not place.is_dir():
            raise InputError("neither a folder nor an archive (.tar.gz, .tgz, .zip)", file=part.path)
    found, index = list(places), FileIndex(places)
    for _ in range(MAX_DEPTH):
        inner = [index.all(name)[0] for name in sorted(index.paths) if _is_wanted(name, archives)]
        folders = [folder for folder in (local(str(file), None) for file in inner) if folder not in found]
        if not folders:
            break
        found += folders
        index = FileIndex(found)
    return index


def _is_wanted(name: str, archives: str) -> bool:
    return is_archive(Path(name)) and re.fullmatch(rf"({archives})\.(tgz|tar\.gz|tar|zip)", name) is not None
