"""A table of words used alike, from word vectors: where no thesaurus is at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from pocketquery.client.views.text_units import is_unspaced
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery_research.augmentation.rules.synonyms import Synonyms, SynonymTable
from pocketquery_research.augmentation.word2vec import WordVectors, words_of

__all__ = ["Lexicon", "LexiconConfig", "check_lexicon_place", "nearest_words", "write_lexicon"]

_FIRST_LINE = "# word, words used alike"
_BLOCK = 1024


@dataclass(frozen=True)
class LexiconConfig(Settings):
    """Which neighbours are let into a lexicon."""

    neighbours: Annotated[int, whole(), "of each word, at most"] = 5
    least_cosine: Annotated[float, number(-1, 1), "of a neighbour"] = 0.5
    least_count: Annotated[
        int,
        whole(),
        "how often word and neighbour occur, each: the vectors of rare words are noise",
    ] = 5
    most_share: Annotated[
        float,
        number(above=0, most=1),
        "of all words of the corpus that either is: the most frequent ones are not nouns and "
        "verbs, and their neighbours are not synonyms",
    ] = 0.005
    most_ratio: Annotated[float, number(1), "how much more often one occurs than the other"] = 20.0


class Lexicon(Synonyms):
    """Synonyms out of a file that ``pocketquery augment --lexicon`` wrote, or the user did."""

    name = "lexicon"


def nearest_words(
    vectors: WordVectors, texts: Sequence[str], config: LexiconConfig | None = None
) -> dict[str, tuple[str, ...]]:
    """Words and their neighbours, the nearest first.

    Besides the frequencies, shapes are filtered: only words of letters, two or more, and no two
    that differ by punctuation alone. Characters of scripts that write no blanks are no words.

    Args:
        vectors: of the words, say by ``train_word2vec``.
        texts: in which the words are counted.
        config: what is let in.
    """
    config = config or LexiconConfig()
    counts = Counter(word for text in texts for word in words_of(text))
    most = config.most_share * sum(counts.values())
    rows = [
        row
        for row, word in enumerate(vectors.words)
        if config.least_count <= counts[word] <= most and _is_plain(word)
    ]
    words = [vectors.words[row] for row in rows]
    unit = vectors.vectors[rows]
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    often = np.array([counts[word] for word in words], dtype=np.float64)
    table = {}
    for start in range(0, len(words), _BLOCK):
        cosines = unit[start : start + _BLOCK] @ unit.T  # (block, words)
        ratio = often[start : start + _BLOCK, None] / often  # (block, words)
        cosines[np.maximum(ratio, 1 / ratio) > config.most_ratio] = -2
        for place, row in enumerate(cosines, start):
            row[place] = -2
            best = np.argsort(-row, kind="stable")[: config.neighbours]
            found = tuple(words[other] for other in best if row[other] >= config.least_cosine)
            if found:
                table[words[place]] = found
    return table


def write_lexicon(path: Path | str, table: SynonymTable) -> None:
    """Write ``table`` as :func:`~pocketquery_research.augmentation.rules.synonyms.read_synonyms`
    reads it.

    Raises:
        InvalidInputError: ``path`` is a file that this did not write; it is left alone.
    """
    check_lexicon_place(path)
    lines = [_FIRST_LINE, *("\t".join((w, *table[w])) for w in sorted(table))]
    write_atomic(path, "\n".join(lines) + "\n")


def check_lexicon_place(path: Path | str) -> None:
    """Refuse what :func:`write_lexicon` would destroy. Raises InvalidInputError."""
    place = Path(path)
    if place.is_dir() or not place.name:
        raise InvalidInputError(f"{place} is a folder, expected a file to write words to")
    if place.exists():
        with place.open("rb") as file:
            first = file.read(len(_FIRST_LINE))
        if first != _FIRST_LINE.encode():
            raise InvalidInputError(
                f"{place} exists and is not a list of words used alike that was made before; it is "
                "left alone. Name another file or remove it"
            )


def _is_plain(word: str) -> bool:
    return len(word) > 1 and word.isalpha() and not is_unspaced(word[0])
