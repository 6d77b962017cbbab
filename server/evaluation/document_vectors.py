"""The teacher's vectors of a corpus, kept on disk between evaluations."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.index.documents import Document, content

if TYPE_CHECKING:  # torch is the caller's to import: who only scores rankings needs none
    from pocketquery.server.modeling import SentenceEncoder

__all__ = ["encode_documents"]


def encode_documents(
    teacher: SentenceEncoder,
    documents: Sequence[Document],
    *,
    cache: Path | str | None = None,
    show_progress_bar: bool = False,
) -> NDArray[np.float32]:
    """Encode the documents' content with the teacher; float32 (documents, dimension).

    Args:
        cache: a folder to keep the vectors in. A file there is named by a hash of the space id,
            the length texts are truncated to and every text, so it is found again only for the
            same teacher and corpus; one that cannot be read is written anew.
    """
    texts = [content(document) for document in documents]
    kept = None if cache is None else Path(cache) / f"{_key(teacher, texts)}.npy"
    shape = (len(texts), teacher.dimension)
    if kept is not None and (found := _read(kept, shape)) is not None:
        return found
    vectors = teacher.encode_document(texts, show_progress_bar=show_progress_bar)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.save(buffer, vectors, allow_pickle=False)
        write_atomic(kept, buffer.getvalue())
    return vectors


def _key(teacher: SentenceEncoder, texts: Sequence[str]) -> str:
    # The space id does not know the length, which one may set on a loaded model.
    digest = hashlib.sha256(f"{teacher.space_id}/{teacher.max_length}".encode())
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()[:32]


def _read(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = vectors.shape == shape and vectors.dtype == np.float32 and np.isfinite(vectors).all()
    return vectors if whole else None
