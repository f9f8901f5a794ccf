"""Settings: from strings, JSON and defaults to one frozen record, or a sentence that says why."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from npugraph.errors import SettingsError
from npugraph.settings import (
    TrainSettings,
    describe,
    make_settings,
    parse_assignments,
    read_settings,
    setting,
)


@dataclass(frozen=True)
class ToySettings(TrainSettings):
    dimension: int = setting(8, "width", low=1, high=64)
    dropout: float | None = setting(None, "share of zeros", low=0, high=1)
    reciprocal: bool = setting(True, "twins of relations")
    norm: Literal["l1", "l2"] = setting("l1", "distance")


@dataclass(frozen=True)
class FreeSettings(TrainSettings):
    """An optional setting without a range."""

    margin: float | None = setting(None, "margin")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("epochs", "3", 3),
        ("epochs", 3, 3),
        ("learning_rate", "1e-2", 0.01),
        ("learning_rate", 1, 1.0),
        ("device", "cuda:1", "cuda:1"),
        ("optimizer", "sgd", "sgd"),
        ("precision", "bf16", "bf16"),
    ],
)
def test_values_get_the_type_of_their_setting(name: str, text: Any, expected: Any) -> None:
    value = getattr(make_settings(TrainSettings, {name: text}), name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("False", False), (True, True)])
def test_truth_values(text: Any, expected: bool) -> None:
    kind = dataclasses.make_dataclass(
        "Kind", [("on", bool, setting(True, "a switch"))], bases=(TrainSettings,), frozen=True
    )
    assert make_settings(kind, {"on": text}).on is expected


@pytest.mark.parametrize(("text", "expected"), [("none", None), (None, None), ("0.5", 0.5)])
def test_optional_values(text: Any, expected: float | None) -> None:
    assert make_settings(FreeSettings, {"margin": text}).margin == expected


def test_an_optional_value_with_a_range_may_be_left_out() -> None:
    settings = make_settings(ToySettings, {"dimension": "16"})
    assert (settings.dimension, settings.dropout) == (16, None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 1}, "There is no setting 'epoch'. Did you mean 'epochs'?"),
        ({"epochs": 0}, "epochs=0 is too small; the least is 1."),
        ({"epochs": "many"}, "epochs='many' is not a whole number."),
        ({"epochs": "1.5"}, "epochs='1.5' is not a whole number."),
        ({"epochs": 2.0}, "epochs=2.0 is not a whole number."),
        ({"learning_rate": "fast"}, "learning_rate='fast' is not a number."),
        ({"learning_rate": "-1"}, "learning_rate=-1.0 is too small; the least is 0."),
        (
            {"optimizer": "adma"},
            "optimizer='adma' must be one of adagrad, rowwise-adagrad, adam, sgd.",
        ),
    ],
)
def test_a_wrong_value_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_settings(TrainSettings, values)
    assert str(caught.value) == message


def test_a_name_like_no_other_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"no setting 'zzz'. Known: epochs, batch_size, .*seed"):
        make_settings(TrainSettings, {"zzz": 1})


def test_the_upper_end_of_a_range_is_kept() -> None:
    assert make_settings(ToySettings, {"dimension": 64}).dimension == 64
    with pytest.raises(SettingsError, match="dimension=65 is too large; the most is 64"):
        make_settings(ToySettings, {"dimension": 65})


@pytest.mark.parametrize("value", ["nan", float("nan"), "inf"])
def test_a_step_size_must_be_a_finite_number(value: Any) -> None:
    with pytest.raises(SettingsError, match="learning_rate"):
        make_settings(TrainSettings, {"learning_rate": value})


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, True])
def test_json_values_of_another_kind_are_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match="epochs=.* is not a whole number"):
        make_settings(TrainSettings, {"epochs": value})


def test_a_wrong_option_is_refused_in_python_too() -> None:
    with pytest.raises(SettingsError, match="optimizer='bogus' must be one of"):
        TrainSettings(optimizer="bogus")


def test_ranges_hold_in_python_too() -> None:
    with pytest.raises(SettingsError, match="batch_size=0 is too small"):
        TrainSettings(batch_size=0)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainSettings().epochs = 3


def test_settings_survive_json() -> None:
    settings = make_settings(FreeSettings, {"epochs": "7", "margin": "0.5", "optimizer": "sgd"})
    text = json.dumps(dataclasses.asdict(settings))
    assert make_settings(FreeSettings, json.loads(text)) == settings


def test_assignments_are_split_at_the_first_equals_sign() -> None:
    assert parse_assignments(["a=1", "b = x=y ", "c="]) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("word", ["epochs", "=3", ""])
def test_a_word_that_assigns_nothing_is_refused(word: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_assignments([word])
    assert str(caught.value) == f"{word!r} is not of the form name=value."


def test_a_settings_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"epochs": 3}')
    assert read_settings(path) == {"epochs": 3}


@pytest.mark.parametrize(
    "content",
    [
        b"{epochs: 3}",
        b"[1, 2]",
        None,
        b'{"device": "\xff"}',
    ],
    ids=["no JSON", "no object", "no file", "no UTF-8"],
)
def test_an_unusable_settings_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "settings.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        read_settings(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith(".")


def test_every_setting_is_described() -> None:
    rows = describe(ToySettings)
    assert [row["name"] for row in rows] == [f.name for f in dataclasses.fields(ToySettings)]
    assert all(row["help"] for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["norm"] == {
        "name": "norm",
        "type": "l1 | l2",
        "default": "l1",
        "help": "distance",
    }
    assert by_name["dropout"]["type"] == "float | None"
    assert by_name["dimension"]["type"] == "int"
