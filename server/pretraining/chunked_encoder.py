"""Texts encoded some at a time: without padding, and in memory for a few of them.

With ``twice`` this is "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"
(gradient cache), section 3: encode without keeping activations, take the loss's gradient at the
vectors, then encode each chunk again and carry that gradient on. Checkpointing a chunk's forward
pass does exactly this: its backward pass repeats it with the same dropout, so the gradient is that
of the whole batch, and at most one chunk's activations are held.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool

__all__ = ["ChunkedEncoder"]

EncodeBatch = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class ChunkedEncoder(SentenceEncoder):
    """An encoder on the same weights that encodes chunk by chunk.

    :meth:`pooled` takes texts of like length together and cuts the padding that a chunk needs not.
    :meth:`states`, whose rows must stay of one length, is cut into chunks only with ``twice``. What
    an objective does with ``backbone`` directly is not covered.

    Args:
        encoder: whose weights, tokenizer and settings these are.
        rows: texts of a chunk.
        twice: encode again in the backward pass instead of keeping activations.
    """

    def __init__(self, encoder: SentenceEncoder, rows: int, *, twice: bool = False) -> None:
        if rows < 1:
            raise InvalidInputError(f"rows is {rows}; expected at least 1")
        super().__init__(
            encoder.backbone,
            encoder.tokenizer,
            pooling=encoder.pooling,
            head=encoder.head,
            prompts=encoder.prompts,
            default_prompt_name=encoder.default_prompt_name,
            max_length=encoder.max_length,
            space=encoder.space,
            name=encoder.name,
        )
        self.rows, self.twice = rows, twice

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token states of the last layer, float (batch, length, hidden_size)."""
        if not self.twice:
            return super().states(input_ids, attention_mask)
        chunks = zip(input_ids.split(self.rows), attention_mask.split(self.rows), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat([self._run(self._states, ids, mask) for ids, mask in chunks])

    def pooled(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The pooled states, float (batch, hidden_size), in the order of the rows."""
        lengths = attention_mask.sum(dim=1)
        order = lengths.argsort(stable=True)
        chunks = []
        for rows in order.split(self.rows):  # type: ignore[no-untyped-call]
            longest = int(lengths[rows[-1]])
            ids, mask = input_ids[rows, :longest], attention_mask[rows, :longest]
            chunks.append(self._run(self._pooled, ids, mask))
        return torch.cat(chunks)[order.argsort()]

    def _states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return super().states(input_ids, attention_mask)

    def _pooled(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return pool(self._states(input_ids, attention_mask), attention_mask, self.pooling)

    def _run(self, encode: EncodeBatch, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if not (self.twice and torch.is_grad_enabled()):
            return encode(ids, mask)
        encoded: torch.Tensor = checkpoint(encode, ids, mask, use_reentrant=False)
        return encoded
