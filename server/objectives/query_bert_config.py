"""The switches of Query-BERT."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.options import check_at_least, check_choice
from pocketquery.server.objectives.query_views import SCHEMES
from pocketquery.server.objectives.shared.projectors import NORMS
from pocketquery.server.objectives.shared.targets import SCHEDULES

__all__ = ["QueryBertConfig"]

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "framework": ("bsl", "bsl_noema", "simsiam"),
    "target_update": ("hard", "frozen"),
    "momentum_schedule": SCHEDULES,
    "views": SCHEMES,
    "heavy_source": ("light", "original"),
    "projector": ("attention", "mlp", "none"),
    "projector_input": ("groups", "tokens"),
    "projector_norm": NORMS,
    "predictor_norm": NORMS,
}

_LEAST: Mapping[str, int] = {
    "target_every": 1,
    "projection": 0,
    "groups": 1,
    "attention_layers": 1,
    "attention_heads": 1,
    "max_length": 4,
}


@dataclass(frozen=True)
class QueryBertConfig:
    """Settings of :class:`pocketquery.server.objectives.query_bert.QueryBert`.

    The defaults are the report's best row. ``stop_gradient``, ``predictor`` and the norms are
    there to be switched off: then the loss is as low, and the vectors are worth nothing.

    Attributes:
        framework: where targets come from: ``bsl`` a copy that follows by EMA; ``bsl_noema`` a
            copy that ``target_update`` says when to renew; ``simsiam`` the network itself.
        target_update: of ``bsl_noema``: ``hard`` (copied every ``target_every`` steps) or
            ``frozen`` (never). The report does not say which it used.
        target_every: steps between hard copies; an epoch's steps are the usual choice.
        momentum: of ``bsl``; so that 1 / (1 - momentum) is 2 to 5 % of the run: 0.99 for two to
            five thousand steps, 0.999 above twenty thousand. The report does not state its own.
        momentum_schedule: ``cosine`` (rises to 1) or ``constant``.
        target_dropout: whether the target has dropout, which acts as a light augmentation.
        views: which views of a query are drawn (of a pair, always its two texts):
            ``all_directional``, ``all_regular``, ``light`` or ``clean_noisy``; see
            :class:`pocketquery.server.objectives.query_views.QueryViews`.
        reverse_weight: share of the reverse direction, light predicts heavy, beside heavy predicts
            light; costs two more target passes. ``all_directional`` only.
        light: augmenters of light views: names with commas, or a JSON list with parameters.
        heavy: augmenters of heavy views.
        heavy_source: whether a heavy view is made of its ``light`` one or of the ``original``.
        projector: ``attention``, ``mlp`` or ``none``.
        projector_input: attention over feature ``groups`` of the pooled vector, or over ``tokens``.
        projection: width of the projections; 0 is the encoder's.
        groups: feature groups; must divide the encoder's width.
        attention_layers: of the attention projector.
        attention_heads: of each of its layers.
        projector_norm: ``batch``, ``running``, ``layer`` or ``none``; see
            :class:`pocketquery.server.objectives.shared.projectors.FeatureNorm`.
        predictor: whether there is one.
        predictor_norm: as ``projector_norm``.
        predictor_lr_mult: the predictor's learning rate as a multiple of the encoder's.
        predictor_fixed_lr: whether it stays at its peak, which helps in short runs.
        stop_gradient: whether targets are constants; without it only ``simsiam`` makes sense.
        max_length: tokens of a query, specials included.
    """

    framework: str = "bsl"
    target_update: str = "hard"
    target_every: int = 500
    momentum: float = 0.99
    momentum_schedule: str = "cosine"
    target_dropout: bool = True
    views: str = "all_directional"
    reverse_weight: float = 0.0
    light: str = "dropout_view,noise_case"
    heavy: str = "shuffle,typo"
    heavy_source: str = "light"
    projector: str = "attention"
    projector_input: str = "groups"
    projection: int = 0
    groups: int = 8
    attention_layers: int = 4
    attention_heads: int = 1
    projector_norm: str = "batch"
    predictor: bool = True
    predictor_norm: str = "batch"
    predictor_lr_mult: float = 1.0
    predictor_fixed_lr: bool = False
    stop_gradient: bool = True
    max_length: int = 32

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            check_choice(name, getattr(self, name), known)
        for name, least in _LEAST.items():
            check_at_least(name, getattr(self, name), least)
        for name in ("momentum", "reverse_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; expected 0 to 1")
        if not 0 < self.predictor_lr_mult < math.inf:
            raise InvalidInputError(
                f"predictor_lr_mult is {self.predictor_lr_mult}; expected a number above 0"
            )
        if self.reverse_weight and self.views != "all_directional":
            raise InvalidInputError(
                f'reverse_weight is {self.reverse_weight} and views "{self.views}"; expected '
                'views "all_directional", or no reverse_weight'
            )
        if not self.stop_gradient and self.framework != "simsiam":
            raise InvalidInputError(
                f'stop_gradient is off and the framework "{self.framework}", whose target has no '
                'gradient to stop; expected the framework "simsiam"'
            )
