"""Self-supervision of a light query encoder without negatives.

*Query-BERT* (technical report), sections on BYOL/BSL training, the attention projector and the
directional loss; after "Bootstrapped Unsupervised Sentence Representation Learning" and
"Directional Self-supervised Learning for Heavy Image Augmentations".
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import nn

from pocketquery.client.views.augmenter_choice import Maker
from pocketquery.client.views.tally import Tally, alarming
from pocketquery.client.views.views import View
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.common import Share
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, one_of, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.precision import at_least_float32
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.augmenter_identity import Identity
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, Rate, tokenize
from pocketquery.server.objectives.query_views import SCHEMES, QueryViews, augmenters_of
from pocketquery.server.objectives.shared.byol import (
    SCHEDULES,
    byol_loss,
    momentum_at,
    std_ratio,
    update_target,
)
from pocketquery.server.objectives.shared.projectors import (
    NORMS,
    GroupProjector,
    Norm,
    TokenProjector,
    mlp,
    predictor,
)

__all__ = ["QueryBert", "QueryBertConfig"]

_IDENTITY = "identity_"  # before an augmenter's name

Views = tuple[View, ...]


@dataclass(frozen=True)
class QueryBertConfig(Settings):
    """Settings of :class:`QueryBert`.

    The defaults are the report's best row. ``stop_gradient``, ``predictor`` and the norms are
    there to be switched off: then the loss is as low, and the vectors are worth nothing.
    """

    framework: Annotated[
        Literal["bsl", "bsl_noema", "simsiam"],
        "where targets come from: bsl a copy that follows by EMA; bsl_noema a copy that "
        "target_update says when to renew; simsiam the network itself",
    ] = "bsl"
    target_update: Annotated[
        Literal["hard", "frozen"],
        "of bsl_noema: hard (copied every target_every steps) or frozen (never). The report "
        "does not say which it used",
    ] = "hard"
    target_every: Annotated[
        int, whole(), "steps between hard copies; an epoch's steps are the usual choice"
    ] = 500
    momentum: Annotated[
        Share,
        "of bsl; so that 1 / (1 - momentum) is 2 to 5 % of the run: 0.99 for two to five "
        "thousand steps, 0.999 above twenty thousand. The report does not state its own",
    ] = 0.99
    momentum_schedule: Annotated[str, one_of(*SCHEDULES), "cosine (rises to 1) or constant"] = (
        "cosine"
    )
    target_dropout: Annotated[
        bool, "whether the target has dropout, which acts as a light augmentation"
    ] = True
    views: Annotated[
        str,
        one_of(*SCHEMES),
        "which views of a query are drawn (of a pair, always its two texts): all_directional, "
        "all_regular, light or clean_noisy; see "
        ":class:`pocketquery.server.objectives.query_views.QueryViews`",
    ] = "all_directional"
    reverse_weight: Annotated[
        Share,
        "share of the reverse direction, light predicts heavy, beside heavy predicts light; "
        "costs two more target passes. all_directional only",
    ] = 0.0
    light: Annotated[
        str, "augmenters of light views: names with commas, or a JSON list with parameters"
    ] = "dropout_view,noise_case"
    heavy: Annotated[str, "augmenters of heavy views"] = "shuffle,typo"
    heavy_source: Annotated[
        Literal["light", "original"],
        "whether a heavy view is made of its light one or of the original",
    ] = "light"
    slots: Annotated[
        Literal["drawn", "fixed"],
        "drawn: each view draws one of its kind's augmenters; fixed: the two of a kind have one "
        "each, in the order given, as the report's have",
    ] = "drawn"
    projector: Annotated[Literal["attention", "mlp", "none"], "attention, mlp or none"] = (
        "attention"
    )
    projector_input: Annotated[
        Literal["groups", "tokens"],
        "attention over feature groups of the pooled vector, or over tokens",
    ] = "groups"
    projection: Annotated[int, whole(0), "width of the projections; 0 is the encoder's"] = 0
    groups: Annotated[int, whole(), "feature groups; must divide the encoder's width"] = 8
    attention_layers: Annotated[int, whole(), "of the attention projector"] = 4
    attention_heads: Annotated[int, whole(), "of each of its layers"] = 1
    projector_norm: Annotated[
        str,
        one_of(*NORMS),
        "batch, running, layer or none; see "
        ":class:`pocketquery.server.objectives.shared.projectors.FeatureNorm`",
    ] = "batch"
    predictor: Annotated[bool, "whether there is one"] = True
    predictor_norm: Annotated[str, one_of(*NORMS), "as projector_norm"] = "batch"
    predictor_lr_mult: Annotated[
        float, number(above=0), "the predictor's learning rate as a multiple of the encoder's"
    ] = 1.0
    predictor_fixed_lr: Annotated[
        bool, "whether it stays at its peak, which helps in short runs"
    ] = False
    stop_gradient: Annotated[
        bool, "whether targets are constants; without it only simsiam makes sense"
    ] = True
    max_length: Annotated[int, whole(4), "tokens of a query, specials included"] = 32

    def __post_init__(self) -> None:
        super().__post_init__()
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


class QueryBert(Objective[Views]):
    """Predict, from one view of a query, the target network's projection of another.

    Args:
        encoder: the one to be trained; what ships is its pooled vector, before every head here.
        config: settings.
        plugins: augmenters that ``config`` may name beside the built-in ones.
    """

    name: ClassVar[str] = "query_bert"
    kinds: ClassVar[tuple[Kind, ...]] = ("queries", "pairs")

    def __init__(
        self,
        encoder: SentenceEncoder,
        config: QueryBertConfig | None = None,
        plugins: Mapping[str, Maker] | None = None,
    ) -> None:
        super().__init__()
        self.config = config = config or QueryBertConfig()
        self.views = QueryViews(
            config.views,
            augmenters_of(config.light, plugins),
            augmenters_of(config.heavy, plugins),
            config.heavy_source,
            config.slots,
        )
        width = config.projection or encoder.hidden_size
        self.projector = _projector(encoder, config, width)
        self.predictor: nn.Module = nn.Identity()
        if config.predictor:
            self.predictor = predictor(width, cast(Norm, config.predictor_norm))
            rate = Rate(config.predictor_lr_mult, config.predictor_fixed_lr)
            self.rates = {"predictor": rate}
        self.target: _Target | None = None
        if config.framework != "simsiam":
            self.target = _Target(encoder, self.projector, dropout=config.target_dropout)
        self.tokenizer = encoder.tokenizer
        self.max_length = min(config.max_length, encoder.max_length)

    def record(self) -> dict[str, Any]:
        """Who makes the views: files and models by their content, not by their place."""
        made = {
            "light": [one for plan in self.views.plans for one in plan.light],
            "heavy": [one for plan in self.views.plans for one in plan.heavy],
        }
        return {"views": {kind: [[*Identity.of(one)] for one in by] for kind, by in made.items()}}

    def check_source(self, source: Source) -> None:
        """A pair with a blank side has one view, and a batch as many views of each example."""
        alone = np.flatnonzero(source.counts() == 1)
        if source.kind == "pairs" and len(alone):
            raise InvalidInputError(
                f'the pair "{source[int(alone[0])].id}" has one text, the other side is blank '
                f"({len(alone)} of {len(source)} pairs are so); query_bert expected two texts that "
                "mean the same. Leave such pairs out, or train on their texts as queries"
            )

    def draw(self, group: Group, rng: random.Random) -> Views | None:
        return self.views.draw(group, rng)

    def collate(self, examples: Sequence[Views], rng: np.random.Generator) -> Batch:
        by_view = list(zip(*examples, strict=True))
        texts = [view.text for views in by_view for view in views]  # all first views, then on
        ids, mask = tokenize(self.tokenizer, texts, self.max_length)
        tally = Tally()
        for views in examples:
            tally.add(views)
        rates = {_IDENTITY + name: rate for name, rate in tally.identity_rates().items()}
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "views": len(by_view),
            "identity_rates": rates,
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        ids, mask, views = batch["input_ids"], batch["attention_mask"], batch["views"]
        pooled, online = _projections(encoder, self.projector, ids, mask, views)
        predictions = at_least_float32(torch.stack([self.predictor(z) for z in online]))
        targets = at_least_float32(self._targets(online, ids, mask, views))
        loss = byol_loss(predictions, targets, self.config.reverse_weight if views == 4 else 0.0)
        stats = {"h_std_ratio": std_ratio(pooled), "z_std_ratio": std_ratio(online[0])}
        return LossParts(loss, {"byol": loss}, stats | batch["identity_rates"])

    def alarms(self, figures: Mapping[str, float]) -> list[str]:
        """Augmenters that leave too many queries as they were: equal views teach nothing."""
        rates = {
            name.removeprefix(_IDENTITY): rate
            for name, rate in figures.items()
            if name.startswith(_IDENTITY)
        }
        return [_IDENTITY + name for name in alarming(rates)]

    def project(
        self, encoder: SentenceEncoder, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Projections float (texts, p): what the loss sees, and where a collapse shows first."""
        return _projections(encoder, self.projector, input_ids, attention_mask, 1)[1][0]

    def after_step(self, encoder: SentenceEncoder, batch: Batch, step: int, steps: int) -> None:
        """The target follows, as the framework says."""
        if self.target is None:
            return
        config = self.config
        if config.framework == "bsl":
            momentum = momentum_at(step, steps, config.momentum, config.momentum_schedule)
            self.target.follow(encoder, self.projector, momentum)
        elif config.target_update == "hard" and (step + 1) % config.target_every == 0:
            self.target.follow(encoder, self.projector, 0.0)

    def _targets(
        self, online: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor, views: int
    ) -> torch.Tensor:
        """What is to be predicted: projections of views 1 and 2, of all where there is a reverse
        direction; float (2 or 4, batch, p)."""
        predicted = 4 if views == 4 and self.config.reverse_weight else 2
        if self.target is None:
            return online[:predicted].detach() if self.config.stop_gradient else online[:predicted]
        rows = len(ids) // views * predicted
        return cast(torch.Tensor, self.target(ids[:rows], mask[:rows], predicted))


class _Target(nn.Module):
    """A copy of encoder and projector without gradient."""

    def __init__(self, encoder: SentenceEncoder, projector: nn.Module, *, dropout: bool) -> None:
        super().__init__()
        backbone = copy.deepcopy(encoder.backbone)
        self.encoder = SentenceEncoder(backbone, encoder.tokenizer, pooling=encoder.pooling)
        self.projector = copy.deepcopy(projector)
        self.dropout = dropout
        self.requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> _Target:
        """The projector is in training or not; the encoder is, too, where it has dropout."""
        super().train(mode)
        self.encoder.train(mode and self.dropout)
        return self

    @torch.no_grad()
    def forward(self, ids: torch.Tensor, mask: torch.Tensor, views: int) -> torch.Tensor:
        """Projections float (views, batch, p)."""
        # Another objective of the run may have added tokens since: should a text spell one, the
        # copy has no row for it, and reads its own last one.
        known = ids.clamp(max=self.encoder.backbone.get_input_embeddings().num_embeddings - 1)
        return _projections(self.encoder, self.projector, known, mask, views)[1]

    def follow(self, encoder: SentenceEncoder, projector: nn.Module, momentum: float) -> None:
        """One step towards the online network; buffers stay the target's own."""
        update_target(encoder.backbone.parameters(), self.encoder.backbone.parameters(), momentum)
        update_target(projector.parameters(), self.projector.parameters(), momentum)


def _projections(
    encoder: SentenceEncoder,
    projector: nn.Module,
    ids: torch.Tensor,
    mask: torch.Tensor,
    views: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pooled vectors float (views * batch, d) and projections float (views, batch, p).

    The encoder takes all views at once; the projector, whose normalisation looks at the batch,
    takes each view by itself.
    """
    if isinstance(projector, TokenProjector):
        states = encoder.states(ids, mask)
        parts = zip(states.chunk(views), mask.chunk(views), strict=True)
        projected = torch.stack([projector(*part) for part in parts])
        return pool(states, mask, encoder.pooling), projected
    pooled = encoder.pooled(ids, mask)
    return pooled, torch.stack([projector(part) for part in pooled.chunk(views)])


def _projector(encoder: SentenceEncoder, config: QueryBertConfig, width: int) -> nn.Module:
    norm, hidden = cast(Norm, config.projector_norm), encoder.hidden_size
    if config.projector == "none":
        return nn.Identity() if width == hidden else nn.Linear(hidden, width)
    if config.projector == "mlp":
        return mlp(hidden, width, norm)
    layers, heads = config.attention_layers, config.attention_heads
    groups = config.groups if config.projector_input == "groups" else 1
    if hidden % (groups * heads):
        raise InvalidInputError(
            f"the encoder's width {hidden} is no multiple of {groups} groups with {heads} heads; "
            "choose groups and attention_heads that divide it"
        )
    if config.projector_input == "groups":
        return GroupProjector(hidden, width, groups=groups, layers=layers, heads=heads, norm=norm)
    return TokenProjector(
        hidden, width, layers=layers, heads=heads, norm=norm, pooling=encoder.pooling
    )
