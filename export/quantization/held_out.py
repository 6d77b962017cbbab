"""Split texts into those that calibrate and those held out for the published figures.

Held out are the queries of the gate and the calibration texts that are not run; where those are
too few, a fifth of the calibration texts. Texts of random pieces of the vocabulary are added, in
every script that it spells. A log of queries in one language, or in ten, says nothing about the
rest; these texts use the pieces that it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pocketquery.sdk.tokenizers.tokenizer import Tokenizer

__all__ = ["TextSplit", "split_texts", "spread"]

_MOST_SUPPLIED = 512
_ENOUGH_SUPPLIED = 128
_HELD_OUT_SHARE = 5  # one calibration text in five, where the other texts are too few
_GENERATED = 128
_MOST_PIECES = 24  # of a generated text


@dataclass(frozen=True)
class TextSplit:
    """Texts that have nothing in common.

    Attributes:
        calibration: to be run.
        supplied: held out, of the caller's.
        generated: held out, of random pieces.
    """

    calibration: list[str]
    supplied: list[str]
    generated: list[str]

    @property
    def held_out(self) -> list[str]:
        """Both kinds."""
        return [*self.supplied, *self.generated]


def split_texts(
    calibration: Iterable[str], queries: Iterable[str], tokenizer: Tokenizer, *, most: int
) -> TextSplit:
    """Choose what is run, evenly spaced, and what is held out.

    Args:
        calibration: at least one text.
        queries: of the ranking gate; may be none, or the same.
        tokenizer: whose pieces the generated texts are of.
        most: texts that are run.
    """
    distinct = list(dict.fromkeys(calibration))
    run = spread(distinct, most)
    supplied = _without(run, [*distinct, *queries])
    enough = min(_ENOUGH_SUPPLIED, len(distinct) // _HELD_OUT_SHARE)
    if len(supplied) < enough:
        run = spread(distinct, len(distinct) - enough)
        supplied = _without(run, [*distinct, *queries])
    generated = _without(run, _random_texts(tokenizer))
    return TextSplit(run, spread(supplied, _MOST_SUPPLIED), generated)


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most ``most`` of ``texts``, evenly spaced."""
    if len(texts) <= most:
        return list(texts)
    return [texts[i * len(texts) // most] for i in range(most)]


def _without(run: Iterable[str], texts: Iterable[str]) -> list[str]:
    seen = set(run)
    return [text for text in dict.fromkeys(texts) if text not in seen]


def _random_texts(tokenizer: Tokenizer) -> list[str]:
    """The same ones for the same vocabulary."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, _MOST_PIECES, _GENERATED, endpoint=True)
    rows = [rng.integers(0, tokenizer.vocabulary_size, length).tolist() for length in lengths]
    joined = (" ".join(tokenizer.tokens(row)) for row in rows)
    return [" ".join(text.replace(" ##", "").replace("▁", " ").split()) for text in joined]
