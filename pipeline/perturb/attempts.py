"""One attempt to make a candidate: what every technique gives, whether it succeeds or not, so that all are counted."""

import enum
from dataclasses import dataclass
from typing import Any

import numpy

from pipeline.core.errors import ParamsError
from pipeline.core.records import Reason


class Technique(enum.StrEnum):
    """What made a candidate, as written to the column `technique`; word dropping keeps its parent's."""

    MASK_FILL = "mask_fill"
    BACKTRANSLATE = "backtranslate"
    SYSTEM_OUTPUT = "system_output"
    TRANSLATE = "translate"


class MaskStyle(enum.StrEnum):
    """Masks at random words, or over one contiguous span of words."""

    RANDOM = "random"
    SPAN = "span"


@dataclass(frozen=True)
class Attempt:
    """A candidate for segment number `segment` of the shard, or the reason why there is none."""

    segment: int
    tag: str
    """Unique among a segment's attempts, such as "mask1" or "fr"; ends the pair's id."""
    technique: Technique
    candidate: str = ""
    reason: Reason | None = None
    pivot: str | None = None
    mask_style: MaskStyle | None = None
    masks: int | None = None


def without_translation(candidate: str | None) -> Reason | None:
    """Why there is no pair where a translator gave `candidate`, None where the text was too long for it; else None."""
    if candidate is None:
        return Reason.TOO_LONG
    return None if candidate else Reason.EMPTY_TRANSLATION


def pair(segment_id: str, reference: str, attempt: Attempt) -> dict[str, Any]:
    """A row of PAIRS: `attempt` beside the reference that it was made from; no word of it is dropped yet."""
    return {
        "pair_id": f"{segment_id}/{attempt.tag}",
        "segment_id": segment_id,
        "reference": reference,
        "candidate": attempt.candidate,
        "technique": attempt.technique.value,
        "pivot": attempt.pivot,
        "mask_style": attempt.mask_style.value if attempt.mask_style else None,
        "masks": attempt.masks,
        "dropped_words": 0,
        "parent_id": None,
    }


def chosen(count: int, share: float, rng: numpy.random.Generator) -> list[int]:
    """`share` of the numbers 0 … count - 1, to the nearest whole number, drawn without replacement, in order.

    >>> len(chosen(10, 0.3, numpy.random.default_rng(0)))
    3
    """
    return sorted(rng.permutation(count)[: round(count * share)].tolist())


def hold_within(key: str, value: float, low: float, high: float | None = None) -> None:
    """Raise a ParamsError that names `key` unless `low` <= `value` <= `high` (None: no upper bound).

    >>> hold_within("perturb.word_drop.share", 1.5, 0, 1)
    Traceback (most recent call last):
    pipeline.core.errors.ParamsError: perturb.word_drop.share: must be between 0 and 1, not 1.5.
    """
    if high is None and value < low:
        raise ParamsError(f"{key}: must be at least {low}, not {value}.")
    if high is not None and not low <= value <= high:
        raise ParamsError(f"{key}: must be between {low} and {high}, not {value}.")
