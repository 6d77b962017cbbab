"""Measure an augmenter: how many texts it leaves as they were, and how far the others move."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.text_units import cut
from pocketquery.sdk.arrays import Encode
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["Audit", "audit"]

_BINS = 20


@dataclass(frozen=True)
class Audit:
    """What an augmenter does to texts.

    Attributes:
        name: the augmenter's.
        texts: how many it was shown.
        identity_rate: share that came back unchanged.
        token_jaccard: mean over the texts of |A ∩ B| / |A ∪ B| of their units before and after.
        length_ratio: mean length after / before, in characters.
        cosines: how many views fall into each of 20 equal bins of the cosine to their text, from
            -1 to 1; empty without an encoder.
        samples: up to 20 texts and views for a human.
    """

    name: str
    texts: int
    identity_rate: float
    token_jaccard: float
    length_ratio: float
    cosines: tuple[int, ...]
    samples: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def audit(
    augmenter: Augmenter,
    texts: Sequence[str],
    *,
    rng: random.Random | None = None,
    encode: Encode | None = None,
    lang: str | None = None,
) -> Audit:
    """Show ``texts`` to ``augmenter``.

    Args:
        augmenter: any.
        texts: queries, at least one, none blank.
        rng: the source of randomness; the same one each time by default.
        encode: texts to L2-normalised vectors, float32 (n, d): the teacher's.
        lang: the texts' language.

    Raises:
        InvalidInputError: no text, or a blank one.
    """
    if not texts or not all(text.strip() for text in texts):
        raise InvalidInputError("found no text, or a blank one; expected queries to look at")
    made = augmenter.augment_batch(texts, rng or random.Random(0), lang)
    views = [result.text for result in made]
    pairs = list(zip(texts, views, strict=True))
    return Audit(
        name=augmenter.name,
        texts=len(texts),
        identity_rate=sum(text == view for text, view in pairs) / len(texts),
        token_jaccard=sum(_jaccard(text, view) for text, view in pairs) / len(texts),
        length_ratio=sum(len(view) / len(text) for text, view in pairs) / len(texts),
        cosines=() if encode is None else _cosines(encode(list(texts)), encode(views)),
        samples=tuple(pairs[:20]),
    )


def _jaccard(text: str, view: str) -> float:
    before, after = set(cut(text).texts), set(cut(view).texts)
    return len(before & after) / len(before | after)


def _cosines(before: NDArray[np.float32], after: NDArray[np.float32]) -> tuple[int, ...]:
    cosines = np.clip((before * after).sum(axis=1), -1, 1)  # (n,)
    counts, _ = np.histogram(cosines, bins=_BINS, range=(-1, 1))
    return tuple(counts.tolist())
