"""A query as one writes to a stranger, or to a friend: English rules for either style."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from pocketquery.client.views.augmenters import RuleAugmenter
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.augmentation.rules.contractions import Phrases, contract, expand

__all__ = ["StyleRules"]

_INFORMAL = {
    "because": "cuz",
    "going to": "gonna",
    "have got to": "gotta",
    "let me": "lemme",
    "give me": "gimme",
    "people": "folks",
    "please": "pls",
    "something": "smth",
    "thank you": "thx",
    "want to": "wanna",
    "with": "w/",
    "without": "w/o",
    "yes": "yeah",
    "you": "u",
    "your": "ur",
    "children": "kids",
    "television": "tv",
    "photograph": "pic",
    "picture": "pic",
    "information": "info",
    "application": "app",
}
# Not simply the inverse: "pic" has two long forms, and what is no word ("w/") is left alone.
_FORMAL = {
    **{short: full for full, short in _INFORMAL.items() if short.isalpha()},
    "pic": "picture",
    "thanks": "thank you",
    "guys": "people",
    "buy": "purchase",
    "fix": "repair",
    "asap": "as soon as possible",
}
_ASKING = frozenset(
    "how what where when why who which whose is are do does did can could should will would".split()
)
_TO_INFORMAL, _TO_FORMAL = Phrases(_INFORMAL), Phrases(_FORMAL)


@dataclass(frozen=True)
class StyleRules(RuleAugmenter):
    """An English query made formal or informal, by phrases, contractions, capitals and its mark.

    Heavy in the loss, as style transfer is in *Query-BERT*, though most views keep the meaning.

    Attributes:
        towards: ``formal``, ``informal``, or ``either``: one of those that change the query.

    Raises:
        InvalidInputError: another style.
    """

    towards: Literal["either", "formal", "informal"] = "either"
    name = "style_rules"
    languages = frozenset({"en"})

    def __post_init__(self) -> None:
        if self.towards not in ("either", "formal", "informal"):
            raise InvalidInputError(
                f"towards is {self.towards!r}, expected 'either', 'formal' or 'informal'"
            )

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` in the other style."""
        styles = {"formal": _formal(text), "informal": _informal(text)}
        wanted = styles if self.towards == "either" else (self.towards,)
        others = [styles[style] for style in wanted if styles[style] != text]
        return rng.choice(others) if others else text


def _informal(text: str) -> str:
    loose = _TO_INFORMAL.replace(contract(text)).lower()
    return loose.rstrip(" ?.!") or text


def _formal(text: str) -> str:
    stiff = _TO_FORMAL.replace(expand(text))
    stiff = " ".join("I" if word == "i" else word for word in stiff.split())
    if stiff.partition(" ")[0].lower() in _ASKING and stiff[-1].isalnum():
        stiff += "?"
    return stiff[:1].upper() + stiff[1:]
