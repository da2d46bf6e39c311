"""The params of fine-tuning: the section `finetune` of params.yaml."""

from pydantic import model_validator

from pipeline.core.params import AtLeastOne, Positive, ShareBelowOne, params
from pipeline.training.schedule import Schedule

MEANING = ("adequacy", "semantics")
"""Aspects that a graded candidate says something about. It says nothing of fluency: another sentence is fluent."""


@params
class FinetuneParams:
    """`aspects` are rated, and predicted by one output each; WMT and own files have a single one.

    `ratings`: how many rated candidates train, drawn by the schedule's seed; null for all. `members`: how many runs,
    with different orders of batches and different dropout, are averaged weight by weight. `probe`: penalty of the
    ridge regression whose solution the last layer starts from; null for a fresh layer. `graded_share`: share of
    graded candidates in the rows of a pass, `graded_rows` different ones at most. Ratings or graded candidates are
    repeated so that the share holds.
    """

    aspects: tuple[str, ...]
    ratings: AtLeastOne | None
    graded_share: ShareBelowOne
    graded_rows: AtLeastOne
    members: AtLeastOne
    probe: Positive | None
    max_tokens: AtLeastOne
    batch_pairs: AtLeastOne
    dropout: ShareBelowOne
    batch_tokens: AtLeastOne
    schedule: Schedule

    @model_validator(mode="after")
    def check(self) -> "FinetuneParams":
        """A ValueError if no aspect is named, if one is named twice, or if grades would say nothing about any."""
        if not 0 < len(self.aspects) == len(set(self.aspects)):
            raise ValueError(f"aspects: must name at least one aspect, and none twice, not {list(self.aspects)}")
        if self.graded_share and not self.graded_aspects():
            raise ValueError(f"graded_share: must be 0 without {' or '.join(MEANING)}, not {self.graded_share}")
        return self

    def graded_aspects(self) -> list[int]:
        """Places of the aspects that graded candidates are graded for: those of MEANING, or the only one."""
        named = [place for place, aspect in enumerate(self.aspects) if aspect in MEANING]
        return [0] if len(self.aspects) == 1 else named
