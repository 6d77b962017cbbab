"""The head of masked language modelling, and its file beside an encoder.

A run that goes on need not relearn it; it does not ship, and no reader of the encoder minds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn
from torch.nn import functional

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import write_atomic
from pocketquery.server.modeling.sentence_encoder import SentenceEncoder
from pocketquery.server.modeling.vocabulary_cross_entropy import vocabulary_cross_entropy

__all__ = [
    "MLM_HEAD",
    "MlmHead",
    "TiedHead",
    "head_misfit",
    "load_mlm_heads",
    "save_mlm_head",
    "set_biases",
]

MLM_HEAD = "mlm_head.safetensors"

_ROWS = "bias"  # of a head: one entry a token of the vocabulary


class TiedHead(nn.Module):
    """States or vectors to vocabulary logits: linear, GELU, layer norm, tied decoder with a bias.

    Args:
        encoder: whose token table it is tied to.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        table = encoder.backbone.get_input_embeddings().weight
        self.dense = nn.Linear(encoder.hidden_size, table.shape[1])
        self.norm = nn.LayerNorm(table.shape[1])
        self.bias = nn.Parameter(torch.zeros(table.shape[0]))

    def forward(self, states: torch.Tensor, encoder: SentenceEncoder) -> torch.Tensor:
        """Logits (n, vocabulary) of states (n, width); the decoder is the encoder's own table."""
        return functional.linear(self._turned(states), self._table(encoder), self.bias)

    def _turned(self, states: torch.Tensor) -> torch.Tensor:
        turned: torch.Tensor = self.norm(functional.gelu(self.dense(states)))
        return turned

    def _table(self, encoder: SentenceEncoder) -> torch.Tensor:
        """Another objective of the run may have added tokens since; no text holds them."""
        table: torch.Tensor = encoder.backbone.get_input_embeddings().weight
        return table[: len(self.bias)]


class MlmHead(TiedHead):
    """Of token states.

    Args:
        encoder: whose token table it is tied to.
        of_decoder: it reads a decoder's states, not the encoder's.
    """

    def __init__(self, encoder: SentenceEncoder, *, of_decoder: bool = False) -> None:
        super().__init__(encoder)
        self.of_decoder = of_decoder

    def cross_entropy(
        self, states: torch.Tensor, target: torch.Tensor, encoder: SentenceEncoder
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """:func:`vocabulary_cross_entropy` of states (n, width) against token ids (n,)."""
        return vocabulary_cross_entropy(
            self._turned(states), self._table(encoder), self.bias, target
        )


def save_mlm_head(folder: Path, modules: Iterable[nn.Module]) -> None:
    """Write the first head among ``modules`` and theirs into ``folder``; nothing without one.

    A decoder's head is written only where there is no other.
    """
    head = min(_heads(modules), key=lambda one: one.of_decoder, default=None)
    if head is not None:
        write_atomic(folder / MLM_HEAD, save(head.state_dict()))


def load_mlm_heads(folder: Path, modules: Iterable[nn.Module]) -> int:
    """Give every head among ``modules`` that fits the weights of ``folder``'s.

    A head fits where the shapes are the saved ones; its vocabulary may be longer, as it is where
    an objective of the run has added tokens before the head was made. Their rows stay as drawn.

    Returns:
        How many got them: 0 where ``folder`` has no head, or none fits (see :func:`head_misfit`).

    Raises:
        CorruptArtifactError: the file is damaged.
    """
    saved = _saved(folder)
    fitting = [head for head in _heads(modules) if saved and not _differences(saved, head)]
    for head in fitting:
        added = head.bias.detach()[len(saved[_ROWS]) :]
        head.load_state_dict(saved | {_ROWS: torch.cat([saved[_ROWS].to(added), added])})
    return len(fitting)


def head_misfit(folder: Path, modules: Iterable[nn.Module]) -> str:
    """Why no head among ``modules`` can have the weights of ``folder``'s; empty where one can.

    Empty, too, where there is nothing to be said: no head in ``folder``, or none in ``modules``.

    Raises:
        CorruptArtifactError: the file is damaged.
    """
    saved = _saved(folder)
    misfits = [_differences(saved, head) for head in _heads(modules)] if saved else []
    if not misfits or not all(misfits):
        return ""
    return (
        f"the head in {folder / MLM_HEAD} was made for another encoder ({', '.join(misfits[0])}); "
        "delete it, or take the folder that it was saved in"
    )


def _saved(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of ``folder``'s head by name; none where it has no head."""
    path = folder / MLM_HEAD
    if not path.is_file():
        return {}
    try:
        saved: dict[str, torch.Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CorruptArtifactError(
            f"{path} is damaged ({error}); expected the weights of an MLM head: delete it to start "
            "with a new one, or restore it"
        ) from error
    return saved


def _differences(saved: Mapping[str, torch.Tensor], head: MlmHead) -> list[str]:
    """What of ``saved`` cannot be ``head``'s, each in words."""
    expected = head.state_dict()
    return [
        f"{name} is {_shape(saved, name)}, expected {_shape(expected, name)}"
        for name in sorted(saved.keys() | expected.keys())
        if _shape(saved, name) != _shape(expected, name)
        and not (name == _ROWS and _is_start(saved.get(name), expected[name]))
    ]


def _is_start(short: torch.Tensor | None, long: torch.Tensor) -> bool:
    """Whether ``short`` can be the first entries of the vector ``long``."""
    return short is not None and short.ndim == 1 and len(short) <= len(long)


def _shape(tensors: Mapping[str, torch.Tensor], name: str) -> str:
    return "x".join(map(str, tensors[name].shape)) if name in tensors else "absent"


def _heads(modules: Iterable[nn.Module]) -> Iterator[MlmHead]:
    return (part for module in modules for part in module.modules() if isinstance(part, MlmHead))


def set_biases(modules: Iterable[nn.Module], biases: torch.Tensor) -> None:
    """Give every MLM head among ``modules`` these biases, float (vocabulary,).

    Tokens that were added since the biases, or since the head, keep theirs or have none.
    """
    for head in _heads(modules):
        with torch.no_grad():
            head.bias[: len(biases)] = biases[: len(head.bias)].to(head.bias)
