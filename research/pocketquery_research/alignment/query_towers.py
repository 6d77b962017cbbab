"""What can be aligned to a document space: an encoder with a head, or averaged word vectors."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from pocketquery.distill.student import alignment_head
from pocketquery.sdk.arrays import Floats, Integers
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.device_tokenizer import device_tokenizer
from pocketquery.server.objectives.objective import tokenize
from pocketquery_research.augmentation.word2vec import WordVectors

__all__ = ["TRAINED", "EncoderTower", "QueryTower", "WordAverage", "with_alignment_head"]

TRAINED = ("head", "head_and_top", "full")
"""What of an encoder an alignment trains."""

Inputs = TypeVar("Inputs")


class QueryTower(nn.Module, ABC, Generic[Inputs]):
    """Queries to vectors of a document space.

    What of a query does not change in training is computed once, by :meth:`inputs`.
    """

    @abstractmethod
    def inputs(self, texts: Sequence[str]) -> Inputs:
        """What :meth:`raw` needs to know of texts."""

    @abstractmethod
    def raw(
        self, inputs: Inputs, rows: Integers, rng: np.random.Generator | None = None
    ) -> torch.Tensor:
        """Vectors before normalisation, float (rows, dim), of some of the texts.

        Args:
            inputs: of :meth:`inputs`.
            rows: which texts.
            rng: of what is dropped in training; None drops nothing.
        """

    def encode(self, texts: Sequence[str], batch_size: int = 256) -> Floats:
        """Unit vectors float32 (texts, dim); a row may be 0 where nothing of a text is known."""
        was, found = self.training, []
        self.eval()
        with torch.inference_mode():
            for start in range(0, len(texts), batch_size):
                inputs = self.inputs(texts[start : start + batch_size])
                rows = np.arange(len(texts[start : start + batch_size]))
                found.append(nn.functional.normalize(self.raw(inputs, rows).float(), dim=-1))
        self.train(was)
        vectors: Floats = torch.cat(found).cpu().numpy()
        return vectors


class EncoderTower(QueryTower[Any]):
    """An encoder with a head, all or some of it in training.

    Args:
        encoder: as :func:`with_alignment_head` makes it.
        trained: ``head`` (the encoder stays as it is), ``head_and_top`` (and its last layer) or
            ``full``.
        max_length: tokens of a query.

    Raises:
        InvalidInputError: no head, another ``trained``, or layers that are shared.
    """

    def __init__(
        self, encoder: SentenceEncoder, trained: str = "head", max_length: int = 64
    ) -> None:
        super().__init__()
        if encoder.head is None:
            raise InvalidInputError(
                "the query encoder has no head; make one with with_alignment_head"
            )
        if trained not in TRAINED:
            raise InvalidInputError(f'trained is "{trained}"; expected one of {", ".join(TRAINED)}')
        self.encoder = encoder
        self.trained = trained
        self.max_length = min(max_length, encoder.max_length)
        encoder.backbone.requires_grad_(trained == "full")
        self._moving: nn.Module | None = encoder.backbone if trained == "full" else None
        if trained == "head_and_top":
            self._moving = _top_layer(encoder).requires_grad_(True)
        self.train(False)

    def train(self, mode: bool = True) -> EncoderTower:
        """What stays as it is stays in evaluation mode."""
        super().train(mode)
        self.encoder.backbone.eval()
        if self._moving is not None:
            self._moving.train(mode)
        return self

    def inputs(self, texts: Sequence[str]) -> Any:
        prompted = [self.encoder.prompts.get("query", "") + text for text in texts]
        if self.trained != "head":
            return prompted
        with torch.no_grad():
            pieces = [prompted[i : i + 256] for i in range(0, len(prompted), 256)]
            return torch.cat([self._pooled(piece) for piece in pieces])

    def raw(
        self, inputs: Any, rows: Integers, rng: np.random.Generator | None = None
    ) -> torch.Tensor:
        if isinstance(inputs, torch.Tensor):
            pooled = inputs[torch.from_numpy(rows).to(inputs.device)]
        else:
            pooled = self._pooled([inputs[row] for row in rows])
        found: torch.Tensor = self.encoder.head(pooled)  # type: ignore[misc]
        return found

    def _pooled(self, texts: Sequence[str]) -> torch.Tensor:
        ids, mask = tokenize(self.encoder.tokenizer, texts, self.max_length)
        return self.encoder.pooled(ids.to(self.encoder.device), mask.to(self.encoder.device))


class WordAverage(QueryTower[list[Integers]]):
    """Averaged word vectors and a map to the document space; the word vectors stay as they are.

    The baselines of *Query-BERT*: one linear layer, or a deep averaging network ("Deep Unordered
    Composition Rivals Syntactic Methods for Text Classification"): four layers with ReLU, and in
    training words are left out of the average.

    Args:
        words: trained word vectors.
        dimension: of the document space.
        layers: 1 for the linear map, 4 for the deep averaging network.
        word_dropout: chance of a word to be left out; a text keeps at least one.
        seed: of the layers.
    """

    table: torch.Tensor

    def __init__(
        self,
        words: WordVectors,
        dimension: int,
        *,
        layers: int = 1,
        word_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.words = words
        self.word_dropout = word_dropout
        self.register_buffer("table", torch.from_numpy(words.vectors.copy()))
        sizes = [words.vectors.shape[1], *[dimension] * layers]
        parts: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for narrow, wide in pairwise(sizes):
                parts += [nn.Linear(narrow, wide), nn.ReLU()]
        self.head = nn.Sequential(*parts[:-1])

    @classmethod
    def dan(cls, words: WordVectors, dimension: int, seed: int = 0) -> WordAverage:
        """The deep averaging network: four layers, word dropout 0.3."""
        return cls(words, dimension, layers=4, word_dropout=0.3, seed=seed)

    def inputs(self, texts: Sequence[str]) -> list[Integers]:
        return [np.array(self.words.rows(text), dtype=np.int64) for text in texts]

    def raw(
        self, inputs: list[Integers], rows: Integers, rng: np.random.Generator | None = None
    ) -> torch.Tensor:
        found: torch.Tensor = self.head(self.averages([inputs[row] for row in rows], rng))
        return found

    def averages(
        self, texts: Sequence[Integers], rng: np.random.Generator | None = None
    ) -> torch.Tensor:
        """Mean vectors, float (texts, d); 0 where a text has no known word."""
        kept = [self._kept(words, rng) for words in texts]
        flat = torch.from_numpy(np.concatenate(kept)).to(self.table.device)
        starts = np.cumsum([0, *(len(words) for words in kept[:-1])])
        return nn.functional.embedding_bag(
            flat, self.table, torch.from_numpy(starts).to(self.table.device), mode="mean"
        )

    def _kept(self, words: Integers, rng: np.random.Generator | None) -> Integers:
        if rng is None or not self.word_dropout or not len(words):
            return words
        stays = rng.random(len(words)) >= self.word_dropout
        stays[rng.integers(len(words))] |= not stays.any()
        return words[stays]


def with_alignment_head(
    encoder: SentenceEncoder, document_encoder: SentenceEncoder, seed: int = 0
) -> SentenceEncoder:
    """A copy of a query encoder with a new head A into a document encoder's space.

    u = A(Enc(x)), A = linear, GELU, linear, with twice the document space's width between; it has
    that space's id, so it searches that space's indexes and no other. ("Query-BERT", alignment.)

    Args:
        encoder: any; a head it has is kept below the new one.
        document_encoder: whose space it is to be.
        seed: of A.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = alignment_head(encoder.dimension, document_encoder.dimension)
    below = copy.deepcopy(encoder.head) if encoder.head is not None else ()
    return SentenceEncoder(
        copy.deepcopy(encoder.backbone),
        device_tokenizer(copy.deepcopy(encoder.tokenizer)),
        pooling=encoder.pooling,
        head=nn.Sequential(*below, *head),
        prompts=encoder.prompts,
        max_length=encoder.max_length,
        space={
            "space_id": document_encoder.space_id,
            "dimension": document_encoder.dimension,
            "teacher": document_encoder.name,
        },
        name=encoder.name,
    ).to(encoder.device)


def _top_layer(encoder: SentenceEncoder) -> nn.Module:
    count = int(encoder.backbone.config.num_hidden_layers)
    for module in encoder.backbone.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            top: nn.Module = module[-1]
            return top
    raise InvalidInputError(
        f"the encoder has no list of {count} layers of its own (it may share them), so its top "
        'layer cannot be trained alone; expected trained="head" or "full"'
    )
