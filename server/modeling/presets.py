"""Encoders made from nothing: the shapes that pretraining starts from.

They are BERT, or XLM-R where the tokenizer is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModel, BertConfig, PretrainedConfig, XLMRobertaConfig

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling.sentence_encoder import SentenceEncoder

__all__ = ["PRESETS", "Shape", "new_encoder"]


@dataclass(frozen=True)
class Shape:
    """Layers, width, attention heads and inner width of the feed-forward parts."""

    layers: int
    width: int
    heads: int
    inner: int


PRESETS: Mapping[str, Shape] = {
    "nano": Shape(2, 128, 2, 512),  # BERT-Tiny's
    "mini": Shape(4, 128, 4, 512),
    "small": Shape(4, 256, 4, 1024),
    "tinybert4": Shape(4, 312, 12, 1200),
    "teacher": Shape(6, 384, 6, 1536),
}


def new_encoder(
    preset: str | Shape,
    tokenizer: Any,
    *,
    pooling: str = "mean",
    max_length: int = 128,
    seed: int = 0,
) -> SentenceEncoder:
    """A randomly initialised encoder; one seed gives the same weights every time.

    Args:
        preset: a name of :data:`PRESETS`, or a shape.
        tokenizer: a Hugging Face fast tokenizer with padding and mask tokens.
        pooling: ``"mean"``, ``"cls"`` or ``"eos"``.
        max_length: tokens of a text, specials included; there are positions for so many.
        seed: of the weights.

    Raises:
        InvalidInputError: unknown preset, a tokenizer without padding or mask token, or a length
            below 4.
    """
    if isinstance(preset, str) and preset not in PRESETS:
        raise InvalidInputError(
            f'unknown preset "{preset}"; expected one of {", ".join(PRESETS)}, or a model\'s folder'
        )
    if max_length < 4:
        raise InvalidInputError(f"max_length is {max_length}; expected at least 4")
    shape = PRESETS[preset] if isinstance(preset, str) else preset
    options = _options(shape, tokenizer, max_length)
    config: PretrainedConfig = BertConfig(**options)
    if tokenizer.pad_token_id > 0:  # RoBERTa's kin count positions from the padding id plus one
        options["max_position_embeddings"] += tokenizer.pad_token_id + 1
        config = XLMRobertaConfig(**options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = AutoModel.from_config(config, add_pooling_layer=False)
    name = preset if isinstance(preset, str) else "random"
    return SentenceEncoder(backbone, tokenizer, pooling=pooling, max_length=max_length, name=name)


def _options(shape: Shape, tokenizer: Any, max_length: int) -> dict[str, Any]:
    if tokenizer.pad_token_id is None or tokenizer.mask_token_id is None:
        raise InvalidInputError("the tokenizer has no padding or no mask token; expected both")
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.inner,
        "max_position_embeddings": max_length,
        "type_vocab_size": 1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
