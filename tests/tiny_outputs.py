"""Outputs of every stage, tiny and made by hand, and the report of them. For tests of the report."""

import math
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow
from scipy import stats

from pipeline.core.params import from_mapping
from pipeline.core.records import AGREEMENT, AVERAGE, CLUSTERS, PAIRS, PREDICTIONS, RATINGS, TRAINED
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.core.work import write_json
from pipeline.report.__main__ import ReportParams, report
from pipeline.report.gather import Folders

HOSTILE = '<script>alert("candidate")</script> & co'
PARAMS_FILE = """
profile: PROFILE
variants: [all, none]
signals: {bleu: text, backtranslation: pivots}
pretrain: {schedule: {seed: 17}}
label: {backtranslation: {beam_width: 1}}
profiles:
  embedded: {report: {worst: 3, scatter_points: 10, signal_bins: 4}, collect: CORPORA}
  local:
    label: {backtranslation: {pivots: {it: {to: a}, es: {to: b}}}}
    pretrain: {schedule: {steps: 5}}
    collect: CORPORA
    report: {worst: 3, scatter_points: 10, signal_bins: 4}
"""
CORPORA = "{corpora: [{name: wmt17, parts: [{path: data/own/ratings.tsv}]}]}"


def rating(number: int) -> dict[str, Any]:
    return {
        "rating_id": f"r{number}",
        "corpus": "wmt17",
        "split": "test",
        "aspect": "adequacy",
        "reference": f"reference {number // 2}",
        "other_references": [],
        "candidate": HOSTILE if number == 0 else f"candidate {number}",
        "source": None,
        "language_pair": ("de-en", "cs-en")[number % 2],
        "system": "s&s",
        "segment": str(number),
        "year": 2017,
        "raw": None,
        "z": None,
        "score": float(number),
    }


ROWS = [rating(number) for number in range(24)]
SCORES: dict[str, dict[str, float]] = {
    # Row 0 is people's last and this metric's first: its worst disagreement.
    "bleurt/all": {r["rating_id"]: 99.0 if r["rating_id"] == "r0" else r["score"] for r in ROWS},
    "bleurt/none": {r["rating_id"]: float((7 * int(r["score"])) % 24) for r in ROWS},
    "sentbleu": {r["rating_id"]: float((5 * int(r["score"])) % 24) for r in ROWS},
    "ter": {r["rating_id"]: 0.0 for r in ROWS},
}


CORRELATIONS: dict[str, Any] = {
    "kendall": stats.kendalltau, "pearson": stats.pearsonr, "spearman": stats.spearmanr
}  # fmt: skip


def correlation(statistic: str, metric: str, pair: str) -> float:
    """Of people's scores with the metric's on the rows of a language pair; NaN for a constant metric."""
    rows = [row for row in ROWS if row["language_pair"] == pair]
    scores = [SCORES[metric][row["rating_id"]] for row in rows]
    if len(set(scores)) == 1:
        return math.nan
    return float(CORRELATIONS[statistic]([row["score"] for row in rows], scores)[0])


def agreement() -> list[dict[str, Any]]:
    """Rows of AGREEMENT for all SCORES, with intervals of 0.1 each way."""
    rows = []
    for metric in SCORES:
        for statistic in CORRELATIONS:
            values = {pair: correlation(statistic, metric, pair) for pair in ("cs-en", "de-en")}
            for pair, value in (values | {AVERAGE: sum(values.values()) / 2}).items():
                names = ("wmt17", "adequacy", metric, pair, statistic, value, value - 0.1, value + 0.1)
                rows.append(dict(zip(AGREEMENT.names, (*names, 24 if pair == AVERAGE else 12), strict=True)))
    return rows


def comparison(rows: list[dict[str, Any]], metric: str, against: str, role: str) -> dict[str, Any]:
    """One record of significance.json."""
    kendall = {
        row["metric"]: row["value"] for row in rows if (row["statistic"], row["language_pair"]) == ("kendall", AVERAGE)
    }
    difference = kendall[metric] - kendall[against]
    names = {"corpus": "wmt17", "aspect": "adequacy", "metric": metric, "against": against, "role": role}
    return {**names, "difference": difference, "low": difference - 0.1, "high": difference + 0.1, "p_value": 0.25}


def ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of CLUSTERS: the metric with the highest Kendall alone in the first cluster, all others in the second."""
    averages = [row for row in rows if (row["statistic"], row["language_pair"]) == ("kendall", AVERAGE)]
    known = sorted((row for row in averages if not math.isnan(row["value"])), key=lambda row: -row["value"])
    found = []
    for place, row in enumerate(known):
        below = {other["metric"]: 0.01 for other in known[place + 1 :]}
        found.append({name: row.get(name) for name in CLUSTERS.names} | {"cluster": 1 + (place > 0), "p_values": below})
    return found


def write_evaluation(folder: Path) -> None:
    rows = agreement()
    write_shard(folder / "agreement" / shard_name(0), table_of(rows, AGREEMENT))
    write_shard(folder / "clusters" / shard_name(0), table_of(ranked(rows), CLUSTERS))
    trained = [metric for metric in SCORES if metric.startswith(TRAINED)]
    records = [comparison(rows, "bleurt/all", "bleurt/none", "without pre-training")] if trained else []
    records += [comparison(rows, metric, "sentbleu", "best baseline") for metric in trained]
    write_json(folder / "significance.json", records)
    settings = {"resamples": 40, "confidence": 0.95, "permutations": 20, "darr_gap": 25.0, "seed": 1}
    left_out = {"corpus": "wmt17", "aspect": "adequacy", "language_pair": "fi-en", "reason": "all ratings are equal"}
    method = {"signatures": {"sentbleu": "nrefs:1|tok:13a"}, "left_out": [left_out], "years": {"wmt17": 2017}}
    not_scored = [{"metric": "yisi2", "reason": "nowhere: no such model folder.", "rows": 24}]
    write_json(folder / "method.json", {"settings": settings, **method, "not_scored": not_scored})
    write_json(folder / "counts.json", {"rows_in": 30, "rows_out": 24, "dropped": {"train split": 6}})
    for index, (metric, scores) in enumerate(SCORES.items()):
        rows = [{"rating_id": name, "metric": metric, "score": score} for name, score in scores.items()]
        write_shard(folder / "predictions" / shard_name(index), table_of(rows, PREDICTIONS))


SIGNALS = {
    "bleu": ["bleu"],
    "backtranslation": [
        f"backtranslation_{number}_{way}" for number in (1, 2) for way in ("reference_candidate", "candidate_reference")
    ],
    "toy": ["toy"],
}
"""The folders of data/label; params.yaml does not name the last one."""


def write_pairs(folders: Folders) -> None:
    pair = {
        "segment_id": "s",
        "reference": "it is",
        "candidate": HOSTILE,
        "technique": "mask_fill",
        "pivot": None,
        "mask_style": "span",
        "masks": 2,
        "dropped_words": 0,
        "parent_id": None,
    }
    pairs = [{**pair, "pair_id": f"p{number}", "dropped_words": int(number == 3)} for number in range(4)]
    write_shard(folders.perturb / shard_name(0), table_of(pairs, PAIRS))
    write_json(folders.perturb / "counts.json", {"rows_in": 5, "rows_out": 4, "dropped": {"nothing to mask": 1}})
    for signal, columns in SIGNALS.items():
        values = {"pair_id": [f"p{n}" for n in range(4)]} | {column: [n / 4 for n in range(4)] for column in columns}
        write_shard(folders.label / signal / shard_name(0), pyarrow.table(values))


def write_training(folder: Path) -> None:
    for variant, points in (("all", [(10, 1.5, 0.2), (20, 1.0, 0.4)]), ("none", [])):
        steps = [{"step": step, "loss": loss, "validation": score, "seconds": 1.0} for step, loss, score in points]
        facts = {"rows_seen": 640, "best_step": 20, "best_validation": 0.4, "padding_share": 0.034, "pairs": 32}
        write_json(folder / variant / "training.json", {"steps": steps, **facts})
        write_json(folder / variant / "counts.json", {"rows_in": 40, "rows_out": 37, "dropped": {"validation": 3}})


def folders_in(root: Path) -> Folders:
    return Folders(**{field.name: root / field.name for field in fields(Folders)})


def make(root: Path, profile: str = "local", corpora: str = CORPORA, params_file: str = PARAMS_FILE) -> str:
    """Run the stage in `root` and return the page."""
    (root / "params.yaml").write_text(params_file.replace("PROFILE", profile).replace("CORPORA", corpora))
    params = from_mapping({"worst": 3, "scatter_points": 10, "signal_bins": 4}, ReportParams, "report")
    report(params, root / "params.yaml", folders_in(root), root / "reports")
    return (root / "reports" / "report.html").read_text(encoding="utf-8")


def write_all(root: Path) -> None:
    """Outputs of every stage in `root`."""
    folders = folders_in(root)
    write_shard(folders.collect / shard_name(0), table_of(ROWS, RATINGS))
    write_evaluation(folders.evaluate)
    write_pairs(folders)
    write_training(folders.pretrain)
    write_training(folders.finetune)
    write_json(folders.grade / "counts.json", {"rows_in": 9, "rows_out": 8, "dropped": {"half impossible": 1}})
    write_json(folders.extract / "counts.json", {"rows_in": 1200, "rows_out": 5, "dropped": {"too short": 1195}})


class Checker(HTMLParser):
    """Collects what a browser would see: tags, addresses, and tags that are opened but not closed."""

    VOID = frozenset({"meta", "br", "line", "rect", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, (tag, self.getpos())
