"""What an index needs of an encoder, and the encoder at hand where none was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.documents import Document, check_document, content
from pocketquery.sdk.languages.reading import ReadingTally

if TYPE_CHECKING:
    from pathlib import Path

    from pocketquery.sdk.encoder import Encoder

__all__ = [
    "DocumentEncoder",
    "EncoderAtHand",
    "QueryEncoder",
    "Reader",
    "check_encoder",
    "encode_documents",
    "encoder_name",
    "index_encoder",
]


@runtime_checkable
class QueryEncoder(Protocol):
    """What a search needs of an encoder; :class:`pocketquery.sdk.Encoder` has it."""

    @property
    def space_id(self) -> str: ...

    def encode_query(self, sentences: str, /) -> Floats: ...


@runtime_checkable
class Reader(Protocol):
    """What an encoder may have: whether it is made for a text, see ``Encoder.reads``."""

    def reads(self, text: str, /) -> bool: ...


@runtime_checkable
class DocumentEncoder(Protocol):
    """What adding documents without vectors needs of an encoder."""

    def encode_document(self, sentences: Sequence[str], /) -> Floats: ...


def check_encoder(encoder: object) -> None:
    """Raise InvalidInputError where ``encoder`` encodes no queries."""
    if isinstance(encoder, QueryEncoder):
        return
    hint = f"sdk.load({encoder!r})" if isinstance(encoder, str) else "sdk.load(), called"
    raise InvalidInputError(
        f"encoder is a {type(encoder).__name__}, expected an encoder, as {hint} gives one"
    )


def encoder_name(encoder: object) -> str:
    """Name and version, as an index records what made its vectors; empty where it has none."""
    version = getattr(encoder, "version", None)
    return f"{getattr(encoder, 'name', 'encoder')} {version}" if isinstance(version, str) else ""


class EncoderAtHand:
    """The encoder of ``sdk.encode`` for an index that was opened without one, loaded with the first
    text that needs it.

    Args:
        space_id: the index's.
        encoded_by: tells what made the vectors that the index has, see :func:`encoder_name`.

    Raises:
        InvalidInputError: when a query is encoded: it is of another space; when documents are: it
            is not what made the vectors that are there.
        ArtifactError: it cannot be loaded.
    """

    def __init__(self, space_id: str, encoded_by: Callable[[], str]) -> None:
        self.space_id = space_id
        self._encoded_by = encoded_by

    def __repr__(self) -> str:
        return "EncoderAtHand()"

    def encode_query(self, sentences: str, /) -> Floats:
        return self._of_space().encode_query(sentences)

    def reads(self, text: str, /) -> bool:
        return self._of_space().reads(text)

    def encode_document(self, sentences: Sequence[str], /) -> Floats:
        encoder, made_by = self._of_space(), self._encoded_by()
        if encoder_name(encoder) != made_by:
            raise InvalidInputError(
                "documents came without vectors, and the index's were made by "
                f"{made_by or 'an encoder that it does not name'}, not by the encoder at hand, "
                f"{encoder_name(encoder)}; pass vectors, or open it with encoder=sdk.load(...)"
            )
        return encoder.encode_document(sentences)

    def _of_space(self) -> Encoder:
        from pocketquery.sdk.loading import default_encoder  # an encoder's package

        encoder = default_encoder()
        if encoder.space_id != self.space_id:
            raise InvalidInputError(
                f"the index is of the space {self.space_id}, and the encoder at hand, "
                f"{encoder_name(encoder)}, of {encoder.space_id}; open the index with "
                'encoder=sdk.load("its bundle"), or pass a vector, or use mode="lexical"'
            )
        return encoder


def index_encoder(
    encoder: QueryEncoder | None, path: Path, space_id: str, encoded_by: Callable[[], str]
) -> QueryEncoder:
    """What an index of the space ``space_id`` encodes with, where it is opened with ``encoder``.

    Raises:
        InvalidInputError: it is no encoder.
        SpaceMismatchError: it is of another space; names both.
    """
    if encoder is None:
        return EncoderAtHand(space_id, encoded_by)
    check_encoder(encoder)
    if encoder.space_id != space_id:
        raise SpaceMismatchError.between(
            f"the index {path}", space_id, "the encoder", encoder.space_id
        )
    return encoder


def encode_documents(
    documents: Sequence[Document], encoder: object, tally: ReadingTally | None = None
) -> Floats:
    """Vectors of documents, float32 (n, dimension); ``tally`` counts what is read of them.

    Raises:
        InvalidInputError: it encodes none, or is None; or a document cannot be stored.
    """
    if not isinstance(encoder, DocumentEncoder):
        raise InvalidInputError(
            "documents came without vectors, and the index has no encoder of documents; pass "
            "vectors, or encoder=sdk.load() to open_index or create_index"
        )
    for position, document in enumerate(documents):
        check_document(document, f"documents[{position}]")
    if tally:
        tally.add(documents)
    return encoder.encode_document([content(document) for document in documents])
