"""The float graph against torch, and the device's tokenizer against the student's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pocketquery.export.sessions import GraphSession
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import ArtifactError
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["Agreement", "check_graph", "check_tokenizer", "row_cosines"]


LEAST_COSINE = 1 - 1e-5
LARGEST_DIFFERENCE = 1e-4

_BATCH = 16


@dataclass(frozen=True)
class Agreement:
    """How near two sets of vectors are, over ``texts`` texts."""

    texts: int
    least_cosine: float
    largest_difference: float


def row_cosines(left: Floats, right: Floats) -> npt.NDArray[np.float64]:
    """Cosine of each pair of rows of unit length; float64 (n,)."""
    products: npt.NDArray[np.float64] = np.einsum(
        "nd,nd->n", left.astype(np.float64), right.astype(np.float64)
    )
    return products


def check_graph(student: SentenceEncoder, session: GraphSession, texts: Sequence[str]) -> Agreement:
    """Compare the float graph with torch on ``texts``, both in padded batches and one at a time.

    Raises:
        ArtifactError: a cosine below 1 - 1e-5 or a difference above 1e-4.
    """
    expected, graph_vectors, alone = [], [], []
    for start in range(0, len(texts), _BATCH):
        batch = student.tokenize(texts[start : start + _BATCH])
        ids, mask = batch["input_ids"], batch["attention_mask"]
        with torch.inference_mode():
            vectors = student(ids.to(student.device), mask.to(student.device))
        expected.append(vectors.cpu().numpy())
        graph_vectors.append(session.encode_batch(ids.numpy(), mask.numpy()))
        unpadded = [row[keep == 1].tolist() for row, keep in zip(ids, mask, strict=True)]
        alone.append(session.encode(unpadded))
    torch_vectors = np.concatenate(expected)
    agreement = Agreement(
        len(texts), *_worst(torch_vectors, np.concatenate(graph_vectors), np.concatenate(alone))
    )
    if not (
        agreement.least_cosine >= LEAST_COSINE
        and agreement.largest_difference <= LARGEST_DIFFERENCE
    ):
        raise ArtifactError(
            "the exported graph does not compute what the student computes: least cosine "
            f"{agreement.least_cosine:.7f} (expected {LEAST_COSINE} or more), largest difference "
            f"{agreement.largest_difference:.1e} (expected {LARGEST_DIFFERENCE} or less). Nothing "
            "was written; report the architecture and the versions of torch and optimum-onnx"
        )
    return agreement


def check_tokenizer(student: SentenceEncoder, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Assert that the device's tokenizer gives the ids the student was trained on.

    Raises:
        ArtifactError: other ids for one of the texts.
    """
    for text in texts:
        expected = student.tokenizer(text, truncation=True, max_length=student.max_length)
        ids = tokenizer.encode(text)
        if ids != expected["input_ids"]:
            raise ArtifactError(
                f"the device's tokenizer gives {ids[:8]}... for {text[:60]!r}, the student's "
                f"{expected['input_ids'][:8]}...; nothing was written. The tokenizer's settings "
                "are not supported: save the student with a plain WordPiece or sentencepiece one"
            )


def _worst(expected: Floats, *others: Floats) -> tuple[float, float]:
    least = min(float(row_cosines(expected, other).min()) for other in others)
    largest = max(float(np.abs(expected - other).max()) for other in others)
    return least, largest
