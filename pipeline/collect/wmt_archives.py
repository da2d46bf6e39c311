"""WMT's published archives since 2017: texts of a test set, and the ratings of the years that share one format.

Texts of a language pair lie line by line in `newstest{Y}-{st}-ref.{t}`, `newstest{Y}-{st}-src.{s}` and, for each
system, `newstest{Y}.{system}.{lp}`. Ratings of 2018 and 2019 are `ad-seg-scores-{lp}.csv` (SYS SID RAW.SCR Z.SCR N), in
an archive of their own; N, the number of judgements, is not kept.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.collect.corpus import (
    ADEQUACY,
    NO_REFERENCE,
    NO_TEXTS,
    OTHER_PAIR,
    Corpus,
    FileIndex,
    Loaded,
    Rating,
    is_chosen,
    open_parts,
)
from pipeline.core.errors import InputError
from pipeline.files.lines import check_same_length, number, read_columns, read_lines, whole_number

ABSENT = "NO REFERENCE AVAILABLE"
"""What WMT writes in place of a reference that does not exist."""

LEFT_OUT = frozenset({"HUMAN", "RBMT.6722"})
LEFT_OUT_REASON = "HUMAN or RBMT.6722, which WMT leaves out"


@dataclass(frozen=True)
class Campaign:
    """What differs between the years whose ratings lie in `ad-seg-scores-{lp}.csv`.

    `archives`: a pattern of the archives' names. `published`: the archives by name, for advice. `output_name`: takes
    the name of a system in the ratings and the language pair, gives its name in the output files. `preferred`: the
    folder whose ratings count if several folders have those of a pair.
    """

    year: int
    archives: str
    published: str
    output_name: Callable[[str, str], str]
    preferred: str | None = None


@dataclass(frozen=True)
class PairTexts:
    """The texts of one language pair.

    `references[i]` is segment i + 1; `sources` is None if their file is missing; `outputs`: name of a system -> its
    file. `read`: the lines of the outputs that have been asked for.
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
        """The reference, or None if WMT says that there is none; an empty one is an InputError."""
        text = self.references[position]
        if not text:
            raise InputError("the reference is empty", file=self.reference_file, line=position + 1)
        return None if text == ABSENT else text

    def source(self, position: int) -> str | None:
        """The source, if it is known and not empty."""
        return (self.sources[position] or None) if self.sources is not None else None

    def candidate(self, system: str, position: int) -> str:
        """What `system` wrote; it may be empty."""
        if system not in self.read:
            file = self.outputs[system]
            self.read[system] = read_lines(file)
            check_same_length(file, self.read[system], self.reference_file, self.references)
        return self.read[system][position]

    def systems(self, system: str, file: Path, line: int) -> list[str]:
        """Systems with an output file that `system` names: itself, else the parts of `a+b` that are there."""
        if system in self.outputs:
            return [system]
        names = [name for name in system.split("+") if name in self.outputs]
        if not names:
            folder = next(iter(self.outputs.values())).parent
            raise InputError(f"no output of this system lies in {folder}", file=file, line=line, value=system)
        return names


def open_texts(index: FileIndex, year: int, language_pair: str) -> PairTexts | None:
    """The texts of the pair, or None if no system's output of it is there."""
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


def check_texts(loaded: Loaded, published: str, corpus: Corpus) -> None:
    """An InputError if all ratings were dropped because their texts are missing; a pair without texts is no error."""
    if not loaded.ratings and loaded.dropped[NO_TEXTS]:
        problem = f"holds ratings, but no system outputs that they rate; put {published} there"
        raise InputError(problem, file=corpus.parts[0].path)


def load_campaign(campaign: Campaign, corpus: Corpus) -> Loaded:
    """All chosen language pairs that are there, in the order of their names, each in the order of its ratings."""
    index = open_parts(corpus.parts, campaign.archives)
    pairs = [match[1] for match in index.matching(r"ad-seg-scores-([a-z]+-[a-z]+)\.csv")]
    if not pairs:
        problem = f"holds no ad-seg-scores-*.csv; put {campaign.published} there"
        raise InputError(problem, file=corpus.parts[0].path)
    loaded = Loaded([], Counter())
    for pair in pairs:
        _load_pair(campaign, index, pair, corpus, loaded)
    check_texts(loaded, campaign.published, corpus)
    return loaded


def _load_pair(campaign: Campaign, index: FileIndex, pair: str, corpus: Corpus, loaded: Loaded) -> None:
    file = _rating_file(campaign, index, pair)
    rows = read_columns(file, ("SYS", "SID", "RAW.SCR", "Z.SCR"))
    if not is_chosen(pair, corpus.language_pairs):
        loaded.dropped[OTHER_PAIR] += len(rows)
        return
    texts = open_texts(index, campaign.year, pair)
    for line, (rated, segment, raw, z) in rows:
        scores = number(raw, "RAW.SCR", file, line), number(z, "Z.SCR", file, line)
        if rated in LEFT_OUT:
            loaded.dropped[LEFT_OUT_REASON] += 1
            continue
        if texts is None:
            loaded.dropped[NO_TEXTS] += 1
            continue
        position, system = texts.position(segment, file, line), campaign.output_name(rated, pair)
        reference, name = texts.reference(position), texts.systems(system, file, line)[0]
        if reference is None:
            loaded.dropped[NO_REFERENCE] += 1
            continue
        loaded.ratings.append(
            Rating(
                key=f"{pair}/{line}",
                aspect=ADEQUACY,
                reference=reference,
                other_references=(),
                candidate=texts.candidate(name, position),
                source=texts.source(position),
                language_pair=pair,
                system=system,
                segment=segment,
                year=campaign.year,
                raw=scores[0],
                z=scores[1],
                score=scores[1],
            )
        )


def _rating_file(campaign: Campaign, index: FileIndex, pair: str) -> Path:
    files = index.all(f"ad-seg-scores-{pair}.csv")
    files = [file for file in files if campaign.preferred in file.parts] or files
    for other in files[1:]:  # an archive beside its unpacked folder gives the same file twice
        if other.read_bytes() != files[0].read_bytes():
            raise InputError(f"occurs twice, also as {other}; name one year's folder", file=files[0])
    return files[0]
