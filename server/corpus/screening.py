"""Screen a corpus's documents for an index.

A document without a word is left out. One that is longer than the encoder reads is counted, or cut
into passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice

from pocketquery.sdk.errors import CorpusError
from pocketquery.sdk.index.documents import Document, check_document, content
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder
from pocketquery.sdk.text_folders.outline import Paragraph
from pocketquery.sdk.text_folders.passages import cut_passages, fitting_title
from pocketquery.sdk.words.tokens import has_word

__all__ = ["TextCounts", "no_documents", "screened"]

_BATCH_DOCUMENTS = 64  # documents
_BLANK_LINES = re.compile(r"\n\s*\n")


@dataclass
class TextCounts:
    """What was met among the documents of a corpus.

    Attributes:
        documents: all of them.
        without_words: left out, since title and text have no letter and no digit.
        longer: than the encoder reads.
        passages: that these were cut into; 0 where they were not.
    """

    documents: int = 0
    without_words: int = 0
    longer: int = 0
    passages: int = 0

    def __iadd__(self, other: TextCounts) -> TextCounts:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        return self

    def lines(self, max_length: int) -> list[str]:
        """What a user should know of it, for people; empty where nothing is to be said.

        Args:
            max_length: tokens of a text that the encoder reads.
        """
        notes = []
        if self.without_words:
            notes.append(
                f"left out: {self.without_words} of {self.documents} documents, which have no "
                "letter or digit in title and text"
            )
        if self.passages:
            notes.append(
                f"cut: {self.longer} of {self.documents} documents, which are longer than the "
                f"{max_length} tokens that the encoder reads, into {self.passages} passages"
            )
        elif self.longer:
            notes.append(
                f"warning: {self.longer} of {self.documents} documents are longer than the "
                f"{max_length} tokens that the encoder reads: what comes after is found by its "
                "words alone, not by meaning. --passages cuts them into passages"
            )
        return notes


def no_documents(counts: TextCounts) -> CorpusError:
    """The error that a corpus has nothing to be found."""
    if not counts.documents:
        return CorpusError("there are no documents; expected at least one")
    return CorpusError(
        f"none of the {counts.documents} documents has a letter or digit in title and text; "
        'expected some: are the fields called "title" and "text"?'
    )


def screened(
    documents: Iterable[Document], encoder: DocumentEncoder, counts: TextCounts, *, passages: bool
) -> Iterator[Document]:
    """Yield the documents that have a word, in their order.

    Args:
        documents: read once.
        encoder: that they are for.
        counts: of what is met; counted up.
        passages: cut documents that are longer than the encoder reads. Passages have the ids
            ``id#1``, ``id#2`` and so on, and beside the document's own metadata ``document``, its
            id, and ``part``, from 1, where it has no fields of these names. A title that takes
            more than half of what the encoder reads is cut, and its rest is text.

    Raises:
        InvalidInputError: a document that cannot be stored.
    """
    remaining = iter(documents)
    while some := list(islice(remaining, _BATCH_DOCUMENTS)):
        for document in some:
            check_document(document, f"the document {document.id!r}")
        worded = [document for document in some if has_word(content(document))]
        counts.documents += len(some)
        counts.without_words += len(some) - len(worded)
        for document, longer in zip(worded, _are_longer(worded, encoder), strict=True):
            counts.longer += longer
            if not (longer and passages):
                yield document
                continue
            cut = _cut(document, encoder)
            counts.passages += len(cut)
            yield from cut


def _are_longer(documents: Sequence[Document], encoder: DocumentEncoder) -> list[bool]:
    """Whether each is longer than the encoder reads: without its last character it would be read
    as the same tokens."""
    texts = [content(document) for document in documents]
    # A token has a byte at least.
    may_be = [n for n, text in enumerate(texts) if len(text.encode()) >= encoder.max_length - 8]
    ids = dict(zip(may_be, encoder.tokens([texts[n] for n in may_be]), strict=True))
    full = [n for n in may_be if len(ids[n]) >= encoder.max_length]
    shorter = dict(zip(full, encoder.tokens([texts[n][:-1] for n in full]), strict=True))
    return [n in shorter and shorter[n] == ids[n] for n in range(len(texts))]


def _cut(document: Document, encoder: DocumentEncoder) -> list[Document]:
    """The passages of a document."""
    title, most = document.metadata.get("title"), encoder.max_length - 1
    rest, named = "", dict[str, str]()
    if isinstance(title, str):
        title, rest = fitting_title([title], encoder.count_tokens, most)
        named = {"title": title}
    paragraphs = [
        Paragraph(None, " ".join(one.split()))
        for one in [rest, *_BLANK_LINES.split(document.text)]
        if one.strip()
    ]
    texts = cut_passages(paragraphs, named.get("title", ""), encoder.count_tokens, most)
    return [
        Document(
            f"{document.id}#{part}",
            passage.text,
            {"document": document.id, "part": part, **document.metadata, **named},
            document.private,
        )
        for part, passage in enumerate(texts, start=1)
    ]
