"""Find and load models in local folders, without a hub."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import MaskedLMOutput

from pocketquery.sdk.errors import ArtifactNotFoundError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MLM_HEAD, MlmHead, head_misfit, load_mlm_heads
from pocketquery.server.modeling.resolve import DEMO_PACKAGE, DEMO_TEACHER

__all__ = [
    "load_masked_model",
    "load_model",
    "load_teacher",
    "missing_model",
    "missing_teacher",
    "teacher_folders",
]

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
        found = importlib.util.find_spec(DEMO_PACKAGE)
        return "" if found else 'the extra "demo", which brings the teacher, is not installed'
    place = Path(name)
    layout = name and ((place / "modules.json").is_file() or (place / "config.json").is_file())
    return "" if layout else f'there is no sentence encoder in the folder "{name}"'


def teacher_folders(name: str) -> tuple[str, ...]:
    """The folder of a sentence encoder; none where it is ``""``, or ``"demo"``, a package's name
    even where a folder is called so."""
    return () if name in ("", DEMO_TEACHER) else (name,)


def load_model(kind: Any, folder: str, device: str) -> tuple[Any, Any]:
    """Model, ready for inference, and tokenizer of a folder.

    Args:
        kind: one of transformers' Auto classes, say ``AutoModelForMaskedLM``.
        folder: in Hugging Face layout.
        device: torch device.

    Raises:
        ArtifactNotFoundError: a file is missing.
        UnknownModelError: it is no model of this kind, or weights of it are missing, such as its
            language-model head, in whose place transformers would draw new ones.
    """
    from transformers import AutoTokenizer

    from pocketquery.server.modeling.sentencepiece_tokenizer import check_sentencepiece

    if missing := missing_model(folder):
        raise ArtifactNotFoundError(missing)
    check_sentencepiece(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        model, loading = kind.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError) as error:
        raise UnknownModelError(
            f"{folder} cannot be loaded as {kind.__name__} ({str(error).splitlines()[0]}); "
            "expected a model of this kind with its tokenizer"
        ) from error
    if drawn := _drawn(model, loading["missing_keys"]):
        raise UnknownModelError(
            f"{folder} has no weights for {len(drawn)} parameters of {kind.__name__} "
            f"({', '.join(drawn[:3])}{', ...' if drawn[3:] else ''}), which would be drawn at "
            "random; expected all of them: give the folder of a model that was trained as this "
            "kind and saved with its head"
        )
    return model.to(device).eval(), tokenizer


def load_masked_model(folder: str, device: str) -> tuple[Any, Any]:
    """Model and tokenizer of a folder that fill masks: ``model(**batch).logits``.

    A folder that ``pocketquery pretrain`` wrote has its head beside the encoder, in
    ``mlm_head.safetensors``; every other is read as transformers' ``AutoModelForMaskedLM``.

    Args:
        folder: in Hugging Face layout.
        device: torch device.

    Raises:
        ArtifactNotFoundError: a file is missing.
        UnknownModelError: it is no masked language model, or its head is missing or another's.
        CorruptArtifactError: the head's file is damaged.
    """
    from transformers import AutoModelForMaskedLM

    if missing := missing_model(folder):
        raise ArtifactNotFoundError(missing)
    if not (Path(folder) / MLM_HEAD).is_file():
        return load_model(AutoModelForMaskedLM, folder, device)
    encoder = SentenceEncoder.load(Path(folder))
    head = MlmHead(encoder)
    if not load_mlm_heads(Path(folder), [head]):
        raise UnknownModelError(head_misfit(Path(folder), [head]))
    tokenizer = encoder.tokenizer
    # A tokenizer of ours need not know how many positions its encoder has.
    tokenizer.model_max_length = min(tokenizer.model_max_length, encoder.max_length)
    return _Pretrained(encoder, head).to(device).eval(), tokenizer


def load_teacher(name: str, device: str) -> SentenceEncoder:
    """A sentence encoder of a folder, or the demo's.

    Raises:
        ArtifactNotFoundError: it is not here.
    """
    if missing := missing_teacher(name):
        raise ArtifactNotFoundError(missing)
    return SentenceEncoder.load(name, device=device)


class _Pretrained(nn.Module):
    """An encoder of ours and its MLM head, called as transformers' masked language models are."""

    def __init__(self, encoder: SentenceEncoder, head: MlmHead) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: torch.Tensor
    ) -> MaskedLMOutput:
        """Logits (texts, length, vocabulary) of ids and mask, both int64 (texts, length)."""
        states = self.encoder.states(input_ids, attention_mask)
        return MaskedLMOutput(logits=self.head(states, self.encoder))


def _drawn(model: Any, missing: Iterable[str]) -> list[str]:
    """Which of the missing weights were drawn: computed ones (sinusoids) do not train."""
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    return sorted(trained & set(missing))


def _any_of(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)
