"""PROP in bi-encoder form: of two word sets, the likelier lies nearer to the document.

"PROP: Pre-training with Representative Words Prediction for Ad-hoc Retrieval", section 3. There one
network reads set and document together; here each has its vector, as retrieval needs it. With
cosines the paper's margin of 1 is never met, so the default is 0.2. A word is here a token of the
encoder's vocabulary, so that no list of words and no script is assumed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from pocketquery.sdk.arrays import Doubles, Integers
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.objectives.mlm import mlm_loss
from pocketquery.server.objectives.objective import (
    Batch,
    LossParts,
    Objective,
    surrounding_specials,
    tokenize,
)
from pocketquery.server.objectives.shared.bag_of_words import spread_texts
from pocketquery.server.objectives.shared.losses import unit
from pocketquery.server.objectives.shared.masking import bert_mask, special_mask

__all__ = ["Prop", "PropConfig", "WordModel", "preference_hinge"]


_TRIES = 50  # draws a word, before a set stays smaller


@dataclass(frozen=True)
class PropConfig(Settings):
    """Settings of :class:`Prop`."""

    margin: Annotated[
        float, number(0), 'of the hinge; with similarity="dot" the paper\'s 1 is in place'
    ] = 0.2
    similarity: Annotated[Literal["cosine", "dot"], '"cosine" or "dot"'] = "cosine"
    mlm_weight: Annotated[
        float, number(0), "of masked language modelling of the documents; 0 leaves it out"
    ] = 1.0
    set_pairs: Annotated[
        int, whole(), "drawn of every document; the released code draws 4 to 10"
    ] = 2
    mean_set_size: Annotated[
        float,
        number(0.1),
        "lambda of the Poisson distribution of a set's size; zero is drawn again",
    ] = 3.0
    subsampling: Annotated[
        float, number(1e-12), "t of word2vec's sub-sampling of frequent words"
    ] = 1e-4
    smoothing: Annotated[
        float, number(0), "mu of the document's language model; 0 for the mean document length"
    ] = 0.0
    mask_rate: Annotated[
        float, number(above=0, below=1), "share of the tokens that are predicted"
    ] = 0.15
    max_length: Annotated[int, whole(4), "tokens of a document, specials included"] = 64
    statistics_texts: Annotated[
        int, whole(), "texts that :meth:`Prop.prepare` counts words in, at most"
    ] = 20_000


@dataclass(frozen=True, eq=False)
class WordModel:
    r"""The words of a collection, and of a document within it.

    .. math:: p(w \mid D) = \frac{tf_{w,D} + \mu\, p_C(w)}{|D| + \mu}

    Attributes:
        counts: how often each word occurs in the collection, (words,).
        smoothing: mu, in words; the collection's mean document length is usual.
        threshold: t of word2vec's sub-sampling: when a set is drawn, a word of frequency f counts
            only min(1, sqrt(t / f)) of its probability.
    """

    counts: Integers
    smoothing: float
    threshold: float = 1e-4

    @cached_property
    def collection(self) -> Doubles:
        """p_C, float64 (words,)."""
        shares: Doubles = self.counts / max(int(self.counts.sum()), 1)
        return shares

    def log_likelihood(self, words: Integers, document: Integers) -> float:
        """The sum of log p(w | D) over a set; minus infinity where a word occurs nowhere.

        Args:
            words: int64 (k,).
            document: its words in order, int64 (|D|,).
        """
        frequency = (document[None, :] == words[:, None]).sum(axis=1)  # (k,)
        smoothed = frequency + self.smoothing * self.collection[words]
        with np.errstate(divide="ignore"):
            return float(np.log(smoothed / (len(document) + self.smoothing)).sum())

    def draw(self, document: Integers, size: int, rng: np.random.Generator) -> Integers:
        """Distinct words from the document's sub-sampled model, one after another.

        The model is a mixture of the document's own words and the collection's, so that a draw
        costs a search and not a pass over the vocabulary.

        Args:
            document: its words in order, int64 (|D|,).
            size: words to be drawn.
            rng: the source of randomness.

        Returns:
            int64 (at most ``size``,); fewer where words ran out.
        """
        own = np.cumsum(self._kept[document])  # (|D|,)
        own_mass = float(own[-1]) if len(own) else 0.0
        background = self._background
        mass = own_mass + self.smoothing * float(background[-1])
        found: dict[int, None] = {}
        for _ in range(_TRIES * size if mass > 0 else 0):
            point = rng.random() * mass
            if point < own_mass:
                word = document[np.searchsorted(own, point, side="right")]
            else:
                share = (point - own_mass) / self.smoothing
                word = min(np.searchsorted(background, share, side="right"), len(background) - 1)
            found[int(word)] = None
            if len(found) == size:
                break
        return np.fromiter(found, np.int64)

    @cached_property
    def _kept(self) -> Doubles:
        share = np.maximum(self.collection, 1e-300)
        return np.minimum(1.0, np.sqrt(self.threshold / share))

    @cached_property
    def _background(self) -> Doubles:
        """Running sum of the sub-sampled p_C, float64 (words,)."""
        return np.cumsum(self._kept * self.collection)


def preference_hinge(likelier: torch.Tensor, other: torch.Tensor, margin: float) -> torch.Tensor:
    r"""Mean over set pairs.

    .. math:: [\gamma - s(S^+, D) + s(S^-, D)]_+

    Args:
        likelier: s(S+, D) of every pair, (n,).
        other: s(S-, D), (n,).
        margin: gamma.

    Returns:
        Scalar; 0 for no pairs.
    """
    return (margin - likelier + other).clamp(min=0).sum() / max(len(likelier), 1)


class Prop(Objective[str]):
    """Representative-words prediction and masked language modelling.

    The collection's words are counted by :meth:`prepare`. Without it every batch is taken as its
    own collection: coarser, yet the same objective.
    """

    name: ClassVar[str] = "prop"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions", "pairs")
    passages = True
    least_examples = 1

    def __init__(self, encoder: SentenceEncoder, config: PropConfig | None = None) -> None:
        super().__init__()
        self.config = config or PropConfig()
        self.head = MlmHead(encoder)
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)
        self._specials = surrounding_specials(encoder.tokenizer)
        self._collection: WordModel | None = None

    def prepare(self, source: Source, tokenizer: Any) -> None:
        """Count the words of the corpus, once; where a run resumes, nothing happens.

        Args:
            source: what :meth:`draw` will get its groups from.
            tokenizer: the encoder's.

        Raises:
            CorpusError: the source is empty.
        """
        if self._collection is not None:
            return
        counts, documents = np.zeros(len(tokenizer), np.int64), 0
        for texts in spread_texts(source, self.config.statistics_texts):
            documents += len(texts)
            for words in self._documents(tokenize(tokenizer, texts, self.max_length)[0]):
                np.add.at(counts, words, 1)
        self._collection = self._model(counts, documents)

    def draw(self, group: Group, rng: random.Random) -> str | None:
        return " ".join(group.texts).strip() or None

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        """Documents, their masked copies, and word sets: the likelier ones, then the others."""
        ids, mask = tokenize(self.tokenizer, examples, self.max_length)
        masked, labels = bert_mask(ids, self.tokenizer, rng, self.config.mask_rate)
        likelier, others, owners = self._set_pairs(self._documents(ids), rng)
        before, after = self._specials
        sets = [torch.tensor([*before, *words, *after]) for words in [*likelier, *others]]
        padding = float(self.tokenizer.pad_token_id)
        set_ids = pad_sequence(sets, True, padding) if sets else ids.new_zeros(0, 1)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "masked_ids": masked,
            "labels": labels,
            "set_ids": set_ids,
            "set_mask": (set_ids != self.tokenizer.pad_token_id).long(),
            "owners": torch.tensor(owners, dtype=torch.int64),
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        documents = encoder.pooled(batch["input_ids"], batch["attention_mask"])  # (n, width)
        ranking, stats = self._ranking(encoder, documents, batch)
        if self.config.mlm_weight == 0:
            return LossParts(ranking, {"prop": ranking}, stats)
        states = encoder.states(batch["masked_ids"], batch["attention_mask"])
        mlm, accuracy = mlm_loss(states, batch["labels"], self.head, encoder)
        total = ranking + self.config.mlm_weight * mlm
        return LossParts(total, {"prop": ranking, "mlm": mlm}, {**stats, "mlm_accuracy": accuracy})

    def get_extra_state(self) -> torch.Tensor:
        """The collection's words: on the CPU, where batches are made, wherever the heads are."""
        if self._collection is None:
            return torch.zeros(0, dtype=torch.float64)
        words = self._collection
        return torch.from_numpy(np.append(words.counts.astype(np.float64), words.smoothing))

    def set_extra_state(self, state: torch.Tensor) -> None:
        if len(state):
            *counts, smoothing = state.tolist()
            found = np.array(counts).astype(np.int64)
            self._collection = WordModel(found, smoothing, self.config.subsampling)

    def _model(self, counts: Integers, documents: int) -> WordModel:
        smoothing = self.config.smoothing or float(counts.sum()) / max(documents, 1)
        return WordModel(counts, smoothing, self.config.subsampling)

    def _documents(self, ids: torch.Tensor) -> list[Integers]:
        """The ids of every row without the special ones."""
        ordinary = ~special_mask(ids, self.tokenizer).numpy()
        return [row[kept] for row, kept in zip(ids.numpy(), ordinary, strict=True)]

    def _set_pairs(
        self, documents: list[Integers], rng: np.random.Generator
    ) -> tuple[list[Integers], list[Integers], list[int]]:
        """Likelier sets, the others, and the row of their document; ties are left out."""
        counts = np.bincount(np.concatenate(documents), minlength=len(self.tokenizer))
        model = self._collection or self._model(counts, len(documents))
        likelier, others, owners = [], [], []
        for row, document in enumerate(documents):
            for _ in range(self.config.set_pairs):
                size = self._set_size(rng)
                pair = [model.draw(document, size, rng) for _ in range(2)]
                scores = [model.log_likelihood(words, document) for words in pair]
                if len(pair[0]) != len(pair[1]) or math.isclose(*scores, abs_tol=1e-9):
                    continue
                better = int(scores[1] > scores[0])
                likelier.append(pair[better])
                others.append(pair[1 - better])
                owners.append(row)
        return likelier, others, owners

    def _set_size(self, rng: np.random.Generator) -> int:
        size = 0
        while size == 0:
            size = int(rng.poisson(self.config.mean_set_size))
        return min(size, self.max_length - sum(map(len, self._specials)))

    def _ranking(
        self, encoder: SentenceEncoder, documents: torch.Tensor, batch: Batch
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor | float]]:
        owners = batch["owners"]
        if not len(owners):
            return documents.sum() * 0, {"set_pairs": 0.0}
        sets = encoder.pooled(batch["set_ids"], batch["set_mask"])  # (2 pairs, width)
        both = documents[owners].repeat(2, 1)
        if self.config.similarity == "cosine":
            sets, both = unit(sets), unit(both)
        likelier, other = (sets * both).sum(dim=-1).chunk(2)  # (pairs,) each
        loss = preference_hinge(likelier, other, self.config.margin)
        right = (likelier > other).float().mean()
        return loss, {"set_pairs": float(len(owners)), "set_accuracy": right}
