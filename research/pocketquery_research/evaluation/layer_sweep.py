"""Which layer, and which pooling, carries the meaning across languages best?"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery_research.evaluation.translation import TwoWay, two_way

__all__ = ["LayerAndPooling", "encoder_at", "layer_sweep", "layer_vectors"]

_POOLINGS = ("mean", "cls")


class LayerAndPooling(NamedTuple):
    """Where vectors are read from."""

    layer: int
    """0 is the embeddings, 1 the first layer's output."""
    pooling: str
    """``mean`` or ``cls``."""


def layer_vectors(
    encoder: SentenceEncoder, texts: Sequence[str], *, batch_size: int = 64
) -> dict[LayerAndPooling, NDArray[np.float32]]:
    """Vectors of every layer and pooling, each float32 (n, hidden_size), not normalised.

    The encoder's head plays no part.
    """
    collected: dict[LayerAndPooling, list[NDArray[np.float32]]] = {}
    for start in range(0, len(texts), batch_size):
        for reading, vectors in _batch(encoder, texts[start : start + batch_size]):
            collected.setdefault(reading, []).append(vectors)
    return {reading: np.concatenate(parts) for reading, parts in collected.items()}


def layer_sweep(
    encoder: SentenceEncoder, left: Sequence[str], right: Sequence[str], *, batch_size: int = 64
) -> dict[LayerAndPooling, TwoWay]:
    """Two-way accuracy by layer and pooling, on one development pair of languages.

    The choice is made on that pair alone and then fixed for all others.

    Args:
        encoder: any.
        left: n sentences.
        right: their translations.
        batch_size: of the encoding.
    """
    one = layer_vectors(encoder, left, batch_size=batch_size)
    other = layer_vectors(encoder, right, batch_size=batch_size)
    return {reading: two_way(one[reading], other[reading]) for reading in one}


def encoder_at(encoder: SentenceEncoder, reading: LayerAndPooling) -> SentenceEncoder:
    """The encoder cut off after a layer, without its head: what ships once a layer is chosen.

    Args:
        encoder: a BERT or a relative of it; left as it is.
        reading: the layer, 1 or higher, and the pooling.

    Raises:
        InvalidInputError: no such layer, or the layers are not where BERT has them.
    """
    layers = getattr(getattr(encoder.backbone, "encoder", None), "layer", None)
    if layers is None or not 1 <= reading.layer <= len(layers):
        known = 0 if layers is None else len(layers)
        raise InvalidInputError(
            f"layer {reading.layer} of {type(encoder.backbone).__name__} cannot be cut at; "
            f"expected one of its {known} layers"
        )
    backbone = copy.deepcopy(encoder.backbone)
    backbone.encoder.layer = backbone.encoder.layer[: reading.layer]
    backbone.config.num_hidden_layers = reading.layer
    return SentenceEncoder(
        backbone,
        encoder.tokenizer,
        pooling=reading.pooling,
        prompts=encoder.prompts,
        default_prompt_name=encoder.default_prompt_name,
        max_length=encoder.max_length,
        name=encoder.name,
    )


def _batch(
    encoder: SentenceEncoder, texts: Sequence[str]
) -> Iterator[tuple[LayerAndPooling, NDArray[np.float32]]]:
    batch = encoder.tokenize(texts).to(encoder.device)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.inference_mode():
        states = encoder.backbone(ids, attention_mask=mask, output_hidden_states=True).hidden_states
        for layer, found in enumerate(states):
            for pooling in _POOLINGS:
                vectors = pool(found, mask, pooling).float().cpu().numpy()
                yield LayerAndPooling(layer, pooling), vectors
