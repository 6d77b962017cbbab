"""What the student is to reproduce: the teacher's vectors, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.progress import Progress
from pocketquery.server.modeling import SentenceEncoder

__all__ = [
    "Targets",
    "nearest_documents",
    "prepare_targets",
    "teacher_vectors",
    "texts_sha256",
]

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

_PIECE = 2048  # texts encoded between two writes: what a kill can cost
_BLOCK = 512  # texts compared with all documents at once


@dataclass(frozen=True)
class Targets:
    """The teacher's view of the training texts.

    Attributes:
        vectors: float32 (n_texts, dim), the teacher on each clean text as a query.
        documents: float32 (n_documents, dim), the teacher on each document.
        nearest: int64 (n_texts, k), the documents the teacher ranks first for each text.
    """

    vectors: FloatArray
    documents: FloatArray
    nearest: IntArray


def prepare_targets(
    teacher: SentenceEncoder,
    texts: Sequence[str],
    documents: Sequence[str],
    cache: Path,
    *,
    nearest: int,
    bfloat16: bool = False,
    show_progress_bar: bool = False,
) -> Targets:
    """Encode texts and documents with the teacher, reusing what ``cache`` already holds.

    Without documents the training texts themselves are ranked, each other than its own.

    Args:
        teacher: the frozen encoder.
        texts: training texts, encoded as queries.
        documents: encoded as documents.
        cache: folder of finished pieces; a killed call continues after the last one.
        nearest: documents kept per text.
        bfloat16: autocast (cosine to float32 above 0.9999, a third of the time on accelerators
            and on processors with AMX).
        show_progress_bar: one bar a role.
    """
    options = {"bfloat16": bfloat16, "show_progress_bar": show_progress_bar}
    device = teacher.device
    vectors = teacher_vectors(teacher, "query", texts, cache, **options)
    if documents:
        ranked = teacher_vectors(teacher, "document", documents, cache, **options)
        return Targets(vectors, ranked, nearest_documents(vectors, ranked, nearest, device))
    # A text is its own nearest neighbour; one more is asked for and the first is dropped.
    found = nearest_documents(vectors, vectors, nearest + 1, device)
    return Targets(vectors, vectors, found[:, 1:])


def teacher_vectors(
    teacher: SentenceEncoder,
    role: str,
    items: Sequence[str],
    cache: Path,
    *,
    bfloat16: bool = False,
    show_progress_bar: bool = False,
) -> FloatArray:
    """Teacher vectors of ``items``, float32 (items, dim); one file a piece in ``cache``.

    Args:
        teacher: the frozen encoder.
        role: ``"query"`` or ``"document"``: the prompt, if the teacher has one for it.
        items: texts.
        cache: as in :func:`prepare_targets`.
        bfloat16: likewise.
        show_progress_bar: likewise.
    """
    cache.mkdir(parents=True, exist_ok=True)
    prompt = role if role in teacher.prompts else None
    batch_size = 64 if teacher.device.type == "cpu" else 512
    vectors = np.empty((len(items), teacher.dimension), dtype=np.float32)
    label = f"teacher, {role}"
    with Progress(len(items), label, "text", show=show_progress_bar) as bar:
        for start in range(0, len(items), _PIECE):
            piece = items[start : start + _PIECE]
            made_by = f"{teacher.space_id}/{teacher.max_length}/{prompt}/{bfloat16}"
            identity = f"{made_by}/{texts_sha256(piece)}"
            path = cache / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npy"
            if not path.exists():
                with torch.autocast(teacher.device.type, torch.bfloat16, enabled=bfloat16):
                    encoded = teacher.encode(piece, prompt_name=prompt, batch_size=batch_size)
                buffer = io.BytesIO()
                np.save(buffer, encoded)
                write_atomic(path, buffer.getvalue())
            vectors[start : start + _PIECE] = np.load(path, allow_pickle=False)
            bar.update(len(piece))
    return vectors


def nearest_documents(
    vectors: FloatArray, documents: FloatArray, k: int, device: torch.device | str = "cpu"
) -> IntArray:
    """Rows of ``documents`` nearest to each vector, best first: int64 (n, min(k, n_documents)).

    Exact; millions of texts want an accelerator as ``device``.
    """
    k = min(k, len(documents))
    found = np.empty((len(vectors), k), dtype=np.int64)
    columns = torch.from_numpy(documents).to(device).T
    for start in range(0, len(vectors), _BLOCK):
        block = torch.from_numpy(vectors[start : start + _BLOCK]).to(device)
        scores = block @ columns  # (block, n_documents)
        found[start : start + _BLOCK] = torch.topk(scores, k, dim=1).indices.cpu().numpy()
    return found


def texts_sha256(texts: Iterable[str]) -> str:
    """SHA-256 of a list of texts: their number, lengths and content all count."""
    digest = hashlib.sha256()
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()
