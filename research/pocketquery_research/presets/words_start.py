"""A student's start that needs texts and their vectors, and no other encoder.

Product codes are fixed while a student learns, so a table must mean something before it is cut into
them: under codes of random rows nothing is learnt. This one is fitted first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pocketquery.distill.starts import random_start
from pocketquery.distill.student import StudentShape
from pocketquery.sdk.arrays import Floats
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["nearest_shared", "words_start"]

_MOST = 64  # tokens of a text
_ROUNDS = 10  # of conjugate gradients
_RIDGE = 2.0  # texts' worth of zeros that a token's row is pulled to


def words_start(
    shape: str,
    tokenizer: Any,
    texts: Sequence[str],
    vectors: Floats,
    *,
    max_length: int = 128,
    seed: int = 0,
) -> SentenceEncoder:
    """Layers that change nothing yet, over words whose mean is already near the teacher's vectors.

    The rows of the table are the ridge regression from a text's share of each token to its vector.
    All of them get one constant vector of their own mean length added. Without it the normalisation
    behind the table would make a row of little meaning, such as a comma's, as long as a rare
    word's; with it, that row is mostly the constant, which the head behind all layers takes away.
    The output projections of attention and feed-forward part begin at zero.

    Args:
        shape: of the student, such as ``"2x384x736-pq4"``, as wide as the vectors.
        tokenizer: a Hugging Face fast tokenizer.
        texts: training texts, with their prompt.
        vectors: float32 (texts, width), the teacher's, of unit length.
        max_length: tokens that there are positions for.
        seed: of the weights that are not set here.
    """
    encoder: SentenceEncoder = random_start(
        StudentShape.parse(shape), tokenizer, max_length=max_length, seed=seed
    )
    rows = _regression(tokenizer(list(texts))["input_ids"], vectors, len(tokenizer))
    constant = torch.randn(rows.shape[1], generator=torch.Generator().manual_seed(seed)).sign()
    length = rows.norm(dim=1)
    rows = rows + constant * length[length > 0].mean() / constant.norm()
    backbone: Any = encoder.backbone
    with torch.no_grad():
        backbone.get_input_embeddings().weight.copy_(rows / rows.std())
        backbone.embeddings.position_embeddings.weight.zero_()
        backbone.embeddings.token_type_embeddings.weight.zero_()
        for layer in backbone.encoder.layer:
            for part in (layer.attention.output.dense, layer.output.dense):
                part.weight.zero_()
                part.bias.zero_()
    return encoder


def _regression(ids: Sequence[Sequence[int]], vectors: Floats, count: int) -> torch.Tensor:
    """A row a token, float32 (count, width), by conjugate gradients; of unknown tokens zero."""
    cut = [one[:_MOST] for one in ids]
    lengths = torch.tensor([len(one) for one in cut])
    places = torch.stack(
        [
            torch.repeat_interleave(lengths),
            torch.tensor([token for one in cut for token in one]),
        ]
    )
    weights = (1 / lengths)[places[0]]
    shares = torch.sparse_coo_tensor(
        places, weights, (len(cut), count), check_invariants=True
    ).coalesce()
    targets = torch.from_numpy(vectors)
    turned = shares.t().coalesce()
    ridge = _RIDGE * (1 / lengths).square().mean()
    scale = 1 / (torch.sparse.sum(turned * turned, 1).to_dense() + ridge)[:, None]
    rows = torch.zeros(count, targets.shape[1])
    residual = turned @ (targets - targets.mean(dim=0))
    direction = scale * residual
    before = (residual * direction).sum(dim=0)
    for _ in range(_ROUNDS):
        product = turned @ (shares @ direction) + ridge * direction
        step = before / (direction * product).sum(dim=0).clamp_min(1e-20)
        rows += step * direction
        residual -= step * product
        after = (residual * scale * residual).sum(dim=0)
        direction = scale * residual + after / before.clamp_min(1e-20) * direction
        before = after
    return rows


def nearest_shared(queries: Floats, vectors: Floats) -> float:
    """The share of the ten nearest of ``vectors``, itself left out, that ``queries``, which stand
    for the first of them, find."""
    tops = []
    for asked in (queries, vectors[: len(queries)]):
        scores = asked @ vectors.T
        np.fill_diagonal(scores, -np.inf)
        tops.append(np.argpartition(-scores, 10, axis=1)[:, :10])
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(*tops, strict=True)]))
