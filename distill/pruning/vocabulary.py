"""Vocabulary pruning: the embedding table is most of a light encoder, and few of its rows are used.

The pieces that a corpus needs stay, and with them every special token and single character, so a
word that the full vocabulary can spell is still spelled, by shorter pieces if need be. A text whose
pieces all stay keeps them, with new numbers, and hence its vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketquery.distill.pruning.piece_selection import (
    PrunableVocabulary,
    choose_pieces,
    count_pieces,
)
from pocketquery.distill.pruning.sentencepiece_pruning import SentencePieceVocabulary
from pocketquery.distill.pruning.wordpiece_pruning import WordPieceVocabulary
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["PrunedVocabulary", "prune_vocabulary", "slice_embeddings"]


@dataclass(frozen=True)
class PrunedVocabulary:
    """A smaller vocabulary and how it relates to the full one.

    Attributes:
        retained: int64 (new_size,), the old id of each new id.
        tokenizer_file: the new ``tokenizer.json`` or sentencepiece model.
        statistics: ``size_before``, ``size_after``, ``words``, ``distinct_words``, ``coverage``
            (share of the corpus's pieces that were kept), and for ``before`` and ``after`` the
            ``pieces_per_word`` and the ``unknown_rate`` (share of pieces that are unknown).
        options: what ``open_tokenizer`` (sdk/tokenizers/tokenizer.py) needs beside the file.
    """

    retained: NDArray[np.int64]
    tokenizer_file: bytes
    statistics: dict[str, Any]
    options: Mapping[str, object] = field(default_factory=dict)


def prune_vocabulary(
    tokenizer_file: bytes,
    kind: str,
    texts: Iterable[str],
    *,
    target_size: int | None = None,
    coverage: float = 0.999,
    least_character: int = 0,
    layout: str = "xlm-roberta",
    mode: str = "rebuild",
) -> PrunedVocabulary:
    """Keep the pieces that ``texts`` need.

    Args:
        tokenizer_file: a ``tokenizer.json`` (WordPiece) or a sentencepiece model.
        kind: ``"wordpiece"`` or ``"sentencepiece"``.
        texts: the corpus, read once.
        target_size: size of the new vocabulary; None for the smallest that reaches ``coverage``.
        coverage: share of the corpus's pieces to keep, in (0, 1]; unused with ``target_size``.
        least_character: single characters that ``texts`` have less often may go, and words with
            them become unknown; 0 keeps all. Scripts nobody types take a third of a small table.
        layout: of a sentencepiece model, see :mod:`pocketquery.sdk.tokenizers.sentencepiece_model`.
        mode: for a sentencepiece model, ``"rebuild"`` cuts texts anew with the pieces that are
            left (unigram models only), ``"remap"`` cuts them as before and makes the dropped
            pieces unknown.

    Raises:
        CorruptArtifactError: ``tokenizer_file`` is not of that kind.
        InvalidInputError: no word in ``texts``, or an argument out of its range.
    """
    vocabulary = _open(tokenizer_file, kind, layout, mode)
    words = Counter(word for text in texts for word in vocabulary.words(text))
    if not words:
        raise InvalidInputError("found no word in the texts, expected a corpus to count pieces in")
    before = list(map(vocabulary.cut, words))  # once: a corpus has a million different words
    counts = count_pieces(words, before)
    retained = choose_pieces(
        counts,
        vocabulary,
        target_size=target_size,
        coverage=coverage,
        least_character=least_character,
    )
    draft = vocabulary.keep(retained)
    after = list(map(draft.cut, words))
    if not vocabulary.closed and mode == "rebuild" and not least_character:
        while lost := _newly_unknown(before, after, vocabulary.unknown, draft.unknown):
            draft = vocabulary.keep(lost.union(draft.retained))
            after = list(map(draft.cut, words))
    return PrunedVocabulary(
        retained=np.array(draft.retained, dtype=np.int64),
        tokenizer_file=draft.tokenizer_file,
        statistics={
            "size_before": vocabulary.size,
            "size_after": len(draft.retained),
            "words": sum(words.values()),
            "distinct_words": len(words),
            "coverage": sum(counts[piece] for piece in draft.retained) / sum(counts.values()),
            "before": _segmentation(words, counts, vocabulary.unknown),
            "after": _segmentation(words, count_pieces(words, after), draft.unknown),
        },
        options=draft.options,
    )


def _open(data: bytes, kind: str, layout: str, mode: str) -> PrunableVocabulary:
    if mode not in ("rebuild", "remap"):
        raise InvalidInputError(f'found the mode {mode!r}, expected "rebuild" or "remap"')
    if kind == "wordpiece" and mode == "remap":
        raise InvalidInputError('found mode="remap" for WordPiece, expected "rebuild"')
    if kind == "wordpiece":
        return WordPieceVocabulary(data)
    if kind == "sentencepiece":
        return SentencePieceVocabulary(data, layout, remap=mode == "remap")
    raise InvalidInputError(
        f'found the tokenizer kind {kind!r}, expected "wordpiece" or "sentencepiece"'
    )


def _newly_unknown(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], unknown: int, now_unknown: int
) -> set[int]:
    """The pieces of the words that the full vocabulary spells and the smaller one does not."""
    return {
        piece
        for old, new in zip(before, after, strict=True)
        if now_unknown in new and unknown not in old
        for piece in old
    }


def _segmentation(
    words: Mapping[str, int], counts: Mapping[int, int], unknown: int
) -> dict[str, float]:
    total = sum(counts.values())
    return {
        "pieces_per_word": total / sum(words.values()),
        "unknown_rate": counts.get(unknown, 0) / total,
    }


class _Table(Protocol):
    """A numpy array or torch tensor whose first axis is the vocabulary."""

    @property
    def shape(self) -> Any: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


Table = TypeVar("Table", bound=_Table)


def slice_embeddings(weight: Table, retained: NDArray[np.int64]) -> Table:
    """The rows of the kept pieces, copied.

    Args:
        weight: (old_size, ...), an embedding table, an output layer's weight or its bias; a numpy
            array or a torch tensor.
        retained: int64 (new_size,), from :class:`PrunedVocabulary`.

    Returns:
        (new_size, ...), of the same type and dtype.

    Raises:
        InvalidInputError: ``weight`` has fewer rows than the vocabulary the pieces came from.
    """
    if weight.shape[0] <= int(retained.max()):
        raise InvalidInputError(
            f"found a table of {weight.shape[0]} rows, expected more than {int(retained.max())}, "
            "the largest id kept; is it the table of the tokenizer that was pruned?"
        )
    rows: Table = weight[retained]
    return rows
