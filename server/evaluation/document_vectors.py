"""The teacher's vectors of a corpus, kept on disk between evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.index.documents import Document, content

if TYPE_CHECKING:  # torch is the caller's to import: who only scores rankings needs none
    from pocketquery.server.modeling.vector_cache import VectorSource

__all__ = ["encode_documents"]


def encode_documents(
    teacher: VectorSource,
    documents: Sequence[Document],
    *,
    cache: Path | str | None = None,
    show_progress_bar: bool = False,
) -> NDArray[np.float32]:
    """Encode the documents' content with the teacher; float32 (documents, dimension).

    Args:
        teacher: the encoder.
        documents: of the corpus.
        cache: a folder to keep the vectors in; see
            :func:`~pocketquery.server.modeling.vector_cache.cached_vectors`.
        show_progress_bar: texts done, rate and time left on stderr.
    """
    texts = [content(document) for document in documents]
    if cache is None:
        return teacher.encode_document(texts, show_progress_bar=show_progress_bar)
    from pocketquery.server.modeling.vector_cache import cached_vectors

    return cached_vectors(teacher, "document", texts, cache, show_progress_bar=show_progress_bar)
