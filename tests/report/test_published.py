"""The paper's tables: their shape, some cells, and that their averages are the means of their rows."""

import pytest

from pipeline.core.records import AVERAGE
from pipeline.report.published import TABLES, PublishedTable, published_table


def test_cells_of_wmt17() -> None:
    table = published_table(2017)
    assert table is not None and table.number == 2
    cells = {(cell.metric, cell.language_pair): cell for cell in table.cells()}
    assert (cells["BLEURT", "zh-en"].kendall, cells["BLEURT", "zh-en"].second) == (0.602, 0.814)
    assert (cells["sentBLEU", AVERAGE].kendall, cells["sentBLEU", AVERAGE].second) == (0.324, 0.475)
    assert ("MoverScore", "fi-en") not in cells and len(cells) == 10 * 8 - 2


def test_other_years_and_ratings_that_are_not_of_wmt_have_none() -> None:
    assert published_table(2020) is None
    assert published_table(None) is None


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.year))
def test_averages_are_the_means_of_their_rows(table: PublishedTable) -> None:
    metrics = dict.fromkeys(cell.metric for cell in table.cells())
    for metric in metrics:
        cells = {cell.language_pair: cell for cell in table.cells() if cell.metric == metric}
        average = cells.pop(AVERAGE)
        # The authors rounded cells and averages to 0.001; the paper's own largest slip is sentBLEU's DARR of 2018.
        mean = sum(cell.kendall for cell in cells.values()) / len(cells)
        second = sum(cell.second for cell in cells.values()) / len(cells)
        assert average.kendall == pytest.approx(mean, abs=0.0012), metric
        assert average.second == pytest.approx(second, abs=0.0015), metric
