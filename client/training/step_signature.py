"""Checks a training step's inputs and outputs against its description, before a round begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pocketquery.client.training.step_description import StepDescription
from pocketquery.sdk.errors import CorruptArtifactError

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["check_step_signature"]

_FLOAT, _INT = "tensor(float)", "tensor(int64)"
_SCALARS = (
    "temperature anchor_weight opened_loss_weight learning_rate weight_decay beta1 beta2 epsilon "
    "ema_rate step"
).split()
_LOSSES = ("loss", "view_loss", "anchor_loss", "opened_loss")

# A type and a shape; None stands for a length that varies.
_Slot = tuple[str, tuple[int | None, ...]]


def check_step_signature(
    session: onnxruntime.InferenceSession, description: StepDescription, source: str
) -> None:
    """Return where the graph takes and gives what ``description`` says.

    Raises:
        CorruptArtifactError: names the first input or output that is missing, too many or of
            another type or shape.
    """
    _compare(session.get_inputs(), _inputs(description), f"{source}: input")
    _compare(session.get_outputs(), _outputs(description), f"{source}: output")


def _inputs(description: StepDescription) -> dict[str, _Slot]:
    d = description.dimension
    slots: dict[str, _Slot] = {
        "online_ids": (_INT, (None, None)),
        "online_mask": (_INT, (None, None)),
        "target_ids": (_INT, (None, None)),
        "target_mask": (_INT, (None, None)),
        "anchor": (_FLOAT, (None, d)),
        "shown": (_FLOAT, (None, None, d)),
        "shown_mask": (_FLOAT, (None, None)),
        "opened": (_INT, (None,)),
        "opened_weight": (_FLOAT, (None,)),
    }
    if description.objective == "index_byol":
        slots["prototypes"] = (_FLOAT, (None, None, d))
    slots |= dict.fromkeys(_SCALARS, (_FLOAT, ()))
    return slots | _state(description, "")


def _outputs(description: StepDescription) -> dict[str, _Slot]:
    slots: dict[str, _Slot] = dict.fromkeys(_LOSSES, (_FLOAT, ()))
    slots["vectors"] = (_FLOAT, (None, description.dimension))
    return slots | _state(description, "next.")


def _state(description: StepDescription, prefix: str) -> dict[str, _Slot]:
    return {
        f"{prefix}{kind}.{tensor.name}": (_FLOAT, tensor.shape)
        for kind in ("online", "target", "first_moment", "second_moment")
        for tensor in description.state
        if tensor.target or kind != "target"
    }


def _compare(actual: list[Any], expected: dict[str, _Slot], where: str) -> None:
    by_name = {item.name: item for item in actual}
    for name in sorted(expected.keys() ^ by_name.keys()):
        state = "missing" if name in expected else "unknown"
        raise CorruptArtifactError(f"{where} {name!r} is {state}; export the bundle again")
    for name, (kind, shape) in expected.items():
        item = by_name[name]
        if item.type != kind or not _fits(item.shape, shape):
            raise CorruptArtifactError(
                f"{where} {name!r} is {item.type} {item.shape}, expected {kind} {list(shape)} "
                "(None varies); export the bundle again"
            )


def _fits(actual: list[int | str | None], expected: tuple[int | None, ...]) -> bool:
    # An exporter may leave a fixed length symbolic (a text), never fix one that varies.
    return len(actual) == len(expected) and all(
        (isinstance(length, int) and length == expected_length) or (not isinstance(length, int))
        for length, expected_length in zip(actual, expected, strict=True)
    )
