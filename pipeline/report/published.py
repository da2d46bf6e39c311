"""Numbers that others published on the same benchmarks, to show beside ours.

Sellam, Das and Parikh, "BLEURT: Learning Robust Metrics for Text Generation", ACL 2020, tables 2 (WMT17), 3 (WMT18)
and 4 (WMT19), to English, by the authors' own implementation of the benchmark. Each cell holds two numbers times 100:
Kendall's tau, then Pearson's r (2017) or DARR (2018, 2019). Their encoders are 5 to 15 times larger than the bundled
one and trained for far longer, so these rows show what is possible; ours is not measured against them. A star in the
paper (two cells of 2018) marks a difference of 0.2 to 0.4 points from the organisers' numbers.
"""

from dataclasses import dataclass

CITATION = "Sellam, Das, Parikh. BLEURT: Learning Robust Metrics for Text Generation. ACL 2020"


@dataclass(frozen=True)
class Published:
    """One cell: agreement of `metric` on `language_pair` ("average": mean over pairs); both numbers lie in [-1, 1]."""

    metric: str
    language_pair: str
    kendall: float
    second: float


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper, which is of one WMT campaign; `second` names the statistic beside Kendall's tau."""

    year: int
    number: int
    second: str
    language_pairs: tuple[str, ...]
    rows: str

    def cells(self) -> list[Published]:
        """The table's cells in reading order, without those that are NA."""
        found = []
        for line in self.rows.strip().splitlines():
            metric, _, values = line.partition(":")
            for pair, cell in zip((*self.language_pairs, "average"), values.split(), strict=True):
                if cell != "NA":
                    tau, second = (round(float(x) / 100, 4) for x in cell.split("/"))
                    found.append(Published(metric.strip(), pair, tau, second))
        return found


TABLES = (
    PublishedTable(
        year=2017,
        number=2,
        second="pearson",
        language_pairs=("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en"),
        rows="""
sentBLEU: 29.6/43.2 28.9/42.2 38.6/56.0 23.9/38.2 34.3/47.7 34.3/54.0 37.4/51.3 32.4/47.5
MoverScore: 47.6/67.0 51.2/70.8 NA NA 53.4/73.8 56.1/76.2 53.1/74.4 52.3/72.4
BERTScore, BERT-large: 48.0/66.6 50.3/70.1 61.4/81.4 51.6/72.3 53.7/73.0 55.6/76.0 52.2/73.1 53.3/73.2
BERTScore, RoBERTa: 54.2/72.6 56.9/76.0 64.8/83.2 56.2/75.7 57.2/75.2 57.9/76.1 58.8/78.9 58.0/76.8
chrF++: 35.0/52.3 36.5/53.4 47.5/67.8 33.3/52.0 41.5/58.8 43.2/61.4 40.5/59.3 39.6/57.9
BEER: 34.0/51.1 36.1/53.0 48.3/68.1 32.8/51.5 40.2/57.7 42.8/60.0 39.5/58.2 39.1/57.1
BLEURTbase, no pre-training: 51.5/68.2 52.0/70.7 66.6/85.1 60.8/80.5 57.5/77.7 56.9/76.0 52.1/72.1 56.8/75.8
BLEURTbase: 55.7/73.4 56.3/75.7 68.0/86.8 64.7/83.3 60.1/80.1 62.4/81.7 59.5/80.5 61.0/80.2
BLEURT, no pre-training: 56.0/74.7 57.1/75.7 67.2/86.1 62.3/81.7 58.4/78.3 61.6/81.4 55.9/76.5 59.8/79.2
BLEURT: 59.3/77.3 59.9/79.2 69.5/87.8 64.4/83.5 61.3/81.1 62.9/82.4 60.2/81.4 62.5/81.8
""",
    ),
    PublishedTable(
        year=2018,
        number=3,
        second="darr",
        language_pairs=("cs-en", "de-en", "et-en", "fi-en", "ru-en", "tr-en", "zh-en"),
        rows="""
sentBLEU: 20.0/22.5 31.6/41.5 26.0/28.2 17.1/15.6 20.5/22.4 22.9/13.6 21.6/17.6 22.8/23.2
BERTScore, BERT-large: 29.5/40.0 39.9/53.8 34.7/39.0 26.0/29.7 27.8/34.7 31.7/27.5 27.5/25.2 31.0/35.7
BERTScore, RoBERTa: 31.2/41.1 42.2/55.5 37.0/40.3 27.8/30.8 30.2/35.4 32.8/30.2 29.2/26.3 32.9/37.1
Meteor++: 22.4/26.8 34.7/45.7 29.7/32.9 21.6/20.6 22.8/25.3 27.3/20.4 23.6/17.5 26.0/27.0
RUSE: 27.0/34.5 36.1/49.8 32.9/36.8 25.5/27.5 25.0/31.1 29.1/25.9 24.6/21.5 28.6/32.4
YiSi1: 23.5/31.7 35.5/48.8 30.2/35.1 21.5/23.1 23.3/30.0 26.8/23.4 23.1/20.9 26.3/30.4
YiSi1 SRL: 23.3/31.5 34.3/48.3 29.8/34.5 21.2/23.7 22.6/30.6 26.1/23.3 22.9/20.7 25.7/30.4
BLEURTbase, no pre-training: 33.0/39.0 41.5/54.6 38.2/39.6 30.7/31.1 30.7/34.9 32.9/29.8 28.3/25.6 33.6/36.4
BLEURTbase: 34.5/42.9 43.5/55.6 39.2/40.5 31.5/30.9 31.0/35.7 35.0/29.4 29.6/26.9 34.9/37.4
BLEURT, no pre-training: 34.5/42.1 42.7/55.4 39.2/40.6 31.4/31.6 31.4/34.2 33.4/29.3 28.9/25.6 34.5/37.0
BLEURT: 35.6/42.3 44.2/56.7 40.0/41.4 32.1/32.5 31.9/36.0 35.5/31.5 29.7/26.0 35.6/38.1
""",
    ),
    PublishedTable(
        year=2019,
        number=4,
        second="darr",
        language_pairs=("de-en", "fi-en", "gu-en", "kk-en", "lt-en", "ru-en", "zh-en"),
        rows="""
sentBLEU: 19.4/5.4 20.6/23.3 17.3/18.9 30.0/37.6 23.8/26.2 19.4/12.4 28.7/32.2 22.7/22.3
BERTScore, BERT-large: 26.2/17.3 27.6/34.7 25.8/29.3 36.9/44.0 30.8/37.4 25.2/20.6 37.5/41.4 30.0/32.1
BERTScore, RoBERTa: 29.1/19.3 29.7/35.3 27.7/32.4 37.1/43.1 32.6/38.2 26.3/22.7 41.4/43.8 32.0/33.6
ESIM: 28.4/16.6 28.9/33.7 27.1/30.4 38.4/43.3 33.2/35.9 26.6/19.9 38.7/39.6 31.6/31.3
YiSi1 SRL: 26.3/19.8 27.8/34.6 26.6/30.6 36.9/44.1 30.9/38.0 25.3/22.0 38.9/43.1 30.4/33.2
BLEURTbase, no pre-training: 30.1/15.8 30.4/35.4 26.8/29.7 37.8/41.8 34.2/39.0 27.0/20.7 40.1/39.8 32.3/31.7
BLEURTbase: 31.0/16.6 31.3/36.2 27.9/30.6 39.5/44.6 35.2/39.4 28.5/21.5 41.7/41.6 33.6/32.9
BLEURT, no pre-training: 31.1/16.9 31.3/36.5 27.6/31.3 38.4/42.8 35.0/40.0 27.5/21.4 41.6/41.4 33.2/32.9
BLEURT: 31.2/16.9 31.7/36.3 28.3/31.9 39.5/44.6 35.2/40.6 28.3/22.3 42.7/42.4 33.8/33.6
""",
    ),
)


def published_table(year: int | None) -> PublishedTable | None:
    """The paper's table for the WMT campaign of `year`; None for other years and for ratings of no campaign (None)."""
    return next((table for table in TABLES if table.year == year), None)
