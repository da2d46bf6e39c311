"""Names of metrics and of the rows that stand for several language pairs, as they appear in shards and tables."""

import enum

TRAINED = "bleurt/"
"""Prefix of the trained metrics: "bleurt/all" is the checkpoint of the variant "all"."""

PUBLISHED = "published/"
"""Prefix of the metrics whose scores came with the ratings: "published/bleu"."""

UNTRAINED = f"{TRAINED}none"
"""The trained metric that was fine-tuned without pre-training."""

AVERAGE = "average"
"""Language pair of a mean over language pairs."""

NO_PAIR = "all"
"""Language pair of rows that have none."""


class Baseline(enum.StrEnum):
    """Names of the baselines, as they stand in params.yaml, in the tables and in the report."""

    SENTBLEU = "sentbleu"
    CHRF = "chrf++"
    TER = "ter"
    METEOR = "meteor"
    ROUGE_2 = "rouge2"
    ROUGE_L = "rougeL"
    BERTSCORE = "bertscore"
    BERTSCORE_IDF = "bertscore_idf"
    MOVERSCORE = "moverscore"


ENCODED = frozenset({Baseline.BERTSCORE, Baseline.BERTSCORE_IDF, Baseline.MOVERSCORE})
"""Baselines that need an encoder; the others only count words."""
