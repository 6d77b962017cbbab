"""Views from a cache, which training reads without the model that made them."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pocketquery.client.views.augmenters import AugResult, Strength
from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.sdk.validation import check_text
from pocketquery_research.augmentation.variant_cache import KnownAugmenter, VariantCache

__all__ = ["Cached"]


@dataclass(frozen=True)
class Cached:
    """Draws one of the variants that an augmenter left in a cache.

    A text that has none comes back as it is, and ``meta["cached"]`` says so: fill the cache with
    what it is going to be asked, the light variants included where heavy views are made of them.

    Attributes:
        path: the cache.
        augmenter: whose variants, by name; there must be one of that name in the cache.
    """

    path: str
    augmenter: str

    @property
    def name(self) -> str:
        """That of who made the variants."""
        return self.augmenter

    @property
    def strength(self) -> Strength:
        """That of who made the variants."""
        return self._known.strength

    @property
    def languages(self) -> frozenset[str] | None:
        """Those of who made the variants."""
        return self._known.languages

    @property
    def requires(self) -> tuple[str, ...]:
        """The cache."""
        return (self.path,)

    def available(self) -> tuple[bool, str]:
        """Whether the cache is here and has variants by that augmenter."""
        try:
            _opened(self.path, os.getpid()).one_named(self.augmenter)
        except (ArtifactError, InvalidInputError) as error:
            return False, str(error)
        return True, ""

    def augment(self, text: str, rng: random.Random, lang: str | None = None) -> AugResult:
        """One of the variants of ``text``.

        Raises:
            InvalidInputError: ``text`` is no text.
            ArtifactError: the cache cannot be read.
        """
        check_text(text)
        cache = _opened(self.path, os.getpid())
        variants = list(cache.variants(text, self._known.identity).values())
        view = rng.choice(variants) if variants else text
        return AugResult(view, changed=view != text, meta={"cached": bool(variants)})

    def augment_batch(
        self, texts: Sequence[str], rng: random.Random, lang: str | None = None
    ) -> list[AugResult]:
        """A variant of each."""
        return [self.augment(text, rng, lang) for text in texts]

    @functools.cached_property
    def _known(self) -> KnownAugmenter:
        return _opened(self.path, os.getpid()).one_named(self.augmenter)


@functools.lru_cache(maxsize=8)
def _opened(path: str, process: int) -> VariantCache:
    """The cache, opened once a process: SQLite's connections do not survive a fork."""
    return VariantCache(path, read_only=True)
