"""Documents, vectors and an encoder for tests of the index: small, and the same every time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.index.builder import IndexBuilder
from pocketquery.sdk.index.documents import Document, content
from pocketquery.sdk.index.index import Index, create_index

DIMENSION = 32
SPACE = "space-of-words"
NOUNS = ["bridge", "river", "engine", "garden", "castle", "violin", "comet", "harbour"]
VERBS = ["built", "crossed", "painted", "repaired", "described", "sold"]


class WordEncoder:
    """A text's vector is the normalised sum of its words' own random vectors."""

    space_id = SPACE

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Float32 (n, DIMENSION)."""
        return np.stack([self.encode_query(text) for text in texts])

    def encode_query(self, sentences: str, /) -> NDArray[np.float32]:
        vector = np.full(DIMENSION, 1e-3)
        for word in sentences.lower().split():
            seed = zlib.crc32(word.encode())
            vector += np.random.default_rng(seed).standard_normal(DIMENSION)
        unit: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit


def make_documents(count: int, first: int = 0) -> list[Document]:
    """Documents with texts of their own and metadata."""
    documents = []
    for number in range(first, first + count):
        noun, verb = NOUNS[number % len(NOUNS)], VERBS[number % len(VERBS)]
        documents.append(
            Document(
                f"doc-{number}",
                f"The {noun} number {number} was {verb} in {1900 + number}",
                {"year": 1900 + number, "tag": [noun, verb], "title": f"{noun.title()} {number}"},
            )
        )
    return documents


def vectors_of(documents: Iterable[Document]) -> NDArray[np.float32]:
    """Float32 (n, DIMENSION)."""
    return WordEncoder().encode([content(document) for document in documents])


def add_documents(target: Index | IndexBuilder, count: int, first: int = 0) -> list[Document]:
    """Documents of ``make_documents``, added with their vectors."""
    documents = make_documents(count, first)
    target.add(documents, vectors_of(documents))
    return documents


def new_index(path: str | Path, **options: Any) -> IndexBuilder:
    """``create_index`` in this encoder's space; ``options`` are added or take its place."""
    space: dict[str, Any] = {"space_id": SPACE, "dimension": DIMENSION}
    return create_index(path, **space | options)


def make_index(path: Path, count: int = 60, first: int = 0, **options: Any) -> list[Document]:
    """An index of ``count`` documents at ``path``, in commits of 25."""
    with new_index(path, **options) as builder:
        for start in range(first, first + count, 25):
            add_documents(builder, min(25, first + count - start), start)
    return make_documents(count, first)
