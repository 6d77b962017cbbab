"""BERT's WordPiece tokenizer in plain Python, with the ids of the `tokenizers` library.

Each word is cut greedily into the longest pieces of the vocabulary (Wu et al., "Google's Neural
Machine Translation System", 2016, section 4.1, with longest-match-first as BERT does it). A query
has few words and most were seen before, so a bounded memory of words makes this faster than a
call into the library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cached_property

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.tokenizers.added_tokens import AddedToken, AddedTokens
from pocketquery.sdk.tokenizers.bert_normalizer import BertNormalizer, split_words
from pocketquery.sdk.tokenizers.wordpiece_file import read_wordpiece_file

__all__ = ["WordPieceTokenizer"]

_CHARACTERS_A_WORD = 8  # that are remembered, on average; queries' words have five or six


class WordPieceTokenizer:
    """Text to ids for BERT-like encoders. Safe to share between threads.

    Args:
        data: the bytes of a Hugging Face ``tokenizer.json``; its padding and its truncation length
            are left aside.
        max_length: ids per text at most, [CLS] and [SEP] among them.
        remembered_words: how many words' pieces are kept in memory, of eight characters on
            average; 0 keeps none.

    Raises:
        CorruptArtifactError: ``data`` is not such a file.
        InvalidInputError: ``max_length`` has no room for one piece.
    """

    def __init__(self, data: bytes, max_length: int, *, remembered_words: int = 1 << 15) -> None:
        file = read_wordpiece_file(data)
        self._before, self._after = list(file.before), list(file.after)
        self._room = max_length - len(self._before) - len(self._after)
        if self._room < 1:
            raise InvalidInputError(
                f"max_length is {max_length}, expected at least "
                f"{max_length - self._room + 1}: the special tokens and one piece"
            )
        self._truncate_left = file.truncate_left
        self._enough = sys.maxsize if file.truncate_left else self._room
        self._normalizer = file.normalizer
        self._literals = AddedTokens(t for t in file.added_tokens if not t.normalized)
        self._normal_literals = _normalized_literals(file.added_tokens, file.normalizer)
        self._file = file
        self._vocabulary = file.vocabulary
        self._max_word_length = file.max_word_length
        self._unknown = (file.vocabulary[file.unknown_token],)
        self._remembered: dict[str, tuple[int, ...]] = {}
        self._remembered_words = remembered_words
        self._room_for_characters = remembered_words * _CHARACTERS_A_WORD

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_remembered": {}}  # other threads may add to it meanwhile

    # Of use to some texts only, and a cold start would feel them: made when first asked for.

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._vocabulary))

    @cached_property
    def _tokens(self) -> dict[int, str]:
        tokens = {number: piece for piece, number in self._vocabulary.items()}
        tokens.update((token.id, token.content) for token in self._file.added_tokens)
        return tokens

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id: the rows an embedding table needs."""
        return max(self._tokens) + 1

    @property
    def unknown_id(self) -> int:
        """The id of words that cannot be spelled."""
        return self._unknown[0]

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, special tokens added, cut to ``max_length``."""
        ids: list[int] = []
        for part in self._literals.split(text):
            if isinstance(part, int):
                ids.append(part)
            elif self._normal_literals is not None:
                self._extend_normalized(ids, part, self._normal_literals)
            else:
                self._extend(ids, self._normalizer.words(part))
        if len(ids) > self._room:
            ids = ids[-self._room :] if self._truncate_left else ids[: self._room]
        return self._before + ids + self._after

    def words(self, text: str) -> list[str]:
        """The normalised words of ``text``, without the literals of added tokens."""
        words: list[str] = []
        for part in self._literals.split(text):
            if isinstance(part, str):
                for rest in self._normal_parts(part):
                    if isinstance(rest, str):
                        words += split_words(rest)
        return words

    def pieces(self, word: str) -> tuple[int, ...]:
        """The ids of the pieces of one normalised word."""
        if len(word) > self._max_word_length:
            return self._unknown
        whole = self._vocabulary.get(word)
        return self._cut(word) if whole is None else (whole,)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The pieces with these ids.

        Raises:
            InvalidInputError: an id is not in the vocabulary.
        """
        try:
            return [self._tokens[number] for number in ids]
        except KeyError as error:
            raise InvalidInputError(
                f"found the id {error}, expected one of the {len(self._tokens)} of the vocabulary"
            ) from None

    def _normal_parts(self, part: str) -> Iterable[str | int]:
        normal = self._normalizer.normalize(part)
        return (normal,) if self._normal_literals is None else self._normal_literals.split(normal)

    def _extend_normalized(self, ids: list[int], part: str, literals: AddedTokens) -> None:
        for rest in literals.split(self._normalizer.normalize(part)):
            if isinstance(rest, int):
                ids.append(rest)
            else:
                self._extend(ids, split_words(rest))

    def _extend(self, ids: list[int], words: Iterable[str]) -> None:
        remembered, enough = self._remembered, self._enough
        for word in words:
            ids += remembered.get(word) or self._remember(word)
            if len(ids) >= enough:
                return

    def _remember(self, word: str) -> tuple[int, ...]:
        pieces = self.pieces(word)
        if len(word) > self._max_word_length:  # known to be unknown without looking
            return pieces
        if self._remembered_words:
            # Threads may lose a count to each other; the number of words bounds the memory yet.
            self._room_for_characters -= len(word)
            if len(self._remembered) >= self._remembered_words or self._room_for_characters < 0:
                self._remembered.clear()
                self._room_for_characters = self._remembered_words * _CHARACTERS_A_WORD - len(word)
            self._remembered[word] = pieces
        return pieces

    def _cut(self, word: str) -> tuple[int, ...]:
        """Longest match first, from the left."""
        pieces: list[int] = []
        known, before, start, end = self._vocabulary, "", 0, len(word)
        while start < end:
            furthest = start + self._longest - len(before)
            for stop in range(furthest if furthest < end else end, start, -1):
                number = known.get(before + word[start:stop])
                if number is not None:
                    break
            else:
                return self._unknown
            pieces.append(number)
            before, start = self._file.prefix, stop
        return tuple(pieces)


def _normalized_literals(
    tokens: Iterable[AddedToken], normalizer: BertNormalizer
) -> AddedTokens | None:
    """The tokens to look for in normalised text; None, the usual case, if there are none."""
    literals = []
    for token in tokens:
        if token.normalized:
            content = normalizer.normalize(token.content)
            if not content:
                raise CorruptArtifactError(
                    f"tokenizer.json: nothing is left of the added token {token.content!r} after "
                    'normalisation; remove it or set its "normalized" to false'
                )
            literals.append(
                AddedToken(content, token.id, token.single_word, token.lstrip, token.rstrip)
            )
    return AddedTokens(literals) if literals else None
