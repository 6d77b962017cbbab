"""The base of augmenters that have a model: they work in batches."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pocketquery.client.views.augmenters import AugResult, Strength
from pocketquery.sdk.validation import check_text

__all__ = ["ModelAugmenter"]


@dataclass(frozen=True, kw_only=True)
class ModelAugmenter(ABC):
    """An augmenter that rewrites many texts at once; subclasses say how, in :meth:`rewrite`.

    Attributes:
        language: the only one it is for; ``""``: all.
        device: torch device.
    """

    language: str = ""
    device: str = "cpu"

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is configured by."""

    @property
    @abstractmethod
    def requires(self) -> tuple[str, ...]:
        """Files and folders it reads."""

    @property
    def strength(self) -> Strength:
        """Heavy, where nothing else is said."""
        return "heavy"

    @property
    def languages(self) -> frozenset[str] | None:
        """Those it is for; None: all."""
        return frozenset({self.language}) if self.language else None

    @abstractmethod
    def available(self) -> tuple[bool, str]:
        """Whether its files are here, and what is missing. Never asks the network."""

    @abstractmethod
    def rewrite(self, texts: list[str], rng: random.Random) -> list[str]:
        """Each text rewritten; a blank result is taken for "could not"."""

    def augment(self, text: str, rng: random.Random, lang: str | None = None) -> AugResult:
        """A view of ``text``."""
        return self.augment_batch([text], rng, lang)[0]

    def augment_batch(
        self, texts: Sequence[str], rng: random.Random, lang: str | None = None
    ) -> list[AugResult]:
        """A view of each: itself where it is blank, of another language, or nothing was found.

        Raises:
            InvalidInputError: one of ``texts`` is no text.
            ArtifactNotFoundError: what it requires is not here; see :meth:`available`.
        """
        for text in texts:
            check_text(text)
        foreign = bool(self.language and lang) and lang != self.language
        rows = [row for row, text in enumerate(texts) if text.strip() and not foreign]
        views = list(texts)
        if rows:
            made = self.rewrite([texts[row] for row in rows], rng)
            for row, view in zip(rows, made, strict=True):
                views[row] = view if view.strip() else texts[row]
        return [
            AugResult(view, changed=view != text) for text, view in zip(texts, views, strict=True)
        ]
