"""Building the untrained student: shape, start weights, vocabulary, alignment head."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from transformers import AutoModel

from pocketquery.distill.pruning.width_pruning import copy_narrowed, identity_head, kept_dimensions
from pocketquery.sdk.errors import InvalidInputError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder

__all__ = [
    "ARCHITECTURES",
    "PRESETS",
    "StudentShape",
    "alignment_head",
    "build_student",
    "kept_layers",
]

PRESETS = ("2x128", "2x256", "2x384", "3x384", "4x256", "6x384")
"""Measured shapes, smallest first; any other ``LAYERSxWIDTH`` works too."""


ARCHITECTURES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Values of ``model_type`` in config.json whose students can be exported."""


@dataclass(frozen=True)
class StudentShape:
    """Layers and width of a student; heads have 32 dimensions and the FFN is four times as wide.

    ``head`` is what maps a narrow student to the teacher's dimension: Query-BERT's ``"mlp"`` of two
    layers, or one ``"linear"`` layer, which a file of 1 MB has room for.
    """

    layers: int
    width: int
    head: Literal["mlp", "linear"] = "mlp"

    @classmethod
    def parse(cls, text: str) -> StudentShape:
        """``"3x384"`` → three layers of width 384; ``"1x128-linear"``: with a linear head.

        Raises:
            InvalidInputError: not of that form, or a width that is no multiple of 32.
        """
        match = re.fullmatch(r"([1-9]\d?)x([1-9]\d{1,3})(-linear)?", text)
        if match is None or int(match[2]) % 32:
            raise InvalidInputError(
                f'student shape "{text}"; expected LAYERSxWIDTH with a width that is a multiple '
                f"of 32, such as {', '.join(PRESETS)}"
            )
        return cls(int(match[1]), int(match[2]), "linear" if match[3] else "mlp")


def build_student(
    teacher: SentenceEncoder,
    shape: StudentShape,
    *,
    max_length: int,
    seed: int,
    layers: Sequence[int] | None = None,
) -> SentenceEncoder:
    """An untrained query encoder for the teacher's space.

    Where the widths agree it starts as the teacher with only ``layers`` kept and needs no head:
    its vectors are in the teacher's space from the first step. Where the student is narrower it
    starts as the part of the teacher that matters most (width_pruning.py), and a head, Query-BERT's
    of two layers unless the shape says otherwise, puts what was kept in its place.

    Args:
        teacher: the frozen encoder whose space the student joins.
        shape: layers and width.
        max_length: tokens of a query, specials included.
        seed: of the random start.
        layers: teacher layers to keep; default evenly spaced, first and last among them. Only
            for a student as wide as its teacher.

    Raises:
        InvalidInputError: more layers than the teacher has, a layer it does not have, or a shape
            wider than the teacher.
        UnknownModelError: an architecture that cannot be exported.
    """
    _check_shape(teacher, shape, layers)
    config = copy.deepcopy(teacher.backbone.config)
    config.num_hidden_layers = shape.layers
    config.hidden_dropout_prob = 0.0  # the teacher's vectors are exact targets: no regulariser
    config.attention_probs_dropout_prob = 0.0
    same_width = shape.width == teacher.hidden_size
    if not same_width:
        config.hidden_size = shape.width
        config.intermediate_size = min(4 * shape.width, config.intermediate_size)
        if getattr(config, "embedding_size", None) == teacher.hidden_size:
            config.embedding_size = shape.width
        config.num_attention_heads = shape.width // 32
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = _new_backbone(config)
        head = copy.deepcopy(teacher.head) if same_width else None
        if shape.width != teacher.dimension and head is None:
            head = alignment_head(shape.width, teacher.dimension, shape.head)
    if same_width:
        _copy_layers(teacher.backbone, backbone, _checked_layers(teacher, shape.layers, layers))
    else:
        kept = kept_layers(teacher.backbone.config.num_hidden_layers, shape.layers)
        dimensions = kept_dimensions(teacher.backbone, kept, shape.width)
        copy_narrowed(teacher.backbone, backbone, kept, dimensions)
        if teacher.head is None and head is not None:
            identity_head(head, dimensions)
    space = {
        "space_id": teacher.space_id,
        "dimension": teacher.dimension,
        "teacher": teacher.name,
    }
    return SentenceEncoder(
        backbone,
        copy.deepcopy(teacher.tokenizer),
        pooling=teacher.pooling,
        head=head,
        prompts=teacher.prompts,
        max_length=min(max_length, teacher.max_length),
        space=space,
    )


def _check_shape(
    teacher: SentenceEncoder, shape: StudentShape, layers: Sequence[int] | None
) -> None:
    """What would fail only after the training, or be ignored without a word."""
    kind = teacher.backbone.config.model_type
    if kind not in ARCHITECTURES:
        raise UnknownModelError(
            f'a student of the architecture "{kind}" could not be exported; expected a teacher '
            f"that is one of {', '.join(ARCHITECTURES)}"
        )
    if shape.width > teacher.hidden_size:
        raise InvalidInputError(
            f"the student is {shape.width} wide and its teacher {teacher.hidden_size}; expected a "
            "student that is no wider"
        )
    if layers is not None and shape.width < teacher.hidden_size:
        raise InvalidInputError(
            f"teacher layers {list(layers)} are named for a student of width {shape.width}; "
            f"layers of width {teacher.hidden_size} fit no narrower student, so leave them out"
        )


def kept_layers(available: int, wanted: int) -> list[int]:
    """``wanted`` evenly spaced layer indices out of ``available``, first and last among them."""
    if wanted == 1:
        return [available - 1]
    return [i * (available - 1) // (wanted - 1) for i in range(wanted)]


def alignment_head(
    width: int, dimension: int, kind: Literal["mlp", "linear"] = "mlp"
) -> nn.Sequential:
    """From the student's width to the teacher's dimension: Query-BERT's MLP, or one layer."""
    if kind == "linear":
        return nn.Sequential(nn.Linear(width, dimension), nn.Identity())
    hidden = 2 * dimension
    return nn.Sequential(
        nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, dimension), nn.Identity()
    )


def _new_backbone(config: Any) -> Any:
    try:
        return AutoModel.from_config(config, add_pooling_layer=False)
    except TypeError:
        return AutoModel.from_config(config)


def _checked_layers(
    teacher: SentenceEncoder, wanted: int, layers: Sequence[int] | None
) -> list[int]:
    available = int(teacher.backbone.config.num_hidden_layers)
    chosen = list(layers) if layers is not None else kept_layers(available, wanted)
    if wanted > available or len(chosen) != wanted or not all(0 <= i < available for i in chosen):
        raise InvalidInputError(
            f"a student of {wanted} layers from teacher layers {chosen}; the teacher has layers "
            f"0 to {available - 1}, and as many must be named as the student has"
        )
    return chosen


def _copy_layers(teacher: nn.Module, student: nn.Module, layers: Sequence[int]) -> None:
    """Copy everything outside the layers, and teacher layer ``layers[i]`` into student layer i."""
    source = teacher.state_dict()
    state = {}
    for name in student.state_dict():
        match = re.search(r"\blayer\.(\d+)\.", name)
        if match is None:
            state[name] = source[name]
        else:
            state[name] = source[
                f"{name[: match.start(1)]}{layers[int(match[1])]}{name[match.end(1) :]}"
            ]
    student.load_state_dict(state)
