"""Tables beside the headline: which statistics and metrics stand in them, and the page that shows them."""

import json
import math
from pathlib import Path
from typing import Any

from tiny_outputs import Checker, agreement, make

from pipeline.core.records import AGREEMENT, AVERAGE, SYSTEM_LEVEL, WITH_TIES
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.core.work import write_json
from pipeline.report.details import detail_table
from pipeline.report.views import benchmarks


def row(metric: str, statistic: str, value: float, pair: str = AVERAGE, count: int = 5) -> dict[str, Any]:
    cells = ("wmt17", "adequacy", metric, pair, statistic, value, math.nan, math.nan, count)
    return dict(zip(AGREEMENT.names, cells, strict=True))


ROWS = [
    row("bleurt/all", "kendall", 0.5),
    row("ter", "kendall", 0.2),
    row("bleurt/all", "system_pearson", 0.9),
    row("ter", "system_pearson", math.nan),
    row("ter", "pairwise_accuracy", 0.25, count=12),
    row("constant", "kendall", math.nan),
]


def test_a_table_has_the_statistics_and_metrics_that_have_numbers() -> None:
    (mark,) = benchmarks(ROWS)
    assert mark.statistics == ("kendall",)
    table = detail_table(mark, SYSTEM_LEVEL)
    assert table is not None
    assert (table["columns"], table["counts"]) == (["System r", "Pairwise accuracy"], ["5", "12"])
    cells = {
        one["metric"]: [(cell.text, best) if cell else None for cell, best in one["cells"]] for one in table["rows"]
    }
    assert cells == {"bleurt/all": [("90.0", True), None], "ter": [("undefined", False), ("25.0", True)]}
    assert detail_table(mark, WITH_TIES) is None


def test_the_page_shows_details_and_clusters(full: Path) -> None:
    plain = make(full)
    assert "<h3>Clusters of metrics</h3>" in plain and "<h3>Agreement on systems</h3>" not in plain
    rows = [*agreement(), *(row("bleurt/all", "system_pearson", 0.9125, pair) for pair in ("cs-en", "de-en", AVERAGE))]
    rows.append(row("bleurt/all", "acc23_best_item", 0.6543))
    write_shard(full / "evaluate" / "agreement" / shard_name(0), table_of(rows, AGREEMENT))
    file = full / "evaluate" / "method.json"
    left = {"corpus": "wmt17", "aspect": "adequacy", "language_pair": "fi-en", "reason": "fewer than 3 systems"}
    write_json(file, json.loads(file.read_text()) | {"system_ratings": ["wmt17"], "systems_left_out": [left]})
    page = make(full)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    for text in ("System r", "91.2", "the published one", "Left out: fi-en (fewer than 3 systems).", "acc23*, by item"):
        assert text in page, text
    headline = (full / "reports" / "headline.txt").read_text(encoding="utf-8")
    assert "System r" not in headline
    kept = json.loads((full / "reports" / "metrics.json").read_text())["agreement"]["wmt17"]["adequacy"]["bleurt/all"]
    assert set(kept) == {"kendall", "pearson", "spearman"}
