"""Query-like training texts cut from documents: what a query encoder should know of a corpus."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus import split_sentences

__all__ = ["query_like_texts", "unique_texts"]

_LONGEST_SENTENCE = 60  # words; longer ones are tables and formulas more often than prose


def query_like_texts(documents: Iterable[Document], seed: int = 0) -> Iterator[str]:
    """Titles, sentences, pairs of neighbouring sentences, and short word spans of documents.

    A span of three to eight words takes the place of the keyword queries people type; neighbouring
    sentences for the long descriptions they paste.

    Args:
        documents: any corpus, streamed.
        seed: of the spans.
    """
    rng = random.Random(seed)
    for document in documents:
        title = str(document.metadata.get("title", "")).strip()
        if title:
            yield title
        previous = ""
        for sentence in split_sentences(document.text):
            words = sentence.split()
            if not 2 <= len(words) <= _LONGEST_SENTENCE:
                previous = ""
                continue
            yield sentence
            if previous:
                yield f"{previous} {sentence}"
            if len(words) > 8:
                size = rng.randint(3, 8)
                start = rng.randrange(len(words) - size + 1)
                yield " ".join(words[start : start + size])
            previous = sentence


def unique_texts(texts: Iterable[str]) -> list[str]:
    """The texts in their order, stripped, without repetitions and empty ones."""
    return list(dict.fromkeys(stripped for text in texts if (stripped := text.strip())))
