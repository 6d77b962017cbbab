"""How a device trains in one round: the server's settings, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.client.training.step import Hyperparameters
from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.views import ViewPlan
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_fields, number, one_of, whole

__all__ = ["ClientInit", "LocalConfig"]

ClientInit = Literal["global", "ema"]

_HYBRID = ("hybrid_loss_weight", "hybrid_candidates", "hybrid_sharpness", "hybrid_mistyped")
_MOST_VIEWS = 32
# Far beyond what is of use, and no more work or memory than a device has.
_RULES = {
    "steps": whole(1, 10_000),
    "batch_size": whole(1, 1024),
    "nearest_prototypes": whole(1, 1024),
    "random_prototypes": whole(0, 1024),
    "hybrid_candidates": whole(2, 1000),
    "learning_rate": number(most=10, above=0),
    "temperature": number(1e-3, 10),
    "epsilon": number(1e-12, 1),
    "anchor_weight": number(0, 1000),
    "opened_loss_weight": number(0, 1000),
    "hybrid_loss_weight": number(0, 1000),
    "hybrid_sharpness": number(1e-3, 10),
    "hybrid_mistyped": number(0, 1),
    "weight_decay": number(0, 10),
    "ema_rate": number(0, 1),
    "beta1": number(0, 0.999999),
    "beta2": number(0, 0.999999),
    "typo_rate": number(0, 1),
    "proximal": number(0, 1),
    "init_scale": number(0, 1e6),
    "client_init": one_of(*get_args(ClientInit)),
}


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
        hybrid_loss_weight: of the ranking of the device's own index by words and meaning together,
            as teacher of the ranking by meaning; 0 is off, 1 is on. Not beside
            ``opened_loss_weight``: a training step has one place for what is to be found. It needs
            an index; vectors alone have no words.
        hybrid_candidates: the hybrid's best documents that are ranked; as many random ones beside
            them.
        hybrid_sharpness: temperature of the hybrid's scores: the lower, the more its first document
            counts.
        hybrid_mistyped: of this share of the queries, drawn anew each step, the noisy view is
            taught the hybrid ranking in the place of the clean one, and the anchor left out (0 to
            1). The views of ``byol`` predict one another and keep their places.
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
    hybrid_loss_weight: float = 0.0
    hybrid_candidates: int = 50
    hybrid_sharpness: float = 0.1
    hybrid_mistyped: float = 0.5
    proximal: float = 0.0
    client_init: ClientInit = "global"
    init_scale: float = 1.0
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    limits: MonitorLimits = field(default_factory=MonitorLimits)

    def __post_init__(self) -> None:
        check_fields(self, **_RULES)
        if not isinstance(self.limits, MonitorLimits):
            raise InvalidInputError(f"limits is {self.limits!r}, expected MonitorLimits(...)")
        if self.opened_loss_weight and self.hybrid_loss_weight:
            raise InvalidInputError(
                f"opened_loss_weight is {self.opened_loss_weight:g} and hybrid_loss_weight "
                f"{self.hybrid_loss_weight:g}, expected one of them at most: a training step has "
                "one place for what is to be found. Set the other to 0"
            )
        self.view_plan(2)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LocalConfig:
        """The settings that :meth:`to_dict` described; a list stands for a tuple.

        Raises:
            InvalidInputError: a value out of range.
            ValueError, KeyError, TypeError, AttributeError: not such values.
        """
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**settings | {"limits": MonitorLimits(**values["limits"])})

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON values, for devices of any release: what came after the first and
        is off is left out, so that who does not know it takes the offer, and makes the same of it.
        """
        found = asdict(self)
        if not self.hybrid_loss_weight:
            for name in _HYBRID:
                del found[name]
        return found

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
        """The scalars of a step, whose one place for what is to be found has the weight of whoever
        fills it.
        """
        scalars = {name: getattr(self, name) for name in Hyperparameters.__dataclass_fields__}
        scalars["opened_loss_weight"] = self.opened_loss_weight or self.hybrid_loss_weight
        return Hyperparameters(**scalars)

    def _augmenters(self, field_name: str) -> tuple[Augmenter, ...]:
        names = getattr(self, field_name)
        listed = isinstance(names, (list, tuple)) and len(names) <= _MOST_VIEWS
        if not listed or not all(isinstance(name, str) for name in names):
            raise InvalidInputError(
                f"{field_name} is {names!r}, expected names of augmenters, say ('typo',), "
                f"{_MOST_VIEWS} at most"
            )
        rate = {"rate": self.typo_rate}
        return tuple(choose({"name": n} | (rate if n == "typo" else {})) for n in names)
