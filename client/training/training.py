"""Local training: one round on one device, from its queries to the change it may upload.

The device's own documents stand where BYOL has its projector: the online network, seeing a query
as thumbs type it, must rank them as the target network does on the clean one. Nothing here knows
where the queries come from or where the change goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.batches import Batches, stream
from pocketquery.client.training.hybrid_teacher import HybridBatches
from pocketquery.client.training.monitors import Health, measure, violation
from pocketquery.client.training.prototypes import PrototypeSource
from pocketquery.client.training.step import LocalStep, State, StepBatch, StepLosses
from pocketquery.client.transforms import norm_of
from pocketquery.client.views.views import ViewPlan
from pocketquery.sdk.arrays import Floats, Tensors
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.index import Index

__all__ = ["BatchSource", "LocalConfig", "LocalResult", "train_locally", "train_steps"]


@dataclass(frozen=True)
class LocalResult:
    """The result of a round on the device.

    Attributes:
        change: new minus given value of every tensor that ships, float32; empty where the run was
            stopped: then there is nothing to upload, and nothing of the run is left.
        examples: queries it trained on.
        steps: steps that were done.
        losses: of each step, before it.
        health: figures of the encoder, the last that were taken (the end result's where the run
            was not stopped); None where it was stopped before there were any.
        stopped: why the run was stopped; None where it was not.
    """

    change: dict[str, Floats]
    examples: int
    steps: int
    losses: tuple[StepLosses, ...]
    health: Health | None
    stopped: str | None

    @property
    def drift(self) -> float | None:
        """Mean ``1 - cos`` to the shipped encoder's vectors of the device's queries."""
        return None if self.health is None else self.health.drift

    @property
    def effective_rank(self) -> float | None:
        """Of the vectors of the device's queries."""
        return None if self.health is None else self.health.effective_rank


class BatchSource(Protocol):
    """What makes batches of rows: :class:`pocketquery.client.training.batches.Batches`, say."""

    def make(
        self, rows: NDArray[np.intp], rng: np.random.Generator, *, noisy: bool = True
    ) -> StepBatch:
        """The batch of the examples ``rows``."""


def train_locally(
    encoder: Encoder,
    step: LocalStep,
    examples: Sequence[Example],
    index_vectors: PrototypeSource,
    *,
    adapter: Tensors,
    config: LocalConfig,
    seed: int,
    may_continue: Callable[[], str | None] = lambda: None,
    previous: Tensors | None = None,
    plan: ViewPlan | None = None,
    least_opened: int = 0,
) -> LocalResult:
    """Train for one round. The same arguments give the same bits.

    A run is stopped, and its result discarded, when ``may_continue`` says so, when a loss is not
    finite, or when the monitors find the encoder collapsed or drifting. They look at every step,
    and once more at the result itself.

    Args:
        encoder: the shipped encoder: its vectors are the anchor, its tokenizer and prompt are used.
        step: the training step of the same encoder.
        examples: the device's queries. At most ``steps * batch_size`` are used, drawn evenly.
        index_vectors: the device's documents: an open index, or a matrix float32 (n, d) in the
            same space, which cannot be searched by words.
        adapter: the release to start from, float16 or float32 by name.
        config: the round's settings.
        seed: of the order, the views and the random documents.
        may_continue: asked before every step and at the end; returns None, or why not.
        previous: the adapter this device ended its last round with, for ``client_init="ema"``.
        plan: how the views are made where the device has an augmenter of its own; by default as
            ``config`` says.
        least_opened: how many drawn queries must have an opened result that is still in the index,
            beside another that was shown. With fewer, opened results do not count: that part of the
            loss would be of those few.

    Raises:
        InvalidInputError: no examples; a query that is no text; tensors of another encoder; no
            document to compare with; a hybrid ranking as teacher with a matrix instead of an index.
            Or fewer than two examples, or a batch size of one, for ``byol``, whose heads normalise
            over the batch.
        SpaceMismatchError: encoder, step and documents are not of one space.
    """
    _check(encoder, step, len(examples), config.batch_size)
    rng = np.random.default_rng(seed)
    if reason := may_continue():
        return LocalResult({}, 0, 0, (), None, reason)

    # What is trained on, and from where.
    chosen = _draw(examples, config, rng)
    batches: BatchSource
    batches = own = Batches(
        encoder, step.description, chosen, index_vectors, config, plan, least_opened
    )
    if config.hybrid_loss_weight:
        batches = _taught_by_hybrid(own, index_vectors, config)
    elif config.opened_loss_weight and not own.uses_opened:
        config = replace(config, opened_loss_weight=0.0)
    origin = step.initial_state(adapter)
    start = _begin(step, origin, previous, config)
    return train_steps(
        step, batches, len(chosen), origin, config, rng, start=start, may_continue=may_continue
    )


def train_steps(
    step: LocalStep,
    batches: BatchSource,
    count: int,
    origin: State,
    config: LocalConfig,
    rng: np.random.Generator,
    *,
    start: State | None = None,
    may_continue: Callable[[], str | None] = lambda: None,
    schedule: Callable[[int], float] = lambda step: 1.0,
) -> LocalResult:
    """The steps of a training, watched and judged as :func:`train_locally` says.

    Args:
        step: the training step.
        batches: makes the batches.
        count: how many examples they are of.
        origin: the state that the change is measured from.
        config: steps, batch size, hyper-parameters and limits.
        rng: of the order and the batches.
        start: the state to begin with, where it is not ``origin``.
        may_continue: asked before every step and at the end; returns None, or why not.
        schedule: what the learning rate is multiplied by at each step, from 0.
    """
    size = min(config.batch_size, count)
    start = origin if start is None else start
    state = start
    losses: list[StepLosses] = []
    health: Health | None = None

    def stopped(reason: str) -> LocalResult:
        return LocalResult({}, count, len(losses), tuple(losses), health, reason)

    for rows in stream(count, size, config.steps, rng):
        if reason := may_continue():
            return stopped(reason)
        batch = batches.make(rows, rng)
        hyper = config.hyperparameters
        rate = hyper.learning_rate * schedule(len(losses))
        state, loss, vectors = step.run(batch, state, replace(hyper, learning_rate=rate))
        state = _pulled(step, state, start, config.proximal)
        losses.append(loss)
        seen = vectors[:size] if batch.clean is None else vectors[batch.clean]
        health = measure(seen, batch.anchor)
        if reason := _wrong(loss) or violation(health, config.limits):
            return stopped(f"step {len(losses)}: {reason}")

    # The result is judged itself: the losses are of the states before it.
    probe = batches.make(np.arange(size), rng, noisy=False)
    loss, health = _look(step, probe, state, config)
    if reason := _wrong(loss) or violation(health, config.limits) or may_continue():
        return stopped(reason)
    change = _change(step, state, origin)
    return LocalResult(change, count, len(losses), tuple(losses), health, None)


def _check(encoder: Encoder, step: LocalStep, count: int, batch_size: int) -> None:
    description = step.description
    if encoder.space_id != description.space_id:
        raise SpaceMismatchError.between(
            "the encoder", encoder.space_id, "the training step", description.space_id
        )
    least = 2 if description.objective == "byol" else 1
    if count < least or batch_size < least:
        raise InvalidInputError(
            f"found {count} examples and a batch_size of {batch_size}, expected at least {least} "
            f"of each for the objective {description.objective!r}; train when the device has "
            "more queries"
        )


def _draw(
    examples: Sequence[Example], config: LocalConfig, rng: np.random.Generator
) -> list[Example]:
    most = config.steps * config.batch_size
    return [examples[row] for row in rng.permutation(len(examples))[:most]]


def _taught_by_hybrid(
    batches: Batches, source: PrototypeSource, config: LocalConfig
) -> HybridBatches:
    if not isinstance(source, Index):
        raise InvalidInputError(
            f"hybrid_loss_weight is {config.hybrid_loss_weight:g}, but this device has document "
            "vectors alone; expected an open index, which can be searched by words, too"
        )
    return HybridBatches(batches, source, config)


def _begin(step: LocalStep, origin: State, previous: Tensors | None, config: LocalConfig) -> State:
    """The state to start from: the given one, or nearer to the device's own last result."""
    if config.client_init == "global" or previous is None:
        return origin
    own = step.initial_state(previous).online
    apart = norm_of({name: value - own[name] for name, value in origin.online.items()})
    share = np.float32(min(1.0, config.init_scale * apart))
    mixed = {name: share * own[name] + (1 - share) * v for name, v in origin.online.items()}
    return replace(origin, online=mixed, target={name: mixed[name] for name in origin.target})


def _pulled(step: LocalStep, state: State, start: State, share: float) -> State:
    """``state`` with the tensors that ship moved the ``share`` of the way back to ``start``."""
    if not share:
        return state
    online = dict(state.online)
    for tensor in step.description.state:
        if tensor.ships:
            now, then = online[tensor.name], start.online[tensor.name]
            online[tensor.name] = now + np.float32(share) * (then - now)
    return replace(state, online=online)


def _look(
    step: LocalStep, probe: StepBatch, state: State, config: LocalConfig
) -> tuple[StepLosses, Health]:
    """Losses and figures of ``state``: a step whose outcome is thrown away."""
    _, loss, vectors = step.run(probe, state, config.hyperparameters)
    return loss, measure(vectors[: len(probe.anchor)], probe.anchor)


def _wrong(loss: StepLosses) -> str | None:
    return None if math.isfinite(loss.loss) else f"the loss is {loss.loss}"


def _change(step: LocalStep, state: State, origin: State) -> dict[str, Floats]:
    return {
        tensor.name: state.online[tensor.name] - origin.online[tensor.name]
        for tensor in step.description.state
        if tensor.ships
    }
