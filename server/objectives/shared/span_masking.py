"""Span masking: which runs of tokens are hidden, and what replaces them.

"Generate to Understand for Representation", span masking. A text whose spans are hidden becomes two
sequences, as in "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer"
(section 3.1.4); sentinels, which occur in no text, stand for the spans::

    source   w0 w1 <x0> w4 w5 <x1> w8        what the encoder sees
    target   <x0> w2 w3 <x1> w6 w7 <x2>      what the decoder writes

"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from pocketquery.sdk.arrays import Doubles, Integers
from pocketquery.server.modeling import SentenceEncoder

__all__ = [
    "hide_spans",
    "length_probabilities",
    "pad_rows",
    "place_spans",
    "read_spans",
    "sentinel_ids",
    "span_budget",
    "span_lengths",
]


_LONGEST = 10
_LEAST_TOKENS = 4  # shorter sequences are not masked
# What vocabularies keep for such use: T5's sentinels and BERT's unused rows.
_FORMS = ("<extra_id_{}>", "[unused{}]")


def length_probabilities() -> Doubles:
    r"""P(k) for spans of k = 1..10 tokens, float64 (10,), sum 1.

    .. math:: P(k) \propto 0.66^{|k - 3|}

    The geometric lengths of "SpanBERT: Improving Pre-training by Representing and Predicting Spans"
    (section 3.1), :math:`0.8^k`, hide single tokens most often; these have the same mean and half
    the share of ones. They are truncated and renormalised ("clipped" in the paper; piling the tail
    onto 10 would raise the mean).
    """
    weights: Doubles = 0.66 ** np.abs(np.arange(1.0, _LONGEST + 1) - 3)
    share: Doubles = weights / weights.sum()
    return share


def span_budget(tokens: int, rate: float) -> int:
    """Tokens to hide of a sequence: ``max(1, round(rate * tokens))``, none of fewer than four."""
    return max(1, round(rate * tokens)) if tokens >= _LEAST_TOKENS else 0


def span_lengths(budget: int, probabilities: Doubles, rng: np.random.Generator) -> Integers:
    """Lengths drawn until they add up to ``budget``, the last one truncated; in random order.

    Args:
        budget: tokens to hide.
        probabilities: of the lengths 1, 2, ...
        rng: the source of randomness.

    Returns:
        int64 (spans,), empty for a budget of 0.
    """
    # One draw for all: no span is shorter than 1, so the budget bounds their number.
    drawn = 1 + rng.choice(len(probabilities), size=budget, p=probabilities)
    reached = np.minimum(np.cumsum(drawn), budget)
    lengths = np.diff(reached, prepend=0)
    # Shuffled: the truncated one would otherwise always be the last of the text.
    return np.asarray(rng.permutation(lengths[lengths > 0]), dtype=np.int64)


def place_spans(tokens: int, lengths: Integers, rng: np.random.Generator) -> Integers:
    """Where spans of the given lengths start; every layout without contact is equally likely.

    Between two spans at least one token stays visible, or their sentinels would stand for one
    span. So the spans take distinct slots before, between and after the visible tokens: a random
    subset of the slots is a random layout.

    Args:
        tokens: of the sequence.
        lengths: int64 (spans,), in their order in the text.
        rng: the source of randomness.

    Returns:
        int64 (merged spans, 2): first token and length of each span. Where there are too few
        visible tokens to keep all spans apart, the shortest neighbours are merged.
    """
    visible = tokens - int(lengths.sum())
    lengths = _merged(lengths, visible + 1)
    slots = np.sort(rng.choice(visible + 1, size=len(lengths), replace=False))
    starts = slots + np.cumsum(lengths) - lengths
    return np.stack([starts, lengths], axis=1).astype(np.int64)


def _merged(lengths: Integers, most: int) -> Integers:
    while len(lengths) > most:
        at = int(np.argmin(lengths[:-1] + lengths[1:]))
        lengths = np.delete(lengths, at + 1) + np.where(
            np.arange(len(lengths) - 1) == at, lengths[at + 1], 0
        )
    return lengths


def sentinel_ids(encoder: SentenceEncoder, count: int) -> tuple[int, ...]:
    """Ids of ``count`` tokens that occur in no text, in a fixed order.

    Taken are T5's ``<extra_id_N>`` or BERT's ``[unusedN]`` where the vocabulary has enough of
    them. Otherwise ``<extra_id_0>`` to ``<extra_id_(count - 1)>`` are added to the tokenizer **and
    the encoder's table grows by their rows**, which train and ship with it; texts are tokenised
    as before. Objectives that were built before keep to the rows they knew.

    Args:
        encoder: whose tokenizer and table may grow.
        count: how many.
    """
    vocabulary = encoder.tokenizer.get_vocab()
    for form in _FORMS:
        names = [form.format(number) for number in range(count)]
        if all(name in vocabulary for name in names):
            return tuple(int(vocabulary[name]) for name in names)
    names = [_FORMS[0].format(number) for number in range(count)]
    _add_tokens(encoder, names)
    return tuple(int(number) for number in encoder.tokenizer.convert_tokens_to_ids(names))


def _add_tokens(encoder: SentenceEncoder, names: Sequence[str]) -> None:
    tokenizer = encoder.tokenizer
    usual = tokenizer.special_tokens_map.values()
    others = [token for token in tokenizer.all_special_tokens if token not in usual]
    tokenizer.add_special_tokens({"additional_special_tokens": [*others, *names]})
    rows = encoder.backbone.get_input_embeddings().num_embeddings
    if len(encoder.tokenizer) <= rows:  # a padded table may have room
        return
    encoder.backbone.resize_token_embeddings(len(encoder.tokenizer), mean_resizing=False)
    table = encoder.backbone.get_input_embeddings().weight
    # Drawn like a new model's rows, and always the same: a run that resumes starts from here too.
    spread = float(getattr(encoder.backbone.config, "initializer_range", 0.02))
    drawn = torch.randn(
        len(table) - rows, table.shape[1], generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        table[rows:] = spread * drawn.to(table)


def hide_spans(
    ids: Sequence[int], spans: Integers, sentinels: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The source and the target of a sequence whose spans are hidden.

    Args:
        ids: the tokens.
        spans: int64 (spans, 2): first token and length, ascending and apart from each other.
        sentinels: more than there are spans.
    """
    source: list[int] = []
    target: list[int] = []
    end = 0
    for sentinel, (start, length) in zip(sentinels, spans.tolist(), strict=False):
        source += [*ids[end:start], sentinel]
        end = start + length
        target += [sentinel, *ids[start:end]]
    return [*source, *ids[end:]], [*target, sentinels[len(spans)]]


def read_spans(target: Sequence[int], sentinels: Sequence[int]) -> list[list[int]]:
    """The spans that a target writes, by the number of their sentinel; the last one closes.

    What stands before the first sentinel belongs to no span. A sentinel that comes back continues
    its span: nothing that was generated is lost, whatever its form.
    """
    number = {sentinel: index for index, sentinel in enumerate(sentinels)}
    spans: list[list[int]] = [
        [] for _ in range(1 + max((number.get(t, -1) for t in target), default=-1))
    ]
    current = -1
    for token in target:
        if token in number:
            current = number[token]
        elif current >= 0:
            spans[current].append(token)
    return spans


def pad_rows(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """Rows of unequal length as int64 (rows, longest), padded on the right."""
    tensors = [torch.tensor(list(row), dtype=torch.int64) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=float(value))
