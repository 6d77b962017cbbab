"""Adapt the query encoder to the documents of an index: no labels, no server, no new vectors.

    with open_index("index") as index:
        found = adapt(bundle, index, AdaptationConfig())
    if found.verdict.accepted:
        encoder.swap_adapter(found.adapter)

Pseudo-queries are cut from the index's own documents. The index's hybrid ranking of each teaches
the dense one through the bundle's training step, with typing noise on top. Documents, their vectors
and the space stay as they are. What comes out is an adapter, as a federated round makes one. On a
device nothing leaves it; on a server the adapter ships like a release, with the index it was made
for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.adaptation.acceptance import AdaptationVerdict, judge, known_item_scores
from pocketquery.client.adaptation.pseudo_queries import LEAST_KEPT_ASIDE, split_pseudo_queries
from pocketquery.client.local_config import HYBRID_SHARPNESS, LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.batches import Batches
from pocketquery.client.training.hybrid_teacher import HybridBatches
from pocketquery.client.training.monitors import measure
from pocketquery.client.training.step import LocalStep
from pocketquery.client.training.training import train_steps
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.golden import parse_golden
from pocketquery.sdk.bundle.manifest import GOLDEN_FILE
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import ArtifactError
from pocketquery.sdk.index.index import Index
from pocketquery.sdk.settings.common import Seed
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole

__all__ = ["Adaptation", "AdaptationConfig", "adapt"]


@dataclass(frozen=True)
class AdaptationConfig(Settings):
    """How an encoder is adapted."""

    steps: Annotated[int, whole(), "of training"] = 200
    batch_size: Annotated[int, whole(), "pseudo-queries a step"] = 32
    learning_rate: Annotated[float, "AdamW's; it rises for ten steps and falls in a line"] = 1e-3
    teacher_weight: Annotated[
        float, number(0, 1000), "of the hybrid's ranking against the loss between views"
    ] = 1.0
    anchor_weight: Annotated[float, "of the pull to the encoder as it was"] = 0.5
    temperature: Annotated[float, "of the cosines"] = 0.05
    sharpness: Annotated[
        float, number(1e-3, 10), "of the hybrid's scores: the lower, the more its first one counts"
    ] = HYBRID_SHARPNESS
    candidates: Annotated[
        int, whole(2, 1000), "the hybrid's best documents that are ranked; as many random ones too"
    ] = 50
    typo_rate: Annotated[
        float, "share of the letters mistyped in the noisy view, and where it is judged"
    ] = 0.08
    most_queries: Annotated[int, whole(), "pseudo-queries to train on, at most"] = 3000
    most_kept_aside: Annotated[
        int, whole(LEAST_KEPT_ASIDE), "pseudo-queries to judge by, of documents that teach nothing"
    ] = 500
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.training()  # whose settings check the rest

    def training(self) -> LocalConfig:
        """The same as settings of local training."""
        return LocalConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            temperature=self.temperature,
            anchor_weight=self.anchor_weight,
            hybrid_loss_weight=self.teacher_weight,
            hybrid_candidates=self.candidates,
            hybrid_sharpness=self.sharpness,
            hybrid_mistyped=0.0,  # more gains mistyped what it loses as typed (research/LOG.md)
            typo_rate=self.typo_rate,
        )


@dataclass(frozen=True)
class Adaptation:
    """The result.

    Attributes:
        adapter: the tensors, float32 by name; swap them in, or write them with ``write_adapter``.
        verdict: whether they are better.
        queries: pseudo-queries it was trained on.
        kept_aside: pseudo-queries it was judged by.
        losses: the teacher's cross entropy at each step.
    """

    adapter: dict[str, NDArray[np.float32]]
    verdict: AdaptationVerdict
    queries: int
    kept_aside: int
    losses: tuple[float, ...]


def adapt(
    bundle: Bundle,
    index: Index,
    config: AdaptationConfig | None = None,
    *,
    adapter: Mapping[str, NDArray[np.float32]] | None = None,
    num_threads: int = 1,
    may_continue: Callable[[], str | None] = lambda: None,
    show: Callable[[int, float], None] = lambda step, loss: None,
) -> Adaptation:
    """Teach the bundle's encoder the hybrid ranking of ``index``; the same arguments, the same
    bits.

    Args:
        bundle: encoder and training step, which must train the adapter.
        index: its documents are learnt from.
        config: how.
        adapter: to start from, a release's tensors; by default the bundle's own.
        num_threads: of the training step.
        may_continue: asked before every step; returns None, or why not.
        show: told of each step's number, from 0, and of the learning rate's share.

    Raises:
        ArtifactNotFoundError: the bundle has no training step.
        InvalidInputError: the index has too few documents with text to learn from and be judged by.
        SpaceMismatchError: index and bundle are not of one space.
        ArtifactError: the training was stopped, by ``may_continue`` or its monitors; says why.
    """
    config = config or AdaptationConfig()
    step = LocalStep.open(bundle, num_threads=num_threads)
    encoder = Encoder.of_bundle(bundle)
    if adapter is not None:
        encoder.swap_adapter(adapter)
    taught, kept_aside = split_pseudo_queries(
        index,
        most=config.most_queries,
        most_kept_aside=config.most_kept_aside,
        least=config.batch_size,
        seed=config.seed,
    )
    before = known_item_scores(
        encoder.encode_query, index, kept_aside, typo_rate=config.typo_rate, seed=config.seed
    )
    texts = [query.text for query in taught]
    training = config.training()
    batches = HybridBatches(
        Batches(encoder, step.description, [Example(t) for t in texts], index, training),
        index,
        training,
    )
    start = step.initial_state(encoder.adapter)

    def schedule(number: int) -> float:
        share = min((number + 1) / 10, (config.steps - number) / config.steps)
        show(number, share)
        return share

    result = train_steps(
        step,
        batches,
        len(texts),
        start,
        training,
        np.random.default_rng(config.seed),
        may_continue=may_continue,
        schedule=schedule,
    )
    if result.stopped:
        raise ArtifactError(f"the adaptation was stopped and nothing is kept: {result.stopped}")
    adapted = {name: start.online[name] + change for name, change in result.change.items()}
    encoder.swap_adapter({name: value.astype(np.float16) for name, value in adapted.items()})
    after = known_item_scores(
        encoder.encode_query, index, kept_aside, typo_rate=config.typo_rate, seed=config.seed
    )
    return Adaptation(
        adapter=adapted,
        verdict=judge(before, after, _drift(bundle, encoder)),
        queries=len(taught),
        kept_aside=len(kept_aside),
        losses=tuple(losses.opened_loss for losses in result.losses),
    )


def _drift(bundle: Bundle, encoder: Encoder) -> float:
    """How far the bundle's golden texts moved, mean of 1 - cos."""
    golden = parse_golden(bundle.read(GOLDEN_FILE))
    shipped = np.array([one.vector for one in golden], np.float32)
    return measure(encoder.encode([one.text for one in golden], prompt=""), shipped).drift
