"""Aligning a query side to a frozen document encoder: the loop on one page.

*Query-BERT*, alignment: the light encoder's vectors are mapped into the heavy document encoder's
space, whose vectors are computed once. The document encoder is no part of what is trained: only
its vectors come in, and they are read-only, so no index is ever encoded again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pocketquery.distill.losses import cosine_loss
from pocketquery.sdk.arrays import Integers
from pocketquery.sdk.errors import ArtifactError, InvalidInputError, SpaceMismatchError
from pocketquery.sdk.progress import progress
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, one_of, whole
from pocketquery.server.training.checkpoints import load_checkpoint, save_checkpoint
from pocketquery.server.training.optimizer import (
    make_optimizer,
    set_learning_rate,
    trained_parameters,
)
from pocketquery_research.alignment.inputs import AlignmentData
from pocketquery_research.alignment.losses import nce_loss, raw_loss, triplet_loss
from pocketquery_research.alignment.query_towers import EncoderTower, QueryTower
from pocketquery_research.evaluation.margin import Margin, margin

__all__ = ["ALIGNMENT_LOSSES", "AlignmentConfig", "align", "measure_margin"]

_NAMED = 5  # queries in an error message

ALIGNMENT_LOSSES = ("align_qd", "align_nce", "align_trip", "align_cos", "align_mse")
"""First stage, second stage, and the others."""


@dataclass(frozen=True)
class AlignmentConfig(Settings):
    """How a query side is aligned."""

    loss: Annotated[
        str,
        one_of(*ALIGNMENT_LOSSES),
        "align_qd (towards the document encoder's own vector of the query: needs no relevant "
        "documents, the default first stage), align_nce (in-batch softmax with hard negatives, "
        "the default second stage), align_trip, align_cos or align_mse (towards the relevant "
        "document's vector; they shrink to the mean of the answers)",
    ] = "align_qd"
    steps: Annotated[int, whole(), "optimiser steps"] = 2000
    batch_size: Annotated[int, whole(), "queries a step"] = 128
    learning_rate: Annotated[
        float,
        number(above=0),
        "peak of AdamW's; 1e-3 for the head, a tenth where the encoder is trained",
    ] = 1e-3
    weight_decay: Annotated[float, number(0), "of matrices"] = 0.01
    temperature: Annotated[float, number(above=0), "tau of align_nce"] = 0.05
    margin: Annotated[float, number(0), "gamma of align_trip"] = 0.1
    negatives: Annotated[int, whole(), "hard negatives drawn a query"] = 1
    warmup: Annotated[float, number(0), "share of the steps that warm up"] = 0.1
    seed: Annotated[int, "of order and draws"] = 0
    checkpoint_every: Annotated[int, whole(), "steps between checkpoints"] = 500


def align(
    tower: QueryTower[Any],
    data: AlignmentData,
    config: AlignmentConfig | None = None,
    *,
    checkpoint: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    show_progress_bar: bool = False,
) -> list[float]:
    """Train ``tower`` in place; call it again with another loss for a second stage.

    Args:
        tower: the query side.
        data: queries and frozen vectors.
        config: settings.
        checkpoint: file that a killed run continues from, to the same weights; that of a run with
            other settings or other data is refused.
        identity: what else must be the same for a run to be continued; JSON values.
        show_progress_bar: loss and time left on stderr.

    Returns:
        The losses of the steps taken by this call.

    Raises:
        InvalidInputError: no query has what the loss needs.
        SpaceMismatchError: the tower belongs to another document space.
        ArtifactError: the checkpoint is another run's; or a loss or gradient is not finite, and the
            tower's weights are those before that step.
    """
    config = config or AlignmentConfig()
    _check_space(tower, data)
    usable = _usable(data, config.loss)
    inputs = tower.inputs(data.queries)
    parameters = trained_parameters([tower])
    optimizer = make_optimizer(parameters, config)
    known = {**(identity or {}), "alignment": asdict(config), "space": data.space_id}
    if checkpoint:  # only then: it reads all the vectors
        known |= {f"data.{name}": found for name, found in data.hashes().items()}
    start = _resume(tower, optimizer, checkpoint, known)
    losses = []
    tower.train()
    for step in progress(range(start, config.steps), "align", "step", show=show_progress_bar):
        rng = np.random.default_rng([config.seed, step])
        torch.manual_seed(config.seed * 1_000_003 + step)  # of dropout
        rows = usable[rng.permutation(len(usable))[: config.batch_size]]
        raw = tower.raw(inputs, rows, rng)
        loss = _loss(raw, data, rows, config, rng)
        optimizer.zero_grad(set_to_none=True)  # also what a call that failed had left
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        losses.append(_finite(loss, norm, step, raw, data, rows, config))
        set_learning_rate(optimizer, step, config)
        optimizer.step()
        if checkpoint and ((step + 1) % config.checkpoint_every == 0 or step + 1 == config.steps):
            state = {"tower": tower.state_dict(), "optimizer": optimizer.state_dict()}
            save_checkpoint(checkpoint, known, {"step": step + 1, **state})
    tower.eval()
    return losses


def measure_margin(tower: QueryTower[Any], data: AlignmentData, seed: int = 0) -> Margin:
    """The margin of the tower's vectors of ``data``'s queries; see
    :func:`pocketquery_research.evaluation.margin.margin`."""
    positives = [found.tolist() for found in data.positives]
    negatives = [found.tolist() for found in data.negatives]
    return margin(tower.encode(data.queries), data.documents, positives, negatives, seed=seed)


def _loss(
    raw: torch.Tensor,
    data: AlignmentData,
    rows: Integers,
    config: AlignmentConfig,
    rng: np.random.Generator,
) -> torch.Tensor:
    raw = raw.float()
    if config.loss == "align_qd":
        return cosine_loss(raw, _vectors(data.own, rows, raw))
    columns = np.array([rng.choice(data.positives[row]) for row in rows])
    positives = _vectors(data.documents, columns, raw)  # (batch, dim)
    if config.loss == "align_cos":
        return cosine_loss(raw, positives)
    if config.loss == "align_mse":
        return raw_loss(raw, positives)
    if config.loss == "align_trip":
        hard = np.stack([rng.choice(data.negatives[row], config.negatives) for row in rows])
        return triplet_loss(raw, positives, _vectors(data.documents, hard, raw), config.margin)
    drawn = [rng.permutation(data.negatives[row])[: config.negatives] for row in rows]
    extra = np.unique(np.concatenate(drawn))
    dropped = torch.from_numpy(_relevant(data, rows, columns, extra)).to(raw.device)
    negatives = _vectors(data.documents, extra, raw)  # (m, dim)
    return nce_loss(raw, positives, negatives, dropped, config.temperature)


def _relevant(
    data: AlignmentData, rows: Integers, columns: Integers, extra: Integers
) -> NDArray[np.bool_]:
    """bool (batch, batch + m): the document of the column is relevant to the query of the row."""
    documents = np.concatenate([columns, extra])
    return np.stack([np.isin(documents, data.positives[row]) for row in rows])


def _vectors(vectors: NDArray[np.float32], rows: Integers, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(vectors[rows]).to(like.device)


def _usable(data: AlignmentData, loss: str) -> Integers:
    """Rows of the queries that have what the loss needs."""
    needs: Sequence[bool] = [
        loss == "align_qd" or (len(good) > 0 and (loss != "align_trip" or len(bad) > 0))
        for good, bad in zip(data.positives, data.negatives, strict=True)
    ]
    if not any(needs):
        raise InvalidInputError(
            f"none of the {len(data.queries)} queries has the documents that {loss} learns from; "
            "expected pairs or triples, or the loss align_qd"
        )
    return np.flatnonzero(needs).astype(np.int64)


def _check_space(tower: QueryTower[Any], data: AlignmentData) -> None:
    if isinstance(tower, EncoderTower) and tower.encoder.space_id != data.space_id:
        raise SpaceMismatchError(
            f"the query encoder's head leads to the space {tower.encoder.space_id} and the "
            f"documents are in {data.space_id}; make a new head with with_alignment_head"
        )


def _resume(
    tower: QueryTower[Any],
    optimizer: torch.optim.Optimizer,
    checkpoint: Path | None,
    identity: Mapping[str, Any],
) -> int:
    state = load_checkpoint(checkpoint, json.loads(json.dumps(identity))) if checkpoint else None
    if state is None:
        return 0
    tower.load_state_dict(state["tower"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _finite(
    loss: torch.Tensor,
    norm: torch.Tensor,
    step: int,
    raw: torch.Tensor,
    data: AlignmentData,
    rows: Integers,
    config: AlignmentConfig,
) -> float:
    """The loss, if the step may be taken; one that is no number would spoil every weight."""
    value, length = float(loss.detach()), float(norm)
    if math.isfinite(value) and math.isfinite(length):
        return value
    frozen = np.array([np.isfinite(_learned_from(data, row, config)).all() for row in rows])
    own = torch.isfinite(raw.detach()).all(dim=1).cpu().numpy()
    if not frozen.all():
        why = (
            f"The document encoder's vectors are not finite for {_named(data, rows[~frozen])}: "
            "compute them anew, with an empty cache"
        )
    elif not own.all():
        why = (
            f"The tower's own vectors are not finite for {_named(data, rows[~own])}: leave these "
            "queries out, or lower learning_rate if they are many"
        )
    else:
        why = (
            f"It took {_named(data, rows)}: lower learning_rate, or raise temperature if the loss "
            "has one, and start anew"
        )
    raise ArtifactError(
        f"step {step + 1} gave the loss {value} and a gradient of norm {length}, expected finite "
        f"numbers; the tower's weights are those before it. {why}"
    )


def _learned_from(data: AlignmentData, row: int, config: AlignmentConfig) -> NDArray[np.float32]:
    """The frozen vectors that a query's loss may have looked at, float32 (some, dim)."""
    if config.loss == "align_qd":
        return data.own[[row]]
    found: NDArray[np.float32] = data.documents[
        np.concatenate([data.positives[row], data.negatives[row]])
    ]
    return found


def _named(data: AlignmentData, rows: Integers) -> str:
    """Queries by their rows and the beginnings of their texts."""
    shown = ", ".join(f'{row} ("{data.queries[row][:40]}")' for row in rows[:_NAMED].tolist())
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"the queries {shown}{more}"
