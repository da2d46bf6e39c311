"""Fixed schemas of every intermediate (law 4): names, types, nullability; units and meaning beside each field."""

import enum
from collections.abc import Iterable

import pyarrow


def _field(name: str, kind: pyarrow.DataType, nullable: bool = False) -> pyarrow.Field:
    return pyarrow.field(name, kind, nullable=nullable)


_text, _int, _real = pyarrow.string(), pyarrow.int32(), pyarrow.float32()

SEGMENTS = pyarrow.schema(
    [
        _field("segment_id", _text),  # "<page id>-<number of the sentence on the page>"
        _field("title", _text),  # title of the article
        _field("text", _text),  # one sentence, plain text
    ]
)

PAIRS = pyarrow.schema(
    [
        _field("pair_id", _text),  # unique; "<segment_id>/<technique tag>", with "/drop" behind a word-dropped copy
        _field("segment_id", _text),  # of z: pairs that share a reference share it
        _field("reference", _text),  # z
        _field("candidate", _text),  # z~
        _field("technique", _text),  # what made the candidate, such as "mask_fill"; word dropping keeps its parent's
        _field("pivot", _text, True),  # language code, such as "fr"; null if not backtranslated
        _field("mask_style", _text, True),  # "random" or "span"; null if not mask-filled
        _field("masks", _int, True),  # number of masks filled
        _field("dropped_words", _int),  # 0 if no words were dropped
        _field("parent_id", _text, True),  # pair_id of the pair that words were dropped from
    ]
)

GRADED = pyarrow.schema(
    [
        _field("pair_id", _text),  # unique; "<id of the sentence>/<kind>"
        _field("reference", _text),
        _field("candidate", _text),  # may be empty
        _field("kind", _text),  # what was done to the reference: "wrong_name", "half", ... (grade/kinds.py)
        _field("grade", _real),  # in standard deviations of people's ratings from their mean
    ]
)

RATINGS = pyarrow.schema(
    [
        _field("rating_id", _text),  # unique
        _field("corpus", _text),  # "wmt15", "webnlg17", "sample", or the name of an own file
        _field("split", _text),  # "train", "validation" or "test"
        _field("aspect", _text),  # what was judged: "adequacy" (WMT), "fluency", "grammar", "semantics" (WebNLG)
        _field("reference", _text),  # never empty
        _field("other_references", pyarrow.list_(_text)),  # further references, often none
        _field("candidate", _text),  # may be empty: a void prediction
        _field("source", _text, True),
        _field("language_pair", _text, True),  # "de-en"
        _field("system", _text, True),  # "a+b" if several systems gave the same output
        _field("segment", _text, True),  # with the reference: the segment inside corpus and language pair
        _field("year", _int, True),  # of the WMT campaign; null if the corpus is no campaign
        _field("raw", pyarrow.float64(), True),  # the judges' own scale, 0-100 in WMT, higher is better
        _field("z", pyarrow.float64(), True),  # standardised by judge
        _field("score", pyarrow.float64()),  # the training target: z if it is known, else raw divided by its scale
        # What else the corpus says of the candidate: name of a metric -> its score, higher is better (TER is negated).
        _field("published", pyarrow.map_(_text, pyarrow.float64()), True),
        # Name of a system of `system` -> people's score of it, if the corpus has scores of whole systems.
        _field("system_ratings", pyarrow.map_(_text, pyarrow.float64()), True),
    ]
)

PREDICTIONS = pyarrow.schema(
    [
        _field("rating_id", _text),
        _field("metric", _text),  # "bleurt/all", "sentbleu", "chrf++", ...
        _field("score", pyarrow.float64()),  # higher is better (TER is negated)
    ]
)

SYSTEM_PREDICTIONS = pyarrow.schema(
    [
        _field("corpus", _text),
        _field("language_pair", _text),  # "de-en", or NO_PAIR
        _field("system", _text),
        _field("metric", _text),  # one that scores a system by all its segments: "bleu"
        _field("score", pyarrow.float64()),  # higher is better
    ]
)

HEADLINE = {"kendall": "Kendall τ-b", "pearson": "Pearson r", "spearman": "Spearman ρ", "darr": "DARR"}
"""`statistic` of AGREEMENT -> heading of its column in the headline tables, in the order of the columns."""

SYSTEM_LEVEL = {
    "system_kendall": "System τ-b",
    "system_pearson": "System r",
    "system_kendall_inliers": "τ-b, no outliers",
    "system_pearson_inliers": "r, no outliers",
    "pairwise_accuracy": "Pairwise accuracy",
    "soft_pairwise_accuracy": "Soft pairwise accuracy",
}
"""The same for the table of systems: people's score of each system, and the metric's."""

WITH_TIES = {
    f"{statistic}_{averaged}": f"{heading}, {words}"
    for statistic, heading in (("tau23", "τ23"), ("acc23_best", "acc23*"))
    for averaged, words in (("pooled", "pooled"), ("system", "by system"), ("item", "by item"))
}
"""The same for the table of segments with ties; "acc23_best" has the best tie threshold."""

STATISTICS = HEADLINE | SYSTEM_LEVEL | WITH_TIES


def headline_statistics(present: Iterable[tuple[str, str]]) -> list[str]:
    """Statistics of the headline table, of all (metric, statistic) that are `present`.

    A metric that scores whole systems has no statistic of segments. If there is one, two of systems join the headline.

    >>> headline_statistics([("ter", "kendall"), ("ter", "system_kendall")])
    ['kendall']
    >>> headline_statistics([("ter", "kendall"), ("ter", "system_kendall"), ("bleu", "system_kendall")])
    ['kendall', 'system_kendall']
    """
    by_metric: dict[str, set[str]] = {}
    for metric, statistic in present:
        by_metric.setdefault(metric, set()).add(statistic)
    alone = any("kendall" not in statistics for statistics in by_metric.values())
    columns = [*HEADLINE, *(("system_kendall", "system_pearson") if alone else ())]
    return [name for name in columns if any(name in statistics for statistics in by_metric.values())]


AGREEMENT = pyarrow.schema(
    [
        _field("corpus", _text),  # "wmt17", "sample", …
        _field("aspect", _text),
        _field("metric", _text),  # as in PREDICTIONS
        _field("language_pair", _text),  # "de-en", or "average": the mean over pairs
        _field("statistic", _text),  # a key of STATISTICS
        _field("value", pyarrow.float64()),  # in [-1, 1]; accuracies in [0, 1]
        _field("low", pyarrow.float64()),  # bounds of the bootstrap interval; NaN if there is none
        _field("high", pyarrow.float64()),
        # Behind the value: rated segments; darr: pairs of them; system_*: systems; pairwise_accuracy: pairs of systems;
        # soft_pairwise_accuracy: segments that are rated for every system.
        _field("count", _int),
    ]
)

CLUSTERS = pyarrow.schema(
    [
        _field("corpus", _text),
        _field("aspect", _text),
        _field("statistic", _text),  # "kendall" or "pearson", averaged over language pairs
        _field("metric", _text),
        _field("value", pyarrow.float64()),  # as in AGREEMENT
        _field("cluster", _int),  # from 1, the best metrics
        # Name of each metric with a lower value -> p-value of "this metric is not better" (PERM-BOTH, one-sided).
        _field("p_values", pyarrow.map_(_text, pyarrow.float64())),
    ]
)

TRAINED = "bleurt/"
"""`metric` of PREDICTIONS and AGREEMENT begins so if the pipeline trained it: "bleurt/all" is the variant "all"."""

PUBLISHED = "published/"
"""`metric` begins so if its scores came with the ratings: "published/bleu"."""

UNTRAINED = f"{TRAINED}none"
"""`metric` that was fine-tuned without pre-training."""

AVERAGE = "average"
"""`language_pair` of AGREEMENT's means over language pairs."""

NO_PAIR = "all"
"""`language_pair` of AGREEMENT for ratings that have none."""


class Reason(enum.StrEnum):
    """Why an attempt gives no pair: the names under which dropped rows are counted."""

    TOO_LONG = "too_long"  # the text has more pieces than the model has positions
    UNMASKABLE = "unmaskable"  # the text has no word, or the word drawn has more pieces than there may be masks
    EMPTY_TRANSLATION = "empty_translation"  # the translation has no word, also `&nbsp;`
    UNCHANGED = "unchanged"  # the candidate equals its reference
    DUPLICATE = "duplicate"  # the shard, or the source, has the same reference and candidate already
    EMPTY_TEXT = "empty_text"  # a side of a source's row has no word, or there is no word to drop
    WORDS = "words"  # a text has fewer words than its technique's min_words, or more than its max_words
    NOT_DRAWN = "not_drawn"  # the sources have more rows than their technique's `pairs`
