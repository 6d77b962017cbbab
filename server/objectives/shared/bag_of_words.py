"""Words from a vector: which tokens a text has; decoder, losses, figures, document frequencies.

"A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval", the
reconstruction loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus.groups import Source
from pocketquery.server.modeling.mlm_head import TiedHead
from pocketquery.server.modeling.precision import at_least_float32
from pocketquery.server.objectives.shared.masking import IGNORED

__all__ = [
    "BagDecoder",
    "bag_f1",
    "document_frequency",
    "idf_weights",
    "log_odds",
    "multi_hot",
    "rare_recall",
    "reconstruction_loss",
    "spread_texts",
]

_BATCH_TEXTS = 1024  # texts


class BagDecoder(TiedHead):
    """Vectors to one logit a token: two linear layers with GELU and layer norm between them.

    The second layer is the encoder's own table of tokens (few parameters, and it starts with what
    MLM taught it); in the paper it is a matrix of its own.
    """


def multi_hot(ids: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Which tokens occur in each row, bool (n, vocabulary).

    Args:
        ids: int64 (n, length), :data:`IGNORED` where a position does not count.
        vocabulary: size of the vocabulary.
    """
    present = torch.zeros(len(ids), vocabulary + 1, dtype=torch.bool, device=ids.device)
    present.scatter_(1, ids.where(ids != IGNORED, vocabulary), True)
    return present[:, :vocabulary]


def reconstruction_loss(
    logits: torch.Tensor,
    present: torch.Tensor,
    reduction: str = "per_positive",
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    r"""Binary cross entropy of every token of the vocabulary.

    .. math:: -\sum_j w_j\,\big(y_j \ln \sigma(z_j) + (1 - y_j) \ln(1 - \sigma(z_j))\big)

    The printed formula has the logarithm of the same probability in both terms; then the label
    drops out and predicting every token is best.

    Args:
        logits: z, float (n, vocabulary).
        present: y, bool (n, vocabulary).
        reduction: over the vocabulary: ``"sum"`` as in the paper, V ln 2 at zero logits;
            ``"mean"``, ln 2 there; ``"per_positive"``, the sum over the number of tokens the text
            has, of the order of 1 to 10. The choice scales the loss by V against the others.
        weights: float (vocabulary,), or 1 for all.

    Returns:
        Scalar: the mean over the texts.
    """
    logits = at_least_float32(logits)
    each = functional.binary_cross_entropy_with_logits(
        logits, present.to(logits.dtype), weight=weights, reduction="none"
    )  # (n, vocabulary)
    if reduction == "mean":
        return each.mean()
    sums = each.sum(dim=1)  # (n,)
    if reduction == "per_positive":
        sums = sums / present.sum(dim=1).clamp(min=1)
    return sums.mean()


def bag_f1(logits: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """F1 of the tokens predicted with probability above 1/2, over all texts together; scalar."""
    predicted = logits > 0
    right = (predicted & present).sum()
    return 2 * right / (predicted.sum() + present.sum()).clamp(min=1)


def rare_recall(
    logits: torch.Tensor,
    present: torch.Tensor,
    counts: torch.Tensor,
    rarest: int = 5,
    among: int = 50,
) -> torch.Tensor:
    """Share of each text's rarest tokens that are among its likeliest predictions, averaged.

    Args:
        logits: float (n, vocabulary).
        present: bool (n, vocabulary).
        counts: document frequencies, int64 (vocabulary,).
        rarest: tokens of a text that are looked for (all it has, where it has fewer).
        among: predictions that are compared.

    Returns:
        Scalar in [0, 1]; texts without tokens do not count.
    """
    vocabulary = logits.shape[1]
    absent = torch.iinfo(counts.dtype).max
    sought = counts.expand_as(present).masked_fill(~present, absent)
    rare = sought.topk(min(rarest, vocabulary), dim=1, largest=False)
    top = torch.zeros_like(present)
    top.scatter_(1, logits.topk(min(among, vocabulary), dim=1).indices, True)
    is_present = rare.values != absent  # (n, rarest)
    recalled = top.gather(1, rare.indices) & is_present
    has = is_present.any(dim=1)
    shares = recalled.sum(dim=1) / is_present.sum(dim=1).clamp(min=1)  # (n,)
    return shares[has].sum() / has.sum().clamp(min=1)


def document_frequency(
    source: Source, tokenizer: Any, vocabulary: int, *, max_length: int, most: int
) -> tuple[torch.Tensor, int]:
    """In how many texts each token occurs; a text is a group of the source, joined and truncated.

    Args:
        source: the corpus, as the objective will draw from it.
        tokenizer: its special tokens are not counted.
        vocabulary: rows of the encoder's table, at least the tokenizer's.
        max_length: tokens of a text, specials included.
        most: texts that are counted, evenly spread over a larger corpus.

    Returns:
        int64 (vocabulary,) and the number of texts counted.

    Raises:
        CorpusError: the source is empty.
    """
    counts = np.zeros(vocabulary, dtype=np.int64)
    looked_at = 0
    for texts in spread_texts(source, most):
        looked_at += len(texts)
        encoded = tokenizer(
            texts,
            truncation=True,
            max_length=max_length,
            return_token_type_ids=False,
            return_attention_mask=False,
        )
        for ids in encoded["input_ids"]:
            counts[np.unique(ids)] += 1
    counts[sorted(set(tokenizer.all_special_ids))] = 0
    return torch.from_numpy(counts), looked_at


def log_odds(
    counts: torch.Tensor, texts: int, least: float = -9.0, most: float = 2.0
) -> torch.Tensor:
    """Logits whose sigmoid is each token's document frequency, clamped; float32 (vocabulary,)."""
    return torch.logit(counts.double() / texts).clamp(least, most).float()


def idf_weights(counts: torch.Tensor, texts: int) -> torch.Tensor:
    r"""Inverse document frequencies, :math:`\ln\frac{N+1}{df+1} + 1`, rescaled to a mean of 1.

    Args:
        counts: df, int64 (vocabulary,).
        texts: N.

    Returns:
        float32 (vocabulary,).
    """
    idf = torch.log((texts + 1) / (counts.double() + 1)) + 1
    return (idf / idf.mean()).float()


def spread_texts(source: Source, most: int) -> Iterator[list[str]]:
    """Joined groups, in lists of at most 1,024: ``most`` of them, evenly spread over the source.

    Raises:
        CorpusError: the source is empty.
    """
    if not len(source):
        raise CorpusError("the corpus has no groups; expected texts to count words in")
    rows = np.unique(np.linspace(0, len(source) - 1, min(most, len(source))).round().astype(int))
    for start in range(0, len(rows), _BATCH_TEXTS):
        yield [" ".join(source[row].texts) for row in rows[start : start + _BATCH_TEXTS].tolist()]
