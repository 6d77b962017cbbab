"""GUR: fill hidden spans and find the partner of a mined pair, with one encoder.

*Generate to Understand for Representation*, the model and its losses.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.common import Share
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import Rule, number, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig, mine_document
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.mlm import masked_cross_entropy
from pocketquery.server.objectives.objective import (
    Batch,
    LossParts,
    Objective,
    surrounding_specials,
    with_head,
)
from pocketquery.server.objectives.shared.losses import (
    cosines,
    in_batch_accuracy,
    info_nce,
    same_mask,
    same_text_mask,
)
from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery.server.objectives.shared.seq2seq_decoder import (
    DecoderShape,
    GurDecoder,
    save_decoder,
)
from pocketquery.server.objectives.shared.span_masking import (
    hide_spans,
    length_probabilities,
    pad_rows,
    place_spans,
    sentinel_ids,
    span_budget,
    span_lengths,
)

__all__ = ["Gur", "GurConfig", "GurExample", "draw_example", "false_negatives", "gur_contrast"]

_DROPOUT = 0.1  # of the decoder
_MOST_GAP = 100  # between two sentences of a document that are paired
_LEAST_CROP = 0.5  # of a text that is too long
_PAIR_TRIES = 8  # pairs of a document, until one shares enough


@dataclass(frozen=True)
class GurConfig(Settings):
    """Settings of :class:`Gur`; the defaults are the paper's, its depth and lengths apart."""

    variant: Annotated[
        Literal["full", "no_lm", "no_cl", "no_lcs"],
        '"full", or what is left out: "no_lm" (contrast alone), "no_cl" (infilling alone); '
        '"no_lcs": from documents, any sentence is paired, whatever the two texts share (pairs '
        'are taken as they are: mine those without LCS too). The paper calls them "GUR-LM", '
        '"GUR-CL" and "GUR-LCS"',
    ] = "full"
    alpha: Annotated[
        float,
        Rule(number(above=0).holds, 'a number above 0 (no contrast: variant "no_cl")'),
        "weight of the contrast beside the language model's loss",
    ] = 1.0
    temperature: Annotated[float, number(above=0), "of the contrast"] = 0.1
    vector_size: Annotated[int, whole(), "numbers of the exported vector"] = 128
    pooling: Annotated[
        Literal["encoder", "cls", "mean", "eos"],
        '"encoder" (the one it has), "cls" (the paper\'s), "eos" (as the released code) or '
        '"mean"; it ships. From masked language modelling or random weights, "cls" stays at the '
        "loss of equal vectors for some hundred steps first",
    ] = "encoder"
    mask_rate: Annotated[float, number(above=0, below=1), "share of the tokens that is hidden"] = (
        0.15
    )
    title_share: Annotated[
        Share,
        "share of the titled documents drawn for the extra task, to write the title of the "
        "content (language model only); the paper runs it as a task of its own",
    ] = 0.0
    decoder_layers: Annotated[
        int, whole(), "the decoder's depth (the paper's is the encoder's own, 8)"
    ] = 2
    max_length: Annotated[int, whole(8), "tokens of a text, specials included"] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "no_lm" and self.title_share:
            raise InvalidInputError(
                f"title_share is {self.title_share}, but writing titles needs the language model, "
                'which variant "no_lm" leaves out; set it to 0'
            )


@dataclass(frozen=True)
class GurExample:
    """Two texts of one document.

    Attributes:
        first: a text, or the content whose title is to be written.
        second: its partner, or that title.
        document: id of where both are from; pairs of one are no negatives of each other.
        writes_title: whether the title is to be written; such an example has no contrast.
    """

    first: str
    second: str
    document: str
    writes_title: bool = False


def draw_example(
    group: Group, rng: random.Random, config: GurConfig, *, document: bool = False
) -> GurExample | None:
    """A pair as it was mined or given; of more texts, a title and a sentence, or two sentences.

    Of a document, only a pair that mining would keep (they share a long string, and are not nearly
    equal); a few are tried. The variant ``"no_lcs"`` takes any. Two sentences are at most a hundred
    apart; a title goes with any.

    Args:
        group: a pair or a document.
        rng: the source of randomness.
        config: settings.
        document: whether a title and one text are a document; else they are a pair that was mined.
    """
    texts = group.texts
    if len(texts) < 2:
        return None
    if group.title and rng.random() < config.title_share:
        return GurExample(" ".join(texts[1:]), texts[0], group.id, writes_title=True)
    any_pair = config.variant == "no_lcs"
    if len(texts) == 2:
        filtered = document and group.title and not any_pair
        passes = not filtered or _shares_enough(texts[0], texts[1])
        return GurExample(texts[0], texts[1], group.id) if passes else None
    for _ in range(1 if any_pair else _PAIR_TRIES):
        first, second = _candidate(group, rng)
        if any_pair or _shares_enough(first, second):
            return GurExample(first, second, group.id)
    return None


def _shares_enough(first: str, second: str) -> bool:
    return bool(mine_document(Group("", (first, second)), LcsConfig(candidates="within")))


def _candidate(group: Group, rng: random.Random) -> tuple[str, str]:
    texts = group.texts
    if group.title:
        return texts[0], rng.choice(texts[1:])
    first = rng.randrange(len(texts))
    near = range(max(0, first - _MOST_GAP), min(len(texts), first + _MOST_GAP + 1))
    return texts[first], texts[rng.choice([other for other in near if other != first])]


def false_negatives(pairs: Sequence[GurExample]) -> torch.Tensor:
    """bool (n, n): pairs (i, j) whose texts are no negatives of each other; False where i = j.

    They are of one document, or one of them equals the other or the other's partner (a title that
    two pairs share).
    """
    firsts, seconds = [pair.first for pair in pairs], [pair.second for pair in pairs]
    documents = [pair.document for pair in pairs]
    crossed = same_text_mask(firsts, seconds)
    dropped = same_mask(documents, documents) | crossed | crossed.T
    dropped |= same_text_mask(firsts, firsts) | same_text_mask(seconds, seconds)
    return dropped.fill_diagonal_(False)


def gur_contrast(
    first: torch.Tensor, second: torch.Tensor, temperature: float, dropped: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""The symmetric InfoNCE of the pairs' vectors, and how often a text finds its partner.

    .. math:: L_{CL} = \tfrac12 [CE(S, \mathrm{arange}) + CE(S^T, \mathrm{arange})], \qquad
        S = \cos(u_s, u_t) / \tau

    *Generate to Understand for Representation*, the contrastive loss. The printed denominator
    sums over the anchors' own side; the sum runs over the partners.

    Args:
        first: float (n, dim).
        second: float (n, dim); row i is the partner of row i.
        temperature: tau.
        dropped: bool (n, n): pairs that are no negatives.

    Returns:
        The loss, in [0, inf) and 0 for no pairs or no negatives; and the share of the first texts
        whose own partner is the nearest, without gradient.
    """
    if not len(first):
        return first.sum(), first.new_zeros(())
    loss = info_nce(first, second, temperature, dropped=dropped)
    return loss, in_batch_accuracy(cosines(first.detach(), second.detach()), dropped)


class Gur(Objective[GurExample]):
    r"""Span infilling by a small decoder, and InfoNCE over the pairs' vectors.

    .. math:: L = L_{LM} + \alpha L_{CL}, \qquad L_{CL} = \text{info\_nce}(u_s, u_t, \tau), \qquad
        u = \text{projector}(\text{pool}(\text{states}))

    Both run on the same masked texts: masking is the contrast's only augmentation. Pairs are
    mined ones (server/corpus/mining/lcs_pairs.py, whose caps also balance the texts); from whole
    documents, pairs are drawn and filtered as they come. The projector is the exported model's
    head, so its vector is what ships; the decoder is saved beside it for infilling.

    Departures: the released projector gates its GELU and ends in an RMS norm; ours is linear, GELU,
    linear, which every sentence-transformers runtime can load, and cosines need no norm. The
    released code takes the end token's state and raw dot products; this follows the paper: CLS
    and cosines.

    Raises:
        InvalidInputError: the tokenizer puts no special token before or none after a text.
    """

    name: ClassVar[str] = "gur"
    kinds: ClassVar[tuple[Kind, ...]] = ("pairs", "documents")
    least_texts = 2

    def __init__(self, encoder: SentenceEncoder, config: GurConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or GurConfig()
        max_length = min(config.max_length, encoder.max_length)
        self.pooling = encoder.pooling if config.pooling == "encoder" else config.pooling
        self.of_documents = False
        self.tokenizer = encoder.tokenizer
        self.before, self.after = before, after = surrounding_specials(encoder.tokenizer)
        if not before or not after:
            raise InvalidInputError(
                f"the tokenizer puts {len(before)} special tokens before a text and {len(after)} "
                "after it; expected at least one on either side, as BERT's and XLM-R's do"
            )
        self.most_tokens = max_length - len(before) - len(after)  # of a text alone
        budget = max(1, span_budget(max_length, config.mask_rate))
        self.sentinels = sentinel_ids(encoder, budget + 1)  # one closes
        self.probabilities = length_probabilities()
        self.decoder = None
        if config.variant != "no_lm":
            shape = DecoderShape.beside(
                encoder,
                layers=config.decoder_layers,
                positions=max(max_length, 2 * budget + 2),
                dropout=_DROPOUT,
                start=before[0],
                end=after[-1],
                sentinels=self.sentinels,
            )
            self.decoder = GurDecoder(shape)
        self.projector = None if config.variant == "no_cl" else _projector(encoder, config)

    def prepare(self, source: Source, tokenizer: Any) -> None:
        """A group of two texts does not say itself whether it is a document or was mined."""
        self.of_documents = source.kind == "documents"

    def draw(self, group: Group, rng: random.Random) -> GurExample | None:
        return draw_example(group, rng, self.config, document=self.of_documents)

    def collate(self, examples: Sequence[GurExample], rng: np.random.Generator) -> Batch:
        """A batch of n pairs and m titles to write, in rows: n firsts, n seconds, m contents.

        Returns:
            ``input_ids``, ``attention_mask`` int64 (2n + m, length) with hidden spans; ``inputs``
            and ``labels`` int64 (2n + m, target length) of the decoder; and
            ``dropped`` bool (n, n), the false negatives.
        """
        pairs = [example for example in examples if not example.writes_title]
        titles = [example for example in examples if example.writes_title]
        texts = [pair.first for pair in pairs] + [pair.second for pair in pairs]
        cropped = [self._cropped(ids, rng) for ids in self.token_ids(texts)]
        masked = [self._masked(ids, rng) for ids in cropped]
        contents = self.token_ids([example.first for example in titles])
        title_ids = self.token_ids([example.second for example in titles])
        for content, title in zip(contents, title_ids, strict=True):
            target = [*title[: self.most_tokens], self.after[-1]]
            masked.append((content[: self.most_tokens], target))
        input_ids, attention_mask = self.with_specials([source for source, _ in masked])
        labels = pad_rows([target for _, target in masked], IGNORED)
        # The decoder reads a start token, then every label but the last; padding becomes the start
        # token too, which only positions without a loss see.
        inputs = labels.roll(1, dims=1)
        inputs[:, 0] = self.before[0]
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "inputs": inputs.masked_fill(inputs == IGNORED, self.before[0]),
            "labels": labels,
            "dropped": false_negatives(pairs),
        }

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without specials and however long."""
        if not texts:
            return []
        options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
        ids: list[list[int]] = self.tokenizer(list(texts), **options)["input_ids"]
        return ids

    def with_specials(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids with specials, padded, and their attention mask, both int64 (texts, longest)."""
        rows = [[*self.before, *row, *self.after] for row in ids]
        padded = pad_rows(rows, self.tokenizer.pad_token_id)
        return padded, pad_rows([[1] * len(row) for row in rows], 0)

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        states = encoder.states(batch["input_ids"], batch["attention_mask"])
        total = states.new_zeros(())
        parts: dict[str, torch.Tensor] = {}
        stats: dict[str, torch.Tensor | float] = {}
        if self.decoder is not None:
            written = self.decoder(batch["inputs"], states, batch["attention_mask"], encoder)
            scored = partial(self.decoder.cross_entropy, encoder=encoder)
            loss_and_accuracy = masked_cross_entropy(written, batch["labels"], scored)
            parts["lm"], stats["lm_accuracy"] = loss_and_accuracy
            total = total + parts["lm"]
        if self.projector is not None:
            pairs = len(batch["dropped"])
            # Contents whose titles are to be written follow the pairs, and are not compared.
            states, mask = states[: 2 * pairs], batch["attention_mask"][: 2 * pairs]
            vectors = self.projector(pool(states, mask, self.pooling))
            parts["cl"], stats["cl_accuracy"] = gur_contrast(
                vectors[:pairs], vectors[pairs:], self.config.temperature, batch["dropped"]
            )
            total = total + self.config.alpha * parts["cl"]
        return LossParts(total, parts, stats)

    def export(self, encoder: SentenceEncoder) -> SentenceEncoder:
        """The encoder with the projector as its head; variant ``"no_cl"`` trained none."""
        return with_head(encoder, copy.deepcopy(self.projector), self.pooling)

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

    def _cropped(self, ids: list[int], rng: np.random.Generator) -> list[int]:
        """A random run of a text that is too long: half of it or more, as far as there is room.

        The released code crops characters; tokens waste nothing and know no script.
        """
        if len(ids) <= self.most_tokens:
            return ids
        length = min(self.most_tokens, round(len(ids) * rng.uniform(_LEAST_CROP, 1)))
        start = int(rng.integers(len(ids) - length + 1))
        return ids[start : start + length]

    def _masked(self, ids: list[int], rng: np.random.Generator) -> tuple[list[int], list[int]]:
        """Source and target; a text too short to be masked stays whole and has no target."""
        budget = span_budget(len(ids), self.config.mask_rate)
        if not budget:
            return ids, [IGNORED]
        spans = place_spans(len(ids), span_lengths(budget, self.probabilities, rng), rng)
        source, target = hide_spans(ids, spans, self.sentinels)
        return source, [*target, self.after[-1]]


def _projector(encoder: SentenceEncoder, config: GurConfig) -> nn.Sequential:
    """The encoder's own head where it has the right width (training goes on), else a new one."""
    if encoder.head is not None and encoder.dimension == config.vector_size:
        return copy.deepcopy(encoder.head)
    width = encoder.hidden_size
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, config.vector_size))
