"""F1 of the words a decoder writes into blanks, and of the titles it writes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.validation import check, whole
from pocketquery_research.objectives.infilling import BLANK, Infiller

__all__ = ["blank_scores", "title_scores", "word_f1"]

_WORD = re.compile(r"\w+")


def word_f1(written: str, expected: str) -> float:
    """F1 of the words of two texts, each counted as often as it stands there, whatever its case.

    Returns:
        In [0, 1]; 1 for two texts without a word.

    Source: Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (2016),
    section 6.1.
    """
    found, wanted = (Counter(_WORD.findall(text.lower())) for text in (written, expected))
    total = found.total() + wanted.total()
    return 2 * (found & wanted).total() / total if total else 1.0


def blank_scores(
    infiller: Infiller, texts: Sequence[str], *, words: int = 2, seed: int = 0
) -> NDArray[np.float64]:
    """Hide some words of each text and compare what is written in their place with them.

    Args:
        infiller: of an encoder and its decoder.
        texts: each as far as the encoder reads; those of ``words`` words or fewer are left out.
        words: that are hidden of each, next to each other.
        seed: of where.

    Returns:
        float64 (texts that are long enough,), :func:`word_f1` of the hidden words.
    """
    check("words", words, whole())
    rng = random.Random(seed)
    scores = []
    for text in texts:
        read = infiller.readable(text).split()
        if len(read) > words:
            start = rng.randrange(len(read) - words + 1)
            blanked = " ".join([*read[:start], BLANK, *read[start + words :]])
            [written] = infiller.fill(blanked)[0].fillings
            scores.append(word_f1(written, " ".join(read[start : start + words])))
    return np.array(scores, dtype=np.float64)


def title_scores(
    infiller: Infiller, titles: Sequence[str], contents: Sequence[str]
) -> NDArray[np.float64]:
    """Compare the title that is written for each content with the one it has.

    Args:
        infiller: of an encoder and its decoder, trained with ``title_share`` above 0.
        titles: (n,).
        contents: (n,), each as far as the encoder reads.

    Returns:
        float64 (n,), :func:`word_f1`.
    """
    written = [infiller.title(content) for content in contents]
    return np.array([word_f1(*pair) for pair in zip(written, titles, strict=True)], np.float64)
