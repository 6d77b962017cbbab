"""CCP: a sentence's neighbours, found among the sentences of its own language.

"Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense Retrieval".
Discourse has the same structure in every language, so predicting a sentence's neighbourhood shapes
nearly isomorphic spaces. (research/ has the calibration that then superimposes them.)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.modeling.precision import at_least_float32
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.ccp_loss import ccp_accuracy, ccp_loss, ccp_masks
from pocketquery.server.objectives.mlm import mlm_loss
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.asymmetric_norm import ProjectionHead
from pocketquery.server.objectives.shared.losses import plain_text, unit
from pocketquery.server.objectives.shared.masking import bert_mask
from pocketquery.server.objectives.shared.memory_bank import BankRows, MemoryBank, text_code
from pocketquery.server.objectives.shared.text_pairs import Neighbours, draw_neighbours

__all__ = ["Ccp", "CcpConfig"]

_WARMUPS = 20  # passes of the first batch that only fill the running statistics


@dataclass(frozen=True)
class CcpConfig(Settings):
    """Settings of :class:`Ccp`; the defaults are the paper's where it names any."""

    window_len: Annotated[
        int,
        whole(2),
        "W: two sentences at a distance of at most W - 1 are neighbours; 2 means next to each "
        "other. A radius w, the paper's other way to say it, is W = w + 1",
    ] = 5
    max_length: Annotated[int, whole(4), "tokens of a sentence, specials included"] = 64
    least_letters: Annotated[
        int, whole(), "sentences with fewer letters and digits are left out, as are repeated ones"
    ] = 3
    temperature: Annotated[float, number(1e-4), "tau"] = 0.1
    normalize: Annotated[bool, "contrast cosines; else raw inner products"] = True
    bn_mode: Annotated[
        Literal["asym", "vanilla", "none"], "asym, vanilla or none (ProjectionHead)"
    ] = "asym"
    bank: Annotated[
        Literal["language", "shared", "none"],
        "negatives of earlier batches: one bank a language (the paper's), one shared by all, or "
        "none. The paper has 2,048 windows a step and a rate of 3e-5. With 32 a step and rates of "
        "1e-4 and more every bank we tried ended in collapse: take none there",
    ] = "language"
    bank_size: Annotated[
        int,
        whole(),
        "vectors a bank (the paper: 32,768). At learning rates around 3e-4 keep it below 16 "
        "times the batch: older vectors say little about today's encoder",
    ] = 512
    bank_warmup: Annotated[
        int,
        whole(0),
        "batches after which the bank, which fills meanwhile, begins to count. There is no "
        "momentum encoder: at first, vectors that all move alike shake off the bank's negatives "
        "faster than they learn anything, and from random weights that ends in collapse. The "
        "paper starts from a pretrained model and has none; 0 gives that",
    ] = 200
    mlm_probability: Annotated[
        float, number(0, below=1), "share of the batches that are masked language modelling instead"
    ] = 0.5
    mask_rate: Annotated[
        float, number(above=0, below=1), "share of the tokens such a batch predicts"
    ] = 0.15


class Ccp(Objective[Neighbours]):
    """Contrastive context prediction, in turn with masked language modelling.

    Two departures from the paper. Sentences of an anchor's document are never its negatives, for
    they are about the same matter. The paper trains the first token's state and evaluates means;
    here the encoder ships with its pooling, so that is trained.
    """

    name: ClassVar[str] = "ccp"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions")
    least_texts = 2
    by_language = True

    batch_side: torch.Tensor
    warmups_left: torch.Tensor
    contrasted: torch.Tensor

    def __init__(self, encoder: SentenceEncoder, config: CcpConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or CcpConfig()
        self.tokenizer = encoder.tokenizer
        self.max_length = min(config.max_length, encoder.max_length)
        width = encoder.hidden_size
        self.head = ProjectionHead(width, config.bn_mode)
        self.mlm_head = MlmHead(encoder) if config.mlm_probability else None
        self.bank = None if config.bank == "none" else MemoryBank(config.bank_size, width)
        self.register_buffer("batch_side", torch.tensor(0))
        warmups = _WARMUPS if config.bn_mode == "asym" else 0
        self.register_buffer("warmups_left", torch.tensor(warmups))
        self.register_buffer("contrasted", torch.tensor(0))  # batches so far
        self._fresh: list[tuple[str, BankRows]] = []  # contexts contrasted since the last step

    def draw(self, group: Group, rng: random.Random) -> Neighbours | None:
        return draw_neighbours(group, self.config.window_len, self.config.least_letters, rng)

    def collate(self, examples: Sequence[Neighbours], rng: np.random.Generator) -> Batch:
        """Centres in the first half of the rows, their contexts in the second."""
        texts = [pair.centre for pair in examples] + [pair.context for pair in examples]
        ids, mask = tokenize(self.tokenizer, texts, self.max_length)
        if rng.random() < self.config.mlm_probability:
            masked, labels = bert_mask(ids, self.tokenizer, rng, self.config.mask_rate)
            return {"input_ids": masked, "attention_mask": mask, "labels": labels}
        places = [pair.centre_position for pair in examples]
        places += [pair.context_position for pair in examples]
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "documents": torch.tensor([text_code(pair.document) for pair in examples] * 2),
            "positions": torch.tensor(places),
            "texts": torch.tensor([text_code(plain_text(text)) for text in texts]),
            "language": examples[0].language,
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        """MLM where the batch has labels, else CCP.

        A call without gradient measures and changes nothing.
        """
        if self.mlm_head is not None and "labels" in batch:
            states = encoder.states(batch["input_ids"], batch["attention_mask"])
            loss, accuracy = mlm_loss(states, batch["labels"], self.mlm_head, encoder)
            return LossParts(loss, {"mlm": loss}, {"mlm_accuracy": accuracy})
        while torch.is_grad_enabled() and int(self.warmups_left) > 0:
            self._warm_up(encoder, batch)
        pooled = self._pooled(encoder, batch["input_ids"], batch["attention_mask"])
        with torch.autocast(pooled.device.type, enabled=False):  # cosines need float32
            return self._contrast(pooled, batch)

    def project(
        self, encoder: SentenceEncoder, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """The head's vectors: a bank's collapse shows there first."""
        pooled = self._pooled(encoder, input_ids, attention_mask)
        vectors: torch.Tensor = self.head(pooled, batch_statistics=self.config.bn_mode == "vanilla")
        return vectors

    def _pooled(
        self, encoder: SentenceEncoder, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return at_least_float32(pool(encoder.states(ids, mask), mask, encoder.pooling))

    @torch.no_grad()
    def _warm_up(self, encoder: SentenceEncoder, batch: Batch) -> None:
        """Fill the running statistics: before that they would normalise nothing."""
        pooled = self._pooled(encoder, batch["input_ids"], batch["attention_mask"])
        with torch.autocast(pooled.device.type, enabled=False):
            self.head(pooled, batch_statistics=True, update=True)
        self.warmups_left -= 1

    def _contrast(self, pooled: torch.Tensor, batch: Batch) -> LossParts:
        learning, side, half = torch.is_grad_enabled(), int(self.batch_side), len(pooled) // 2
        sides = self.head.sides(pooled[:half], pooled[half:], side, update=learning)
        vectors = self._normalized(torch.cat(sides))  # (2n, dim)
        bank = self._bank_rows(batch)
        rows = BankRows(vectors, *(batch[name] for name in bank._fields[1:]))
        positives, dropped = ccp_masks(rows, bank, self.config.window_len)
        scored: dict[str, Any] = {
            "bank": bank.vectors,
            "dropped": dropped,
            "normalize": self.config.normalize,
        }
        loss = ccp_loss(vectors, positives, self.config.temperature, **scored)
        with torch.no_grad():
            stats = self._geometry(vectors)
            stats["ccp_accuracy"] = ccp_accuracy(vectors, positives, **scored)
            stats["bank_rows"] = float(len(bank.texts))
            if learning:
                contexts = BankRows(*(column[half:].detach() for column in rows))
                self._fresh.append((self._key(batch), contexts))
                self.batch_side.fill_(1 - side)
                self.contrasted += 1
        return LossParts(loss, {"ccp": loss}, stats)

    def _geometry(self, vectors: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Figures of the contrasted vectors (2n, dim): signs of a leak or of collapse."""
        flat = unit(vectors)
        stats: dict[str, torch.Tensor | float] = {
            "z_std_ratio": flat.std(dim=0).mean() * flat.shape[1] ** 0.5
        }
        if self.config.bn_mode == "asym":
            # A gap would tell the sides apart without any meaning.
            half = len(flat) // 2
            stats["mode_gap"] = (flat[:half].mean(dim=0) - flat[half:].mean(dim=0)).norm()
        return stats

    def _normalized(self, vectors: torch.Tensor) -> torch.Tensor:
        return unit(vectors) if self.config.normalize else vectors

    def _bank_rows(self, batch: Batch) -> BankRows:
        """The rows of the bank that the batch reads; none before the bank counts."""
        if self.bank is None or int(self.contrasted) < self.config.bank_warmup:
            none = batch["texts"][:0]
            vectors = torch.zeros(0, self.head.outer.out_features, device=none.device)
            return BankRows(vectors, none, none, none)
        return self.bank.read(self._key(batch))

    def after_step(self, encoder: SentenceEncoder, batch: Batch, step: int, steps: int) -> None:
        """The contexts of all batches since the last step go into the bank of their language."""
        if self.bank is not None:
            for key, contexts in self._fresh:
                self.bank.enqueue(key, contexts)
        self._fresh.clear()

    def _key(self, batch: Batch) -> str:
        return str(batch["language"]) if self.config.bank == "language" else "all"
