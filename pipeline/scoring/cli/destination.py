"""Files that results go to: checked before anything is scored, and whole or unchanged afterwards."""

import contextlib
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from pipeline.core.errors import ParamsError


def check_destinations(inputs: Sequence[str] = (), **files: Path | None) -> None:
    """A ParamsError where a file cannot be written, two are the same, or one of the `inputs` would be replaced.

    Names are the flags, without dashes.
    """
    taken: dict[Path, str] = {}
    read = {Path(name).resolve() for name in inputs if Path(name).is_file()}
    for flag, file in files.items():
        if file is None:
            continue
        if file == Path() or file.is_dir():
            raise ParamsError(f"--{flag}: must name a file, not {str(file)!r}.")
        above = next(folder for folder in file.absolute().parents if folder.exists())
        if not above.is_dir():
            raise ParamsError(f"--{flag}: {file} would lie in {above}, which is a file.")
        if file.resolve() in read:
            raise ParamsError(f"--{flag}: {file} is read as input and would be replaced.")
        if file.resolve() in taken:
            raise ParamsError(f"--{flag} and --{taken[file.resolve()]} name the same file, {file}.")
        taken[file.resolve()] = flag


@contextlib.contextmanager
def written(file: Path) -> Iterator[IO[str]]:
    """A text stream to `file`, which is there, or is replaced, when all is written; it keeps its permissions.

    What a symbolic link points to is replaced, not the link. A device or a pipe is written to as it is.
    """
    from pipeline.core.shards import replacing, writing

    mode = file.stat().st_mode if file.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with writing(file), file.open("w", encoding="utf-8") as out:
            yield out
        return
    place = file.resolve() if file.is_symlink() else file
    with replacing(place) as temporary:
        with temporary.open("w", encoding="utf-8") as out:
            yield out
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
