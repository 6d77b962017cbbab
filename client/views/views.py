"""Views of a query for directional self-supervision: clean and noisy, or light and heavy pairs.

Two views are the query itself and a noisy one. Four are those of DSSL ("Directional Self-supervised
Learning for Heavy Image Augmentations", section 3): two light ones, which are targets as well, and
two heavy ones, each derived from its light one. The rounds on the device and the distillation on
the server draw from the same plan.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pocketquery.client.views.augmenters import Augmenter, AugResult
from pocketquery.client.views.typing_augmenters import DropoutView, NoiseCase, Typo
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_text

__all__ = ["View", "ViewPlan", "draw_views", "make_views"]


@dataclass(frozen=True)
class View:
    """One view and who made it.

    Attributes:
        text: never blank where the query was not.
        made_by: the augmenter's name.
        changed: whether it differs from what it was made of.
    """

    text: str
    made_by: str
    changed: bool


@dataclass(frozen=True)
class ViewPlan:
    """Which views are made of a query, and how.

    Attributes:
        views: 2 (clean, noisy) or 4 (light, light, heavy, heavy).
        heavy: what the noisy, or the heavy, views are made by; each view draws one of them.
        light: what the light ones of four are made by.

    Raises:
        InvalidInputError: another number of views; no augmenter; a heavy one in a light place; one
            that is not available.
    """

    views: Literal[2, 4] = 2
    heavy: Sequence[Augmenter] = (Typo(),)
    light: Sequence[Augmenter] = (DropoutView(), NoiseCase())

    def __post_init__(self) -> None:
        if self.views not in (2, 4):
            raise InvalidInputError(f"views is {self.views!r}, expected 2 or 4")
        for place, augmenters in (("heavy", self.heavy), ("light", self.light)):
            if not augmenters:
                raise InvalidInputError(f"{place} is empty, expected an augmenter or more")
            for augmenter in augmenters:
                _check(augmenter, place)


def make_views(
    text: str, rng: random.Random, plan: ViewPlan, lang: str | None = None
) -> tuple[str, ...]:
    """The texts of :func:`draw_views`: ``plan.views`` of them."""
    return tuple(view.text for view in draw_views(text, rng, plan, lang))


def draw_views(
    text: str, rng: random.Random, plan: ViewPlan, lang: str | None = None
) -> tuple[View, ...]:
    """Views of a query: (clean, noisy), or (light 1, light 2, heavy of 1, heavy of 2).

    Where an augmenter finds nothing to do, the view is the identity, as ``dropout_view``'s is;
    :class:`pocketquery.client.views.tally.Tally` counts them.

    Args:
        text: the query.
        rng: the source of randomness; equal states give equal views.
        plan: which.
        lang: the query's language, where it is known.

    Raises:
        InvalidInputError: ``text`` is no text; a plug-in made a blank view, or told an untruth of
            what it changed.
    """
    check_text(text, "the query")
    if plan.views == 2:
        return View(text, DropoutView.name, changed=False), _view(text, rng, plan.heavy, lang)
    light = [_view(text, rng, plan.light, lang) for _ in range(2)]
    return *light, *(_view(view.text, rng, plan.heavy, lang) for view in light)


def _view(text: str, rng: random.Random, augmenters: Sequence[Augmenter], lang: str | None) -> View:
    augmenter = augmenters[rng.randrange(len(augmenters))]
    made = augmenter.augment(text, rng, lang)
    _check_result(augmenter, text, made)
    return View(made.text, augmenter.name, made.changed)


def _check(augmenter: Augmenter, place: str) -> None:
    if not isinstance(augmenter, Augmenter):
        raise InvalidInputError(
            f"found {augmenter!r} among the {place} augmenters, expected an Augmenter; make one by "
            "name with pocketquery.client.views.augmenter_choice.choose"
        )
    if place == "light" and augmenter.strength != "light":
        raise InvalidInputError(
            f"{augmenter.name!r} is {augmenter.strength}, expected a light augmenter: light views "
            "are targets and must keep the meaning. Move it to heavy"
        )
    usable, missing = augmenter.available()
    if not usable:
        raise InvalidInputError(f"the augmenter {augmenter.name!r} is not available: {missing}")


def _check_result(augmenter: Augmenter, text: str, made: AugResult) -> None:
    """A plug-in is held to what the rules here promise."""
    blank = not made.text.strip() and bool(text.strip())
    if blank or made.changed != (made.text != text):
        raise InvalidInputError(
            f"the augmenter {augmenter.name!r} made {made.text!r} (changed={made.changed}) of "
            f"{text!r}, expected text, and the truth about a change; repair the plug-in"
        )
