"""Augmenters make views of a query: the interface, for the rules here and for plug-ins.

A view is the query as it could have been typed otherwise. ``light`` views are expected to keep the
meaning, ``heavy`` ones may damage it; only light ones may be targets (directional learning: a heavy
view is to be pulled towards a light one, never the other way). Everything here is offline and
deterministic: randomness arrives as an argument.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_text

__all__ = ["AugResult", "Augmenter", "RuleAugmenter", "Strength", "check_share"]

Strength = Literal["light", "heavy"]


@dataclass(frozen=True)
class AugResult:
    """A view.

    Attributes:
        text: never blank where the query was not.
        changed: whether it differs from the query.
        meta: what the augmenter wants to say of it.
    """

    text: str
    changed: bool
    meta: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Augmenter(Protocol):
    """Anything that makes views. Equal generators give equal views.

    Attributes:
        name: what it is configured by.
        strength: ``light`` or ``heavy``.
        languages: those it is for, as BCP 47 codes; None: all.
        requires: resources it needs, say a file; empty: none.
    """

    @property
    def name(self) -> str: ...

    @property
    def strength(self) -> Strength: ...

    @property
    def languages(self) -> frozenset[str] | None: ...

    @property
    def requires(self) -> tuple[str, ...]: ...

    def available(self) -> tuple[bool, str]:
        """Whether all that it requires is here, and what is missing. Never asks the network."""

    def augment(self, text: str, rng: random.Random, lang: str | None = None) -> AugResult:
        """A view of ``text``, which is in the language ``lang`` (None: unknown)."""

    def augment_batch(
        self, texts: Sequence[str], rng: random.Random, lang: str | None = None
    ) -> list[AugResult]:
        """A view of each; models override it."""


class RuleAugmenter(ABC):
    """An augmenter that is a rule: subclasses say how a text is rewritten, in :meth:`rewrite`."""

    name: ClassVar[str]
    languages: frozenset[str] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """A rule needs nothing."""
        return ()

    @property
    def strength(self) -> Strength:
        """Heavy, where nothing else is said."""
        return "heavy"

    def available(self) -> tuple[bool, str]:
        """What needs nothing is available."""
        return True, ""

    @abstractmethod
    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` rewritten; a blank result is taken for "could not"."""

    def augment(self, text: str, rng: random.Random, lang: str | None = None) -> AugResult:
        """A view of ``text``: itself where the rule is for other languages or finds nothing to do.

        Raises:
            InvalidInputError: ``text`` is no text.
        """
        check_text(text)
        if self.languages is not None and lang is not None and lang not in self.languages:
            return AugResult(text, changed=False)
        rewritten = self.rewrite(text, rng)
        if not rewritten.strip():
            rewritten = text
        return AugResult(rewritten, changed=rewritten != text)

    def augment_batch(
        self, texts: Sequence[str], rng: random.Random, lang: str | None = None
    ) -> list[AugResult]:
        """A view of each, one after another."""
        return [self.augment(text, rng, lang) for text in texts]


def check_share(value: float, name: str) -> None:
    """Raise InvalidInputError where ``value`` is not between 0 and 1; calls it ``name``."""
    if not 0 <= value <= 1:
        raise InvalidInputError(f"{name} is {value!r}, expected a share between 0 and 1")
