"""How well an encoder learns classes from a few texts each, all of it trained."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import whole
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.training.optimizer import warmup_linear

__all__ = ["ClassifierConfig", "fine_tuned_classes"]

_ROWS = 64  # texts classified at once


@dataclass(frozen=True)
class ClassifierConfig(Settings):
    """The schedule, the same for every encoder that is compared."""

    epochs: Annotated[int, whole(), "passes over the labelled texts"] = 10
    least_steps: Annotated[
        int, "with so few texts that the passes take fewer steps, there are more passes"
    ] = 200
    batch_size: Annotated[int, whole(), "texts of a step"] = 16
    learning_rate: Annotated[
        float, "of the encoder, after a linear rise over a tenth of the steps, before a linear fall"
    ] = 1e-4
    head_rate: Annotated[float, "of the new linear layer"] = 1e-3
    seed: Annotated[int, "of the layer, the order and the dropout"] = 0


def fine_tuned_classes(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    classes: NDArray[np.int64],
    unseen: Sequence[str],
    *,
    count: int,
    config: ClassifierConfig | None = None,
) -> NDArray[np.int64]:
    """The classes of unseen texts, by a copy of the encoder trained on the seen ones.

    A linear layer reads the vector before its normalisation. The encoder itself is not changed.

    Args:
        encoder: what is compared.
        texts: n labelled texts.
        classes: int64 (n,), below ``count``.
        unseen: m texts.
        count: classes there are.
        config: the schedule.

    Returns:
        int64 (m,).
    """
    config = config or ClassifierConfig()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        trained = copy.deepcopy(encoder).train()
        layer = nn.Linear(encoder.dimension, count).to(encoder.device)
        _train(trained, layer, texts, torch.from_numpy(classes), config)
    trained.eval()
    predictions = []
    with torch.inference_mode():
        for start in range(0, len(unseen), _ROWS):
            logits = layer(_vectors(trained, unseen[start : start + _ROWS]))
            predictions.append(logits.argmax(dim=1).cpu().numpy())
    return np.concatenate(predictions).astype(np.int64) if predictions else np.zeros(0, np.int64)


def _train(
    encoder: SentenceEncoder,
    layer: nn.Linear,
    texts: Sequence[str],
    classes: torch.Tensor,
    config: ClassifierConfig,
) -> None:
    rates = (config.learning_rate, config.head_rate)
    groups = [{"params": list(encoder.parameters())}, {"params": list(layer.parameters())}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)  # too few steps to decay
    rng = np.random.default_rng(config.seed)
    an_epoch = math.ceil(len(texts) / config.batch_size)
    batches = [
        rows
        for _ in range(max(config.epochs, math.ceil(config.least_steps / an_epoch)))
        for rows in _cut(rng.permutation(len(texts)), config.batch_size)
    ]
    for step, rows in enumerate(batches):
        factor = warmup_linear(step, len(batches))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        logits = layer(_vectors(encoder, [texts[row] for row in rows]))  # (rows, classes)
        loss = functional.cross_entropy(logits, classes[rows].to(logits.device))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def _vectors(encoder: SentenceEncoder, texts: Sequence[str]) -> torch.Tensor:
    """Vectors before normalisation, (texts, dimension)."""
    batch = encoder.tokenize(texts).to(encoder.device)
    vectors = encoder.pooled(batch["input_ids"], batch["attention_mask"])
    return vectors if encoder.head is None else encoder.head(vectors)


def _cut(order: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    return [order[start : start + size] for start in range(0, len(order), size)]
