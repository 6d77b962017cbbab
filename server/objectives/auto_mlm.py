"""Auto-MLM: contrast neighbouring sentences of a session, and rebuild words from a vector.

"Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual Knowledge Retrieval",
the section on the method. The vector is pooled as the encoder pools, so that what is trained is
what ships; the paper's is the first token's (``pooling="cls"``). Two departures from the print,
which are errors there: the hinge starts at the first pair, and the margin is added within it (as
printed it is subtracted, and then vectors that are all equal cost nothing).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import check, number, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.objectives.mlm import masked_positions
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.losses import (
    cosines,
    margin_in_batch,
    same_text_mask,
)
from pocketquery.server.objectives.shared.masking import IGNORED, bert_mask
from pocketquery.server.objectives.shared.text_pairs import TextPair, check_user_role, draw_pair

__all__ = ["AutoMlm", "AutoMlmConfig", "active_pairs", "conditioned_states"]

Stats = dict[str, torch.Tensor | float]


@dataclass(frozen=True)
class AutoMlmConfig(Settings):
    """Settings of :class:`AutoMlm`; the defaults are the paper's where it names them."""

    margin: Annotated[float, number(1e-6), "gamma of the hinge"] = 0.1
    contrast_weight: Annotated[
        float, number(0), "weight of the hinge; 0 leaves the auto-encoding term alone"
    ] = 1.0
    weight: Annotated[
        float, number(0), "lambda, the weight of the auto-encoding term; 0 leaves the hinge alone"
    ] = 1.0
    vector: Annotated[
        Literal["own", "none"],
        '"own", or "none" for plain MLM in the place of the auto-encoding term',
    ] = "own"
    user_role: Annotated[
        str,
        "the role of the user in sessions; empty: found, see session_turns. A store of sessions "
        'knows "user" and "agent" alone',
    ] = ""
    mask_rate: Annotated[
        float, number(above=0, below=1), "share of the tokens that are predicted"
    ] = 0.15
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check("contrast_weight + weight", self.contrast_weight + self.weight, number(1e-9))


def active_pairs(scores: torch.Tensor, margin: float, dropped: torch.Tensor) -> torch.Tensor:
    """Share of the negatives that the hinge (:func:`margin_in_batch`) still moves."""
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    counted = ~(dropped | own)
    active = (margin - scores.diagonal().unsqueeze(1) + scores > 0) & counted
    return active.sum() / counted.sum().clamp(min=1)


def conditioned_states(
    states: torch.Tensor, vectors: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The states of the masked positions, each plus the vector of its own sentence.

    Args:
        states: token states (rows, length, width) of the masked texts.
        vectors: (rows, width), of the same texts unmasked, not normalised.
        labels: int64 (rows, length), :data:`IGNORED` where there is no loss.

    Returns:
        (n, width) for n masked positions, in the order of ``masked_positions``.
    """
    rows, columns = masked_positions(labels)
    return states[rows, columns] + vectors[rows]


class AutoMlm(Objective[TextPair]):
    r"""Contrast over sessions, and MLM through the sentence's own vector.

    The contrastive term is the hinge: a pair's cosine exceeds those of its agent with other users.

    .. math:: L = \frac1N \sum_{i=1}^N \sum_{j \neq i} [\gamma - S_{ii} + S_{ij}]_+

    The unmasked forward is computed once and serves both terms. Texts that stand alone (plain
    sentences, queries) have no contrastive term: the auto-encoding one trains on them too.
    """

    name: ClassVar[str] = "auto_mlm"
    kinds: ClassVar[tuple[Kind, ...]] = ("sessions", "pairs", "documents", "queries")

    def __init__(self, encoder: SentenceEncoder, config: AutoMlmConfig | None = None) -> None:
        super().__init__()
        self.config = config or AutoMlmConfig()
        self.head = MlmHead(encoder)
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)

    def check_source(self, source: Source) -> None:
        check_user_role(source, self.config.user_role)

    def draw(self, group: Group, rng: random.Random) -> TextPair | None:
        return draw_pair(group, rng, user_role=self.config.user_role)

    def collate(self, examples: Sequence[TextPair], rng: np.random.Generator) -> Batch:
        """Agents, then their users, then the texts that stand alone; one example a group."""
        first: dict[str, TextPair] = {}
        for example in examples:
            first.setdefault(example.group, example)
        pairs = [pair for pair in first.values() if pair.agent]
        agents, users = [pair.agent for pair in pairs], [pair.user for pair in pairs]
        texts = [*agents, *users, *(alone.user for alone in first.values() if not alone.agent)]
        ids, mask = tokenize(self.tokenizer, texts, self.max_length)
        masked, labels = bert_mask(ids, self.tokenizer, rng, self.config.mask_rate)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "masked_ids": masked,
            "labels": labels,
            "dropped": same_text_mask(users, users)
            | same_text_mask(agents, agents)
            | same_text_mask(agents, users),
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        vectors = encoder.pooled(batch["input_ids"], batch["attention_mask"])  # (texts, width)
        contrast, stats = self._contrast(vectors, batch["dropped"])
        total, parts = self.config.contrast_weight * contrast, {"contrastive": contrast}
        if self.config.weight > 0:
            auto, further = self._auto(encoder, vectors, batch)
            total, parts["auto_mlm"] = total + self.config.weight * auto, auto
            stats |= further
        return LossParts(total, parts, stats)

    def _contrast(self, vectors: torch.Tensor, dropped: torch.Tensor) -> tuple[torch.Tensor, Stats]:
        pairs, margin = len(dropped), self.config.margin
        if pairs < 2:
            return vectors.sum() * 0, {}  # no negatives: nothing to learn, yet a gradient of zero
        scores = cosines(vectors[:pairs], vectors[pairs : 2 * pairs])  # (pairs, pairs)
        loss = margin_in_batch(scores, margin, dropped)
        # Where all vectors are equal the loss is this and has no gradient: a run there is dead.
        collapsed = margin_in_batch(torch.zeros_like(scores), margin, dropped).clamp(min=1e-9)
        active = active_pairs(scores.detach(), margin, dropped)
        return loss, {"active_pairs": active, "hinge_level": loss.detach() / collapsed}

    def _auto(
        self, encoder: SentenceEncoder, vectors: torch.Tensor, batch: Batch
    ) -> tuple[torch.Tensor, Stats]:
        labels = batch["labels"]
        states = encoder.states(batch["masked_ids"], batch["attention_mask"])
        own = vectors * (self.config.vector == "own")
        masked = max(int((labels != IGNORED).sum()), 1)
        total, right = self._cross_entropy(encoder, states, own, labels)
        with torch.no_grad():
            accuracy = right / masked
            norms = vectors.norm(dim=-1)
            stats: Stats = {
                "auto_accuracy": accuracy,
                "vector_norm": norms.mean(),
                "short_vectors": (norms < 1e-4).float().mean(),
                "state_norm": states[labels != IGNORED].norm(dim=-1).mean(),
            }
            _, others = self._cross_entropy(encoder, states, own.roll(1, dims=0), labels)
            stats["bottleneck_gain"] = accuracy - others / masked
        return total / masked, stats

    def _cross_entropy(
        self,
        encoder: SentenceEncoder,
        states: torch.Tensor,
        vectors: torch.Tensor,
        labels: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        joined = conditioned_states(states, vectors, labels)
        return self.head.cross_entropy(joined, labels[labels != IGNORED], encoder)
