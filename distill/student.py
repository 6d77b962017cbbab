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

from pocketquery.distill.exportable import check_backbone, check_exportable
from pocketquery.distill.pruning.width_pruning import (
    copy_narrowed,
    identity_head,
    kept_dimensions,
    widen_feed_forward,
)
from pocketquery.distill.teachers import Teacher
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.device_tokenizer import device_tokenizer

__all__ = [
    "PRESETS",
    "StudentShape",
    "alignment_head",
    "build_student",
    "kept_layers",
    "student_shape",
    "widen_student",
]

PRESETS = ("2x128", "2x256", "2x384", "3x384", "4x256", "6x384")
"""Measured shapes, smallest first; any other ``LAYERSxWIDTH`` works too."""


_SHAPE = re.compile(
    r"(?P<layers>[1-9]\d?)x(?P<width>[1-9]\d{1,3})(?:x(?P<ffn>[1-9]\d{1,3}))?"
    r"(?P<linear>-linear)?(?:-pq(?P<subvector>[1-9]\d?))?"
)


@dataclass(frozen=True)
class StudentShape:
    """Layers, width and FFN width of a student; heads have 32 dimensions.

    ``intermediate`` is the FFN's width, by default four times the student's. ``head`` is what maps
    a narrow student to the teacher's dimension: Query-BERT's ``"mlp"`` of two layers, or one
    ``"linear"`` layer, which a file of 1 MB has room for. ``subvector`` is how many dimensions of
    the vocabulary table share a byte (pruning/product_quantization.py); None: a byte for each.
    """

    layers: int
    width: int
    head: Literal["mlp", "linear"] = "mlp"
    intermediate: int | None = None
    subvector: int | None = None

    @classmethod
    def parse(cls, text: str) -> StudentShape:
        """``"3x384"`` → three layers of width 384; ``"3x384x768"``: with an FFN half as wide as
        usual; ``"1x128-linear"``: with a linear head; ``"2x384-pq8"``: with a product-quantised
        vocabulary table, eight dimensions a byte.

        Raises:
            InvalidInputError: not of that form, a width that is no multiple of 32, or of the
                dimensions of a byte.
        """
        match = _SHAPE.fullmatch(text)
        if match is None or int(match["width"]) % 32 or int(match["ffn"] or 0) % 32:
            raise InvalidInputError(
                f'student shape "{text}"; expected LAYERSxWIDTH or LAYERSxWIDTHxFFN with widths '
                f"that are multiples of 32, such as {', '.join(PRESETS)} or 3x384x768, and behind "
                "it -linear or -pq8 where they are wanted"
            )
        width, subvector = int(match["width"]), int(match["subvector"] or 0) or None
        if subvector and width % subvector:
            raise InvalidInputError(
                f'student shape "{text}": {width} dimensions are no multiple of {subvector}'
            )
        return cls(
            int(match["layers"]),
            width,
            "linear" if match["linear"] else "mlp",
            int(match["ffn"]) if match["ffn"] else None,
            subvector,
        )

    def __str__(self) -> str:
        """What :meth:`parse` reads."""
        width = f"{self.layers}x{self.width}" + (
            f"x{self.intermediate}" if self.intermediate else ""
        )
        head = "-linear" if self.head == "linear" else ""
        return width + head + (f"-pq{self.subvector}" if self.subvector else "")


def build_student(
    source: SentenceEncoder,
    shape: StudentShape,
    *,
    max_length: int,
    seed: int,
    layers: Sequence[int] | None = None,
    teacher: Teacher | None = None,
) -> SentenceEncoder:
    """An untrained query encoder for the teacher's space, cut out of ``source``.

    Where the widths agree it starts as the source with only ``layers`` kept, and needs no head if
    that is the teacher: its vectors are in the teacher's space from the first step. Where the
    student or its FFN is narrower, it starts as the part of the source that matters most
    (width_pruning.py). A head maps what was kept to the teacher's space; it is Query-BERT's, of two
    layers, unless the shape says otherwise. To the space of another teacher it is linear and begins
    at random (``fit_head`` of starts.py), and there are no prompts.

    Args:
        source: the frozen teacher, or with ``teacher`` any BERT-like encoder.
        shape: layers and width.
        max_length: tokens of a query, specials included.
        seed: of the random start.
        layers: of the source, to keep; default evenly spaced, first and last among them.
        teacher: whose space the student joins, where that is not the source's.

    Raises:
        InvalidInputError: more layers than the source has, or a layer it does not have. Or a shape
            wider than the source, a linear head where none is needed, or a table that the
            dimensions of a byte do not divide.
        UnknownModelError: no bundle could be made of such a student.
    """
    _check_shape(source, shape, own=teacher is None)
    config = copy.deepcopy(source.backbone.config)
    if hasattr(config, "vocabulary_subvector"):  # the table is a whole one until it is quantised
        del config.vocabulary_subvector
    config.num_hidden_layers = shape.layers
    config.hidden_dropout_prob = 0.0  # the teacher's vectors are exact targets: no regulariser
    config.attention_probs_dropout_prob = 0.0
    config.chunk_size_feed_forward = 0  # changes no value, and a graph has no chunks
    config.intermediate_size = min(shape.intermediate or 4 * shape.width, config.intermediate_size)
    joined = source if teacher is None else teacher
    same_width = shape.width == source.hidden_size
    if not same_width:
        config.hidden_size = shape.width
        if getattr(config, "embedding_size", None) == source.hidden_size:
            config.embedding_size = shape.width
        config.num_attention_heads = shape.width // 32
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = _new_backbone(config)
        head: nn.Sequential | None
        if teacher is not None:
            head = alignment_head(shape.width, teacher.dimension, "linear")
        else:
            head = copy.deepcopy(source.head) if same_width else None
            if shape.width != source.dimension and head is None:
                head = alignment_head(shape.width, source.dimension, shape.head)
    numbers = _checked_layers(source, shape, layers, own=teacher is None)
    dimensions = kept_dimensions(source.backbone, numbers, shape.width)
    copy_narrowed(source.backbone, backbone, numbers, dimensions)
    if teacher is None and not same_width and source.head is None and head is not None:
        identity_head(head, dimensions)
    space = {"space_id": joined.space_id, "dimension": joined.dimension, "teacher": joined.name}
    tokenizer = copy.deepcopy(source.tokenizer)
    tokenizer.padding_side = "right"
    student = SentenceEncoder(
        backbone,
        device_tokenizer(tokenizer),
        pooling="mean" if teacher is not None and source.pooling == "eos" else source.pooling,
        head=head,
        prompts=source.prompts if teacher is None else {},
        max_length=min(max_length, source.max_length),
        space=space,
    )
    check_exportable(student)
    return student


def student_shape(student: SentenceEncoder, teacher: SentenceEncoder) -> StudentShape:
    """The shape of a student that :func:`build_student` began for ``teacher``, by its weights."""
    config = student.backbone.config
    width, inner = int(student.hidden_size), int(config.intermediate_size)
    linears = [] if student.head is None else [m for m in student.head if isinstance(m, nn.Linear)]
    return StudentShape(
        int(config.num_hidden_layers),
        width,
        "linear" if width != teacher.hidden_size and len(linears) == 1 else "mlp",
        None if inner == 4 * width else inner,
        getattr(config, "vocabulary_subvector", None),
    )


def widen_student(
    student: SentenceEncoder,
    teacher: SentenceEncoder,
    shape: StudentShape,
    layers: Sequence[int] | None = None,
) -> None:
    """Give a student that :func:`build_student` began a wider FFN, in place, its vectors unchanged.

    Args:
        student: of ``teacher``.
        teacher: its next most important units are what is added.
        shape: the student's own but for ``intermediate``.
        layers: the teacher layers that the student was built of, if they were named.

    Raises:
        InvalidInputError: an FFN no wider than the student's, or wider than the teacher's.
    """
    had = student.backbone.config.intermediate_size
    if shape.intermediate is None or shape.intermediate <= had:
        raise InvalidInputError(
            f"the student's FFN is {had} wide already; expected one wider than that, and got "
            f"{shape.intermediate}"
        )
    _check_shape(teacher, shape)
    numbers = _checked_layers(teacher, shape, layers)
    dimensions = kept_dimensions(teacher.backbone, numbers, shape.width)
    widen_feed_forward(teacher.backbone, student.backbone, numbers, dimensions, shape.intermediate)


def _check_shape(source: SentenceEncoder, shape: StudentShape, *, own: bool = True) -> None:
    """What would fail only after the training, or be ignored without a word."""
    check_backbone(source.backbone.config)
    origin = "teacher" if own else "start"
    if shape.width > source.hidden_size:
        raise InvalidInputError(
            f"the student is {shape.width} wide and its {origin} {source.hidden_size}; expected a "
            "student that is no wider"
        )
    config = source.backbone.config
    if own and shape.head == "linear" and shape.width == source.hidden_size:
        raise InvalidInputError(
            f"the student is as wide as its teacher, {shape.width}, and needs no linear head; "
            "leave -linear out of its shape"
        )
    if (shape.intermediate or 0) > config.intermediate_size:
        raise InvalidInputError(
            f"the student's FFN is {shape.intermediate} wide and its {origin}'s "
            f"{config.intermediate_size}; expected one that is no wider"
        )
    table = getattr(config, "embedding_size", source.hidden_size)  # ELECTRA's may be narrower
    table = shape.width if table == source.hidden_size else table
    if shape.subvector and table % shape.subvector:
        raise InvalidInputError(
            f"the student's vocabulary table has {table} dimensions, no multiple of the "
            f"{shape.subvector} that are to share a byte"
        )


def kept_layers(available: int, count: int) -> list[int]:
    """``count`` evenly spaced layer indices out of ``available``, first and last among them."""
    if count == 1:
        return [available - 1]
    return [i * (available - 1) // (count - 1) for i in range(count)]


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
    source: SentenceEncoder, shape: StudentShape, layers: Sequence[int] | None, *, own: bool = True
) -> list[int]:
    count = shape.layers
    available = int(source.backbone.config.num_hidden_layers)
    origin = "teacher" if own else "start"
    chosen = list(layers) if layers is not None else kept_layers(available, count)
    # Whole layers of the teacher may not stand twice: they would start as the same function.
    most = available if own and shape.width == source.hidden_size else count
    if count > most or len(chosen) != count or not all(0 <= i < available for i in chosen):
        raise InvalidInputError(
            f"a student of {count} layers from {origin} layers {chosen}; the {origin} has layers "
            f"0 to {available - 1}, and as many must be named as the student has"
        )
    return chosen
