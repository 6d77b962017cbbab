"""CPDAE: predict a text's words from its vector, contrasted so that common words count little.

"A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval". Two
maskings of a text are encoded; a feed-forward decoder predicts the words of the text from the
pooled vector alone (reconstruction), a contrast between the predicted word distributions of
different texts pushes common words down and distinctive ones up, and MLM trains the token states.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.mlm import mlm_loss
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.bag_of_words import (
    BagDecoder,
    bag_f1,
    document_frequency,
    idf_weights,
    log_odds,
    multi_hot,
    rare_recall,
    reconstruction_loss,
)
from pocketquery.server.objectives.shared.js_contrast import (
    js_contrast,
    log_distribution,
    pairwise_js,
    partner_contrast,
)
from pocketquery.server.objectives.shared.losses import cosines, same_text_mask
from pocketquery.server.objectives.shared.masking import IGNORED, bert_mask, special_mask
from pocketquery.server.objectives.shared.word_predictor import save_bag_decoder

__all__ = ["Cpdae", "CpdaeConfig"]

_VECTOR_TEMPERATURE = 0.1  # of "cpdae_r"
_STATISTICS_TEXTS = 20_000  # that document frequencies are counted in
_COMMON_TOKENS = 100  # tokens that count as common: the most frequent by document frequency


@dataclass(frozen=True)
class CpdaeConfig(Settings):
    """Settings of :class:`Cpdae`."""

    variant: Annotated[
        Literal["cpdae", "cpdae_wo_cl", "cpdae_idf_rec", "cpdae_r"],
        '"cpdae"; "cpdae_wo_cl" without the contrast; "cpdae_idf_rec" without it and with the '
        'tokens of the reconstruction weighted by their IDF; "cpdae_r" with the contrast '
        "(InfoNCE over cosines) between the vectors instead of the word distributions",
    ] = "cpdae"
    contrast_weight: Annotated[float, number(0), "lambda, the contrast's weight"] = 0.1
    rec_reduction: Annotated[
        Literal["per_positive", "sum", "mean"],
        'over the tokens of a text, see :func:`reconstruction_loss`. Beside "mean" the contrast '
        "has .57 of the reconstruction's gradient. \"sum\" is the paper's formula; beside it and "
        '"per_positive" the contrast has a thousandth, and is as good as off',
    ] = "mean"
    mask_rate: Annotated[
        float, number(above=0, below=1), "share of the tokens that MLM predicts"
    ] = 0.15
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 64


@dataclass(frozen=True)
class _Views:
    """What a forward pass came to: 2m views, the two of a text m rows apart."""

    states: torch.Tensor  # (2m, length, width)
    vectors: torch.Tensor  # (2m, width)
    logits: torch.Tensor  # (2m, tokens)
    present: torch.Tensor  # bool (2m, tokens)


class Cpdae(Objective[str]):
    """Words from the vector, their contrast, and MLM; the decoder is saved beside the encoder.

    The paper's vector is the first token's: an encoder with ``pooling="cls"``. Here it is whatever
    the encoder pools, so that what is trained is what ships.
    """

    name: ClassVar[str] = "cpdae"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions", "pairs", "queries")
    passages = True

    counts: torch.Tensor
    texts: torch.Tensor

    def __init__(self, encoder: SentenceEncoder, config: CpdaeConfig | None = None) -> None:
        super().__init__()
        self.config = config or CpdaeConfig()
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)
        self.pooling = encoder.pooling
        self.mlm_head = MlmHead(encoder)
        self.decoder = BagDecoder(encoder)
        self.register_buffer("counts", torch.zeros(len(self.decoder.bias), dtype=torch.int64))
        self.register_buffer("texts", torch.tensor(0))

    @torch.no_grad()
    def prepare(self, source: Source, tokenizer: Any) -> None:
        """Take document frequencies from the corpus; the decoder's bias starts at their log-odds.

        Otherwise the first epoch goes into pushing absent words down.
        Called once, before the first step; on an objective that has them (resumed) nothing happens.

        Args:
            source: what :meth:`draw` will get its groups from.
            tokenizer: the encoder's.

        Raises:
            CorpusError: the source is empty.
        """
        if self.prepared:
            return
        counts, texts = document_frequency(
            source,
            tokenizer,
            # Another objective of the run may have added tokens since the decoder was made.
            max(len(self.counts), len(tokenizer)),
            max_length=self.max_length,
            most=_STATISTICS_TEXTS,
        )
        counts = counts[: len(self.counts)]
        self.counts.copy_(counts)
        self.texts.fill_(texts)
        self.decoder.bias.copy_(log_odds(counts, texts))

    @property
    def prepared(self) -> bool:
        """Whether :meth:`prepare` has been here, or in the run that this one resumes."""
        return bool(self.texts > 0)

    def draw(self, group: Group, rng: random.Random) -> str | None:
        return " ".join(group.texts).strip() or None

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        ids, mask = tokenize(self.tokenizer, examples, self.max_length)  # (m, length)
        views = [bert_mask(ids, self.tokenizer, rng, self.config.mask_rate) for _ in range(2)]
        labels = torch.cat([labels for _, labels in views])  # (2m, length)
        return {
            "input_ids": torch.cat([masked for masked, _ in views]),
            "attention_mask": mask.repeat(2, 1),
            "labels": labels,
            "targets": ids.masked_fill(special_mask(ids, self.tokenizer), IGNORED).repeat(2, 1),
            "same_text": same_text_mask(list(examples), list(examples)).repeat(2, 2),  # (2m, 2m)
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        views = self._views(encoder, batch)
        mlm, accuracy = mlm_loss(views.states, batch["labels"], self.mlm_head, encoder)
        parts = {"reconstruction": self._reconstruction(views), "mlm": mlm}
        stats = self._stats(views, parts["reconstruction"]) | {"mlm_accuracy": accuracy}
        total = parts["reconstruction"] + mlm
        if self.config.variant in ("cpdae", "cpdae_r"):
            parts["contrast"], figures = self._contrast(views, batch["same_text"])
            stats |= figures
            total = total + self.config.contrast_weight * parts["contrast"]
        return LossParts(total, parts, stats)

    def save_beside(self, folder: Path, shipped: SentenceEncoder) -> None:
        """Write the decoder into the folder of the ``shipped`` encoder: WordPredictor reads it."""
        save_bag_decoder(folder, self.decoder, shipped, self.pooling)

    def _views(self, encoder: SentenceEncoder, batch: Batch) -> _Views:
        if not self.prepared:
            raise InvalidInputError(
                "the objective has no document frequencies yet; call prepare(source, tokenizer) "
                "before the first step"
            )
        states = encoder.states(batch["input_ids"], batch["attention_mask"])
        vectors = pool(states, batch["attention_mask"], self.pooling)
        logits = self.decoder(vectors, encoder)
        return _Views(states, vectors, logits, multi_hot(batch["targets"], logits.shape[1]))

    def _reconstruction(self, views: _Views) -> torch.Tensor:
        weighted = self.config.variant == "cpdae_idf_rec"
        weights = idf_weights(self.counts, int(self.texts)) if weighted else None
        return reconstruction_loss(views.logits, views.present, self.config.rec_reduction, weights)

    def _contrast(
        self, views: _Views, same_text: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The contrast of the variant, and the figures to watch it by."""
        stats: dict[str, torch.Tensor] = {}
        if self.config.variant == "cpdae_r":
            scores = cosines(views.vectors, views.vectors) / _VECTOR_TEMPERATURE
            loss = partner_contrast(scores, same_text)
        else:
            loss, stats = self._js_contrast(views, same_text)
        gap = math.log(len(same_text) - 1) - loss.detach()
        return loss, {**stats, "gap": gap}

    def _js_contrast(
        self, views: _Views, same_text: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        divergences = pairwise_js(log_distribution(views.logits))  # (2m, 2m)
        detached, other = divergences.detach(), ~same_text
        stats = {
            "js_positive": detached.diagonal(len(detached) // 2).mean(),
            "js_negative": (detached * other).sum() / other.sum().clamp(min=1),
        }
        return js_contrast(divergences, same_text), stats

    @torch.no_grad()
    def _stats(self, views: _Views, reconstruction: torch.Tensor) -> dict[str, torch.Tensor]:
        logits, present = views.logits.float(), views.present
        p = log_distribution(logits).exp()
        prior = log_odds(self.counts, int(self.texts)).expand_as(logits)
        at_prior = self._reconstruction(_Views(views.states, views.vectors, prior, present))
        common = self.counts.topk(min(_COMMON_TOKENS, len(self.counts))).indices
        return {
            "mass_on_present": (p * present).sum(dim=1).mean(),
            "rec_f1": bag_f1(logits, present),
            "common_mass": p[:, common].sum(dim=1).mean(),
            "rec_gain_over_prior": at_prior - reconstruction,
            "rare_recall": rare_recall(logits, present, self.counts),
        }
