"""LlamaIndex: an encoder as an embedding model, an index as a retriever (llama-index-core).

Copy this file into your project. The retriever searches the index itself, by meaning and words; a
query is encoded and searched on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from pocketquery import sdk


class PocketQueryEmbedding(BaseEmbedding):  # type: ignore[misc]
    """A query encoder for LlamaIndex's vector stores; documents are encoded by it too.

    Args:
        encoder: None takes the built-in one.
    """

    _encoder: sdk.Encoder = PrivateAttr()

    def __init__(self, encoder: sdk.Encoder | None = None, **options: Any) -> None:
        chosen = sdk.load() if encoder is None else encoder
        super().__init__(model_name=chosen.name, **options)
        self._encoder = chosen

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._encoder.encode_query(query).tolist()
        return vector

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        vector: list[float] = self._encoder.encode_document(text).tolist()
        return vector


class PocketQueryRetriever(BaseRetriever):  # type: ignore[misc]
    """An open index as a retriever.

    Args:
        index: opened with an encoder; close it when the retriever is no longer used.
        k: how many nodes.
        mode: "dense", "lexical" or "hybrid"; None is hybrid.
        filter: conditions on the metadata.
    """

    def __init__(
        self,
        index: sdk.Index,
        *,
        k: int = 10,
        mode: Any = None,
        filter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._index, self._k, self._mode, self._filter = index, k, mode, filter
        super().__init__(**options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._index.search(
            query_bundle.query_str, self._k, filter=self._filter, mode=self._mode
        )
        return [
            NodeWithScore(
                node=TextNode(id_=hit.id, text=hit.text, metadata=dict(hit.metadata)),
                score=hit.score,
            )
            for hit in hits
        ]
