"""params.yaml, loaded once into strict frozen dataclasses without defaults (law 1).

A stage's section is the union of two places that may not overlap: the top-level section named for the stage (what
all profiles share) and `profiles.<profile>.<stage>` (sizes and sources). An unknown, missing, doubled or ill-typed key
fails here, by name. A dotted section such as `label.bleu` is one part of a stage's section.

The file is read as DVC reads it (ruamel.yaml, YAML 1.2): what `dvc exp run -S finetune.learning_rate=1e-5` writes,
`1e-05`, is a number here too, which YAML 1.1 readers take for a string.
"""

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.core.errors import ParamsError

STAGES: tuple[str, ...] = (
    "extract",
    "perturb",
    "label",
    "pretrain",
    "collect",
    "grade",
    "finetune",
    "evaluate",
    "report",
)
"""Names of the stages, which are the names of their sections (law 1), in the order of the data."""

T = TypeVar("T")


def load_params(file: Path, section: str, kind: type[T]) -> T:
    """Read `section` of `file` ("perturb", or "label.bleu"), merged with the chosen profile's, as a `kind`."""
    document = _read(file)
    profile = document.get("profile")
    profiles = document.get("profiles")
    if not isinstance(profiles, dict) or not isinstance(profile, str) or profile not in profiles:
        known = sorted(profiles) if isinstance(profiles, dict) else []
        raise ParamsError(f"{file}: profile is {profile!r}, but profiles has {known}.")
    _known_sections(file, document, profiles)
    path = section.split(".")
    shared = _part(file, document, path)
    own = _part(file, document, ["profiles", profile, *path])
    return from_mapping(_merge(file, shared, own, section), kind, section)


def _known_sections(file: Path, document: dict[str, Any], profiles: dict[str, Any]) -> None:
    """A misspelt section would otherwise be ignored without a word."""
    sections = dict.fromkeys(document, ("profile", "variants", "profiles", *STAGES))
    for name, own in profiles.items():
        sections |= {f"profiles.{name}.{key}": STAGES for key in (own if isinstance(own, dict) else {})}
    for key, known in sections.items():
        if str(key).rsplit(".", 1)[-1] not in known:
            raise ParamsError(f"{file}: {key}: unknown section (known: {', '.join(known)}).")


def _part(file: Path, document: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The mapping at `path`; empty where a key on the way is absent or holds nothing."""
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


def load_key(file: Path, key: str) -> Any:
    """One top-level value of `file`, such as `variants` or `profile`; missing keys fail."""
    document = _read(file)
    if key not in document:
        raise ParamsError(f"{file}: the key {key} is missing.")
    return document[key]


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


def from_mapping(values: object, kind: type[T], where: str) -> T:
    """Build the dataclass `kind` from a mapping; `where` is the dotted path used in messages.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Demo:
    ...     rate: float
    >>> from_mapping({"rate": 1}, Demo, "demo")
    Demo(rate=1.0)
    """
    if not isinstance(values, dict):
        raise ParamsError(f"{where}: must be a mapping, not {values!r}.")
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    for key in values:
        if key not in names:
            raise ParamsError(f"{where}.{key}: unknown key (known: {', '.join(names)}).")
    for name in names:
        if name not in values:
            raise ParamsError(f"{where}.{name}: missing.")
    return kind(**{name: _convert(values[name], hints[name], f"{where}.{name}") for name in names})


def require(holds: bool, key: str, rule: str, value: object) -> None:
    """A ParamsError where a value breaks its rule.

    >>> require(0 >= 1, "pretrain.batch_pairs", "be at least 1", 0)
    Traceback (most recent call last):
    pipeline.core.errors.ParamsError: pretrain.batch_pairs: must be at least 1, not 0.
    """
    if not holds:
        raise ParamsError(f"{key}: must {rule}, not {value!r}.")


def require_positive(section: str, params: object, *names: str) -> None:
    """A ParamsError where one of the whole numbers `names` of `params` is below 1."""
    for name in names:
        value = getattr(params, name)
        require(value >= 1, f"{section}.{name}", "be at least 1", value)


def _convert(value: object, hint: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        (inner,) = [a for a in arguments if a is not type(None)]
        return _convert(value, inner, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ParamsError(f"{where}: must be a list, not {value!r}.")
        return tuple(_convert(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise ParamsError(f"{where}: must be a mapping, not {value!r}.")
        return {_convert(k, arguments[0], where): _convert(v, arguments[1], f"{where}.{k}") for k, v in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_mapping(value, typing.cast(type, hint), where)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            choices = ", ".join(str(member.value) for member in hint)
            raise ParamsError(f"{where}: must be one of {choices}, not {value!r}.") from None
    return _scalar(value, hint, where)


def _scalar(value: object, hint: type, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not hint:
        raise ParamsError(f"{where}: must be {hint.__name__}, not {value!r}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ParamsError(f"{where}: must be finite, not {value!r}.")
    return value
