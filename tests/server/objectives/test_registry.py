"""Objectives by name: options are read and wrong ones named; other packages register theirs."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import EntryPoint
from typing import Any, cast

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives import build_objective, objective_class, registry
from tests.tiny_models import bert_teacher


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The entry points of the group, none at first."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    return points


def test_options_written_as_text_are_read_as_their_type() -> None:
    options = {"temperature": "0.25", "max_length": "16", "symmetric": "true", "loss": "info_nce"}
    objective = build_objective("contrastive", bert_teacher(layers=1, width=32), options)
    config = asdict(cast("Any", objective).config)
    assert {key: config[key] for key in options} == {
        "temperature": 0.25,
        "max_length": 16,
        "symmetric": True,
        "loss": "info_nce",
    }


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("grr", {}, 'unknown objective "grr"; known are mlm'),
        ("gur", {"temprature": "1"}, 'no option "temprature"; it has variant'),
        (
            "gur",
            {"temperature": "warm"},
            "gur.temperature is 'warm'; expected a value of type float",
        ),
        ("ict", {"symmetric": "maybe"}, "expected true or false"),
        ("gur", {"decoder_layers": "1.5"}, "expected a value of type int"),
        ("mlm", {"mask_rate": "2"}, "mask_rate is 2.0"),
    ],
)
def test_bad_names_and_options_are_named(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build_objective(name, bert_teacher(layers=1, width=32), options)


def test_a_baseline_that_is_not_installed_says_how_to_install_it(
    registered: list[EntryPoint],
) -> None:
    with pytest.raises(InvalidInputError, match=r"baseline in research/.*pip install ./research"):
        objective_class("tsdae")


def test_other_packages_register_objectives(registered: list[EntryPoint]) -> None:
    place = "pocketquery.server.objectives.ict"
    registered.append(EntryPoint("cloze", f"{place}:Ict", "pocketquery.objectives"))
    assert objective_class("cloze") == (place, "Ict")
    assert build_objective("cloze", bert_teacher(layers=1, width=32)).name == "ict"
    with pytest.raises(InvalidInputError, match=r"known are mlm, .*gur, cloze"):
        objective_class("clozes")
