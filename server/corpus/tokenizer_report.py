"""How a tokenizer treats each language: subword tokens per word, unknown ones, truncated texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pocketquery.client.views.text_units import cut, is_unspaced
from pocketquery.server.corpus.groups import Source

__all__ = ["LanguageReport", "report_tokenizer"]

_BYTE = re.compile("<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class LanguageReport:
    """Counts of one language's sample.

    Attributes:
        language: its code.
        texts: in the sample.
        words: between spaces; in scripts without spaces every character is one.
        spaced: whether its script writes spaces, so that words are words.
        pieces: subword tokens of the texts, special tokens left out.
        unknown: those that are the unknown token.
        bytes: those that are one byte of a character the vocabulary has not.
        truncated: texts longer than the maximum length.
    """

    language: str
    texts: int
    words: int
    spaced: bool
    pieces: int
    unknown: int
    bytes: int
    truncated: int

    @property
    def pieces_per_word(self) -> float:
        """Mean number of subword tokens of a word."""
        return self.pieces / max(self.words, 1)

    @property
    def unknown_rate(self) -> float:
        """Share of the subword tokens that are unknown."""
        return self.unknown / max(self.pieces, 1)

    @property
    def byte_rate(self) -> float:
        """Share of the subword tokens that are bytes."""
        return self.bytes / max(self.pieces, 1)

    @property
    def truncated_share(self) -> float:
        """Share of the texts that are cut off."""
        return self.truncated / max(self.texts, 1)


def report_tokenizer(
    tokenizer: Any, source: Source, *, max_length: int = 64, most_texts: int = 1000, seed: int = 0
) -> tuple[LanguageReport, ...]:
    """One report a language of ``source``, from at most ``most_texts`` texts of each.

    Args:
        tokenizer: a Hugging Face fast tokenizer.
        source: the texts.
        max_length: ids, special tokens included, from which a text is truncated.
        most_texts: in each language's sample.
        seed: of the sample.
    """
    rng = np.random.default_rng(seed)
    codes = source.language_codes()
    return tuple(
        _report(
            tokenizer,
            language,
            list(_sample(source, rng.permutation((codes == code).nonzero()[0]), most_texts)),
            max_length,
        )
        for code, language in enumerate(source.languages)
    )


def _sample(source: Source, rows: Any, most: int) -> Iterator[str]:
    taken = 0
    for row in rows.tolist():
        for text in source[row].texts:
            if taken == most:
                return
            taken += 1
            yield text


def _report(tokenizer: Any, language: str, texts: list[str], max_length: int) -> LanguageReport:
    options = {"add_special_tokens": False, "truncation": False, "verbose": False}
    rows: list[list[int]] = tokenizer(texts, **options)["input_ids"] if texts else []
    names = tokenizer.convert_ids_to_tokens([id for row in rows for id in row])
    written = "".join("".join(texts).split())
    limit = max_length - tokenizer.num_special_tokens_to_add()
    return LanguageReport(
        language=language,
        texts=len(texts),
        words=sum(len(cut(text).texts) for text in texts),
        spaced=2 * sum(map(is_unspaced, written)) <= len(written),
        pieces=len(names),
        unknown=names.count(tokenizer.unk_token),
        bytes=sum(_BYTE.fullmatch(name) is not None for name in names),
        truncated=sum(len(row) > limit for row in rows),
    )
