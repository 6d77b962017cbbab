"""A vocabulary table of one byte for every few dimensions: product quantisation.

Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search" (2011), section II: a
row is cut into sub-vectors, and each becomes the number of the nearest of 256 centroids of its
place. Half of a light encoder is its vocabulary table, and what a rare word means is nowhere else.
At the same size, all words in a byte for eight dimensions find far more than a sixth of the words
in a byte for each (research/LOG.md has the figures).

Only while a student learns is the table kept as codes, so that the centroids learn too. It is saved
in full, which every other reader understands, and product_codes.py finds the codes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn

from pocketquery.distill.pruning.product_codes import CENTROIDS, product_codes
from pocketquery.server.modeling import SentenceEncoder

__all__ = [
    "ProductQuantizedEmbedding",
    "expand_vocabulary",
    "quantise_vocabulary",
    "requantise_vocabulary",
]

_ROUNDS = 12  # of k-means; what further ones gain is under a hundredth of the error
_COUNT_EXPONENT = 0.75  # of a token's count, its weight in the error: rare ones are many
_CHUNK = 1 << 16
_FITTED = 1 << 15  # rows that centroids are fitted to; of more, so many at random
_COUNTED = 1 << 16  # texts whose tokens are counted, evenly spaced
_BLOCK = 256  # rows compared with all centroids at once: their distances fit the cache


class ProductQuantizedEmbedding(nn.Module):
    """Looks up rows by their codes, as ``nn.Embedding`` looks up whole ones.

    Attributes:
        codes: uint8 (rows, places).
        weight: float (places * 256, dimensions of a sub-vector), the centroids of each place.
    """

    codes: torch.Tensor
    _offsets: torch.Tensor

    def __init__(self, codes: torch.Tensor, centroids: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(centroids)
        self.register_buffer("codes", codes)
        offsets = torch.arange(codes.shape[1]) * CENTROIDS
        self.register_buffer("_offsets", offsets, persistent=False)
        self._order: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
        self._order_of: tuple[torch.device, int] | None = None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """int64 (...) to float (..., width)."""
        return self.look_up(ids, self.weight)

    def look_up(self, ids: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
        """The rows with other centroids of the same shape, such as rounded ones."""
        if 2 * ids.numel() < len(self.codes):
            places = self.codes[ids].to(torch.int64) + self._offsets
            return nn.functional.embedding(places, centroids).flatten(-2)
        # Nearly as many tokens as rows, or more: every row is written out once, and no centroid's
        # gradient is gathered from all the tokens that have it.
        rows: torch.Tensor = _Rows.apply(centroids, *self._in_order())  # type: ignore[no-untyped-call]
        return nn.functional.embedding(ids, rows.view(len(self.codes), -1))

    def _in_order(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The centroid of every sub-vector of the table, the order that brings those of one
        centroid together, and how many each has."""
        codes = self.codes.device, self.codes._version  # which grows as a state is loaded into them
        if self._order is None or self._order_of != codes:
            places = (self.codes.to(torch.int64) + self._offsets).flatten()
            order = torch.argsort(places, stable=True)
            self._order = (places, order, torch.bincount(places, minlength=len(self.weight)))
            self._order_of = codes
        return self._order


class _Rows(torch.autograd.Function):
    """The sub-vectors of a table, float (count, size), written out of the centroids."""

    @staticmethod
    def forward(
        ctx: Any,
        centroids: torch.Tensor,
        places: torch.Tensor,
        order: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(order, lengths)
        return centroids[places]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        order, lengths = ctx.saved_tensors
        sums = torch.segment_reduce(gradient[order], "sum", lengths=lengths, unsafe=True)
        return sums, None, None, None


def quantise_vocabulary(
    student: SentenceEncoder, texts: Sequence[str], size: int, seed: int, *, fine: int = 0
) -> None:
    """Replace the vocabulary table of ``student`` by codes, in place.

    Args:
        student: its table's width is a multiple of ``size``.
        texts: what it will learn from; the tokens they have often are met most closely.
        size: dimensions of a sub-vector, each of which is one byte of a row.
        seed: of the first centroids.
        fine: rows, the first, whose sub-vectors have half as many dimensions; the table is then
            written out (:func:`expand_vocabulary`), and cannot learn as codes.
    """
    table = student.backbone.get_input_embeddings().weight.detach().float()
    counts = torch.ones(len(table))
    plain = {"return_attention_mask": False, "return_token_type_ids": False}
    texts = texts[:: 1 + len(texts) // _COUNTED]
    for start in range(0, len(texts), _CHUNK):
        token_ids = student.tokenizer(list(texts[start : start + _CHUNK]), **plain)["input_ids"]
        ids = np.fromiter(chain.from_iterable(token_ids), np.int64)
        counts += torch.from_numpy(np.bincount(ids, minlength=len(table)))
    weights = counts**_COUNT_EXPONENT
    generator = torch.Generator().manual_seed(seed)
    embedding = _coded(table[fine:], weights[fine:], size, generator)
    student.backbone.set_input_embeddings(embedding)
    student.backbone.config.vocabulary_subvector = size
    if fine:
        first = _coded(table[:fine], weights[:fine], size // 2, generator)
        expand_vocabulary(student, before=first(torch.arange(fine)))
        student.backbone.config.vocabulary_fine = fine


def _coded(
    table: torch.Tensor, weights: torch.Tensor, size: int, generator: torch.Generator
) -> ProductQuantizedEmbedding:
    starts = range(0, table.shape[1], size)
    parts = (table[:, start : start + size].contiguous() for start in starts)
    clusters = [_k_means(part, weights, generator) for part in parts]
    codes = torch.stack([codes for codes, _ in clusters], dim=1)
    return ProductQuantizedEmbedding(codes, torch.cat([centroids for _, centroids in clusters]))


def requantise_vocabulary(student: SentenceEncoder) -> None:
    """Undo :func:`expand_vocabulary`, in place; a table that was never quantised stays as it is."""
    size = getattr(student.backbone.config, "vocabulary_subvector", None)
    if size is None:
        return
    table = student.backbone.get_input_embeddings().weight.detach()
    codes, centroids = map(torch.from_numpy, product_codes(table.cpu().float().numpy(), size))
    embedding = ProductQuantizedEmbedding(codes, centroids).to(table.device)
    student.backbone.set_input_embeddings(embedding)


def expand_vocabulary(student: SentenceEncoder, *, before: torch.Tensor | None = None) -> None:
    """Write the codes of :func:`quantise_vocabulary` out as a whole table again, in place, after
    the rows ``before``; a whole table stays as it is."""
    embedding: Any = student.backbone.get_input_embeddings()
    if isinstance(embedding, nn.Embedding):
        return
    with torch.no_grad():
        rows = embedding(torch.arange(len(embedding.codes), device=embedding.codes.device))
        rows = rows if before is None else torch.cat([before, rows])
    padding = student.tokenizer.pad_token_id
    table = nn.Embedding(rows.shape[0], rows.shape[1], padding_idx=padding, device=rows.device)
    table.weight.data.copy_(rows)
    student.backbone.set_input_embeddings(table)


def _k_means(
    points: torch.Tensor, weights: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """uint8 (rows,), the centroid of each; float (256, dimensions)."""
    chosen = torch.multinomial(weights, min(CENTROIDS, len(points)), generator=generator)
    centroids = points[chosen[torch.arange(CENTROIDS) % len(chosen)]]  # a small table's come again
    every = points
    if len(points) > _FITTED:
        rows = torch.randperm(len(points), generator=generator)[:_FITTED]
        points, weights = points[rows], weights[rows]
    for _ in range(_ROUNDS):
        nearest = _nearest(points, centroids)
        totals = torch.zeros_like(centroids).index_add_(0, nearest, points * weights[:, None])
        shares = torch.zeros(CENTROIDS).index_add_(0, nearest, weights)
        used = shares > 0  # one that nothing is near to stays where it is
        centroids[used] = totals[used] / shares[used, None]
    return _nearest(every, centroids).to(torch.uint8), centroids


def _nearest(points: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    lengths, turned = centroids.square().sum(dim=1), centroids.T.contiguous()
    blocks = (torch.addmm(lengths, part, turned, alpha=-2) for part in torch.split(points, _BLOCK))
    # numpy's argmin: torch's takes four times as long as all the rest.
    return torch.cat([torch.from_numpy(block.numpy().argmin(axis=1)) for block in blocks])
