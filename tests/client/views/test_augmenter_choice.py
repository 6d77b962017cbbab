from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketquery.client.views.augmenter_choice import BUILT_IN, choose
from pocketquery.client.views.typing_augmenters import NoiseCase, Typo
from pocketquery.sdk.errors import InvalidInputError
from tests.client.augmented_texts import German

PLUGINS = {"german": German}


def test_a_name_is_enough() -> None:
    for name in BUILT_IN:
        assert choose(name).name == name
    assert choose({"name": "typo", "rate": 0.2}) == Typo(0.2)


def test_an_unavailable_augmenter_is_an_error_unless_there_is_a_fallback(tmp_path: Path) -> None:
    absent = {"name": "german", "path": str(tmp_path / "absent.tsv")}
    with pytest.raises(InvalidInputError, match=r"not available.*absent\.tsv.*name a fallback"):
        choose(absent, PLUGINS)
    assert choose({**absent, "fallback": "typo"}, PLUGINS) == Typo()
    nested = {**absent, "fallback": {**absent, "fallback": {"name": "typo", "rate": 0.1}}}
    assert choose(nested, PLUGINS) == Typo(0.1)
    assert absent == {"name": "german", "path": str(tmp_path / "absent.tsv")}


def test_a_plug_in_is_known_by_its_name() -> None:
    assert choose("shout", {"shout": NoiseCase}) == NoiseCase()
    assert choose("typo", {"typo": NoiseCase}) == NoiseCase()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("typos", "found the augmenter 'typos', expected one of dropout_view"),
        ({}, "found the augmenter None"),
        ({"name": ["typo"]}, r"found the augmenter \['typo'\], expected one of dropout_view"),
        (1, "found the augmenter 1, expected a name, or its name and parameters"),
        (None, "found the augmenter None, expected a name"),
        ({"name": "typo", "speed": 3}, "'typo' does not take.*speed"),
        ({"name": "typo", "rate": 3}, "rate is 3"),
    ],
)
def test_what_is_no_choice_is_refused(choice: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        choose(choice)
