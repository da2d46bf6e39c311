"""Builders of texts as WMT publishes them."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write_texts(write: Callable[[Path, str], Path]) -> Callable[[Path, int, str, dict[str, str]], None]:
    """Writes two segments of one year and pair, and each system's two lines."""

    def write_texts_(folder: Path, year: int, pair: str, outputs: dict[str, str]) -> None:
        source, target = pair.split("-")
        write(folder / "sources" / f"newstest{year}-{source}{target}-src.{source}", "s1\ns2\n")
        write(folder / "references" / f"newstest{year}-{source}{target}-ref.{target}", "r1\nr2\n")
        for system, text in outputs.items():
            write(folder / "system-outputs" / f"newstest{year}" / pair / f"newstest{year}.{system}.{pair}", text)

    return write_texts_
