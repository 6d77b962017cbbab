"""GUR: fill hidden spans and find the partner of a mined pair, with one encoder.

*Generate to Understand for Representation*, the model and its losses.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.gur_batches import GurBatches
from pocketquery.server.objectives.gur_config import HIGHEST_RATE, GurConfig
from pocketquery.server.objectives.gur_contrast import gur_contrast
from pocketquery.server.objectives.gur_examples import GurExample, draw_example
from pocketquery.server.objectives.mlm import masked_cross_entropy
from pocketquery.server.objectives.objective import Batch, LossParts, Objective
from pocketquery.server.objectives.shared.sentinels import sentinel_ids
from pocketquery.server.objectives.shared.seq2seq_decoder import (
    DecoderShape,
    GurDecoder,
    save_decoder,
)
from pocketquery.server.objectives.shared.span_masking import span_budget

__all__ = ["Gur", "GurConfig"]


class Gur(Objective[GurExample]):
    r"""Span infilling by a small decoder, and InfoNCE over the pairs' vectors.

    .. math:: L = L_{LM} + \alpha L_{CL}, \qquad L_{CL} = \text{info\_nce}(u_s, u_t, \tau), \qquad
        u = \text{projector}(\text{pool}(\text{states}))

    Both run on the same masked texts: masking is the contrast's only augmentation. Pairs are
    mined ones (server/corpus/mining/lcs_pairs.py, whose caps also balance the
    texts); from whole documents, pairs are drawn and filtered as they come. The projector is the
    exported model's head, so its vector is what ships; the decoder is saved beside it
    (:meth:`save_beside`) for infilling.

    Departures: the released projector gates its GELU and ends in an RMS norm; ours is linear, GELU,
    linear, which every sentence-transformers runtime can load, and cosines need no norm. The
    released code takes the end token's state and raw dot products; this follows the paper: CLS
    and cosines.
    """

    name: ClassVar[str] = "gur"
    kinds: ClassVar[tuple[Kind, ...]] = ("pairs", "documents")
    least_texts = 2

    def __init__(self, encoder: SentenceEncoder, config: GurConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or GurConfig()
        max_length = min(config.max_length, encoder.max_length)
        self.pooling = encoder.pooling if config.pooling == "encoder" else config.pooling
        rate = max(config.mask_rate, HIGHEST_RATE) if config.rate_jitter else config.mask_rate
        budget = max(1, span_budget(max_length, rate))
        sentinels = sentinel_ids(encoder, budget + 1)  # one closes
        self.batches = GurBatches(
            encoder.tokenizer,
            sentinels,
            max_length,
            mask_rate=config.mask_rate,
            rate_jitter=config.rate_jitter,
            lengths=config.span_lengths,
            clean=config.cl_input == "clean",
        )
        self.decoder = None
        if config.variant != "no_lm":
            positions = max(max_length, 2 * budget + 2)
            self.decoder = GurDecoder(_shape(encoder, self.batches, positions, config))
        self.projector = None if config.variant == "no_cl" else _projector(encoder, config)

    def draw(self, group: Group, rng: random.Random) -> GurExample | None:
        return draw_example(
            group,
            rng,
            lcs=self.config.variant != "no_lcs",
            max_gap=self.config.max_gap,
            title_share=self.config.title_share,
        )

    def collate(self, examples: Sequence[GurExample], rng: np.random.Generator) -> Batch:
        return self.batches.collate(examples, rng)

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        states = encoder.states(batch["input_ids"], batch["attention_mask"])
        total = states.new_zeros(())
        parts: dict[str, torch.Tensor] = {}
        stats: dict[str, torch.Tensor | float] = {}
        if self.decoder is not None:
            parts["lm"], stats["lm_accuracy"] = self._language_model(encoder, states, batch)
            total = total + parts["lm"]
        if self.projector is not None:
            seen, mask = self._contrasted(encoder, states, batch)
            vectors = self.projector(pool(seen, mask, self.pooling))
            pairs = len(batch["dropped"])
            first, second = vectors[:pairs], vectors[pairs:]  # (pairs, vector_size) each
            parts["cl"], stats["cl_accuracy"] = gur_contrast(
                first, second, self.config.temperature, batch["dropped"]
            )
            total = total + self.config.alpha * parts["cl"]
        return LossParts(total, parts, stats)

    def export(self, encoder: SentenceEncoder) -> SentenceEncoder:
        """The encoder with the projector as its head; variant ``"no_cl"`` trained none."""
        head = None if self.projector is None else copy.deepcopy(self.projector)
        return SentenceEncoder(
            encoder.backbone,
            encoder.tokenizer,
            pooling=self.pooling,
            head=head,
            prompts=encoder.prompts,
            max_length=encoder.max_length,
            name=encoder.name,
        )

    def project(
        self, encoder: SentenceEncoder, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Vectors that ship (rows, vector_size), before their normalisation: for diagnoses."""
        pooled = pool(encoder.states(input_ids, attention_mask), attention_mask, self.pooling)
        return pooled if self.projector is None else self.projector(pooled)

    def save_beside(self, folder: Path, shipped: SentenceEncoder) -> None:
        """Write the decoder, where there is one, into the folder of the ``shipped`` encoder."""
        if self.decoder is not None:
            save_decoder(folder, self.decoder, shipped)

    def _language_model(
        self, encoder: SentenceEncoder, states: torch.Tensor, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss and accuracy of writing the hidden spans."""
        assert self.decoder is not None
        written = self.decoder(batch["inputs"], states, batch["attention_mask"], encoder)
        return masked_cross_entropy(
            written, batch["labels"], partial(self.decoder.logits, encoder=encoder)
        )

    def _contrasted(
        self, encoder: SentenceEncoder, states: torch.Tensor, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """States and mask of the texts whose vectors are compared: the pairs' firsts, seconds."""
        if self.config.cl_input == "clean" and len(batch["dropped"]):
            return encoder.states(batch["clean_ids"], batch["clean_mask"]), batch["clean_mask"]
        rows = 2 * len(batch["dropped"])  # contents whose titles are to be written follow
        return states[:rows], batch["attention_mask"][:rows]


def _projector(encoder: SentenceEncoder, config: GurConfig) -> nn.Sequential:
    """The encoder's own head where it has the right width (training goes on), else a new one."""
    if encoder.head is not None and encoder.dimension == config.vector_size:
        return copy.deepcopy(encoder.head)
    width = encoder.hidden_size
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, config.vector_size))


def _shape(
    encoder: SentenceEncoder, batches: GurBatches, positions: int, config: GurConfig
) -> DecoderShape:
    table = encoder.backbone.get_input_embeddings().weight
    width = encoder.hidden_size
    heads = int(getattr(encoder.backbone.config, "num_attention_heads", 1))
    return DecoderShape(
        width=width,
        table_width=table.shape[1],
        vocabulary=table.shape[0],
        layers=config.decoder_layers,
        heads=heads if width % heads == 0 else 1,
        positions=positions,
        dropout=config.dropout,
        start=batches.start,
        end=batches.end,
        sentinels=batches.sentinels,
    )
