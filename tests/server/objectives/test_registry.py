"""Objectives by name: all of them can be built, options are read and wrong ones named."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives import OBJECTIVES, build_objective
from tests.tiny_models import bert_teacher


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_name_builds_its_objective(name: str) -> None:
    objective = build_objective(name, bert_teacher(layers=1, width=32))
    assert objective.name == name
    assert objective.kinds


def test_options_written_as_text_are_read_as_their_type() -> None:
    options = {
        "temperature": "0.25",
        "decoder_layers": "1",
        "rate_jitter": "true",
        "pooling": "eos",
    }
    objective = build_objective("gur", bert_teacher(layers=1, width=32), options)
    found = asdict(cast("Any", objective).config)
    assert {key: found[key] for key in options} == {
        "temperature": 0.25,
        "decoder_layers": 1,
        "rate_jitter": True,
        "pooling": "eos",
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
        ("gur", {"rate_jitter": "maybe"}, "expected true or false"),
        ("gur", {"decoder_layers": "1.5"}, "expected a value of type int"),
        ("mlm", {"mask_rate": "2"}, "mask_rate is 2.0"),
    ],
)
def test_bad_names_and_options_are_named(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build_objective(name, bert_teacher(layers=1, width=32), options)
