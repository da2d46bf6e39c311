"""Params of every stage, loaded as the stages load them."""

from pathlib import Path
from typing import Any

from pipeline.adapt.adapting import AdaptParams
from pipeline.collect.corpus import CollectParams
from pipeline.core import modules
from pipeline.core.params import load_names, load_params, part_names
from pipeline.evaluate.evaluation import EvaluateParams
from pipeline.evaluate.metrics import known_metrics, load_sections, sections_of
from pipeline.extract.extraction import ExtractParams
from pipeline.finetune.lessons import FinetuneParams
from pipeline.grade.grading import GradeParams
from pipeline.perturb.pairs import PerturbParams
from pipeline.pretrain.pretraining import PretrainParams
from pipeline.report.__main__ import ReportParams


def load_all_params(file: Path) -> dict[str, Any]:
    """Stage, or member of a stage as `label.bleu`, -> its params; whatever is wrong is a ParamsError."""
    names = part_names(file, "perturb")
    known = known_metrics()
    sections = tuple(sections_of(known.values()))
    evaluate = load_params(file, "evaluate", EvaluateParams, without=sections)
    load_sections(file, [known[name] for name in evaluate.baselines])
    load_names(file, "variants")
    found: dict[str, Any] = {
        "extract": load_params(file, "extract", ExtractParams),
        "adapt": load_params(file, "adapt", AdaptParams),
        "perturb": load_params(file, "perturb", PerturbParams, without=names),
        "pretrain": load_params(file, "pretrain", PretrainParams),
        "collect": load_params(file, "collect", CollectParams),
        "grade": load_params(file, "grade", GradeParams),
        "finetune": load_params(file, "finetune", FinetuneParams),
        "evaluate": evaluate,
        "report": load_params(file, "report", ReportParams),
    }
    for package, section, members in (
        ("pipeline.perturb.techniques", "perturb", names),
        ("pipeline.label.signals", "label", load_names(file, "signals")),
    ):
        for name in members:
            module = modules.load(package, name, section)
            found[f"{section}.{name}"] = load_params(file, f"{section}.{name}", module.Params)
    return found
