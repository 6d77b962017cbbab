"""Leaving pieces out of a sentencepiece model.

``rebuild`` takes them out of the file, so that texts are cut anew with what is left; it needs a
unigram model, in which a best segmentation stays the best one among fewer. ``remap`` keeps how
texts are cut and turns the dropped pieces into ``<unk>``: the file then lists the kept pieces
first, and the tokenizer is told how many they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from pocketquery.distill.pruning.piece_selection import Draft
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.tokenizers.sentencepiece_file import NORMAL, read_sentencepiece_file
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer

__all__ = ["SentencePieceVocabulary"]

_ANY_LENGTH = 1 << 20
_MODEL_SPECIALS = (0, 1, 2)  # <unk>, <s>, </s> in the file of an XLM-R model


class SentencePieceVocabulary:
    """A sentencepiece model as a :class:`PrunableVocabulary`.

    Raises:
        CorruptArtifactError: ``data`` is not a sentencepiece model for this layout.
        InvalidInputError: without ``remap``, a model that is not unigram.
    """

    def __init__(self, data: bytes, layout: str, *, remap: bool) -> None:
        self._tokenizer = SentencePieceTokenizer(data, _ANY_LENGTH, layout)
        self._file = read_sentencepiece_file(data)
        if not remap and not self._file.is_unigram:
            raise InvalidInputError(
                "found a sentencepiece model that cuts texts by merges, which taking pieces out "
                "would break, expected a unigram model; leave the vocabulary whole, or use "
                'mode="remap"'
            )
        self._layout, self._remap = layout, remap
        self.size = self._tokenizer.vocabulary_size
        self.unknown = self._tokenizer.unknown_id
        self.pieces: Collection[int] = range(self.size)
        normal = {
            number: self._file.pieces[number]
            for number in np.flatnonzero(self._file.types == NORMAL).tolist()
        }
        characters = {piece for piece in normal.values() if len(piece) == 1}
        droppable = {
            number
            for number, piece in normal.items()
            if len(piece) > 1 and characters.issuperset(piece)
        }
        self.closed = all(len(normal[number]) == 1 for number in normal.keys() - droppable)
        self.required = set(self.pieces) - {number + self._shift for number in droppable}
        self.characters = {n + self._shift for n, piece in normal.items() if len(piece) == 1}

    @property
    def _shift(self) -> int:
        return 1 if self._layout == "xlm-roberta" else 0

    def words(self, text: str) -> list[str]:
        """Split at white space."""
        return text.split()

    def cut(self, word: str) -> Sequence[int]:
        """The encoder's ids of a word's pieces."""
        return self._tokenizer.encode_text(word)

    def keep(self, pieces: set[int]) -> Draft:
        """The model with these pieces alone."""
        retained = sorted(pieces)
        order = self._model_numbers(retained)
        options: dict[str, object] = {"layout": self._layout}
        if self._remap:
            options["known_pieces"] = known = len(order)
            order += sorted(set(range(len(self._file.pieces))).difference(order))
        else:
            known = None
        file = self._file.with_pieces(order)
        tokenizer = SentencePieceTokenizer(file, _ANY_LENGTH, self._layout, known_pieces=known)
        return Draft(retained, file, tokenizer.encode_text, tokenizer.unknown_id, options)

    def _model_numbers(self, retained: list[int]) -> list[int]:
        """The numbers, in the model's file, of the encoder's ids ``retained``."""
        if self._layout == "plain":
            return list(retained)
        pieces = (number - self._shift for number in retained if 3 < number < self.size - 1)
        return [*_MODEL_SPECIALS, *pieces]
