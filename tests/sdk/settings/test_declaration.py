from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.settings.declaration import Settings, as_json, from_json, toml_values
from pocketquery.sdk.validation import number, whole


@dataclass(frozen=True)
class Training(Settings):
    steps: Annotated[int, whole(1, 10_000), "optimiser steps"] = 1000
    rate: Annotated[float, number(0, 1)] = 0.5
    schedule: Literal["linear", "constant"] = "linear"


@dataclass(frozen=True)
class Run(Settings):
    output: Path
    name: str | None = None
    quiet: bool = False
    layers: tuple[int, ...] = ()
    hosts: Annotated[tuple[str, ...] | None, "who may ask"] = None
    training: Training = Training()


@dataclass(frozen=True)
class Row:
    """A record of results: no setting, but read and written alike."""

    round: int
    losses: tuple[float, ...] = ()
    best: Training | None = None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 0}, "steps is 0, expected a whole number from 1 to 10000"),
        ({"steps": 10_001}, "steps is 10001, expected a whole number from 1 to 10000"),
        ({"steps": 1.0}, "steps is 1.0, expected a whole number"),
        ({"steps": True}, "steps is True, expected a whole number"),
        ({"rate": "0.5"}, "rate is '0.5', expected a number from 0 to 1"),
        ({"rate": float("nan")}, "rate is nan, expected a number from 0 to 1"),
        ({"schedule": "cosine"}, "schedule is 'cosine', expected one of linear, constant"),
    ],
)
def test_a_field_is_checked_by_its_rule(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Training(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": 3}, "name is 3, expected a text, or None"),
        ({"quiet": 1}, "quiet is 1, expected true or false"),
        ({"layers": 3}, "layers is 3, expected a list"),
        ({"layers": (1, "2")}, "one of layers is '2', expected a whole number"),
        ({"hosts": (1,)}, "one of hosts is 1, expected a text"),
    ],
)
def test_without_a_rule_the_type_is_the_rule(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Run(Path("run"), **given)


def test_json_gives_back_what_was_written() -> None:
    run = Run(Path("run"), layers=(0, 2), training=Training(steps=7))
    assert as_json(run)["training"] == {"steps": 7, "rate": 0.5, "schedule": "linear"}
    assert from_json(Run, as_json(run), "run.json") == run
    row = Row(3, (0.5, 0.25), Training())
    assert from_json(Row, as_json(row), "a row") == row


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"settings\.json is \[\], expected an object"),
        ({}, r"settings\.json lacks output, expected it to be there"),
        ({"output": "o", "nmae": "a"}, 'has no setting "nmae"; did you mean "name"?'),
        ({"output": "o", "zz": 1}, 'has no setting "zz"; expected some of output, name, quiet'),
        ({"output": "o", "training": {"steps": 0}}, "training: steps is 0, expected a whole"),
        ({"output": "o", "training": {"stpes": 1}}, 'has no setting "stpes"; did you mean "steps"'),
        ({"output": "o", "quiet": "yes"}, "quiet is 'yes', expected true or false"),
    ],
)
def test_json_that_is_wrong_says_where(values: object, message: str) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        from_json(Run, values, "settings.json", CorruptArtifactError)


def test_a_toml_file_has_the_same_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('output = "o"\nlayers = [1, 2]\n[training]\nsteps = 3\n')
    assert from_json(Run, toml_values(file), str(file)) == Run(
        Path("o"), layers=(1, 2), training=Training(steps=3)
    )
    file.write_text("output =")
    for broken in (file, tmp_path / "missing.toml"):
        with pytest.raises(InvalidInputError, match=f"{broken.name} cannot be read as TOML"):
            toml_values(broken)
