"""WMT 2019: `ad-seg-scores-{lp}.csv` and the texts of newstest2019, published as two archives.

Names of systems differ between the ratings and the files of outputs; `output_name` holds the rules. Ratings of one pair
(zh-en) are there twice; the sentence-level ones made with Turkle count.
"""

import re

from pipeline.collect.corpus import Corpus, Layout, Loaded
from pipeline.collect.wmt_archives import Campaign, load_campaign

LAYOUT = Layout()

OUTPUT_NAMES = {
    "Helsinki-NLP.6889": "Helsinki_NLP.6889",
    "Facebook-FAIR.6937": "Facebook_FAIR.6937",
    "DBMS-KU-KKEN.6726": "DBMS-KU_KKEN.6726",
    "Ju-Saarland.6525": "Ju_Saarland.6525",
    "aylien-mt-gu-en-multilingual.6826": "aylien_mt_gu-en_multilingual.6826",
    "rug-kken-morfessor.6677": "rug_kken_morfessor.6677",
    "talp-upc-2019-kken.6657": "talp_upc_2019_kken.6657",
    "Frank-s-MT.6127": "Frank_s_MT.6127",
}
"""Name in the ratings -> name in the output files, if they differ."""


def output_name(system: str, language_pair: str) -> str:
    """The system's name in its output file.

    >>> output_name("Frank-s-MT.6127", "fi-en"), output_name("Unsupervised.6929", "de-cs")
    ('Frank_s_MT.6127', 'Unsupervised.de-cs.6929')
    """
    if language_pair == "zh-en":
        system = re.sub(r"[-._]?zh-en$", "", system)
    if language_pair == "de-cs" and system in ("Unsupervised.6929", "Unsupervised.6935"):
        return system.replace(".", ".de-cs.")
    return OUTPUT_NAMES.get(system, system)


CAMPAIGN = Campaign(
    year=2019,
    archives=r"newstest2019-humaneval|wmt19-submitted-data-v3-txt-minimal",
    published="newstest2019-humaneval.tar.gz and wmt19-submitted-data-v3-txt-minimal.tgz",
    output_name=output_name,
    preferred="turkle-sntlevel-humaneval-newstest2019",
)


def load(corpus: Corpus) -> Loaded:
    """All chosen language pairs that are there, in the order of their names, each in the order of its ratings."""
    return load_campaign(CAMPAIGN, corpus)
