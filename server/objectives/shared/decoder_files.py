"""A decoder's file in the folder of the encoder that it was trained with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import write_atomic
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["SavedDecoder", "reading_beside", "save_beside"]

_VERSION = 1
_KEY = "pocketquery_decoder"


class SavedDecoder(NamedTuple):
    """What a decoder's file holds."""

    about: dict[str, Any]
    """JSON values that the weights do not say."""
    tensors: dict[str, torch.Tensor]
    """By name."""


def save_beside(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    about: Mapping[str, Any],
    encoder: SentenceEncoder,
) -> None:
    """Write a decoder's weights, and that they belong to ``encoder``.

    Saving the model itself replaces its folder, decoder included: the decoder is saved after it.

    Args:
        path: in the folder where ``encoder`` was saved.
        tensors: by name.
        about: JSON values.
        encoder: the exported model.
    """
    described = {"version": _VERSION, "space_id": encoder.space_id, **about}
    state = {name: value.cpu().contiguous() for name, value in tensors.items()}
    write_atomic(path, save(state, {_KEY: json.dumps(described)}))


@contextmanager
def reading_beside(
    path: Path, encoder: SentenceEncoder, objective: str, how: str = ""
) -> Iterator[SavedDecoder]:
    """The decoder in ``path``; what the block cannot make of it is an error that names the file.

    Args:
        path: in the folder that ``encoder`` was loaded from.
        encoder: its model.
        objective: that trains such decoders.
        how: further words on the training that leaves one.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorruptArtifactError: it cannot be read.
        UnsupportedVersionError: a newer release wrote it.
        SpaceMismatchError: it was trained with other weights than the encoder's.
    """
    if not path.is_file():
        raise ArtifactNotFoundError(
            f"{path.parent} holds no {path.name}; expected a model that was trained by the "
            f'objective "{objective}"{how and " "}{how}, and saved with its decoder'
        )
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        _check(about, encoder, path)
        yield SavedDecoder(about, tensors)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, SpaceMismatchError):
            raise
        raise CorruptArtifactError(
            f"{path} is not a readable decoder ({type(error).__name__}); copy the model again"
        ) from error


def _check(about: Any, encoder: SentenceEncoder, path: Path) -> None:
    if about["version"] > _VERSION:
        raise UnsupportedVersionError(
            f"{path} is of version {about['version']}; this release reads up to {_VERSION}. "
            "Install a newer one"
        )
    if about["space_id"] != encoder.space_id:
        raise SpaceMismatchError.between(
            f"the decoder {path}", about["space_id"], "the encoder", encoder.space_id
        )
