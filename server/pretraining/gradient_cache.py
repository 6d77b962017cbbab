"""Contrastive batches larger than memory: texts are encoded some at a time, twice.

"Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (gradient cache), section
3: encode without keeping activations, take the loss's gradient at the vectors, then encode each
chunk again and carry that gradient on. Checkpointing a chunk's forward pass does exactly this: its
backward pass repeats it with the same dropout, so the gradient is that of the whole batch, and at
most one chunk's activations are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.utils.checkpoint import checkpoint

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool

__all__ = ["CachedEncoder"]


class CachedEncoder(SentenceEncoder):
    """An encoder on the same weights whose :meth:`pooled` and :meth:`states` go chunk by chunk.

    What an objective does with ``backbone`` directly is not covered.

    Args:
        encoder: whose weights, tokenizer and settings these are.
        rows: texts of a chunk.
    """

    def __init__(self, encoder: SentenceEncoder, rows: int) -> None:
        if rows < 1:
            raise InvalidInputError(f"rows is {rows}; expected at least 1")
        super().__init__(
            encoder.backbone,
            encoder.tokenizer,
            pooling=encoder.pooling,
            head=encoder.head,
            prompts=encoder.prompts,
            max_length=encoder.max_length,
            space=encoder.space,
            name=encoder.name,
        )
        self.rows = rows

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token states of the last layer, float (batch, length, hidden_size)."""
        return torch.cat(
            [_twice(self._states, *c) for c in self._chunks(input_ids, attention_mask)]
        )

    def pooled(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The pooled states, float (batch, hidden_size); padding that a chunk needs not is cut."""
        chunks = self._chunks(input_ids, attention_mask)
        return torch.cat([_twice(self._pooled, *_trimmed(*chunk)) for chunk in chunks])

    def _states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return super().states(input_ids, attention_mask)

    def _pooled(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return pool(self._states(input_ids, attention_mask), attention_mask, self.pooling)

    def _chunks(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return zip(
            torch.split(input_ids, self.rows), torch.split(attention_mask, self.rows), strict=True
        )


def _trimmed(ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    longest = int(mask.sum(dim=1).max())
    return ids[:, :longest], mask[:, :longest]


def _twice(
    encode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ids: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    """Forward now without keeping activations, and again where the gradient asks for them."""
    if not torch.is_grad_enabled():
        return encode(ids, mask)
    found: torch.Tensor = checkpoint(encode, ids, mask, use_reentrant=False)
    return found
