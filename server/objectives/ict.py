"""Inverse cloze task: a sentence finds the block of text that it was taken from.

"Latent Retrieval for Weakly Supervised Open Domain Question Answering", section 4.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from pocketquery.sdk.settings.common import Share
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.losses import (
    cosines,
    dots,
    in_batch_accuracy,
    in_batch_cross_entropy,
    same_mask,
    same_text_mask,
)

__all__ = ["Cloze", "Ict", "IctConfig"]


@dataclass(frozen=True)
class IctConfig(Settings):
    """Settings of :class:`Ict`."""

    keep_prob: Annotated[
        Share, "how often the sentence stays in its block; 0.1 makes words count as well"
    ] = 0.1
    similarity: Annotated[Literal["dot", "cosine"], '"dot" (the paper\'s) or "cosine"'] = "dot"
    temperature: Annotated[
        float, number(1e-3), "divides the similarities; cosines want some 0.05"
    ] = 1.0
    symmetric: Annotated[bool, "average with the blocks finding their sentences"] = False
    query_length: Annotated[int, whole(4), "tokens of a sentence, specials included"] = 64
    max_length: Annotated[int, whole(4), "tokens of a block"] = 128


class Cloze(NamedTuple):
    """A sentence, and the block it was taken from, mostly without it.

    A document's title stays at the head of its block; it is never the query.
    """

    group: str
    query: str
    block: str
    title: str = ""


class Ict(Objective[Cloze]):
    """Sentences against blocks, with in-batch negatives."""

    name: ClassVar[str] = "ict"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions")
    passages = True
    least_texts = 2

    def __init__(self, encoder: SentenceEncoder, config: IctConfig | None = None) -> None:
        super().__init__()
        self.config = config or IctConfig()
        self.tokenizer = encoder.tokenizer
        self.query_length = min(self.config.query_length, encoder.max_length)
        self.max_length = min(self.config.max_length, encoder.max_length)

    def draw(self, group: Group, rng: random.Random) -> Cloze | None:
        titles = [text for text in group.texts[:1] if group.title and text.strip()]
        body = [text for text in group.texts[int(group.title) :] if text.strip()]
        if len(body) < 2:
            return None
        place = rng.randrange(len(body))
        stays = rng.random() < self.config.keep_prob
        block = body if stays else body[:place] + body[place + 1 :]
        return Cloze(group.id, body[place], " ".join([*titles, *block]), "".join(titles))

    def collate(self, examples: Sequence[Cloze], rng: np.random.Generator) -> Batch:
        queries, blocks = [cloze.query for cloze in examples], [cloze.block for cloze in examples]
        groups = [cloze.group for cloze in examples]
        titles = [cloze.title or cloze.group for cloze in examples]
        query_ids, query_mask = tokenize(self.tokenizer, queries, self.query_length)
        ids, mask = tokenize(self.tokenizer, blocks, self.max_length)
        return {
            "query_ids": query_ids,
            "query_mask": query_mask,
            "input_ids": ids,
            "attention_mask": mask,
            # Passages of one document are no negatives of each other, nor are those of one title,
            # nor equal texts.
            "dropped": same_mask(groups, groups)
            | same_text_mask(titles, titles)
            | same_text_mask(queries, queries)
            | same_text_mask(blocks, blocks),
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        queries = encoder.pooled(batch["query_ids"], batch["query_mask"])  # (n, width)
        blocks = encoder.pooled(batch["input_ids"], batch["attention_mask"])  # (n, width)
        similarity = dots if self.config.similarity == "dot" else cosines
        similarities = similarity(queries, blocks)  # (n, n)
        scores = similarities / self.config.temperature
        loss = in_batch_cross_entropy(scores, batch["dropped"], symmetric=self.config.symmetric)
        return LossParts(loss, {"ict": loss}, {"ict_accuracy": in_batch_accuracy(scores)})
