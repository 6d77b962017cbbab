"""How a device trains in one round: the server's settings, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.client.training.step import Hyperparameters
from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.views import ViewPlan
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.common import Share
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole

__all__ = ["HYBRID_SHARPNESS", "ClientInit", "LocalConfig"]

ClientInit = Literal["global", "ema"]

# A softmax of the hybrid's scores gives the first document about a half: .51 for claims of
# SciFact's and questions of SQuAD's training sets.
HYBRID_SHARPNESS = 0.07
_HYBRID = ("hybrid_loss_weight", "hybrid_candidates", "hybrid_sharpness", "hybrid_mistyped")
_MOST_VIEWS = 32


@dataclass(frozen=True)
class LocalConfig(Settings):
    """One round's settings on the device; ranges are far beyond what is of use, and no more work or
    memory than a device has.

    ``anchor_weight``: below 1, queries typed well lose what mistyped ones gain where the encoder
    never saw noise. ``hybrid_loss_weight``: the device's own index ranks by words and meaning
    together, which teaches the ranking by meaning; not beside ``opened_loss_weight``, for a
    training step has one place for what is to be found. A share ``hybrid_mistyped`` of the queries
    is drawn anew each step. Of these the noisy view learns that ranking instead of the clean one,
    and the anchor is left out. The views of ``byol`` predict one another and keep their places.

    ``proximal`` is FedProx's term, decoupled from the loss as AdamW decouples decay, so that Adam's
    scaling does not undo it. ``client_init`` "ema" starts from a mix of the release and the
    device's own last result. The further apart they are, the more of its own is kept: the share is
    ``min(1, init_scale * distance)`` (Zhuang et al., "Divergence-aware Federated Self-Supervised
    Learning", equation 3). ``weight_decay`` is off by default: every device would shrink the
    adapter a little, whatever it saw.

    Raises:
        InvalidInputError: a value out of range; names it.
    """

    steps: Annotated[int, whole(1, 10_000), "training steps on a device"] = 10
    batch_size: Annotated[
        int, whole(1, 1024), "queries a step; fewer where the device has fewer"
    ] = 16
    learning_rate: Annotated[float, number(most=10, above=0), "on the device"] = 1e-3
    temperature: Annotated[
        float, number(1e-3, 10), "of the softmax over prototypes, and over shown results"
    ] = 0.05
    nearest_prototypes: Annotated[
        int, whole(1, 1024), "nearest documents of each query to compare it with"
    ] = 50
    random_prototypes: Annotated[
        int, whole(0, 1024), "documents drawn from the rest, anew each step"
    ] = 50
    anchor_weight: Annotated[float, number(0, 1000), "of the pull to the shipped encoder"] = 5.0
    ema_rate: Annotated[Share, "of itself that the target network keeps each step"] = 0.99
    heavy_views: Annotated[
        tuple[str, ...], "augmenters of noisy views, see client/views/augmenter_choice.py"
    ] = ("typo",)
    light_views: Annotated[
        tuple[str, ...], "of the light views, which four-view byol alone has"
    ] = ("dropout_view", "noise_case")
    typo_rate: Annotated[Share, "share of letters mistyped in the noisy view"] = 0.08
    opened_loss_weight: Annotated[
        float, number(0, 1000), "of opened results; 0 is off, 1 is on"
    ] = 0.0
    hybrid_loss_weight: Annotated[
        float, number(0, 1000), "of the index's hybrid ranking; 1 is on"
    ] = 0.0
    hybrid_candidates: Annotated[
        int, whole(2, 1000), "the hybrid's best documents that are ranked; as many random ones too"
    ] = 50
    hybrid_sharpness: Annotated[
        float, number(1e-3, 10), "of the hybrid's scores: the lower, the more its first one counts"
    ] = HYBRID_SHARPNESS
    hybrid_mistyped: Annotated[Share, "share of queries taught it as mistyped"] = 0.5
    proximal: Annotated[Share, "FedProx: share of the way back after each step"] = 0.0
    client_init: Annotated[ClientInit, "global, or ema (FedEMA)"] = "global"
    init_scale: Annotated[float, number(0, 1e6), "lambda of FedEMA"] = 1.0
    weight_decay: Annotated[float, number(0, 10), "AdamW's"] = 0.0
    beta1: Annotated[float, number(0, 0.999999), "AdamW's"] = 0.9
    beta2: Annotated[float, number(0, 0.999999), "AdamW's"] = 0.999
    epsilon: Annotated[float, number(1e-12, 1), "AdamW's"] = 1e-8
    limits: Annotated[MonitorLimits, "that end the run, see client/training/monitors.py"] = (
        MonitorLimits()
    )

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """The settings as JSON values, for devices of any release. A setting newer than the first
        release is left out where it is off, so that an older device takes the offer and trains
        alike.
        """
        values = asdict(self)
        if not self.hybrid_loss_weight:
            for name in _HYBRID:
                del values[name]
        return values

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
        """The scalars of a step. Opened results and the hybrid teacher share one loss, so its
        weight is that of the one in use.
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
