"""Scores of segments as they are computed, the systems' totals, and what a user should know at the end."""

import contextlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pipeline.scoring.chunks import Pair
from pipeline.scoring.inputs import Segment, Segments
from pipeline.scoring.output import as_json, shown, written
from pipeline.scoring.scorer import BleurtScorer, Scored
from pipeline.scoring.signature import Signature


@dataclass(frozen=True, slots=True)
class Result:
    """Segment number `number`, from 1: the score of each system's candidate, and the value that is shown for it."""

    number: int
    segment: Segment
    systems: tuple[str, ...]
    scored: list[Scored]
    values: list[float]

    def records(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """For each system: the columns of the segment, and its score with all that is known about it."""
        for system, candidate, scored in zip(self.systems, self.segment.candidates, self.scored, strict=True):
            about = asdict(scored)
            if scored.contradiction is None:
                del about["contradiction"]
            yield self._columns(system, candidate), about

    def _columns(self, system: str, candidate: str) -> dict[str, Any]:
        if self.segment.fields is not None:
            return self.segment.fields
        texts = self.segment.references
        reference = {"reference": texts[0] if len(texts) == 1 else list(texts)} if texts else {}
        columns = {"segment": self.number, "system": system, **reference}
        source = {} if self.segment.source is None else {"source": self.segment.source}
        return {**columns, "candidate": candidate, **source}


@dataclass
class Total:
    """A system so far: sums over its segments."""

    system: str
    sum: float = 0.0
    percentiles: float | None = 0.0
    segments: int = 0
    truncated: int = 0
    edges: Counter[str] = field(default_factory=Counter)

    @property
    def score(self) -> float:
        """Mean over the segments."""
        return self.sum / self.segments

    @property
    def percentile(self) -> float | None:
        """Mean over the segments; None if the checkpoint is not calibrated."""
        return None if self.percentiles is None else self.percentiles / self.segments

    def add(self, scored: Scored) -> None:
        """One more segment."""
        self.segments += 1
        self.sum += scored.score
        self.truncated += scored.truncated
        if self.percentiles is not None and scored.percentile is not None:
            self.percentiles += scored.percentile
        else:
            self.percentiles = None
        if scored.edge:
            self.edges[scored.edge] += 1

    def warnings(self, signature: Signature) -> list[str]:
        """A sentence on segments that were cut, and one on segments that were flagged."""
        found = []
        if self.truncated:
            advice = " (--long windows reads them whole)" if signature.long == "cut" else ""
            found.append(
                f"warning: {self.system}: {shown(self.truncated)} segments have more than "
                f"{signature.max_tokens} tokens and were cut{advice}"
            )
        if self.edges:
            flags = ", ".join(f"{shown(count)} {flag}" for flag, count in sorted(self.edges.items()))
            found.append(f"warning: {self.system}: flagged segments: {flags}")
        return found

    def row(self) -> dict[str, Any]:
        """Its row in the table of systems; the percentile is a mean over segments."""
        percentile = {} if self.percentile is None else {"percentile": self.percentile}
        counts = {"segments": self.segments, "truncated": self.truncated, "flagged": self.edges.total()}
        return {"system": self.system, "score": self.score, **percentile, **counts}


class Results:
    """Results in order, to iterate over once; `totals` are complete afterwards."""

    def __init__(
        self, segments: Segments, scorer: BleurtScorer, batch_size: int | None, *, percentiles: bool, silent: bool
    ) -> None:
        self.signature = scorer.signature()
        self.totals = [Total(system) for system in segments.systems]
        self._segments, self._scorer, self._batch_size = segments, scorer, batch_size
        self._percentiles, self._silent = percentiles, silent

    def __iter__(self) -> Iterator[Result]:
        """Score as results are asked for; progress goes to standard error unless `silent`."""
        systems = self._segments.systems
        pairs = (
            Pair(segment.references, candidate, segment.source)
            for segment in self._segments
            for candidate in segment.candidates
        )
        found = self._scorer.stream(pairs, self._batch_size)
        bar = {"total": self._segments.count, "disable": self._silent, "unit": " segments", "file": sys.stderr}
        for number, segment in enumerate(tqdm(self._segments, **bar), start=1):
            scored = [next(found) for _ in systems]
            values = [self.shown(one) for one in scored]
            for total, one in zip(self.totals, scored, strict=True):
                total.add(one)
            yield Result(number, segment, systems, scored, values)

    def shown(self, one: Scored | Total) -> float:
        """The value that text shows of a segment or a system: its score, or its percentile if that was asked for."""
        value = one.percentile if self._percentiles else one.score
        assert value is not None
        return value

    def notes(self) -> list[str]:
        """Signature, scores of the systems, and warnings of segments that were cut or flagged."""
        notes = [str(self.signature)]
        for total in self.totals:
            row = total.row()
            meaning = f", mean percentile {row['percentile']:.1f}" if "percentile" in row else ""
            notes.append(f"{total.system}: {shown(total.score)} over {shown(total.segments)} segments{meaning}")
            notes += total.warnings(self.signature)
        return notes


@contextlib.contextmanager
def kept_as_json(file: Path | None, results: Results) -> Iterator[Callable[[Result], None]]:
    """A function that keeps a result; at the end all kept results are one JSON document in `file`, if it is given.

    {"signature": {…}, "systems": {SYSTEM: {"score": …, "results": [{"reference": …, "bleurt": {"score": …}}]}}}
    """
    if file is None:
        yield lambda result: None
        return
    with contextlib.ExitStack() as stack:
        make = tempfile.TemporaryFile
        parts = [stack.enter_context(make("w+", encoding="utf-8")) for _ in results.totals]

        def keep(result: Result) -> None:
            for part, (record, about) in zip(parts, result.records(), strict=True):
                line = as_json({**record, "bleurt": about})
                part.write(f"{',' if result.number > 1 else ''}\n{line}")

        yield keep
        with written(file) as out:
            out.write(f'{{"signature": {json.dumps(results.signature.as_dict())},\n"systems": {{')
            for number, (total, part) in enumerate(zip(results.totals, parts, strict=True)):
                about = json.dumps(total.row() | {"flags": dict(total.edges)}, ensure_ascii=False)
                out.write(f"{',' if number else ''}\n{json.dumps(total.system, ensure_ascii=False)}: {about[:-1]}")
                out.write(', "results": [')
                part.seek(0)
                out.writelines(part)
                out.write("]}")
            out.write("}}\n")
