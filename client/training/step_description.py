"""The description of a training step: JSON in its graph's metadata, read strictly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pocketquery.sdk.errors import CorruptArtifactError, UnsupportedVersionError
from pocketquery.sdk.fields import Fields

__all__ = ["FORMAT", "METADATA_KEY", "VERSION", "StateTensor", "StepDescription"]

METADATA_KEY = "pocketquery"
"""Of the graph's ``metadata_props``: the description lies under it."""
FORMAT = "pocketquery-training-step"
VERSION = 1

_OBJECTIVES = ("index_byol", "byol")
_PARTS = ("adapter", "top", "all")
_VIEWS = {"index_byol": (2,), "byol": (2, 4)}
_TARGET_VIEWS = {"index_byol": 1, "byol": 2}


@dataclass(frozen=True)
class StateTensor:
    """One trained tensor.

    Attributes:
        name: as in the graph's ``online.<name>``.
        shape: its shape.
        target: whether the target network has it too (the predictor it has not).
        ships: whether its change is part of an update (heads of the objective are not).
    """

    name: str
    shape: tuple[int, ...]
    target: bool
    ships: bool


@dataclass(frozen=True)
class StepDescription:
    """The content of the graph's metadata.

    Attributes:
        objective: ``"index_byol"`` (the local index in the projector's place) or ``"byol"``.
        part: what is trained: ``"adapter"``, ``"top"`` (last layer and head) or ``"all"``.
        views: online views of each query.
        target_views: how many of them, from the first on, the target network sees.
        dimension: of a vector.
        space_id: the vector space of the encoder.
        encoder_sha256: hexadecimal SHA-256 of the encoder.onnx it belongs to.
        state: the trained tensors.
    """

    objective: str
    part: str
    views: int
    target_views: int
    dimension: int
    space_id: str
    encoder_sha256: str
    state: tuple[StateTensor, ...]

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, str], source: str) -> StepDescription:
        """The description in the graph's ``metadata``; ``source`` names the file in errors.

        Raises:
            CorruptArtifactError: there is none, or a field is not as described.
            UnsupportedVersionError: written in a newer version.
        """
        if METADATA_KEY not in metadata:
            raise CorruptArtifactError(
                f"{source}: the graph has no metadata {METADATA_KEY!r}, expected a training step; "
                "make one with: pocketquery export --training-step"
            )
        fields = Fields.of_json(metadata[METADATA_KEY].encode("utf-8", "replace"), source)
        fields.choice("format", (FORMAT,))
        if fields.integer("version") > VERSION:
            raise UnsupportedVersionError(
                f"{source}: version is {fields.integer('version')}, this release reads up to "
                f"{VERSION}; update pocketquery"
            )
        description = cls(
            objective=fields.choice("objective", _OBJECTIVES),
            part=fields.choice("part", _PARTS),
            views=fields.integer("views"),
            target_views=fields.integer("target_views"),
            dimension=fields.integer("dimension"),
            space_id=fields.text("space_id"),
            encoder_sha256=fields.text("encoder_sha256"),
            state=tuple(_tensor(item, source) for item in fields.sequence("state")),
        )
        description._check(source)
        return description

    def _check(self, source: str) -> None:
        views, targets = _VIEWS[self.objective], _TARGET_VIEWS[self.objective]
        if self.views not in views or self.target_views != targets:
            raise CorruptArtifactError(
                f"{source}: found {self.views} views and {self.target_views} target views, "
                f"expected {' or '.join(map(str, views))} and {targets} for {self.objective}"
            )
        names = [tensor.name for tensor in self.state]
        if not any(tensor.ships for tensor in self.state) or len(set(names)) != len(names):
            raise CorruptArtifactError(
                f"{source}: found the state {names}, expected each tensor once, and one at least "
                "that ships"
            )

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(math.prod(tensor.shape) for tensor in self.state)


def _tensor(item: Any, source: str) -> StateTensor:
    if not isinstance(item, dict):
        raise CorruptArtifactError(f"{source}: state holds {item!r}, expected an object")
    fields = Fields(item, source, "state.")
    shape = fields.sequence("shape")
    if any(type(length) is not int or length < 1 for length in shape):
        raise CorruptArtifactError(f"{source}: state: shape {shape!r}, expected lengths above 0")
    return StateTensor(
        fields.text("name"), tuple(shape), fields.flag("target"), fields.flag("ships")
    )
