"""Sentinels: the tokens that stand for hidden spans, and sequences masked and filled with them.

A text whose spans are hidden becomes two sequences, as in "Exploring the Limits of Transfer
Learning with a Unified Text-to-Text Transformer" (section 3.1.4)::

    source   w0 w1 <x0> w4 w5 <x1> w8        what the encoder sees
    target   <x0> w2 w3 <x1> w6 w7 <x2>      what the decoder writes

"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pocketquery.server.modeling import SentenceEncoder

__all__ = ["fill_spans", "hide_spans", "pad_rows", "read_spans", "sentinel_ids"]

# What vocabularies keep for such use: T5's sentinels and BERT's unused rows.
_FORMS = ("<extra_id_{}>", "[unused{}]")


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
    encoder.tokenizer.add_special_tokens(
        {"additional_special_tokens": list(names)}, replace_additional_special_tokens=False
    )
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
    ids: Sequence[int], spans: NDArray[np.int64], sentinels: Sequence[int]
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


def fill_spans(
    source: Sequence[int], spans: Sequence[Sequence[int]], sentinels: Sequence[int]
) -> list[int]:
    """The source with each sentinel replaced by its span; one without a span is left out."""
    number = {sentinel: index for index, sentinel in enumerate(sentinels)}
    filled: list[int] = []
    for token in source:
        if token not in number:
            filled.append(token)
        elif number[token] < len(spans):
            filled += spans[number[token]]
    return filled


def pad_rows(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """Rows of unequal length as int64 (rows, longest), padded on the right."""
    tensors = [torch.tensor(list(row), dtype=torch.int64) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=float(value))
