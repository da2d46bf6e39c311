"""params.yaml, loaded once into strict frozen dataclasses that pydantic checks (law 1).

A stage's section is the union of two places that may not overlap: the top-level section named for the stage (what
all profiles share) and `profiles.<profile>.<stage>` (sizes and sources). An unknown, missing, doubled or ill-typed key
fails here, by name. A dotted section such as `label.bleu` is one part of a stage's section.

A section may say in `defaults` what the members of one of its lists have for keys that they leave out.

Models are named once, in `profiles.<profile>.models`, and referred to by their key there: a value of the type ModelName
that is such a key stands for the model that it names, any other value is a model's name itself.

The file is read as DVC reads it (ruamel.yaml, YAML 1.2): what `dvc exp run -S pretrain.weights.flag=1e-5` writes,
`1e-05`, is a number here too, which YAML 1.1 readers take for a string.
"""

import dataclasses
import json
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
from pydantic import ConfigDict, Field, TypeAdapter, ValidationInfo
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.core.errors import ParamsError

STAGES: tuple[str, ...] = (
    "extract", "adapt", "perturb", "label", "pretrain", "collect", "grade", "finetune", "evaluate", "report",
)  # fmt: skip
"""Names of the stages, which are the names of their sections (law 1), in the order of the data."""

SHARED = ("profile", "variants", "adapted", "signals", "bundled", "profiles")
"""Keys of params.yaml beside the stages' sections."""

MODELS = "models"
"""Section of a profile that names its models."""

T = TypeVar("T")
C = TypeVar("C", bound=type)

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def params(kind: C) -> C:
    """Make a class of params: a frozen dataclass whose types are checked strictly, also when it is made by hand.

    A rule for one value stands in its type (`AtLeastOne`, `Share`); a rule for several is a `model_validator` that
    raises a ValueError whose text begins with a key, such as "layer: must be null without an encoder, not 3".
    """
    return pydantic.dataclasses.dataclass(frozen=True, config=STRICT)(kind)  # type: ignore[return-value]


AtLeastOne = Annotated[int, Field(ge=1)]
"""A whole number from 1."""

AtLeastZero = Annotated[int, Field(ge=0)]
"""A whole number from 0."""

NotNegative = Annotated[float, Field(ge=0)]
"""A number from 0."""

Positive = Annotated[float, Field(gt=0)]
"""A number above 0."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A number from 0 to 1."""

ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]
"""A number from 0, below 1."""

Between = Annotated[float, Field(gt=0, lt=1)]
"""A number above 0 and below 1."""


def _model_named(name: str, info: ValidationInfo) -> str:
    known = (info.context or {}).get(MODELS, {})
    return str(known.get(name, name))


ModelName = Annotated[str, pydantic.AfterValidator(_model_named)]
"""Name of a model (see `pipeline.core.models`), or its key in the profile's `models`."""


def load_params(file: Path, section: str, kind: type[T], without: Sequence[str] = ()) -> T:
    """Read `section` of `file` ("perturb", or "label.bleu"), merged with the chosen profile's, as a `kind`.

    Keys in `without` are passed over: parts of the section that belong to members and are read by themselves.
    """
    document = _read(file)
    whole = with_defaults(_section(file, document, section), f"{file}: {section}")
    values = {key: value for key, value in whole.items() if key not in without}
    return from_mapping(values, kind, section, file=file, models=load_models(file))


def with_defaults(section: dict[str, Any], where: str) -> dict[str, Any]:
    """`section` without its key `defaults`: list -> what each mapping in that list has for the keys that it leaves out.

    >>> with_defaults({"defaults": {"corpora": {"years": []}}, "corpora": [{"name": "wmt17"}]}, "collect")
    {'corpora': [{'years': [], 'name': 'wmt17'}]}
    """
    section = dict(section)
    defaults = section.pop("defaults", {})
    if not isinstance(defaults, dict):
        raise ParamsError(f"{where}.defaults: must be a mapping, not {defaults!r}.")
    for key, values in defaults.items():
        members = section.get(key)
        if not isinstance(members, list) or not isinstance(values, dict):
            raise ParamsError(f"{where}.defaults.{key}: must be a mapping for the members of a list {key}.")
        section[key] = [{**values, **member} if isinstance(member, dict) else member for member in members]
    return section


def load_models(file: Path) -> dict[str, Any]:
    """The models of the chosen profile by their keys; empty if it names none."""
    document = _read(file)
    return _part(file, document, ["profiles", _profile(file, document), MODELS])


def part_names(file: Path, section: str) -> tuple[str, ...]:
    """Keys of `section` that hold mappings, in the order of the file: the parts that belong to members."""
    found = _section(file, _read(file), section)
    return tuple(key for key, value in found.items() if isinstance(value, dict))


def load_key(file: Path, key: str) -> Any:
    """One top-level value of `file`, such as `variants` or `profile`; a missing key fails."""
    document = _read(file)
    if key not in document:
        raise ParamsError(f"{file}: the key {key} is missing.")
    return document[key]


def load_names(file: Path, key: str) -> tuple[str, ...]:
    """A top-level list of names, such as `variants`: each is text and none stands twice."""
    found = load_key(file, key)
    names = list(found) if isinstance(found, list | dict) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParamsError(f"{file}: {key}: must be a list of different names, not {found!r}.")
    return tuple(names)


def _profile(file: Path, document: dict[str, Any]) -> str:
    profile, profiles = document.get("profile"), document.get("profiles")
    if not isinstance(profiles, dict) or not isinstance(profile, str) or profile not in profiles:
        known = sorted(profiles) if isinstance(profiles, dict) else []
        raise ParamsError(f"{file}: profile is {profile!r}, but profiles has {known}.")
    return profile


def _section(file: Path, document: dict[str, Any], section: str) -> dict[str, Any]:
    profile = _profile(file, document)
    _known_sections(file, document, document["profiles"])
    path = section.split(".")
    shared = _part(file, document, path)
    own = _part(file, document, ["profiles", profile, *path])
    return _merge(file, shared, own, section)


def _known_sections(file: Path, document: dict[str, Any], profiles: dict[str, Any]) -> None:
    """A misspelt section would otherwise be ignored without a word."""
    sections = dict.fromkeys(document, (*SHARED, *STAGES))
    for name, own in profiles.items():
        sections |= {f"profiles.{name}.{key}": (MODELS, *STAGES) for key in (own if isinstance(own, dict) else {})}
    for key, known in sections.items():
        if str(key).rsplit(".", 1)[-1] not in known:
            raise ParamsError(f"{file}: {key}: unknown section (known: {', '.join(known)}).")


def _part(file: Path, document: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The mapping at `path`; empty if a key on the way is absent or holds nothing."""
    part = document
    for depth, key in enumerate(path, start=1):
        found = part.get(key)
        if found is not None and not isinstance(found, dict):
            raise ParamsError(f"{file}: {'.'.join(path[:depth])}: must be a mapping, not {found!r}.")
        part = found or {}
    return part


def _merge(file: Path, shared: dict[str, Any], own: dict[str, Any], where: str) -> dict[str, Any]:
    """Union of two mappings, sub-sections included; a value that stands in both fails."""
    merged = {**shared, **own}
    for key in sorted(set(shared) & set(own)):
        if not (isinstance(shared[key], dict) and isinstance(own[key], dict)):
            raise ParamsError(f"{file}: {where}.{key} stands both in {where} and in the profile's {where}.")
        merged[key] = _merge(file, shared[key], own[key], f"{where}.{key}")
    return merged


def _read(file: Path) -> dict[str, Any]:
    try:
        document = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParamsError(f"{file}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ParamsError(f"{file}: not valid UTF-8 (byte {error.start}).") from error
    except YAMLError as error:
        raise ParamsError(f"{file}: not valid YAML, {_reason(error)}.") from error
    if not isinstance(document, dict):
        raise ParamsError(f"{file}: must be a mapping of sections.")
    return document


def _reason(error: YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f"line {mark.line + 1}: {problem}" if mark and problem else " ".join(str(error).split())


def from_mapping(
    values: object, kind: type[T], where: str, *, file: Path | None = None, models: dict[str, Any] | None = None
) -> T:
    """Build `kind`, a class made by `params`, from a mapping; `where` is the dotted path used in messages.

    >>> @params
    ... class Demo:
    ...     rate: Positive
    >>> from_mapping({"rate": 1}, Demo, "demo")
    Demo(rate=1.0)
    >>> from_mapping({"rate": 0}, Demo, "demo")
    Traceback (most recent call last):
    pipeline.core.errors.ParamsError: demo.rate: must be above 0, not 0.
    """
    start = f"{file}: " if file else ""
    _check_keys(values, f"{start}{where}")
    text = json.dumps(values, default=str)  # strict JSON takes lists for tuples and names for members of an enum
    try:
        return TypeAdapter(kind).validate_json(text, context={MODELS: models or {}})
    except pydantic.ValidationError as error:
        errors = error.errors(include_url=False)  # a misspelt key is told by its wrong name
        found = next((one for one in errors if "unexpected" in one["type"]), errors[0])
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in found["loc"])
        raise ParamsError(f"{start}{where}{_sentence(kind, place, found)}") from None


def _check_keys(values: object, where: str) -> None:
    """JSON would make text of keys that are none."""
    if isinstance(values, dict):
        for key, value in values.items():
            if not isinstance(key, str):
                raise ParamsError(f"{where}: must be str, not {key!r}.")
            _check_keys(value, f"{where}.{key}")


RULES = {
    "missing": "missing",
    "finite_number": "must be finite, not {value}",
    "dataclass_type": "must be a mapping, not {value}",
    "dict_type": "must be a mapping, not {value}",
    "tuple_type": "must be a list, not {value}",
    "int_type": "must be int, not {value}",
    "int_from_float": "must be int, not {value}",
    "float_type": "must be float, not {value}",
    "string_type": "must be str, not {value}",
    "bool_type": "must be bool, not {value}",
    "enum": "must be {expected}, not {value}",
    "literal_error": "must be {expected}, not {value}",
    "greater_than_equal": "must be at least {ge:g}, not {value}",
    "greater_than": "must be above {gt:g}, not {value}",
    "less_than_equal": "must be at most {le:g}, not {value}",
    "less_than": "must be below {lt:g}, not {value}",
}
"""Kinds of pydantic's errors, and how a message here says them."""


def _sentence(kind: type, place: str, found: Any) -> str:
    """What is wrong at `place`, as the end of a sentence."""
    code, details = found["type"], found.get("ctx", {})
    if code == "unexpected_keyword_argument":
        return f"{place}: unknown key (known: {', '.join(_known(kind, found['loc'][:-1]))})."
    if code == "value_error":
        return f"{place}.{details['error']}."
    if code == "missing" and not place:
        return ": must be a mapping."
    rule = RULES.get(code, "{message}")
    return f"{place}: {rule.format(value=repr(found['input']), message=found['msg'], **details)}."


def _known(kind: Any, path: Sequence[str | int]) -> list[str]:
    """Names of the fields of the params class at `path` inside `kind`: through fields, optional ones, items, values."""
    for key in path:
        hint = typing.get_type_hints(kind).get(str(key), kind) if dataclasses.is_dataclass(kind) else kind
        kind = next((one for one in _classes(hint) if dataclasses.is_dataclass(one)), hint)
    return [field.name for field in dataclasses.fields(kind)]


def _classes(hint: Any) -> list[Any]:
    """`hint` itself and everything between its brackets."""
    return [hint, *(inner for argument in typing.get_args(hint) for inner in _classes(argument))]
