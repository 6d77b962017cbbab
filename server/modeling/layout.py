"""The files around a Hugging Face model, written as sentence-transformers writes them.

A folder is ``config.json`` + ``model.safetensors`` + tokenizer files, and around them::

    modules.json                 the chain: Transformer, Pooling, Dense..., Normalize
    sentence_bert_config.json    max_seq_length
    config_sentence_transformers.json   prompts
    1_Pooling/config.json        mean, cls or lasttoken
    2_Dense/ ...                 the alignment head, one folder a linear layer
    pocketquery.json             ours: the space a distilled query encoder lives in

``layout_reader.py`` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from pocketquery.sdk.files import make_folder
from pocketquery.sdk.folders import FolderKind, check_replaceable

__all__ = ["ACTIVATIONS", "Layout", "Normalize", "check_model_replaceable", "write_layout"]


ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "torch.nn.modules.linear.Identity": nn.Identity,
    "torch.nn.modules.activation.Tanh": nn.Tanh,
    "torch.nn.modules.activation.GELU": nn.GELU,
    "torch.nn.modules.activation.ReLU": nn.ReLU,
}

_MODULES = "sentence_transformers.models."


class Normalize(nn.Module):
    """Rows of unit length, in the middle of a head; behind its end they are given that anyway."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        return nn.functional.normalize(vectors, dim=-1)


@dataclass(frozen=True)
class Layout:
    """Everything around the transformer: pooling, head, prompts and the space it belongs to.

    Attributes:
        pooling: ``"mean"``, ``"cls"`` or ``"eos"``.
        max_length: tokens a text is cut to; None: as many as tokenizer and positions allow.
        max_length_file: the name of the file that says so, for errors.
        lower_case: texts are lowercased before the tokenizer's own normaliser.
        prompts: by name; that of documents is ``"document"``, however the folder called it.
        default_prompt_name: the prompt of texts that are neither queries nor documents.
        head: what follows the pooling, without the normalisation at its end.
        transformer_path: the transformer's folder in the model's.
        pocketquery: what ``pocketquery.json`` holds.
    """

    pooling: str = "mean"
    max_length: int | None = None
    max_length_file: str = "sentence_bert_config.json"
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    head: nn.Sequential | None = None
    transformer_path: str = ""
    pocketquery: Mapping[str, Any] = field(default_factory=dict)


def write_layout(folder: Path, layout: Layout, hidden_size: int) -> None:
    """Write the files of ``layout`` into ``folder``, beside the transformer's own."""
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write_json(folder / "1_Pooling" / "config.json", _pooling_config(layout.pooling, hidden_size))
    for part in [*_head_parts(layout.head), Normalize()]:
        kind = "Normalize" if isinstance(part, Normalize) else "Dense"
        name = f"{len(modules)}_{kind}"
        (folder / name).mkdir(exist_ok=True)
        if not isinstance(part, Normalize):
            _write_dense(folder / name, *part)
        modules.append((kind, name))
    chain = [
        {"idx": i, "name": str(i), "path": path, "type": _MODULES + kind}
        for i, (kind, path) in enumerate(modules)
    ]
    _write_json(folder / "modules.json", chain)
    limits = {"max_seq_length": layout.max_length, "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", limits)
    prompts: dict[str, Any] = {"prompts": dict(layout.prompts), "similarity_fn_name": "cosine"}
    if layout.default_prompt_name is not None:
        prompts["default_prompt_name"] = layout.default_prompt_name
    _write_json(folder / "config_sentence_transformers.json", prompts)
    if layout.pocketquery:
        _write_json(folder / "pocketquery.json", dict(layout.pocketquery))


def check_model_replaceable(folder: Path) -> None:
    """Saving replaces the whole folder: only one of this layout, or an empty one, may be.

    Raises:
        InvalidInputError: ``folder`` holds something else.
    """
    check_replaceable(folder, FolderKind("a sentence-transformers folder", "modules.json"))


def _pooling_config(pooling: str, hidden_size: int) -> dict[str, Any]:
    return {
        "word_embedding_dimension": hidden_size,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
        "pooling_mode_lasttoken": pooling == "eos",
    }


def _head_parts(head: nn.Sequential | None) -> Iterator[tuple[nn.Linear, nn.Module] | Normalize]:
    """The head in the units in which the layout stores it; a linear layer with its activation."""
    modules = list(head or ())
    for place, module in enumerate(modules):
        if isinstance(module, Normalize):
            yield module
        elif isinstance(module, nn.Linear):
            after = modules[place + 1] if place + 1 < len(modules) else nn.Identity()
            bare = isinstance(after, nn.Linear | Normalize)
            yield module, nn.Identity() if bare else after


def _write_dense(place: Path, linear: nn.Linear, activation: nn.Module) -> None:
    names = {kind: name for name, kind in ACTIVATIONS.items()}
    config = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": names[type(activation)],
    }
    _write_json(place / "config.json", config)
    state = {f"linear.{key}": value.contiguous() for key, value in linear.state_dict().items()}
    save_file(state, place / "model.safetensors")


def _write_json(path: Path, value: object) -> None:
    make_folder(path.parent)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
