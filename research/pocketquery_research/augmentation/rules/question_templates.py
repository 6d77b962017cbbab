"""The same question asked in other words: English templates."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pocketquery.client.views.augmenters import RuleAugmenter, Strength
from pocketquery_research.augmentation.rules.contractions import contract, expand

__all__ = ["Template"]

# Openings that ask the same; what follows fits behind each of them as it stands.
_FORMS: tuple[tuple[str, ...], ...] = (
    ("how do i", "how can i", "how to", "how does one", "what is the way to"),
    ("where do i", "where can i", "where to", "where does one"),
    ("when do i", "when should i", "when to"),
    ("why is it that", "how come"),
    ("what is the reason for", "what is the cause of"),
)
_POLITE = ("please tell me", "can you tell me", "could you tell me", "i would like to know")
_ASKING = frozenset("how what where when why who which whose".split())


@dataclass(frozen=True)
class Template(RuleAugmenter):
    """An English question with another opening, with or without contractions, politely or not.

    One rewriting of those that apply. Light: what is asked for stays, word for word.
    """

    name = "template"
    languages = frozenset({"en"})

    @property
    def strength(self) -> Strength:
        """It keeps the meaning."""
        return "light"

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` asked otherwise; itself where no template fits."""
        found = [*_other_forms(text), expand(text), contract(text), *_manners(text)]
        others = [other for other in dict.fromkeys(found) if other != text]
        return rng.choice(others) if others else text


def _other_forms(text: str) -> list[str]:
    plain = " ".join(text.split())
    return [
        _like(plain, other + plain[len(opening) :])
        for forms in _FORMS
        for opening in forms
        if _opens(plain, opening)
        for other in forms
        if other != opening
    ]


def _manners(text: str) -> list[str]:
    """A polite question made short, or a short one polite."""
    plain = " ".join(text.split())
    for phrase in _POLITE:
        if _opens(plain, phrase):
            return [_like(plain, plain[len(phrase) + 1 :])]
    first = plain.partition(" ")[0].lower()
    if first not in _ASKING:
        return []
    return [_like(plain, f"{phrase} {first}{plain[len(first) :]}") for phrase in _POLITE]


def _opens(text: str, opening: str) -> bool:
    return text.lower().startswith(opening + " ")


def _like(text: str, made: str) -> str:
    """``made`` with a capital first letter where ``text`` has one."""
    return made[:1].upper() + made[1:] if text[:1].isupper() else made
