"""Check that an encoder can become a bundle: before it is trained, and at export."""

from __future__ import annotations

import json
from typing import Any

from torch import nn
from transformers.activations import ACT2FN

from pocketquery.sdk.bundle.manifest import MOST_DIMENSIONS, MOST_PROMPT, MOST_PROMPTS
from pocketquery.sdk.errors import ArtifactError, UnknownModelError
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from pocketquery.server.evaluation.diverse_texts import DIVERSE_TEXTS
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["ARCHITECTURES", "HEAD_ACTIVATIONS", "check_backbone", "check_exportable"]

ARCHITECTURES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Values of ``model_type`` in config.json whose students can be exported."""

HEAD_ACTIVATIONS = {nn.GELU: "Gelu", nn.Tanh: "Tanh", nn.ReLU: "Relu"}
"""What may stand between the linear layers of a head, with its ONNX operator."""


def check_exportable(encoder: SentenceEncoder) -> None:
    """Raise where no bundle can be made of ``encoder``, trained or not.

    Raises:
        UnknownModelError: an architecture, pooling, head, tokenizer or prompt that no device reads.
    """
    check_backbone(encoder.backbone.config)
    if encoder.pooling == "eos":
        raise UnknownModelError(
            'pooling "eos" (the last token) cannot be exported; supported are "mean" and "cls". '
            "Take a teacher with one of these"
        )
    for module in encoder.head or ():
        _check_head_module(module)
    if encoder.dimension > MOST_DIMENSIONS:
        raise UnknownModelError(
            f"vectors of {encoder.dimension} dimensions cannot be exported; expected at most "
            f"{MOST_DIMENSIONS}"
        )
    longest = max(map(len, [*encoder.prompts, *encoder.prompts.values()]), default=0)
    if len(encoder.prompts) > MOST_PROMPTS or longest > MOST_PROMPT:
        raise UnknownModelError(
            f"{len(encoder.prompts)} prompts of up to {longest} characters cannot be exported; "
            f"expected at most {MOST_PROMPTS} of {MOST_PROMPT}"
        )
    _check_tokenizer(encoder)


def check_backbone(config: Any) -> None:
    """Raise UnknownModelError where no graph can be made of such a transformer.

    Args:
        config: transformers' configuration of it.
    """
    if config.model_type not in ARCHITECTURES:
        raise UnknownModelError(
            f'the architecture "{config.model_type}" cannot be exported; supported are '
            f"{', '.join(ARCHITECTURES)}. Take a teacher, and so a student, of one of these"
        )
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    if positions != "absolute":
        raise UnknownModelError(
            f'positions of the type "{positions}" cannot be exported; expected "absolute"'
        )
    if getattr(config, "is_decoder", False):
        raise UnknownModelError(
            "a decoder, whose tokens see those before them alone, cannot be exported; expected "
            '"is_decoder": false'
        )
    activation = config.hidden_act
    known = isinstance(activation, str) and activation in ACT2FN
    if not known or any(True for _ in ACT2FN[activation].parameters()):
        raise UnknownModelError(
            f'the activation "{activation}" cannot be exported; expected one without weights of '
            'its own, such as "gelu" or "relu"'
        )


def _check_head_module(module: nn.Module) -> None:
    if type(module) in HEAD_ACTIVATIONS:
        if getattr(module, "approximate", "none") != "none":
            raise UnknownModelError(
                "the head uses GELU's approximation; export takes the exact one"
            )
    elif not isinstance(module, nn.Linear | nn.Identity | nn.Dropout):
        known = ", ".join(kind.__name__ for kind in HEAD_ACTIVATIONS)
        raise UnknownModelError(
            f"the head holds a {type(module).__name__}; supported are Linear, {known} and "
            "Identity. A student that is narrower than its teacher has a head of its own"
        )


def _check_tokenizer(encoder: SentenceEncoder) -> None:
    tokenizer = encoder.tokenizer
    if tokenizer.truncation_side != "right":
        raise UnknownModelError(
            f"the tokenizer cuts long texts on the {tokenizer.truncation_side}, devices on the "
            'right; say "truncation_side": "right" in tokenizer_config.json'
        )
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    if content["model"]["type"] == "WordPiece":
        content |= {"padding": None, "truncation": None}
        try:
            device = open_tokenizer("wordpiece", json.dumps(content).encode(), encoder.max_length)
        except ArtifactError as error:
            raise UnknownModelError(f"the tokenizer cannot be exported: {error}") from error
        for text in DIVERSE_TEXTS:
            ids = tokenizer(text, truncation=True, max_length=encoder.max_length)["input_ids"]
            if device.encode(text) != ids:
                raise UnknownModelError(
                    f"the tokenizer cannot be exported: a device would give other ids for "
                    f"{text[:60]!r}; expected a plain WordPiece one"
                )
    elif "Lowercase" in str(content["normalizer"]):
        raise UnknownModelError(
            'the tokenizer lowercases ("do_lower_case") before a sentencepiece model, which '
            "devices do not; expected a model whose own normaliser does so"
        )
