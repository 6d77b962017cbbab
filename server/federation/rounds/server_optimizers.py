"""What the server does with a round's mean change: add it, or let an optimizer take it for a step.

The mean change of the clients is treated as the direction of steepest descent ("pseudo-gradient").
Pure functions of float32 arrays; computed in float64, so that the rounding of a step is that of its
result alone. FedProx and FedEMA live on the device (how a client trains and starts): the server's
part of both is FedAvg.

Sources: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data"
(FedAvg); Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification" (FedAvgM); Reddi et al., "Adaptive Federated Optimization", Algorithm 2 (FedAdam,
FedYogi).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Doubles, FloatTensors
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, plain

__all__ = [
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedYogi",
    "ServerOptimizer",
    "Step",
    "optimizer_from_dict",
]

Change = Mapping[str, Doubles]
_RATE = plain(number(above=0))
_DECAY = plain(number(0, below=1))


class Step(NamedTuple):
    """Tensors after a step, and the optimizer's own for the next; float32 by name."""

    tensors: dict[str, NDArray[np.float32]]
    moments: dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class ServerOptimizer(Settings):
    """What the optimizers share: settings that are checked, moments by name, one step."""

    name: ClassVar[str]
    moments: ClassVar[tuple[str, ...]] = ()
    learning_rate: Annotated[float, _RATE, "what the step is multiplied by"] = 1.0

    def apply(self, tensors: FloatTensors, change: Change, moments: FloatTensors) -> Step:
        """``tensors`` after a step along ``change``.

        Args:
            tensors: float32, what the clients started from.
            change: float64 mean change, of the same names and shapes.
            moments: what the last step returned; empty for the first.

        Raises:
            InvalidInputError: ``moments`` were left by another optimizer or other tensors.
        """
        before = self.checked(moments, tensors)
        after: dict[str, NDArray[np.float32]] = {}
        moved: dict[str, NDArray[np.float32]] = {}
        for name, value in tensors.items():
            own = {moment: before[f"{moment}.{name}"] for moment in self.moments}
            step = self._step(change[name], own)
            after[name] = (value + self.learning_rate * step).astype(np.float32)
            moved |= {f"{moment}.{name}": array.astype(np.float32) for moment, array in own.items()}
        return Step(after, moved)

    def checked(self, moments: FloatTensors, tensors: FloatTensors) -> dict[str, Doubles]:
        """``moments`` in float64, or the first ones where there are none.

        Raises:
            InvalidInputError: they were left by another optimizer or for other tensors.
        """
        shapes = {f"{m}.{name}": v.shape for m in self.moments for name, v in tensors.items()}
        if not moments:
            return {
                name: np.full(shape, self._initial(name.partition(".")[0]))
                for name, shape in shapes.items()
            }
        if {name: value.shape for name, value in moments.items()} != shapes:
            raise InvalidInputError(
                f"the state carries moments {sorted(moments)[:3]}..., which {self.name} on these "
                f"tensors did not leave; expected {sorted(shapes)[:3] or 'none'}. Go on with the "
                "optimizer that left them, or start anew with FederationState.without_moments()"
            )
        return {name: value.astype(np.float64) for name, value in moments.items()}

    def to_dict(self) -> dict[str, object]:
        """Name and settings as JSON values."""
        return {"name": self.name, **asdict(self)}

    def _step(self, change: Doubles, own: dict[str, Doubles]) -> Doubles:
        """The direction for one tensor; puts the new moments in ``own``."""
        raise NotImplementedError

    def _initial(self, moment: str) -> float:
        return 0.0


@dataclass(frozen=True)
class FedAvg(ServerOptimizer):
    """x + learning_rate * change."""

    name: ClassVar[str] = "fedavg"

    def _step(self, change: Doubles, own: dict[str, Doubles]) -> Doubles:
        return change


@dataclass(frozen=True)
class FedAvgM(ServerOptimizer):
    """v = momentum * v + change; x + learning_rate * v."""

    name: ClassVar[str] = "fedavgm"
    moments: ClassVar[tuple[str, ...]] = ("velocity",)
    momentum: Annotated[float, _DECAY, "share of the velocity that stays"] = 0.9

    def _step(self, change: Doubles, own: dict[str, Doubles]) -> Doubles:
        own["velocity"] = self.momentum * own["velocity"] + change
        return own["velocity"]


@dataclass(frozen=True)
class FedAdam(ServerOptimizer):
    """m = beta1 m + (1 - beta1) change; v = beta2 v + (1 - beta2) change**2;
    x + learning_rate * m / (sqrt(v) + tau).

    As in the paper's Algorithm 2, without Adam's bias correction; v begins at tau**2.
    """

    name: ClassVar[str] = "fedadam"
    moments: ClassVar[tuple[str, ...]] = ("first_moment", "second_moment")
    learning_rate: Annotated[float, _RATE, "what the step is multiplied by"] = 0.01
    beta1: Annotated[float, _DECAY, "share of the first moment that stays"] = 0.9
    beta2: Annotated[float, _DECAY, "share of the second moment that stays"] = 0.99
    tau: Annotated[float, _RATE, "least that the step is divided by"] = 1e-3

    def _initial(self, moment: str) -> float:
        return self.tau**2 if moment == "second_moment" else 0.0

    def _step(self, change: Doubles, own: dict[str, Doubles]) -> Doubles:
        first = self.beta1 * own["first_moment"] + (1 - self.beta1) * change
        second = self._second(own["second_moment"], np.square(change))
        own |= {"first_moment": first, "second_moment": second}
        return first / (np.sqrt(second) + self.tau)

    def _second(self, before: Doubles, square: Doubles) -> Doubles:
        return self.beta2 * before + (1 - self.beta2) * square


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedAdam with v - (1 - beta2) change**2 sign(v - change**2): v shrinks slowly."""

    name: ClassVar[str] = "fedyogi"

    def _second(self, before: Doubles, square: Doubles) -> Doubles:
        return before - (1 - self.beta2) * square * np.sign(before - square)


_OPTIMIZERS: dict[str, type[ServerOptimizer]] = {
    kind.name: kind for kind in (FedAvg, FedAvgM, FedAdam, FedYogi)
}


def optimizer_from_dict(values: Mapping[str, object]) -> ServerOptimizer:
    """The optimizer that :meth:`ServerOptimizer.to_dict` described.

    Raises:
        InvalidInputError: an unknown name or setting.
    """
    settings = {name: value for name, value in values.items() if name != "name"}
    kind = _OPTIMIZERS.get(str(values.get("name")))
    if kind is None or settings.keys() - {field.name for field in fields(kind)}:
        raise InvalidInputError(
            f"found the optimizer {dict(values)!r}, expected a name of {sorted(_OPTIMIZERS)} and "
            "its settings"
        )
    return kind(**settings)  # type: ignore[arg-type]  # checked by __post_init__
