"""A student's start that needs texts and their vectors, and no other encoder.

Product codes are fixed while a student learns, so a table must mean something before it is cut into
them: under codes of random rows nothing is learnt. This one is fitted first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pocketquery.distill.losses import cosine_loss, ranking_loss
from pocketquery.distill.starts import random_start
from pocketquery.distill.student import StudentShape
from pocketquery.sdk.arrays import Floats
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["nearest_shared", "words_start"]

_BATCH = 256  # texts, and as many that only are ranked
_MOST = 48  # tokens of a text
_SCALE = 0.1  # of a row's elements, against which the rate is


def words_start(
    shape: str,
    tokenizer: Any,
    texts: Sequence[str],
    vectors: Floats,
    *,
    max_length: int = 128,
    temperature: float = 0.05,
    passes: int = 8,
    rate: float = 3e-3,
    seed: int = 0,
) -> SentenceEncoder:
    """Layers that change nothing yet, over words that already sum up to the teacher's vectors.

    The output projections of attention and feed-forward part begin at zero, so that the encoder is
    a mean of normalised rows of its table. A row begins as the mean vector of the texts that have
    its token; then all rows, and a linear map behind them that is left out of what is returned
    (``distill`` fits one), learn distillation's loss, which costs what looking rows up costs.

    Args:
        shape: of the student, such as ``"2x384x736-pq4"``, as wide as the vectors.
        tokenizer: a Hugging Face fast tokenizer.
        texts: training texts, with their prompt.
        vectors: float32 (texts, width), the teacher's, of unit length.
        max_length: tokens that there are positions for.
        temperature: tau of the ranking.
        passes: over the texts.
        rate: of the table's Adam; falls to zero.
        seed: of order and weights.
    """
    generator = torch.Generator().manual_seed(seed)
    parsed = StudentShape.parse(shape)
    encoder = random_start(parsed, tokenizer, max_length=max_length, seed=seed)
    targets = torch.from_numpy(vectors)
    ids = [torch.tensor(one[:_MOST]) for one in tokenizer(list(texts))["input_ids"]]
    table = nn.Embedding.from_pretrained(
        _mean_rows(ids, targets, len(tokenizer), generator), freeze=False, sparse=True
    )
    width = targets.shape[1]
    linear = nn.Linear(width, width)
    linear.weight.data.copy_(torch.eye(width) * _SCALE)
    linear.bias.data.copy_(targets.mean(dim=0))
    optimizers = [
        (torch.optim.SparseAdam(table.parameters()), rate),
        (torch.optim.AdamW(linear.parameters()), rate / 3),
    ]
    steps = passes * max(1, len(texts) // _BATCH)
    for step in range(steps):
        rows = torch.randint(len(texts), (_BATCH,), generator=generator)
        others = torch.randint(len(texts), (_BATCH,), generator=generator)
        drawn = [ids[row] for row in rows.tolist()]
        lengths = torch.tensor([[len(one)] for one in drawn])
        padded = nn.utils.rnn.pad_sequence(drawn, batch_first=True)
        mask = (torch.arange(padded.shape[1]) < lengths).unsqueeze(2)  # (batch, length, 1)
        states = functional.layer_norm(table(padded), (width,)) * mask
        found = functional.normalize(linear(states.sum(dim=1) / lengths), dim=-1)
        wanted = targets[rows]
        ranked = torch.cat([wanted, targets[others]])
        loss = cosine_loss(found, wanted) + ranking_loss(found, wanted, ranked, temperature)
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer, peak in optimizers:
            optimizer.param_groups[0]["lr"] = peak * (1 - step / steps)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0:
            print(f"words {step}/{steps} {loss.item():.4f}", file=sys.stderr, flush=True)
    backbone: Any = encoder.backbone
    with torch.no_grad():
        backbone.get_input_embeddings().weight.copy_(table.weight)
        backbone.embeddings.position_embeddings.weight.zero_()
        backbone.embeddings.token_type_embeddings.weight.zero_()
        for layer in backbone.encoder.layer:
            for part in (layer.attention.output.dense, layer.output.dense):
                part.weight.zero_()
                part.bias.zero_()
    return encoder


def _mean_rows(
    ids: list[torch.Tensor], targets: torch.Tensor, count: int, generator: torch.Generator
) -> torch.Tensor:
    """The mean vector of each token's texts, less that of all texts, normalised; (count, width)."""
    flat = torch.cat(ids)
    owner = torch.repeat_interleave(torch.tensor([len(one) for one in ids]))
    centred = targets - targets.mean(dim=0)
    rows = torch.randn(count, targets.shape[1], generator=generator) * centred.std()
    for part in zip(flat.split(1 << 16), owner.split(1 << 16), strict=True):
        rows.index_add_(0, part[0], centred[part[1]])
    return functional.layer_norm(rows, rows.shape[1:]) * _SCALE


def nearest_shared(queries: Floats, vectors: Floats) -> float:
    """The share of the ten nearest of ``vectors``, itself left out, that ``queries``, which stand
    for the first of them, find."""
    tops = []
    for asked in (queries, vectors[: len(queries)]):
        scores = asked @ vectors.T
        np.fill_diagonal(scores, -np.inf)
        tops.append(np.argpartition(-scores, 10, axis=1)[:, :10])
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(*tops, strict=True)]))
