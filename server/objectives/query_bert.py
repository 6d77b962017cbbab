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

from pocketquery.client.views.tally import Tally, alarming
from pocketquery.client.views.views import View
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.common import Share
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import one_of, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.precision import at_least_float32
from pocketquery.server.objectives.augmenter_identity import Identity
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.query_views import SCHEMES, QueryViews, augmenters_of
from pocketquery.server.objectives.shared.byol import (
    byol_loss,
    momentum_at,
    std_ratio,
    update_target,
)
from pocketquery.server.objectives.shared.projectors import GroupProjector, mlp, predictor

__all__ = ["QueryBert", "QueryBertConfig"]

_IDENTITY = "identity_"  # before an augmenter's name

Views = tuple[View, ...]


@dataclass(frozen=True)
class QueryBertConfig(Settings):
    """Settings of :class:`QueryBert`.

    The defaults are the report's best row.
    """

    framework: Annotated[
        Literal["bsl", "bsl_noema", "simsiam"],
        "where targets come from: bsl a copy that follows by EMA; bsl_noema a copy that is renewed "
        "every target_every steps; simsiam the network itself",
    ] = "bsl"
    target_every: Annotated[int, whole(), "of bsl_noema; an epoch's steps are the usual choice"] = (
        500
    )
    momentum: Annotated[
        Share,
        "of bsl; so that 1 / (1 - momentum) is 2 to 5 % of the run: 0.99 for two to five "
        "thousand steps, 0.999 above twenty thousand. The report does not state its own",
    ] = 0.99
    views: Annotated[
        str,
        one_of(*SCHEMES),
        "which views of a query are drawn (of a pair, always its two texts): all_directional, "
        "all_regular or light (query_views.py)",
    ] = "all_directional"
    light: Annotated[
        str, "augmenters of light views: names with commas, or a JSON list with parameters"
    ] = "dropout_view,noise_case"
    heavy: Annotated[str, "augmenters of heavy views"] = "shuffle,typo"
    slots: Annotated[
        Literal["drawn", "fixed"],
        "drawn: each view draws one of its kind's augmenters; fixed: the two of a kind have one "
        "each, in the order given, as the report's have",
    ] = "drawn"
    projector: Annotated[Literal["attention", "mlp", "none"], "attention, mlp or none"] = (
        "attention"
    )
    groups: Annotated[
        int, whole(), "feature groups of the attention projector; must divide the encoder's width"
    ] = 8
    max_length: Annotated[int, whole(4), "tokens of a query, specials included"] = 32


class QueryBert(Objective[Views]):
    """Predict, from one view of a query, the target network's projection of another.

    Args:
        encoder: the one to be trained; what ships is its pooled vector, before every head here.
        config: settings.
    """

    name: ClassVar[str] = "query_bert"
    kinds: ClassVar[tuple[Kind, ...]] = ("queries", "pairs")

    def __init__(self, encoder: SentenceEncoder, config: QueryBertConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or QueryBertConfig()
        light, heavy = augmenters_of(config.light), augmenters_of(config.heavy)
        self.views = QueryViews(config.views, light, heavy, config.slots)
        self.projector = _projector(encoder, config)
        self.predictor = predictor(encoder.hidden_size)
        simsiam = config.framework == "simsiam"
        self.target = None if simsiam else _Target(encoder, self.projector)
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
        loss = byol_loss(predictions, targets)
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
            momentum = momentum_at(step, steps, config.momentum)
            self.target.follow(encoder, self.projector, momentum)
        elif (step + 1) % config.target_every == 0:
            self.target.follow(encoder, self.projector, 0.0)

    def _targets(
        self, online: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor, views: int
    ) -> torch.Tensor:
        """What is to be predicted: projections of views 1 and 2, float (2, batch, p)."""
        if self.target is None:
            return online[:2].detach()
        rows = len(ids) // views * 2
        return cast(torch.Tensor, self.target(ids[:rows], mask[:rows], 2))


class _Target(nn.Module):
    """A copy of encoder and projector without gradient. Its dropout is a light augmentation."""

    def __init__(self, encoder: SentenceEncoder, projector: nn.Module) -> None:
        super().__init__()
        backbone = copy.deepcopy(encoder.backbone)
        self.encoder = SentenceEncoder(backbone, encoder.tokenizer, pooling=encoder.pooling)
        self.projector = copy.deepcopy(projector)
        self.requires_grad_(False)
        self.train()

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
    pooled = encoder.pooled(ids, mask)
    return pooled, torch.stack([projector(part) for part in pooled.chunk(views)])


def _projector(encoder: SentenceEncoder, config: QueryBertConfig) -> nn.Module:
    width = encoder.hidden_size
    if config.projector == "none":
        return nn.Identity()
    if config.projector == "mlp":
        return mlp(width)
    if width % config.groups:
        raise InvalidInputError(
            f"the encoder's width {width} is no multiple of {config.groups} groups; choose groups "
            "that divide it"
        )
    return GroupProjector(width, groups=config.groups)
