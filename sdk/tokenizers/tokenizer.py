"""The tokenizer an encoder needs, whichever vocabulary it was trained with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.tokenizers.wordpiece import WordPieceTokenizer

__all__ = ["Tokenizer", "open_tokenizer"]


class Tokenizer(Protocol):
    """Text to ids. Safe to share between threads."""

    @property
    def vocabulary_size(self) -> int:
        """The rows an embedding table needs."""

    @property
    def unknown_id(self) -> int:
        """The id of what cannot be spelled."""

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, special tokens added, cut to the maximum length."""

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The pieces with these ids."""


def open_tokenizer(
    kind: str, data: bytes, max_length: int, options: Mapping[str, object] | None = None
) -> Tokenizer:
    """The tokenizer in a file.

    Args:
        kind: ``"wordpiece"`` (a Hugging Face ``tokenizer.json``) or ``"sentencepiece"`` (a
            sentencepiece model).
        data: the file's bytes.
        max_length: ids per text at most, special tokens among them.
        options: for sentencepiece ``{"layout": "xlm-roberta" | "plain", "known_pieces": int}``,
            both optional; for WordPiece none.

    Raises:
        CorruptArtifactError: ``data`` is not such a file; the message says what was found.
        InvalidInputError: unknown kind or option, or a ``max_length`` without room for a piece.
    """
    options = dict(options or {})
    if kind == "wordpiece":
        _refuse(options)
        return WordPieceTokenizer(data, max_length)
    if kind == "sentencepiece":
        # Here and not above: a WordPiece encoder starts without loading the package.
        from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer

        layout = options.pop("layout", "xlm-roberta")
        known_pieces = options.pop("known_pieces", None)
        _refuse(options)
        return SentencePieceTokenizer(
            data,
            max_length,
            layout,  # type: ignore[arg-type]  # checked there
            known_pieces=known_pieces,  # type: ignore[arg-type]
        )
    raise InvalidInputError(
        f'found the tokenizer kind {kind!r}, expected "wordpiece" or "sentencepiece"'
    )


def _refuse(options: Mapping[str, object]) -> None:
    if options:
        raise InvalidInputError(
            f"found the tokenizer options {sorted(options)}, which this kind does not have; was "
            "the bundle written by a newer version?"
        )
