"""How a device trains in one round: the server's settings, checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from pocketquery.client.training.monitors import Limits
from pocketquery.client.training.step import Hyperparameters
from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.views import ViewPlan
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_count

__all__ = ["ClientInit", "LocalConfig"]

ClientInit = Literal["global", "ema"]

# Name, least, most, and whether the least itself is allowed.
_RANGES = (
    ("learning_rate", 0.0, math.inf, False),
    ("temperature", 0.0, math.inf, False),
    ("epsilon", 0.0, 1.0, False),
    ("anchor_weight", 0.0, math.inf, True),
    ("opened_loss_weight", 0.0, math.inf, True),
    ("weight_decay", 0.0, math.inf, True),
    ("ema_rate", 0.0, 1.0, True),
    ("beta1", 0.0, 0.999999, True),
    ("beta2", 0.0, 0.999999, True),
    ("typo_rate", 0.0, 1.0, True),
    ("proximal", 0.0, 1.0, True),
    ("init_scale", 0.0, math.inf, True),
)


@dataclass(frozen=True)
class LocalConfig:
    """One round's settings on the device.

    Attributes:
        steps: optimiser steps.
        batch_size: queries a step; fewer where the device has fewer.
        learning_rate: AdamW's.
        temperature: of the softmax over prototypes, and over shown results.
        nearest_prototypes: nearest documents of each query to compare it with.
        random_prototypes: documents drawn from the rest, anew each step.
        anchor_weight: of the pull to the shipped encoder's vector of the clean query. Below 1,
            queries typed well lose what mistyped ones gain where the encoder never saw noise.
        ema_rate: the target network keeps this share of itself each step.
        heavy_views: names of the augmenters a noisy view is made by, one of them drawn for each;
            see :mod:`pocketquery.client.views.augmenter_choice`.
        light_views: the same for the light views, which four-view ``byol`` alone has.
        typo_rate: share of the letters that ``"typo"`` mistypes.
        opened_loss_weight: of the opened result against the others shown; 0 is off, 1 is on.
        proximal: after each step the shared tensors go back this share of the way to where the
            round began (0 to 1). FedProx's term, decoupled from the loss as AdamW decouples
            decay, so that Adam's scaling does not undo it.
        client_init: ``"global"`` starts from the release; ``"ema"`` from a mix of it and the
            device's own last result, the more of its own the further apart they are (Zhuang et
            al., "Divergence-aware Federated Self-Supervised Learning", equation 3).
        init_scale: that paper's lambda: the share kept is ``min(1, init_scale * distance)``.
        weight_decay: AdamW's. Off by default: every device would shrink the adapter a little,
            whatever it saw.
        beta1: AdamW's.
        beta2: AdamW's.
        epsilon: AdamW's.
        limits: when the run is ended, see :mod:`pocketquery.client.training.monitors`.

    Raises:
        InvalidInputError: a value out of range; names it.
    """

    steps: int = 10
    batch_size: int = 16
    learning_rate: float = 1e-3
    temperature: float = 0.05
    nearest_prototypes: int = 50
    random_prototypes: int = 50
    anchor_weight: float = 5.0
    ema_rate: float = 0.99
    heavy_views: Sequence[str] = ("typo",)
    light_views: Sequence[str] = ("dropout_view", "noise_case")
    typo_rate: float = 0.08
    opened_loss_weight: float = 0.0
    proximal: float = 0.0
    client_init: ClientInit = "global"
    init_scale: float = 1.0
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "nearest_prototypes"):
            check_count(getattr(self, name), name)
        if self.random_prototypes:
            check_count(self.random_prototypes, "random_prototypes")
        for name, least, most, allowed in _RANGES:
            _check_range(name, getattr(self, name), least, most, allowed)
        if self.client_init not in get_args(ClientInit):
            raise InvalidInputError(
                f"client_init is {self.client_init!r}, expected one of {get_args(ClientInit)}"
            )
        if not isinstance(self.limits, Limits):
            raise InvalidInputError(f"limits is {self.limits!r}, expected Limits(...)")
        self.view_plan(2)

    def view_plan(self, views: int) -> ViewPlan:
        """How ``views`` views of a query are made, 2 or 4.

        Raises:
            InvalidInputError: an unknown augmenter, a heavy one among the light, or none.
        """
        return ViewPlan(
            views=2 if views == 2 else 4,
            heavy=self._augmenters("heavy_views"),
            light=self._augmenters("light_views"),
        )

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The scalars of a step."""
        names = Hyperparameters.__dataclass_fields__
        return Hyperparameters(**{name: getattr(self, name) for name in names})

    def _augmenters(self, field_name: str) -> tuple[Augmenter, ...]:
        names = getattr(self, field_name)
        if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
            raise InvalidInputError(
                f"{field_name} is {names!r}, expected names of augmenters, say ('typo',)"
            )
        rate = {"rate": self.typo_rate}
        return tuple(choose({"name": n} | (rate if n == "typo" else {})) for n in names)


def _check_range(name: str, value: object, least: float, most: float, allowed: bool) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    good = number and math.isfinite(value)  # type: ignore[arg-type]
    if not good or not (least <= value <= most) or (value == least and not allowed):  # type: ignore[operator]
        bound = "from" if allowed else "above"
        raise InvalidInputError(
            f"{name} is {value!r}, expected a number {bound} {least:g}"
            + ("" if math.isinf(most) else f" to {most:g}")
        )
