from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given

from pocketquery.client.views.augmenters import AugResult, RuleAugmenter
from pocketquery.client.views.typing_augmenters import DropoutView, NoiseCase, Typo, Unfinished
from pocketquery.client.views.typing_noise import mistype
from pocketquery.client.views.views import View, ViewPlan, draw_views, make_views
from pocketquery.client.views.word_augmenters import Shuffle, WordDrop
from pocketquery.sdk.errors import InvalidInputError
from tests.client.augmented_texts import ANYTHING, SEEDS, German

FOUR = ViewPlan(views=4, light=(NoiseCase(),), heavy=(Shuffle(), Typo(0.3), WordDrop()))


@dataclass(frozen=True)
class Mark(RuleAugmenter):
    """Appends a sign, so that a view shows where it came from."""

    sign: str
    name = "mark"
    strength = "light"

    def rewrite(self, text: str, rng: random.Random) -> str:
        return text + self.sign


class Liar(DropoutView):
    """A plug-in that breaks the rules."""

    def __init__(self, result: AugResult) -> None:
        object.__setattr__(self, "_result", result)

    def augment(self, text: str, rng: random.Random, lang: str | None = None) -> AugResult:
        return self._result  # type: ignore[attr-defined, no-any-return]


def test_two_views_are_the_query_and_a_noisy_one() -> None:
    views = draw_views("how to knit", random.Random(3), ViewPlan(heavy=(Typo(0.5),)))
    assert views[0] == View("how to knit", "dropout_view", changed=False)
    assert views[1].made_by == "typo"
    assert views[1].changed


def test_the_default_noise_is_the_typing_noise_of_evaluation() -> None:
    plan = ViewPlan()
    for seed in range(50):
        rng = random.Random(seed)
        rng.randrange(1)  # the draw of one augmenter out of one
        noisy = mistype("where can I renew my passport", 0.08, rng)
        made = make_views("where can I renew my passport", random.Random(seed), plan)
        assert made == ("where can I renew my passport", noisy)


def test_each_heavy_view_is_made_of_its_light_one() -> None:
    plan = ViewPlan(views=4, light=(Mark("-"),), heavy=(Mark("+"),))
    assert make_views("x", random.Random(0), plan) == ("x-", "x-", "x-+", "x-+")
    plan = ViewPlan(4, (Mark("+"),), (Mark("-"), Mark("~")))
    for seed in range(20):
        one, two, heavy_one, heavy_two = make_views("x", random.Random(seed), plan)
        assert (heavy_one, heavy_two) == (one + "+", two + "+")


@pytest.mark.parametrize("plan", [ViewPlan(), FOUR], ids=["two", "four"])
@given(text=ANYTHING, seed=SEEDS)
def test_equal_seeds_give_equal_views_of_any_text(plan: ViewPlan, text: str, seed: int) -> None:
    views = make_views(text, random.Random(seed), plan)
    assert len(views) == plan.views
    assert views == make_views(text, random.Random(seed), plan)
    assert all(bool(view.strip()) == bool(text.strip()) for view in views)


def test_every_augmenter_of_a_plan_is_drawn() -> None:
    rng = random.Random(0)
    drawn = {view.made_by for _ in range(100) for view in draw_views("a b c", rng, FOUR)}
    assert drawn == {"noise_case", "shuffle", "typo", "word_drop"}


def test_f5_a_heavy_augmenter_is_refused_in_a_light_place() -> None:
    for heavy in (Typo(), Shuffle(), Unfinished(), WordDrop(), German()):
        with pytest.raises(InvalidInputError, match=f"'{heavy.name}' is heavy, expected a light"):
            ViewPlan(views=4, light=(NoiseCase(), heavy))
    ViewPlan(views=4, light=(WordDrop(0.1, at_least=0),), heavy=(NoiseCase(),))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"views": 3}, "views is 3, expected 2 or 4"),
        ({"heavy": ()}, "heavy is empty"),
        ({"light": ()}, "light is empty"),
        ({"heavy": ("typo",)}, "found 'typo' among the heavy.*choose"),
        ({"heavy": (German(path="absent.tsv"),)}, r"not available.*absent\.tsv"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(
    setting: dict[str, Sequence[RuleAugmenter]], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ViewPlan(**setting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "result",
    [AugResult(" ", changed=True), AugResult("knit", changed=True), AugResult("x", changed=False)],
)
def test_a_plug_in_that_breaks_the_rules_is_named(result: AugResult) -> None:
    with pytest.raises(InvalidInputError, match=r"'dropout_view' made .* repair the plug-in"):
        make_views("knit", random.Random(0), ViewPlan(heavy=(Liar(result),)))


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="the query is a bytes"):
        make_views(b"knit", random.Random(0), ViewPlan())  # type: ignore[arg-type]
