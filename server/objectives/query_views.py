"""The views Query-BERT learns from: of one query, or the two questions of a duplicate pair."""

from __future__ import annotations

import json
import random
from typing import Any

from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.views import View, ViewPlan, draw_views
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE

__all__ = ["SCHEMES", "QueryViews", "augmenters_of"]

SCHEMES = ("all_directional", "all_regular", "light")
"""Which views of a query are drawn; see :class:`QueryViews`."""

_PAIR = "pair"


class QueryViews:
    """Draws views of groups: 4 with ``all_directional``, else 2.

    ``all_directional``: two light ones and two heavy ones, for the directional loss.
    ``all_regular``: two of these four at random, the arm that mixes all augmentations.
    ``light``: the two light ones.

    A pair's views are its two texts, whichever scheme: somebody said that they mean the same
    ("pseudo self-supervised" in *Query-BERT*).

    Args:
        scheme: one of :data:`SCHEMES`.
        light: augmenters of the light views.
        heavy: augmenters of the heavy ones.
        slots: ``"drawn"``: each view draws one of its kind's augmenters. ``"fixed"``: the first
            view of a kind is made by the first of them and the second by the second, as in the
            report, which has a paraphraser, a back-translation, word order and style.

    Raises:
        InvalidInputError: ``fixed``, and there are not two augmenters of each kind.
    """

    def __init__(
        self,
        scheme: str,
        light: list[Augmenter],
        heavy: list[Augmenter],
        slots: str = "drawn",
    ) -> None:
        self.scheme = scheme
        if slots == "fixed" and not (len(light) == len(heavy) == 2):
            raise InvalidInputError(
                f"slots are fixed and there are {len(light)} light and {len(heavy)} heavy "
                "augmenters; expected two of each, one a view"
            )
        chosen = zip(light, heavy, strict=True) if slots == "fixed" else []
        kinds = [([one], [other]) for one, other in chosen] or [(light, heavy)]  # a plan each
        self.plans = [ViewPlan(views=4, light=light, heavy=heavy) for light, heavy in kinds]

    def draw(self, group: Group, rng: random.Random) -> tuple[View, ...] | None:
        """The views of a group, light ones first; None where a text of it is blank."""
        if not all(text.strip() for text in group.texts):
            return None
        if len(group.texts) == 2:
            return tuple(View(text, _PAIR, changed=True) for text in group.texts)
        drawn = [draw_views(group.texts[0], rng, plan, group.lang or None) for plan in self.plans]
        views = drawn[0]
        if len(drawn) > 1:
            views = (*(four[0] for four in drawn), *(four[2] for four in drawn))
        if self.scheme == "light":
            return views[:2]
        return tuple(rng.sample(views, 2)) if self.scheme == "all_regular" else views


def augmenters_of(choices: str) -> list[Augmenter]:
    """Augmenters as a command line names them.

    Args:
        choices: ``"shuffle,typo"``, or a JSON list where they have parameters:
            ``'["shuffle", {"name": "typo", "rate": 0.2}]'``.

    Raises:
        InvalidInputError: not such a list, an unknown name or parameter, or an augmenter that
            cannot be had here.
    """
    if not choices.lstrip().startswith("["):
        return [choose(name.strip(), CATALOGUE) for name in choices.split(",") if name.strip()]
    try:
        named: list[Any] = json.loads(choices)
    except ValueError as error:
        raise InvalidInputError(
            f"the augmenters are {choices!r}, which is not JSON ({error}); expected names with "
            'commas between them, or a list such as ["shuffle", {"name": "typo", "rate": 0.2}]'
        ) from error
    return [choose(choice, CATALOGUE) for choice in named]
