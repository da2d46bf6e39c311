"""Scores of released checkpoints as others have published them, for `bleurt selftest`.

None of these checkpoints could be had where this was written, so none of the numbers was checked against this project.
A checkpoint is recognised by the name in its bleurt_config.json or by that of its folder. The test checkpoint has
changed under one name over the years, so other numbers may also mean other weights.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Published:
    """Pairs (reference, candidate, score) of the checkpoint `name`; `within`: how far ours may lie from them.

    Numbers of bleurt-pytorch come from its exact GELU, and an original checkpoint from the tanh form: they lie up to
    0.0014 apart (its issue 1).
    """

    name: str
    source: str
    within: float
    pairs: tuple[tuple[str, str, float], ...]


APPLE = "An apple a day keeps the doctor away."
POWELL = "Bud Powell was a legendary pianist."
PLAYER = "Bud Powell was a historical piano player."
YORKER = "Bud Powell was a new yorker."
MIXED = "Bud a day keeps the doctor away."
BIRD, RANDOM, LIKE = "a bird chirps by the window", "this is a random sentence", "this looks like a random sentence"

PUBLISHED = (
    Published(
        "dbleurt_tiny", "google-research/bleurt, score_test.py", 1e-4,
        ((APPLE, APPLE, 0.910811), (APPLE, "An apple a day keeps doctors away.", 0.771989)),
    ),
    Published(
        "dbleurt_tiny", "google-research/bleurt, score_files_test.py", 1e-4,
        ((POWELL, POWELL, 0.926138), (POWELL, PLAYER, 0.247466), (POWELL, YORKER, -0.935921),
         (POWELL, MIXED, -1.053069), ("", "", 0.679957)),
    ),
    Published(
        "bleurt-base-128", "google-research/bleurt, issue 1", 1e-4,
        ((POWELL, POWELL, 1.003721833229065), (POWELL, PLAYER, 0.5313903093338013),
         (POWELL, YORKER, -1.489485502243042), (POWELL, MIXED, -1.6975871324539185)),
    ),
    Published(
        "BLEURT-20", "bleurt-pytorch, model card", 2e-3,
        ((BIRD, BIRD, 0.9990496635437012), (RANDOM, LIKE, 0.7930182218551636)),
    ),
    Published(
        "BLEURT-20-D12", "bleurt-pytorch, README", 2e-3,
        ((BIRD, BIRD, 0.9604414105415344), (RANDOM, LIKE, 0.8080050349235535)),
    ),
    Published(
        "bleurt-tiny-512", "bleurt-pytorch, model card", 2e-3,
        ((BIRD, BIRD, 0.8606632947921753), (RANDOM, LIKE, 0.7198279500007629)),
    ),
)  # fmt: skip


def published_for(folder: Path) -> Iterator[Published]:
    """What is published of the checkpoint in `folder`; nothing if its names are not known."""
    names = {folder.resolve().name.lower()}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        names.add(str(json.loads((folder / "bleurt_config.json").read_text(encoding="utf-8"))["name"]).lower())
    yield from (one for one in PUBLISHED if one.name.lower() in names)
