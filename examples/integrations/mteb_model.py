"""mteb: a bundle and its teacher as one asymmetric model, for mteb's own evaluator.

Queries are encoded by the bundle, as a device does; everything else (documents) by the teacher.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from pocketquery import sdk
from pocketquery.server.modeling import SentenceEncoder


class PocketQueryModel:
    """What ``mteb.evaluate`` takes as a model.

    Args:
        encoder: the bundle, opened.
        teacher: the encoder of its documents.

    Raises:
        SpaceMismatchError: they are of different spaces.
    """

    def __init__(self, encoder: sdk.Encoder, teacher: SentenceEncoder) -> None:
        if encoder.space_id != teacher.space_id:
            raise sdk.SpaceMismatchError.between(
                f"the bundle {encoder.name}", encoder.space_id, "the teacher", teacher.space_id
            )
        self.encoder, self.teacher = encoder, teacher
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": f"pocketquery/{encoder.name}",
                "revision": encoder.version,
                "embed_dim": encoder.dimension,
                "similarity_fn_name": ScoringFunction.COSINE,
            }
        )

    def encode(
        self, inputs: Any, *, prompt_type: PromptType | None = None, **options: Any
    ) -> np.ndarray[Any, Any]:
        """float32 (texts, dimension); ``inputs`` are batches with a list "text" each."""
        texts = [text for batch in inputs for text in batch["text"]]
        if prompt_type == PromptType.query:
            return self.encoder.encode_query(texts)
        return self.teacher.encode_document(texts)

    def similarity(self, left: Any, right: Any) -> np.ndarray[Any, Any]:
        """The cosines, float32 (left, right); vectors have length 1."""
        product: np.ndarray[Any, Any] = np.asarray(left) @ np.asarray(right).T
        return product

    def similarity_pairwise(self, left: Any, right: Any) -> np.ndarray[Any, Any]:
        """The cosines of each pair, float32 (pairs,)."""
        product: np.ndarray[Any, Any] = np.einsum("ij,ij->i", np.asarray(left), np.asarray(right))
        return product
