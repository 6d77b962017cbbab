"""Encoders made from nothing: the shapes that pretraining starts from.

Post-norm encoders are BERT, or XLM-R where the tokenizer is; shared or factorised ones are ALBERT
("ALBERT: A Lite BERT for Self-supervised Learning of Language Representations", section 3.1), whose
layers are post-norm too; pre-norm ones are RoBERTa-PreLayerNorm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    PretrainedConfig,
    RobertaPreLayerNormConfig,
    XLMRobertaConfig,
)

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
    preset: str,
    tokenizer: Any,
    *,
    pooling: str = "mean",
    max_length: int = 128,
    share_layers: bool = False,
    embedding_width: int | None = None,
    pre_norm: bool = False,
    seed: int = 0,
) -> SentenceEncoder:
    """A randomly initialised encoder; one seed gives the same weights every time.

    Args:
        preset: a name of :data:`PRESETS`.
        tokenizer: a Hugging Face fast tokenizer with padding and mask tokens.
        pooling: ``"mean"``, ``"cls"`` or ``"eos"``.
        max_length: tokens of a text, specials included; there are positions for so many.
        share_layers: all layers have the weights of one.
        embedding_width: of the vocabulary's table, projected to the width; None for the width.
        pre_norm: normalise before each part instead of after it.
        seed: of the weights.

    Raises:
        InvalidInputError: unknown preset, a tokenizer without padding or mask token, options that
            no architecture here has together, or a length or width below its least.
    """
    if preset not in PRESETS:
        raise InvalidInputError(
            f'unknown preset "{preset}"; expected one of {", ".join(PRESETS)}, or a model\'s folder'
        )
    if max_length < 4 or (embedding_width is not None and embedding_width < 1):
        raise InvalidInputError(
            f"max_length is {max_length} and embedding_width {embedding_width}; expected at least "
            "4 and 1"
        )
    factorised = share_layers or embedding_width is not None
    if pre_norm and factorised:
        raise InvalidInputError(
            "pre_norm stands with share_layers or embedding_width; expected either: ALBERT, which "
            "shares and factorises, is post-norm"
        )
    options = _common(PRESETS[preset], tokenizer, max_length)
    if factorised:
        config = _albert(options, share_layers, embedding_width)
    else:
        config = _bert_like(options, tokenizer, pre_norm)
    return SentenceEncoder(
        _drawn(config, seed), tokenizer, pooling=pooling, max_length=max_length, name=preset
    )


def _common(shape: Shape, tokenizer: Any, max_length: int) -> dict[str, Any]:
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


def _albert(
    options: dict[str, Any], share_layers: bool, embedding_width: int | None
) -> PretrainedConfig:
    return AlbertConfig(
        **options,
        embedding_size=embedding_width or options["hidden_size"],
        num_hidden_groups=1 if share_layers else options["num_hidden_layers"],
    )


def _bert_like(options: dict[str, Any], tokenizer: Any, pre_norm: bool) -> PretrainedConfig:
    if not pre_norm and tokenizer.pad_token_id == 0:
        return BertConfig(**options)
    # RoBERTa's kin number the positions from the padding id plus one.
    options["max_position_embeddings"] += tokenizer.pad_token_id + 1
    kind = RobertaPreLayerNormConfig if pre_norm else XLMRobertaConfig
    return kind(**options)


def _drawn(config: PretrainedConfig, seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModel.from_config(config, add_pooling_layer=False)
