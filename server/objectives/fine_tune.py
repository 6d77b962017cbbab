"""Supervised fine-tuning of a document encoder: queries, relevant passages, hard negatives.

The second half of "A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for
Dense Retrieval": a bi-encoder, which is the pre-trained encoder alone, trained with a pairwise loss
against mined negatives. The paper does not say which; RankNet's is taken. It scores by inner
product; here by cosine over a temperature, because unit vectors are what ships.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.losses import cosines, ranknet, same_text_mask

__all__ = ["FineTune", "FineTuneConfig", "Triple", "pairwise_loss", "passage_cross_entropy"]


class Triple(NamedTuple):
    """A query, a passage that answers it, and some that do not."""

    query: str
    positive: str
    negatives: tuple[str, ...]


@dataclass(frozen=True)
class FineTuneConfig(Settings):
    """Settings of :class:`FineTune`."""

    loss: Annotated[
        Literal["ranknet", "info_nce"],
        '"ranknet" (each positive against its own negatives) or "info_nce" (against every '
        "passage of the batch)",
    ] = "ranknet"
    negatives: Annotated[
        int, whole(0), "of a query, drawn anew every epoch from the mined ones; 7 in the paper"
    ] = 7
    temperature: Annotated[float, number(above=0), "the cosines are divided by it"] = 0.05
    query_length: Annotated[int, whole(4), "tokens of a query, specials included"] = 32
    max_length: Annotated[int, whole(4), "tokens of a passage, specials included"] = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss == "ranknet" and self.negatives < 1:
            raise InvalidInputError(
                f"negatives is {self.negatives}, expected a whole number from 1 with ranknet"
            )


def passage_cross_entropy(
    scores: torch.Tensor, positives: torch.Tensor, dropped: torch.Tensor
) -> torch.Tensor:
    """InfoNCE of queries over all passages of a batch, all of them with gradient.

    Args:
        scores: float (n, passages), over the temperature already.
        positives: int64 (n,), the column of each query's passage.
        dropped: bool (n, passages): other passages known to answer the query; the own one stays.

    Returns:
        Scalar in [0, inf); a query whose other passages are all left out counts 0.
    """
    own = positives.unsqueeze(1)
    remaining = scores.masked_fill(dropped.scatter(1, own, False), -torch.inf)
    return (remaining.logsumexp(dim=1) - scores.gather(1, own).squeeze(1)).mean()


def pairwise_loss(
    scores: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
) -> torch.Tensor:
    """RankNet over all pairs of a query's passage with one of its negatives, however many it has.

    Args:
        scores: float (n, passages), over the temperature already.
        positives: int64 (n,), the column of each query's passage.
        negatives: bool (n, passages), the columns of each query's negatives.

    Returns:
        Scalar in [0, inf): the mean over the pairs, 0 where there are none.
    """
    rows, columns = negatives.nonzero(as_tuple=True)  # (pairs,)
    if not len(rows):
        return scores.sum() * 0
    return ranknet(scores[rows, positives[rows]], scores[rows, columns].unsqueeze(1))


class FineTune(Objective[Triple]):
    """Queries and passages through one encoder, its head and its prompts included."""

    name: ClassVar[str] = "fine_tune"
    kinds: ClassVar[tuple[Kind, ...]] = ("triples", "pairs")

    def __init__(self, encoder: SentenceEncoder, config: FineTuneConfig | None = None) -> None:
        super().__init__()
        self.config = config or FineTuneConfig()
        ranked = self.config.loss == "ranknet"
        self.least_texts = 3 if ranked else 2
        self.least_examples = 1 if ranked else 2
        self.tokenizer = encoder.tokenizer
        self.query_prompt = encoder.prompts.get("query", "")
        self.passage_prompt = encoder.prompts.get("document", "")
        self.query_length = min(self.config.query_length, encoder.max_length)
        self.max_length = min(self.config.max_length, encoder.max_length)

    def draw(self, group: Group, rng: random.Random) -> Triple | None:
        if len(group.texts) < self.least_texts:
            return None
        query, positive, *mined = group.texts
        negatives = [text for text in mined if text != positive]
        if self.config.loss == "ranknet" and not negatives:
            return None
        rng.shuffle(negatives)
        return Triple(query, positive, tuple(negatives[: self.config.negatives]))

    def collate(self, examples: Sequence[Triple], rng: np.random.Generator) -> Batch:
        """The queries, and every passage once, however many of them it serves."""
        columns: dict[str, int] = {}
        for example in examples:
            for text in (example.positive, *example.negatives):
                columns.setdefault(text, len(columns))
        queries = [self.query_prompt + example.query for example in examples]
        passages = [self.passage_prompt + text for text in columns]
        query_ids, query_mask = tokenize(self.tokenizer, queries, self.query_length)
        passage_ids, passage_mask = tokenize(self.tokenizer, passages, self.max_length)
        answers = _answers(examples, columns)
        return {
            "query_ids": query_ids,
            "query_mask": query_mask,
            "passage_ids": passage_ids,
            "passage_mask": passage_mask,
            "positives": torch.tensor([columns[example.positive] for example in examples]),
            "negatives": _negatives(examples, columns) & ~answers,  # bool (n, passages)
            "answers": answers,  # bool (n, passages)
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        queries = encoder(batch["query_ids"], batch["query_mask"])  # (n, dim), unit rows
        passages = encoder(batch["passage_ids"], batch["passage_mask"])  # (passages, dim)
        similarities = cosines(queries, passages)  # (n, passages)
        scores = similarities / self.config.temperature
        if self.config.loss == "ranknet":
            loss = pairwise_loss(scores, batch["positives"], batch["negatives"])
        else:
            loss = passage_cross_entropy(scores, batch["positives"], batch["answers"])
        return LossParts(loss, {self.config.loss: loss}, _figures(similarities.detach(), batch))


@torch.no_grad()
def _figures(cosines: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
    """How often the positive is first of the batch's passages, and its lead over its negatives."""
    own = batch["positives"].unsqueeze(1)
    rivals = cosines.masked_fill(batch["answers"], -torch.inf)  # the positive is an answer
    positive = cosines.gather(1, own).squeeze(1)
    negatives = batch["negatives"]
    leads = (positive.unsqueeze(1) - cosines)[negatives]
    return {
        "first": (positive > rivals.amax(dim=1)).float().mean(),
        "lead": leads.sum() / max(len(leads), 1),
    }


def _negatives(examples: Sequence[Triple], columns: Mapping[str, int]) -> torch.Tensor:
    mined = torch.zeros(len(examples), len(columns), dtype=torch.bool)
    for row, example in enumerate(examples):
        mined[row, [columns[text] for text in example.negatives]] = True
    return mined


def _answers(examples: Sequence[Triple], columns: Mapping[str, int]) -> torch.Tensor:
    """Which passages are known to answer each query: those of all examples with the same query."""
    same = same_text_mask([e.query for e in examples], [e.query for e in examples])  # (n, n)
    answers = torch.zeros(len(examples), len(columns), dtype=torch.bool)
    for row, other in same.nonzero().tolist():
        answers[row, columns[examples[other].positive]] = True
    return answers
