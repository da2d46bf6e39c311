"""params.yaml, loaded once into strict frozen dataclasses without defaults (law 1).

A stage's section is the union of two places that may not overlap: the top-level section named for the stage (what
all profiles share) and `profiles.<profile>.<stage>` (sizes and sources). An unknown, missing or ill-typed key fails
here, by name.
"""

import dataclasses
import enum
import math
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pipeline.core.errors import ParamsError

T = TypeVar("T")


def load_params(file: Path, section: str, kind: type[T]) -> T:
    """Read `section` of `file`, merged with the chosen profile's, as an instance of the dataclass `kind`."""
    document = _read(file)
    profile = document.get("profile")
    profiles = document.get("profiles")
    if not isinstance(profiles, dict) or profile not in profiles:
        raise ParamsError(f"{file}: profile is {profile!r}, but profiles has {sorted(profiles or {})}.")
    shared = document.get(section) or {}
    own = profiles[profile].get(section) or {}
    twice = sorted(set(shared) & set(own))
    if twice:
        raise ParamsError(f"{file}: {section}.{twice[0]} stands both in {section} and in profiles.{profile}.{section}.")
    return from_mapping({**shared, **own}, kind, section)


def load_key(file: Path, key: str) -> Any:
    """One top-level value of `file`, such as `variants` or `profile`; missing keys fail."""
    document = _read(file)
    if key not in document:
        raise ParamsError(f"{file}: the key {key} is missing.")
    return document[key]


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParamsError(f"{file}: cannot be read ({error.strerror}).") from error
    except yaml.YAMLError as error:
        raise ParamsError(f"{file}: not valid YAML ({' '.join(str(error).split())}).") from error
    if not isinstance(document, dict):
        raise ParamsError(f"{file}: must be a mapping of sections.")
    return document


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
