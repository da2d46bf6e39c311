"""The texts of one WMT test set and language pair: references, sources and every system's output, line by line.

File names since 2017: `newstest{Y}-{st}-ref.{t}`, `newstest{Y}-{st}-src.{s}`, `newstest{Y}.{system}.{lp}`.
"""

from dataclasses import dataclass, field
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.files.index import FileIndex
from pipeline.files.lines import check_same_length, read_lines, whole_number

ABSENT = "NO REFERENCE AVAILABLE"
"""What WMT writes on a reference's line where there is none."""


@dataclass(frozen=True)
class PairTexts:
    """`references[i]` is segment i + 1; `sources` is None where the file is missing; `outputs` by system name.

    `read` fills with the lines of the outputs that were asked for.
    """

    reference_file: Path
    references: list[str]
    sources: list[str] | None
    outputs: dict[str, Path]
    read: dict[str, list[str]] = field(default_factory=dict, repr=False)

    def position(self, segment: str, file: Path, line: int) -> int:
        """Index of the segment that `file` calls `segment`, which counts from 1."""
        found = whole_number(segment, "SID", file, line)
        if not 1 <= found <= len(self.references):
            problem = f"SID lies outside the {len(self.references)} lines of {self.reference_file}"
            raise InputError(problem, file=file, line=line, value=segment)
        return found - 1

    def reference(self, position: int) -> str | None:
        """The reference, or None where WMT says that there is none; an empty one is an input error."""
        text = self.references[position]
        if not text:
            raise InputError("the reference is empty", file=self.reference_file, line=position + 1)
        return None if text == ABSENT else text

    def source(self, position: int) -> str | None:
        """The source, if known and not empty."""
        return (self.sources[position] or None) if self.sources is not None else None

    def candidate(self, system: str, position: int) -> str:
        """What `system` wrote; may be empty."""
        if system not in self.read:
            file = self.outputs[system]
            self.read[system] = read_lines(file)
            check_same_length(file, self.read[system], self.reference_file, self.references)
        return self.read[system][position]


def open_texts(index: FileIndex, year: int, language_pair: str) -> PairTexts | None:
    """The pair's texts, or None where no system output of the pair is there."""
    prefix, suffix = f"newstest{year}.", f".{language_pair}"
    names = [name for name in index.paths if name.startswith(prefix) and name.endswith(suffix)]
    outputs = {name[len(prefix) : -len(suffix)]: index.all(name)[0] for name in sorted(names)}
    if not outputs:
        return None
    source_language, _, target = language_pair.partition("-")
    stem = f"newstest{year}-{source_language}{target}"
    reference_file = index.find(f"{stem}-ref.{target}")
    if reference_file is None:
        beside = next(iter(outputs.values())).parent
        raise InputError(f"no reference file {stem}-ref.{target} goes with this folder's outputs", file=beside)
    references = read_lines(reference_file)
    source_file = index.find(f"{stem}-src.{source_language}")
    sources = read_lines(source_file) if source_file is not None else None
    if source_file is not None and sources is not None:
        check_same_length(source_file, sources, reference_file, references)
    return PairTexts(reference_file, references, sources, outputs)
