"""Tests F1, F2, F3, F5 and F6 of the catalogue, for every augmenter of the server alike."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pocketquery.client.views.augmenter_choice import BUILT_IN, choose
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.typing_augmenters import DropoutView, Typo
from pocketquery.client.views.views import ViewPlan, draw_views
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE
from pocketquery_research.augmentation.fill import fill
from pocketquery_research.augmentation.variant_cache import VariantCache
from research.tests.augmentation.rules.test_rules import NAMES
from research.tests.augmentation.small_models import SENTENCES

CHOICES: dict[str, dict[str, Any]] = {
    "contextual": {"model": "mlm"},
    "bart": {"model": "reverse"},
    "t5": {"model": "reverse"},
    "pegasus": {"model": "reverse"},
    "back_translation": {"there": "reverse", "back": "back"},
    "style_transfer": {"model": "reverse"},
    "wordnet": {"path": "wordnet", "rate": 1.0},
    "lexicon": {"path": "words.tsv", "rate": 1.0},
    "mined": {"path": "queries.tsv", "teacher": "teacher", "least": -1.0, "most": 0.999},
    "cached": {"path": "views.sqlite", "augmenter": "shuffle"},
}
HEAVY = {"contextual", "style_transfer", "wordnet", "lexicon", "mined", "cached"}
TEXTS = [*SENTENCES, "Buy the LARGE car, quickly!", "", "  ", "東京の天気"]
every = pytest.mark.parametrize("name", CHOICES)


def placed(name: str, folder: Path) -> dict[str, Any]:
    """The choice ``name`` with its files in ``folder``."""
    files = ("model", "there", "back", "path", "teacher")
    options = CHOICES[name]
    return {"name": name} | {k: str(folder / v) if k in files else v for k, v in options.items()}


@pytest.fixture(scope="module")
def augmenters(models: Path) -> dict[str, Augmenter]:
    (models / "words.tsv").write_text("river\tstream\ncar\tvehicle\n天\t空\n", encoding="utf-8")
    with VariantCache(models / "views.sqlite") as cache:
        fill(cache, choose("shuffle"), SENTENCES, variants=3)
    return {name: choose(placed(name, models), CATALOGUE) for name in CHOICES}


def test_the_choices_here_are_the_catalogue() -> None:
    assert set(CHOICES) | set(NAMES) == set(CATALOGUE)
    assert not set(CATALOGUE) & set(BUILT_IN)


@every
def test_f1_equal_seeds_give_equal_views(name: str, augmenters: dict[str, Augmenter]) -> None:
    first = augmenters[name].augment_batch(TEXTS, random.Random(3))
    assert augmenters[name].augment_batch(TEXTS, random.Random(3)) == first


@every
def test_f2_f3_views_are_not_blank_and_tell_the_truth(
    name: str, augmenters: dict[str, Augmenter]
) -> None:
    changed = 0
    for seed in range(3):
        made = augmenters[name].augment_batch(TEXTS, random.Random(seed))
        for text, view in zip(TEXTS, made, strict=True):
            assert bool(view.text.strip()) == bool(text.strip())
            assert view.changed == (view.text != text)
            changed += view.changed
    assert changed, "it never does anything"


@every
def test_f5_a_heavy_augmenter_is_refused_where_light_ones_go(
    name: str, augmenters: dict[str, Augmenter]
) -> None:
    augmenter = augmenters[name]
    assert isinstance(augmenter, Augmenter)
    assert augmenter.strength == ("heavy" if name in HEAVY else "light")
    if name in HEAVY:
        with pytest.raises(InvalidInputError, match="expected a light augmenter"):
            ViewPlan(views=4, light=(augmenter,))
    light = (DropoutView(),) if name in HEAVY else (augmenter,)
    plan = ViewPlan(views=4, light=light, heavy=(augmenter, Typo()))
    for seed in range(3):
        assert len(draw_views(SENTENCES[0], random.Random(seed), plan, "en")) == 4


@every
@pytest.mark.usefixtures("no_network")
def test_f6_available_asks_no_network(
    name: str, augmenters: dict[str, Augmenter], models: Path
) -> None:
    made = CATALOGUE[name](**{k: v for k, v in placed(name, models).items() if k != "name"})
    assert made.available() == (True, "")
    made.augment(SENTENCES[0], random.Random(0))
    assert augmenters[name].requires


@every
@pytest.mark.usefixtures("no_network")
def test_f6_what_is_missing_is_named_and_has_a_fallback(name: str, tmp_path: Path) -> None:
    absent = placed(name, tmp_path / "absent")
    made = CATALOGUE[name](**{k: v for k, v in absent.items() if k != "name"})
    usable, missing = made.available()
    assert not usable
    assert "absent" in missing
    with pytest.raises(InvalidInputError, match=r"not available.*absent"):
        choose(absent, CATALOGUE)
    assert choose({**absent, "fallback": "typo"}, CATALOGUE).name == "typo"


@pytest.mark.parametrize("name", ["contextual", "pegasus", "mined", "wordnet"])
def test_what_is_missing_is_an_error_when_it_is_used_all_the_same(
    name: str, tmp_path: Path
) -> None:
    options = {k: v for k, v in placed(name, tmp_path).items() if k != "name"}
    with pytest.raises(ArtifactNotFoundError):
        CATALOGUE[name](**options).augment("some words", random.Random(0))


def test_an_augmenter_of_one_language_leaves_others_alone(models: Path) -> None:
    german = choose({**placed("bart", models), "language": "de"}, CATALOGUE)
    assert german.languages == frozenset({"de"})
    assert not german.augment(SENTENCES[0], random.Random(0), "en").changed
    assert german.augment(SENTENCES[0], random.Random(0), "de").changed
    assert german.augment(SENTENCES[0], random.Random(0)).changed
    with pytest.raises(InvalidInputError, match="the text"):
        german.augment(b"bytes", random.Random(0))  # type: ignore[arg-type]
