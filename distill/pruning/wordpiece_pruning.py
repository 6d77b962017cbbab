"""Leaving pieces out of the ``tokenizer.json`` of a WordPiece tokenizer."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Sequence
from typing import Any

from pocketquery.distill.pruning.piece_selection import Draft
from pocketquery.sdk.tokenizers.wordpiece import WordPieceTokenizer

__all__ = ["WordPieceVocabulary"]

_ANY_LENGTH = 1 << 20


class WordPieceVocabulary:
    """A WordPiece file as a :class:`PrunableVocabulary`.

    Raises:
        CorruptArtifactError: ``data`` is not such a file.
    """

    def __init__(self, data: bytes) -> None:
        self._tokenizer = WordPieceTokenizer(data, _ANY_LENGTH)
        self._document: dict[str, Any] = json.loads(data)
        self._ids: dict[str, int] = self._document["model"]["vocab"]
        self.size = self._tokenizer.vocabulary_size
        self.unknown = self._tokenizer.unknown_id
        added = {token["id"] for token in self._document.get("added_tokens") or []}
        specials = {self.unknown, *added, *_framing_ids(self._document)}
        self.pieces: Collection[int] = specials.union(self._ids.values())
        ordinary = {piece: number for piece, number in self._ids.items() if number not in specials}
        spelled = {piece: self._spelled(piece) for piece in ordinary}
        stuck = {p for p, forms in spelled.items() if not all(f in self._ids for f in forms)}
        self.closed = not stuck
        self.characters = {n for piece, n in ordinary.items() if len(spelled[piece]) == 1}
        self.required = specials | self.characters | {ordinary[piece] for piece in stuck}

    def words(self, text: str) -> list[str]:
        """The normalised words; literals of added tokens are always kept and not counted."""
        return self._tokenizer.words(text)

    def cut(self, word: str) -> Sequence[int]:
        """The ids of a word's pieces."""
        return self._tokenizer.pieces(word)

    def keep(self, pieces: set[int]) -> Draft:
        """The file with these pieces alone."""
        # The `tokenizers` library numbers added tokens that are not in the vocabulary itself,
        # from the vocabulary's size on: they come last.
        inside = pieces.intersection(self._ids.values())
        retained = sorted(inside) + sorted(pieces - inside)
        file = _renumbered(self._document, {old: new for new, old in enumerate(retained)})
        tokenizer = WordPieceTokenizer(file, _ANY_LENGTH)
        return Draft(retained, file, tokenizer.pieces, tokenizer.unknown_id)

    def _spelled(self, piece: str) -> list[str]:
        """The single-character pieces that spell ``piece`` where it occurs in a word."""
        prefix: str = self._document["model"]["continuing_subword_prefix"]
        if prefix and piece.startswith(prefix) and len(piece) > len(prefix):
            return [prefix + character for character in piece[len(prefix) :]]
        return [piece[:1], *(prefix + character for character in piece[1:])]


def _framing_ids(document: dict[str, Any]) -> set[int]:
    """The ids that stand around a text."""
    section = document.get("post_processor") or {}
    ids = {
        number for token in section.get("special_tokens", {}).values() for number in token["ids"]
    }
    ids |= {section[name][1] for name in ("cls", "sep") if name in section}
    padding = document.get("padding")
    return ids | {padding["pad_id"]} if padding else ids


def _renumbered(document: dict[str, Any], new: dict[int, int]) -> bytes:
    """The ``tokenizer.json`` with the pieces that have a new id alone."""
    pruned = copy.deepcopy(document)
    in_order = sorted(pruned["model"]["vocab"].items(), key=lambda item: item[1])
    pruned["model"]["vocab"] = {piece: new[old] for piece, old in in_order if old in new}
    for token in pruned.get("added_tokens") or []:
        token["id"] = new[token["id"]]
    section = pruned.get("post_processor") or {}
    for token in section.get("special_tokens", {}).values():
        token["ids"] = [new[number] for number in token["ids"]]
    for name in ("cls", "sep"):
        if name in section:
            section[name][1] = new[section[name][1]]
    if pruned.get("padding"):
        pruned["padding"]["pad_id"] = new[pruned["padding"]["pad_id"]]
    return json.dumps(pruned, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
