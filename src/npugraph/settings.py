"""Settings are frozen dataclasses; one definition gives the flags, the JSON and the help text."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from npugraph.errors import SettingsError, nearest

# rowwise-adagrad keeps one number per row of a table: for tables that are large.
OptimizerName = Literal["adagrad", "rowwise-adagrad", "adam", "sgd"]


def setting(default: Any, help: str, *, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field with its help text and its allowed range (both ends included)."""
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high})


@dataclass(frozen=True)
class TrainSettings:
    """What the one training loop needs; every recipe's settings add to these."""

    epochs: int = setting(100, "passes over the training facts", low=1)
    batch_size: int = setting(512, "facts per step", low=1)
    optimizer: OptimizerName = setting("adam", "the optimiser")
    learning_rate: float = setting(1e-3, "step size", low=0)
    decay_at: float = setting(
        0.0, "after this share of the epochs the step size is a tenth; 0: never", low=0, high=1
    )
    clip: float = setting(0.0, "largest norm of the gradient; 0 means any", low=0)
    validate_every: int = setting(5, "epochs between validations and checkpoints", low=1)
    valid_facts: int = setting(5000, "validate on at most this many facts; 0 means all", low=0)
    patience: int = setting(10, "stop after this many validations without a better MRR", low=1)
    precision: Literal["float32", "tf32", "bf16"] = setting(
        "float32", "arithmetic of matrix products; tf32 and bf16 are for GPUs"
    )
    cuda_graph: bool = setting(False, "on a GPU, record a step once and replay it")
    device: str = setting("auto", "cpu, cuda, cuda:1, ...; auto takes a GPU where there is one")
    seed: int = setting(0, "every random draw follows from it", low=0)

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        check_ranges(self)
        for name, kind in typing.get_type_hints(type(self)).items():
            if typing.get_origin(kind) is Literal:
                parse_value(name, getattr(self, name), kind)


S = TypeVar("S")


def check_ranges(settings: Any) -> None:
    """Refuse values of a settings dataclass that lie outside their declared range."""
    for field in dataclasses.fields(settings):
        _check_range(field, getattr(settings, field.name))


def _check_range(field: dataclasses.Field[Any], value: Any) -> None:
    low, high = field.metadata.get("low"), field.metadata.get("high")
    if value is None:
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{field.name}={value} is not a finite number.")
    if low is not None and value < low:
        raise SettingsError(f"{field.name}={value} is too small; the least is {low}.")
    if high is not None and value > high:
        raise SettingsError(f"{field.name}={value} is too large; the most is {high}.")


def make_settings(kind: type[S], values: Mapping[str, Any]) -> S:
    """Build settings from names and values; values may be strings, as on the command line.

    >>> make_settings(TrainSettings, {"epochs": "3"}).epochs
    3
    """
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    parsed = {}
    for name, value in values.items():
        if name not in names:
            hint = nearest(str(name), names) or f" Known: {', '.join(names)}."
            raise SettingsError(f"There is no setting {name!r}.{hint}")
        parsed[name] = parse_value(name, value, hints[name])
    return kind(**parsed)


def as_settings(kind: type[S], given: object) -> S:
    """Return settings of a kind, given as such, as a mapping of names to values, or not at all.

    >>> as_settings(TrainSettings, {"epochs": 2}).epochs
    2
    """
    if given is None:
        return kind()
    if isinstance(given, kind):
        return given
    if isinstance(given, Mapping):
        return make_settings(kind, given)
    raise SettingsError(
        f"Settings are a dict of names and values or a {kind.__name__}, not {given!r:.60} "
        f"({type(given).__name__})."
    )


def as_path(given: object, what: str) -> Path:
    """Return a path given as str or Path; anything else is an error that says what was asked for.

    >>> as_path("runs/x", "the run folder").name
    'x'
    """
    if isinstance(given, str | os.PathLike) and os.fspath(given):
        return Path(os.fspath(given))
    raise SettingsError(
        f"{what[:1].upper()}{what[1:]} is a path, as str or Path, not {given!r:.60} "
        f"({type(given).__name__})."
    )


def parse_value(name: str, value: Any, kind: Any) -> Any:
    """Turn a value, often a string, into the type of its setting."""
    if typing.get_origin(kind) is Literal:
        options = typing.get_args(kind)
        if value not in options:
            raise SettingsError(f"{name}={value!r} must be one of {', '.join(options)}.")
        return value
    if typing.get_origin(kind) is types.UnionType:
        if value is None or value == "none":
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, kind):
        return value
    if typing.get_origin(kind) is tuple:
        # On the command line, several values stand with commas between.
        parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        each = typing.get_args(kind)[0]
        return tuple(parse_value(name, part, each) for part in parts if part != "")
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        # bool(x) of JSON is an int to Python, and 2.0 would be cut to 2.
        if kind is int and isinstance(value, float | bool):
            raise ValueError
        return kind(value)
    except (ValueError, KeyError, TypeError):
        raise SettingsError(f"{name}={value!r} is not {_article(kind)}.") from None


def _article(kind: type) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(kind, f"a {kind.__name__}")


def parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """Split ``name=value`` words.

    >>> parse_assignments(["d=256"])
    {'d': '256'}
    """
    values = {}
    for word in assignments:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingsError(f"{word!r} is not of the form name=value.")
        values[name.strip()] = value.strip()
    return values


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON object of settings from a file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: not a readable JSON file of settings ({error}).") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: a settings file holds one JSON object.")
    return values


def describe(kind: type[TrainSettings]) -> list[dict[str, Any]]:
    """Return name, type, default and help of every setting, for tables."""
    hints = typing.get_type_hints(kind)
    return [
        {
            "name": field.name,
            "type": _type_name(hints[field.name]),
            "default": field.default,
            "help": field.metadata.get("help", ""),
        }
        for field in dataclasses.fields(kind)
    ]


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return " | ".join(typing.get_args(kind))
    return getattr(kind, "__name__", str(kind))
