"""WMT 2018: `ad-seg-scores-{lp}.csv` and the texts of newstest2018, published as two archives."""

from pipeline.collect.corpus import Corpus, Layout, Loaded
from pipeline.collect.wmt_archives import Campaign, load_campaign

LAYOUT = Layout()


def output_name(system: str, language_pair: str) -> str:
    """The system's name in its output file; the ratings shorten one name.

    >>> output_name("UAlacant_-_NM", "fi-en"), output_name("uedin-nmt.1", "de-en")
    ('UAlacant_-_NMT+RBMT.6722', 'uedin-nmt.1')
    """
    return "UAlacant_-_NMT+RBMT.6722" if system == "UAlacant_-_NM" else system


CAMPAIGN = Campaign(
    year=2018,
    archives=r"newstest2018-humaneval|wmt18-metrics-task-nohybrids",
    published="newstest2018-humaneval.tar.gz and wmt18-metrics-task-nohybrids.tgz",
    output_name=output_name,
)


def load(corpus: Corpus) -> Loaded:
    """All chosen language pairs that are there, in the order of their names, each in the order of its ratings."""
    return load_campaign(CAMPAIGN, corpus)
