"""Reading and writing the sentence-transformers folder layout around a Hugging Face model.

A folder is ``config.json`` + ``model.safetensors`` + tokenizer files, and around them::

    modules.json                 the chain: Transformer, Pooling, Dense..., Normalize
    sentence_bert_config.json    max_seq_length
    config_sentence_transformers.json   prompts
    1_Pooling/config.json        mean, cls or eos
    2_Dense/ ...                 the alignment head, one folder a linear layer
    pocketquery.json             ours: the space a distilled query encoder lives in
    calibration.json             ours: what is done to the vectors of each language

A folder without ``modules.json`` is a plain Hugging Face encoder and is mean-pooled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    UnknownModelError,
)
from pocketquery.sdk.files import FolderKind, check_replaceable

__all__ = [
    "ACTIVATIONS",
    "CALIBRATION",
    "Layout",
    "check_model_replaceable",
    "read_layout",
    "write_layout",
]

CALIBRATION = "calibration.json"
"""Names the calibration in a model's folder; its other file lies beside it."""

ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "torch.nn.modules.linear.Identity": nn.Identity,
    "torch.nn.modules.activation.Tanh": nn.Tanh,
    "torch.nn.modules.activation.GELU": nn.GELU,
    "torch.nn.modules.activation.ReLU": nn.ReLU,
}

_MODULES = "sentence_transformers.models."

# What sentence-transformers calls the poolings, in its older files and in its newer ones.
_LONG_NAMES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "eos",
}
_SHORT_NAMES = {"mean": "mean", "cls": "cls", "lasttoken": "eos"}


@dataclass(frozen=True)
class Layout:
    """Everything around the transformer: pooling, head, prompts and the space it belongs to."""

    pooling: str = "mean"
    max_length: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    head: nn.Sequential | None = None
    transformer_path: str = ""
    pocketquery: Mapping[str, Any] = field(default_factory=dict)


def read_layout(folder: Path, pooling: str | None = None) -> Layout:
    """Read what stands around the transformer in ``folder``.

    Raises:
        UnknownModelError: a module or pooling that this class does not reproduce.
        CorruptArtifactError: a configuration file that is not JSON.
    """
    ours = _read_json(folder / "pocketquery.json", {})
    modules = _read_json(folder / "modules.json", None)
    if modules is None:
        return Layout(pooling=pooling or "mean", pocketquery=ours)
    found_pooling, head, transformer_path = "mean", [], ""
    for module in modules:
        kind = str(module["type"]).rsplit(".", 1)[-1]
        place = folder / module["path"]
        if kind == "Transformer":
            transformer_path = module["path"]
        elif kind == "Pooling":
            found_pooling = _pooling_of(_read_json(place / "config.json", {}), place)
        elif kind == "Dense":
            head += _read_dense(place)
        elif kind != "Normalize":
            raise UnknownModelError(
                f'{folder / "modules.json"} names a module "{kind}"; supported are Transformer, '
                "Pooling, Dense and Normalize"
            )
    limits = _read_json(folder / transformer_path / "sentence_bert_config.json", {})
    prompts = _read_json(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    return Layout(
        pooling=pooling or found_pooling,
        max_length=limits.get("max_seq_length"),
        prompts=prompts,
        head=nn.Sequential(*head) if head else None,
        transformer_path=transformer_path,
        pocketquery=ours,
    )


def write_layout(folder: Path, layout: Layout, hidden_size: int) -> None:
    """Write the files of ``layout`` into ``folder``, beside the transformer's own."""
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write_json(folder / "1_Pooling" / "config.json", _pooling_config(layout.pooling, hidden_size))
    for linear, activation in _dense_layers(layout.head):
        name = f"{len(modules)}_Dense"
        _write_dense(folder / name, linear, activation)
        modules.append(("Dense", name))
    normalize = f"{len(modules)}_Normalize"
    (folder / normalize).mkdir(exist_ok=True)
    modules.append(("Normalize", normalize))
    chain = [
        {"idx": i, "name": str(i), "path": path, "type": _MODULES + kind}
        for i, (kind, path) in enumerate(modules)
    ]
    _write_json(folder / "modules.json", chain)
    limits = {"max_seq_length": layout.max_length, "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", limits)
    prompts = {"prompts": dict(layout.prompts), "similarity_fn_name": "cosine"}
    _write_json(folder / "config_sentence_transformers.json", prompts)
    if layout.pocketquery:
        _write_json(folder / "pocketquery.json", dict(layout.pocketquery))


def check_model_replaceable(folder: Path) -> None:
    """Saving replaces the whole folder: only one of this layout, or an empty one, may be.

    Raises:
        InvalidInputError: ``folder`` holds something else.
    """
    check_replaceable(folder, FolderKind("a sentence-transformers folder", "modules.json"))


def _pooling_of(config: Mapping[str, Any], place: Path) -> str:
    if config.get("pooling_mode") in _SHORT_NAMES:
        return _SHORT_NAMES[config["pooling_mode"]]
    modes = {key for key, on in config.items() if key.startswith("pooling_mode") and on is True}
    if len(modes) != 1 or next(iter(modes)) not in _LONG_NAMES:
        raise UnknownModelError(
            f"{place} pools by {sorted(modes) or 'nothing'}; supported is one of mean, cls and "
            "lasttoken"
        )
    return _LONG_NAMES[next(iter(modes))]


def _pooling_config(pooling: str, hidden_size: int) -> dict[str, Any]:
    return {
        "word_embedding_dimension": hidden_size,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
        "pooling_mode_lasttoken": pooling == "eos",
    }


def _read_dense(place: Path) -> list[nn.Module]:
    config = _read_json(place / "config.json", {})
    activation = str(config.get("activation_function", "torch.nn.modules.linear.Identity"))
    if activation not in ACTIVATIONS:
        raise UnknownModelError(
            f"{place} uses the activation {activation}; supported are {', '.join(ACTIVATIONS)}"
        )
    linear = nn.Linear(config["in_features"], config["out_features"], bias=config["bias"])
    if (place / "model.safetensors").exists():
        state = load_file(place / "model.safetensors")
    elif (place / "pytorch_model.bin").exists():
        state = torch.load(place / "pytorch_model.bin", map_location="cpu", weights_only=True)
    else:
        raise ArtifactNotFoundError(f"{place} has no model.safetensors; copy the model again")
    linear.load_state_dict({key.removeprefix("linear."): value for key, value in state.items()})
    return [linear, ACTIVATIONS[activation]()]


def _dense_layers(head: nn.Sequential | None) -> list[tuple[nn.Linear, nn.Module]]:
    """The head as (linear, activation) pairs, the unit in which the layout stores it."""
    layers: list[tuple[nn.Linear, nn.Module]] = []
    for module in head or ():
        if isinstance(module, nn.Linear):
            layers.append((module, nn.Identity()))
        else:
            layers[-1] = (layers[-1][0], module)
    return layers


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


def _read_json(path: Path, default: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return default
    except ValueError as error:
        raise CorruptArtifactError(f"{path} is not JSON ({error}); copy the model again") from error


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
