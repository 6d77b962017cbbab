"""The weights of a Hugging Face folder: every one that the model has, and of its size.

transformers itself draws at random what a file lacks, and says so in its log alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModel
from transformers.utils import logging

from pocketquery.sdk.errors import CorruptArtifactError, UnknownModelError
from pocketquery.server.modeling.folder_json import (
    OBJECT,
    TEXT,
    check_whole_file,
    field,
    first_line,
    read_object,
    refusing,
)

__all__ = ["load_weights", "quiet_transformers"]

_CONFIG, _SAFETENSORS, _PICKLE = "config.json", "model.safetensors", "pytorch_model.bin"


def load_weights(place: Path, config: Any, kind: Any, attention: str | None) -> Any:
    """The model of ``config`` with the weights in ``place``, float32.

    Args:
        place: a Hugging Face folder.
        config: its configuration.
        kind: the class of its model.
        attention: ``"sdpa"`` or ``"eager"``; None for the faster one that the model has.

    Raises:
        CorruptArtifactError: a file is damaged, or its weights have other names or sizes than the
            model's.
        UnknownModelError: there are none, or transformers cannot read them.
    """
    files = _weight_files(place)
    named = ", ".join(file.name for file in files[:3])
    options: dict[str, Any] = {"attn_implementation": attention, "dtype": torch.float32}
    if "add_pooling_layer" in inspect.signature(kind.__init__).parameters:
        # BERT's pooler is never used here; without it nothing unused is trained, hashed or saved.
        options["add_pooling_layer"] = False
    # An absent pooler is meant, not worth a warning.
    with quiet_transformers(), refusing(place / _CONFIG, f"and {named} cannot be loaded"):
        model, loading = AutoModel.from_pretrained(
            place,
            config=config,
            trust_remote_code=False,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # they are named below
            output_loading_info=True,
            **options,
        )
    _check_weights(place / named, model, loading)
    return model


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No warnings and no progress bars of the library's on stderr, within."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _weight_files(place: Path) -> list[Path]:
    """The files that transformers takes the weights from, each whole."""
    index = place / f"{_SAFETENSORS}.index.json"
    if (place / _SAFETENSORS).exists():
        files = [place / _SAFETENSORS]
    elif index.exists():
        names = field(index, read_object(index), "weight_map", OBJECT, {})
        for name in names:
            field(index, names, name, TEXT)
        files = sorted({place / name for name in names.values()})
        if not files or not all(file.parent == place and file.is_file() for file in files):
            raise CorruptArtifactError(f"{index} names files that are not there; copy them, too")
    elif (place / _PICKLE).exists() or (place / f"{_PICKLE}.index.json").exists():
        read_object(place / f"{_PICKLE}.index.json")
        files = sorted(place.glob("pytorch_model*.bin"))
    else:
        files = []
    if not files:
        raise UnknownModelError(
            f"{place} has no model.safetensors; expected config.json, model.safetensors and "
            "tokenizer files"
        )
    for file in files:
        check_whole_file(file)
        if file.suffix == ".safetensors":
            try:
                with safe_open(file, framework="pt") as opened:
                    opened.keys()
            except Exception as error:  # the library's own, and of the operating system
                raise CorruptArtifactError(
                    f"{file} is damaged ({first_line(error)}); copy the model again"
                ) from error
    return files


def _check_weights(path: Path, model: Any, loading: dict[str, Any]) -> None:
    """Every parameter was in the file: what was not, transformers has drawn at random."""
    missing = sorted(name for name in loading["missing_keys"] if ".pooler." not in f".{name}")
    unexpected = sorted(loading["unexpected_keys"])
    if missing:
        beside = f", and has {_some(unexpected)}, which it does not expect" if unexpected else ""
        raise CorruptArtifactError(
            f"{path} lacks weights that {_CONFIG} expects: {_some(missing)}{beside}; copy the "
            "model again, or give the weights the names that save_pretrained gives them"
        )
    damaged = [name for name, value in model.named_parameters() if not value.isfinite().all()]
    if damaged:  # a row of a table, say, which shows in the vectors of texts with its piece alone
        raise CorruptArtifactError(
            f"{path} has weights that are not finite: {_some(damaged)}; copy the model again"
        )
    sizes = model.state_dict()
    # transformers 4 gives names, 5 each with both sizes.
    named = [key if isinstance(key, str) else key[0] for key in loading["mismatched_keys"]]
    wrong = [f"{name} (expected {'x'.join(map(str, sizes[name].shape))})" for name in sorted(named)]
    if wrong:
        raise CorruptArtifactError(
            f"{path} has weights of other sizes than {path.with_name(_CONFIG)} expects: "
            f"{_some(wrong)}; take both files from one model"
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
