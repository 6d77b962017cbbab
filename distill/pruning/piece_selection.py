"""Choosing the pieces of a vocabulary that stay, by how often a corpus needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["Cut", "Draft", "PrunableVocabulary", "choose_pieces", "count_pieces"]

Cut = Callable[[str], Sequence[int]]
"""A word to the ids of its pieces."""


@dataclass(frozen=True)
class Draft:
    """A vocabulary with fewer pieces.

    Attributes:
        retained: the old id of each new id.
        tokenizer_file: the new tokenizer's file.
        cut: a word to new ids.
        unknown: the new id of the unknown token.
        options: what ``open_tokenizer`` (sdk/tokenizers/tokenizer.py) needs beside the file.
    """

    retained: list[int]
    tokenizer_file: bytes
    cut: Cut
    unknown: int
    options: Mapping[str, object] = field(default_factory=dict)


class PrunableVocabulary(Protocol):
    """A vocabulary of either kind; pieces are named by their ids in the encoder.

    Attributes:
        size: rows of the embedding table.
        unknown: id of the unknown token.
        pieces: all ids.
        required: ids that must stay: special tokens, single characters, and pieces with a
            character that is no piece by itself.
        characters: those of ``required`` that are single characters.
        closed: whether each character of each piece is a piece by itself, so that the required
            pieces alone spell every word that the full vocabulary spells.
    """

    size: int
    unknown: int
    pieces: Collection[int]
    required: set[int]
    characters: set[int]
    closed: bool

    def words(self, text: str) -> list[str]:
        """The words of a text, as units to count."""

    def cut(self, word: str) -> Sequence[int]:
        """The ids of a word's pieces."""

    def keep(self, pieces: set[int]) -> Draft:
        """The vocabulary with these pieces alone."""


def count_pieces(words: Mapping[str, int], pieces: Iterable[Sequence[int]]) -> Counter[int]:
    """How often each piece occurs, given how often each word does and the pieces of each."""
    counts: Counter[int] = Counter()
    for times, cut in zip(words.values(), pieces, strict=True):
        for piece in cut:
            counts[piece] += times
    return counts


def choose_pieces(
    counts: Mapping[int, int],
    vocabulary: PrunableVocabulary,
    *,
    target_size: int | None,
    coverage: float,
    least_character: int = 0,
) -> set[int]:
    """The required pieces and the most frequent of the others.

    Args:
        counts: occurrences of each piece in the corpus.
        target_size: how many pieces to keep; None for as few as reach ``coverage``.
        coverage: share of all occurrences that the kept pieces make up, in (0, 1].
        least_character: single characters that occur less often are not required.

    Raises:
        InvalidInputError: ``target_size`` is below the number of required pieces, or ``coverage``
            is not in (0, 1].
    """
    rare = {piece for piece in vocabulary.characters if counts[piece] < least_character}
    required = vocabulary.required - rare
    if not 0 < coverage <= 1:
        raise InvalidInputError(f"coverage is {coverage}, expected a share above 0 and at most 1")
    if target_size is not None and target_size < len(required):
        raise InvalidInputError(
            f"target_size is {target_size}, expected at least {len(required)}: the special tokens "
            "and the single characters that keep every word spellable"
        )
    # Ties go to the lower id, which in trained vocabularies is the more frequent piece.
    others = sorted(set(vocabulary.pieces) - required, key=lambda piece: (-counts[piece], piece))
    if target_size is not None:
        return required | set(others[: target_size - len(required)])
    return required | set(_until_covered(counts, required, others, coverage))


def _until_covered(
    counts: Mapping[int, int], required: Iterable[int], others: Iterable[int], coverage: float
) -> Iterable[int]:
    missing = coverage * sum(counts.values()) - sum(counts[piece] for piece in required)
    for piece in others:
        if missing <= 0:
            return
        missing -= counts[piece]
        yield piece
