"""The head of masked language modelling beside an encoder: a run that goes on need not relearn it.

It does not ship and no reader of the encoder minds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import write_atomic
from pocketquery.server.objectives.mlm import MlmHead

__all__ = ["MLM_HEAD", "load_mlm_heads", "save_mlm_head"]

MLM_HEAD = "mlm_head.safetensors"


def save_mlm_head(folder: Path, modules: Iterable[nn.Module]) -> None:
    """Write the first head among ``modules`` and theirs into ``folder``; nothing without one."""
    head = next(_heads(modules), None)
    if head is not None:
        write_atomic(folder / MLM_HEAD, save(head.state_dict()))


def load_mlm_heads(folder: Path, modules: Iterable[nn.Module]) -> int:
    """Give every head of the same shape among ``modules`` the weights of ``folder``'s.

    Returns:
        How many got them: 0 where ``folder`` has no head.

    Raises:
        CorruptArtifactError: the file is damaged.
    """
    path = folder / MLM_HEAD
    if not path.is_file():
        return 0
    try:
        saved = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CorruptArtifactError(
            f"{path} is damaged ({error}); expected the weights of an MLM head: delete it to start "
            "with a new one, or restore it"
        ) from error
    shapes = {name: tensor.shape for name, tensor in saved.items()}
    fitting = [
        head
        for head in _heads(modules)
        if {name: tensor.shape for name, tensor in head.state_dict().items()} == shapes
    ]
    for head in fitting:
        head.load_state_dict(saved)
    return len(fitting)


def _heads(modules: Iterable[nn.Module]) -> Iterator[MlmHead]:
    return (found for module in modules for found in module.modules() if isinstance(found, MlmHead))
