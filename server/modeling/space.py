"""The space id: one name for a vector space, carried by everything that lives in it.

Two encoders share an id exactly when they have the same weights, pooling, head, prompts of queries
and documents, tokenizer, and settings of the architecture: a text that neither truncates gets the
same vector from both. The id is computed from content, never from files, so saving a model in
another layout or with another library version does not change it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig

__all__ = ["space_id", "tokenizer_fingerprint", "unusual_settings", "weights_fingerprint"]

_ROLES = ("query", "document")

# An architecture has settings of its own, and each may change the vectors of equal weights, but for
# these: sizes, which the weights' names and shapes show, and what only training, other tasks or
# other programs look at.
_SIZES = (
    *("vocab_size", "type_vocab_size", "hidden_size", "embedding_size", "intermediate_size"),
    *("max_position_embeddings", "num_hidden_layers", "num_key_value_heads"),
    *("dim", "hidden_dim", "n_layers", "d_model", "d_inner", "n_layer"),
)
_ELSEWHERE = (
    *("dropout", "pdrop", "initializer", "init_std", "classif", "pooler", "summary", "use_cache"),
    *("token_id", "pretraining_tp", "sparse_pred", "decoder_bias", "deterministic_flash_attn"),
    *("_mems_", "_n_top", "reference_compile", "repad_logits", "gradient_checkpointing"),
    *("tie_word_embeddings", "add_cross_attention"),
)
_MODERNBERT_EVERY = 3  # so many layers there is one of full attention, where nothing is said
_ROBERTA_PADDING_ID = 1  # its padding's id, behind which it and its kin number the positions

# What a tokenizer does with these stands for its normaliser, pre-tokeniser and specials, whose
# serialisation changes between library versions while their behaviour does not.
_PROBE_TEXTS = (
    "How do I reset my password?",
    "Ünïcödé ÉCLAIR straße İstanbul",
    "don't e-mail me@example.org, call 0800-1234!",
    "東京タワーは何メートルですか",
    "Привет, как дела? Ёж",
    "مرحبا بالعالم हिन्दी ไทย 한국어 ελληνικά",
    "  tabs\tand\nnewlines  \u200b\u00ad zero width ",
    "[CLS] <s> </s> [SEP] <unk> \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
)


def space_id(
    *,
    weights_sha256: str,
    dimension: int,
    pooling: str,
    normalize: bool,
    prompts: Mapping[str, str],
    tokenizer_sha256: str,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """``space-`` and 32 hexadecimal digits naming the vector space of an encoder.

    Args:
        weights_sha256: see :func:`weights_fingerprint`.
        dimension: of the vectors.
        pooling: of the token states.
        normalize: whether vectors have unit length.
        prompts: of these, what is put before queries and documents counts; an empty text is none.
        tokenizer_sha256: see :func:`tokenizer_fingerprint`.
        settings: see :func:`unusual_settings`.
    """
    identity = {
        "weights_sha256": weights_sha256,
        "dimension": dimension,
        "pooling": pooling,
        "normalize": normalize,
        "prompts": {role: prompts[role] for role in _ROLES if prompts.get(role)},
        "tokenizer_sha256": tokenizer_sha256,
        **({"settings": dict(settings)} if settings else {}),
    }
    return "space-" + _sha256_json(identity)[:32]


def unusual_settings(config: Any, head: Iterable[nn.Module]) -> dict[str, Any]:
    """What changes the vectors of equal weights, where it is not what is usual.

    Args:
        config: of a transformers model; usual is what its class has of itself.
        head: the modules behind the pooling; usual are linear layers alone.
    """
    usual = type(config)()
    own = usual.to_dict().keys() - PretrainedConfig().to_dict().keys() - set(_SIZES)
    names = {name for name in own if not any(part in name for part in _ELSEWHERE)}
    names.add("is_decoder")
    if usual.pad_token_id == _ROBERTA_PADDING_ID:
        names.add("pad_token_id")
    if hasattr(usual, "num_hidden_groups"):  # ALBERT's, which may run one layer many times
        names.add("num_hidden_layers")
    defaults = _by_old_names(usual, names)
    values = _by_old_names(config, names).items()
    settings = {name: value for name, value in values if value != defaults[name]}
    # A saved head is loaded with an Identity where a linear layer has no activation.
    changing = [module for module in head if not isinstance(module, nn.Dropout | nn.Identity)]
    kinds = [type(module).__name__ for module in changing]
    if set(kinds) - {"Linear"}:
        settings["head"] = kinds
    return settings


def _by_old_names(config: Any, names: Iterable[str]) -> dict[str, Any]:
    """The settings as transformers 4 has them: documents were encoded under ids made of those.

    5 has all that is said of rotary positions in one, for each kind of layers where they differ.
    """
    values = {name: getattr(config, name, None) for name in names}
    values["is_decoder"] = bool(values["is_decoder"])
    if (rotary := values.pop("rope_parameters", None)) is None:
        return values
    near, far = rotary.get("sliding_attention"), dict(rotary.get("full_attention", rotary))
    near_name, far_name = "rope_local_base_freq", "rope_theta"
    if "local_attention" in values:  # ModernBERT's
        near_name, far_name = "local_rope_theta", "global_rope_theta"
        kinds = values.pop("layer_types") or ()
        full = [number for number, kind in enumerate(kinds) if kind == "full_attention"]
        every = full[1] if len(full) > 1 else _MODERNBERT_EVERY
        values["global_attn_every_n_layers"] = getattr(config, "global_attn_every_n_layers", every)
    if near:
        values[near_name] = near["rope_theta"]
    values[far_name] = far.pop("rope_theta")
    values["partial_rotary_factor"] = far.pop("partial_rotary_factor", None)
    values["rope_scaling"] = None if far["rope_type"] == "default" else far
    return values


def weights_fingerprint(state: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over the tensors of ``state`` in the order of their names, as float32.

    The unused ``pooler`` of BERT checkpoints is left out: it does not touch the vectors.
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        if ".pooler." in f".{name}." or not state[name].is_floating_point():
            continue
        tensor = state[name].detach().to("cpu", torch.float32).contiguous()
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """SHA-256 of a Hugging Face tokenizer's vocabulary and of its ids on fixed probe texts.

    A teacher that is exported has a device's ids and stays in its own space.
    """
    tokenizer = getattr(tokenizer, "hugging_face", tokenizer)
    ids = [tokenizer(text, truncation=False)["input_ids"] for text in _PROBE_TEXTS]
    return _sha256_json({"vocabulary": sorted(tokenizer.get_vocab().items()), "probes": ids})


def _sha256_json(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
