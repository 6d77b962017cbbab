"""An encoder's vectors of many texts, kept on disk: computed once, continued after a kill."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.files import make_folder, write_atomic
from pocketquery.sdk.progress import Progress
from pocketquery.server.modeling.autocast import bfloat16_products, has_bfloat16

__all__ = ["VectorSource", "cached_vectors", "texts_sha256"]


_PART_TEXTS = 2048  # texts encoded between two writes: what a kill can cost


class VectorSource(Protocol):
    """What vectors are asked of: a ``SentenceEncoder``, or a teacher that is nothing else."""

    max_length: int

    @property
    def prompts(self) -> Mapping[str, str]: ...
    @property
    def dimension(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def content_id(self) -> str: ...
    def encode(
        self, texts: Sequence[str], *, prompt_name: str | None = None, batch_size: int = 64
    ) -> Floats: ...
    def encode_document(
        self, texts: Sequence[str], *, show_progress_bar: bool = False
    ) -> Floats: ...


def cached_vectors(
    encoder: VectorSource,
    role: str,
    texts: Sequence[str],
    cache: Path | str,
    *,
    bfloat16: bool = False,
    show_progress_bar: bool = False,
) -> Floats:
    """Vectors of ``texts``, float32 (texts, dim); one file for each 2,048 of them in ``cache``.

    A file is named by a hash of the encoder's content, the length texts are truncated to, the
    prompt, the precision and every text. So it is used again only for the same encoder and texts,
    not for another encoder of the same space. One that cannot be read is written anew.

    Args:
        encoder: the frozen encoder.
        role: ``"query"`` or ``"document"``: the prompt, if the encoder has one for it.
        texts: what to encode.
        cache: the folder.
        bfloat16: autocast (cosine to float32 above 0.9999, a third of the time on accelerators
            and on processors with AMX; others ignore it).
        show_progress_bar: texts done, rate and time left on stderr.
    """
    cache = Path(cache)
    make_folder(cache, 0o700)
    prompt = role if role in encoder.prompts else None
    bfloat16 = bfloat16 and has_bfloat16(encoder.device)
    batch_size = 64 if encoder.device.type == "cpu" else 512
    vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    label = f"teacher, {role}"
    content_id = encoder.content_id
    with Progress(len(texts), label, "text", show=show_progress_bar) as shown:
        for start in range(0, len(texts), _PART_TEXTS):
            part = texts[start : start + _PART_TEXTS]
            # The content does not know the length, which one may set on a loaded model.
            made_by = f"{content_id}/{encoder.max_length}/{prompt}/{bfloat16}"
            identity = f"{made_by}/{texts_sha256(part)}"
            path = cache / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npy"
            part_vectors = _read(path, (len(part), encoder.dimension))
            if part_vectors is None:
                with torch.no_grad(), bfloat16_products(encoder.device, bfloat16):
                    part_vectors = encoder.encode(part, prompt_name=prompt, batch_size=batch_size)
                buffer = io.BytesIO()
                np.save(buffer, part_vectors, allow_pickle=False)
                write_atomic(path, buffer.getvalue(), mode=0o600)
            vectors[start : start + _PART_TEXTS] = part_vectors
            shown.update(len(part))
    return vectors


def texts_sha256(texts: Iterable[str]) -> str:
    """SHA-256 of a list of texts: their number, lengths and content all count."""
    digest = hashlib.sha256()
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, int]) -> Floats | None:
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = vectors.shape == shape and vectors.dtype == np.float32 and np.isfinite(vectors).all()
    return vectors if whole else None
