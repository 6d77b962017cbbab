"""How old the vectors of a memory bank have become while they were in use."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import torch
from torch import nn

__all__ = ["BankStaleness", "text_code"]


def text_code(text: str) -> int:
    """A signed 64-bit code of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


class BankStaleness(nn.Module):
    """Mean cosine between vectors as they entered the bank and as they are when they leave it.

    There is no momentum encoder in CCP, so a bank's vectors come from older weights; below 0.9 its
    negatives have little to do with the encoder of today, and the bank should be smaller or the
    learning rate lower. A few texts of one enqueued batch are encoded twice, at the beginning and
    at the end of their stay, both times without dropout and with running statistics: the figure
    is the drift of the weights alone.

    Args:
        rows: texts followed at a time.
        length: tokens of a text at most.
        dimension: of the vectors.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    vectors: torch.Tensor
    key: torch.Tensor
    entered: torch.Tensor
    cosine: torch.Tensor

    def __init__(self, rows: int, length: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("ids", torch.zeros(rows, length, dtype=torch.int64))
        self.register_buffer("mask", torch.zeros(rows, length, dtype=torch.int64))
        self.register_buffer("vectors", torch.zeros(rows, dimension))
        self.register_buffer("key", torch.zeros((), dtype=torch.int64))
        self.register_buffer("entered", torch.tensor(-1))  # rows since; -1: nothing is followed
        self.register_buffer("cosine", torch.tensor(torch.nan))  # of the last stay that ended

    @torch.no_grad()
    def follow(
        self,
        key: str,
        ids: torch.Tensor,
        mask: torch.Tensor,
        size: int,
        encode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> None:
        """Take note of one enqueued batch.

        Args:
            key: of the ring it went to.
            ids: int64 (n, length) of its texts.
            mask: int64 (n, length).
            size: of a ring; after as many rows the followed texts have left it.
            encode: ids and mask to vectors, with today's weights.
        """
        if int(self.entered) < 0:
            self._begin(key, ids, mask, encode)
        elif int(self.key) == text_code(key):
            self.entered += len(ids)
            if int(self.entered) >= size:
                now = encode(self.ids, self.mask)
                kept = self.mask.any(dim=1)
                pairs = nn.functional.cosine_similarity(self.vectors, now, dim=-1)
                self.cosine.copy_(pairs[kept].mean())
                self.entered.fill_(-1)

    def _begin(
        self,
        key: str,
        ids: torch.Tensor,
        mask: torch.Tensor,
        encode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> None:
        rows, length = min(len(ids), len(self.ids)), ids.shape[1]
        self.ids.zero_()
        self.mask.zero_()
        self.ids[:rows, :length] = ids[:rows]
        self.mask[:rows, :length] = mask[:rows]
        self.vectors.copy_(encode(self.ids, self.mask))
        self.key.fill_(text_code(key))
        self.entered.fill_(0)
