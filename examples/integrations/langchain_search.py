"""LangChain: an encoder as Embeddings, an index as a retriever (langchain-core).

Copy this file into your project. The retriever searches the index itself, by meaning and words,
with its filters; a query is encoded and searched on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from pocketquery import sdk


class PocketQueryEmbeddings(Embeddings):  # type: ignore[misc]
    """A query encoder for LangChain's vector stores.

    Documents are encoded by the light encoder too. Where their teacher should encode them, build
    an index with it and use :class:`PocketQueryRetriever`.

    Args:
        encoder: None takes the built-in one.
    """

    def __init__(self, encoder: sdk.Encoder | None = None) -> None:
        self.encoder = sdk.load() if encoder is None else encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A list of ``dimension`` floats for each text."""
        vectors: list[list[float]] = self.encoder.encode_document(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """A list of ``dimension`` floats."""
        vector: list[float] = self.encoder.encode_query(text).tolist()
        return vector


class PocketQueryRetriever(BaseRetriever):  # type: ignore[misc]
    """An open index as a retriever; a document's score stands in its metadata.

    Attributes:
        index: opened with an encoder; close it when the retriever is no longer used.
        k: how many documents.
        mode: "dense", "lexical" or "hybrid"; None is hybrid.
        filter: conditions on the metadata.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    index: sdk.Index
    k: int = 10
    mode: Any = None
    filter: Mapping[str, Any] | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits = self.index.search(query, self.k, filter=self.filter, mode=self.mode)
        return [
            Document(
                id=hit.id, page_content=hit.text, metadata={**hit.metadata, "score": hit.score}
            )
            for hit in hits
        ]
