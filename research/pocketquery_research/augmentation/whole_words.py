"""Which pieces of a vocabulary are words by themselves."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

import torch

from pocketquery.client.views.text_units import is_unspaced

__all__ = ["WholeWords"]

_STARTS = "▁Ġ"  # sentencepiece and byte-level BPE mark the start of a word


@dataclass(frozen=True)
class WholeWords:
    """Ids, int64 (n,), and their n words.

    Attributes:
        spaced: words of two letters and more that stand between blanks.
        unspaced: those of scripts that write no blanks, wherever they stand.
    """

    spaced: tuple[torch.Tensor, tuple[str, ...]]
    unspaced: tuple[torch.Tensor, tuple[str, ...]]

    @classmethod
    def of(cls, tokenizer: Any) -> WholeWords:
        """The whole words of a Hugging Face tokenizer, of whichever kind."""
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        special = set(tokenizer.all_special_ids)
        marked = any(piece[0] in _STARTS for piece in pieces if piece)
        spaced, unspaced = {}, {}
        for number, piece in enumerate(pieces):
            if number in special or not piece:
                continue
            word = tokenizer.convert_tokens_to_string([piece]).strip().removeprefix("##")
            if not _is_word(word):
                continue
            if all(map(is_unspaced, word)):
                unspaced[number] = word
            elif len(word) > 1 and _begins(piece, marked):
                spaced[number] = word
        return cls(_table(spaced), _table(unspaced))


def _begins(piece: str, marked: bool) -> bool:
    """Whether a piece begins a word, in a vocabulary that marks beginnings or continuations."""
    return piece[0] in _STARTS if marked else not piece.startswith("##")


def _is_word(word: str) -> bool:
    return bool(word) and all(c.isalpha() or unicodedata.category(c)[0] == "M" for c in word)


def _table(words: dict[int, str]) -> tuple[torch.Tensor, tuple[str, ...]]:
    return torch.tensor(list(words), dtype=torch.int64), tuple(words.values())
