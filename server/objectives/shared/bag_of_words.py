"""Words from a vector: the decoder that says which pieces a text has, and its losses and figures.

"A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval", the
reconstruction loss.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.precision import wide
from pocketquery.server.objectives.shared.masking import IGNORED

__all__ = ["BagDecoder", "bag_f1", "multi_hot", "rare_recall", "reconstruction_loss"]


class BagDecoder(nn.Module):
    """Vectors to one logit a piece: two linear layers with GELU and layer norm between them.

    Args:
        encoder: gives the widths and, where tied, the second layer's weight.
        tied: the second layer is the encoder's own table of pieces (few parameters, and it starts
            with what MLM taught it); otherwise a matrix of its own, as in the paper.
    """

    def __init__(self, encoder: SentenceEncoder, tied: bool = True) -> None:
        super().__init__()
        table = encoder.backbone.get_input_embeddings().weight
        self.dense = nn.Linear(encoder.hidden_size, table.shape[1])
        self.norm = nn.LayerNorm(table.shape[1])
        self.weight = None if tied else nn.Parameter(0.02 * torch.randn_like(table))
        self.bias = nn.Parameter(torch.zeros(table.shape[0]))

    def forward(self, vectors: torch.Tensor, encoder: SentenceEncoder) -> torch.Tensor:
        """Logits (n, pieces) of vectors (n, width)."""
        table = encoder.backbone.get_input_embeddings().weight
        # Another objective of the run may have added tokens since; no text holds them.
        weight = table[: len(self.bias)] if self.weight is None else self.weight
        return functional.linear(self.norm(functional.gelu(self.dense(vectors))), weight, self.bias)


def multi_hot(ids: torch.Tensor, pieces: int) -> torch.Tensor:
    """Which pieces occur in each row, bool (n, pieces).

    Args:
        ids: int64 (n, length), :data:`IGNORED` where a position does not count.
        pieces: size of the vocabulary.
    """
    present = torch.zeros(len(ids), pieces + 1, dtype=torch.bool, device=ids.device)
    present.scatter_(1, ids.where(ids != IGNORED, pieces), True)
    return present[:, :pieces]


def reconstruction_loss(
    logits: torch.Tensor,
    present: torch.Tensor,
    reduction: str = "per_positive",
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    r"""Binary cross entropy of every piece of the vocabulary.

    .. math:: -\sum_j w_j\,\big(y_j \ln \sigma(z_j) + (1 - y_j) \ln(1 - \sigma(z_j))\big)

    The printed formula has the logarithm of the same probability in both terms; then the label
    drops out and predicting every piece is best.

    Args:
        logits: z, float (n, pieces).
        present: y, bool (n, pieces).
        reduction: over the pieces of a text: ``"sum"`` as in the paper, V ln 2 at zero logits;
            ``"mean"``, ln 2 there; ``"per_positive"``, the sum over the number of pieces the text
            has, of the order of 1 to 10. The choice scales the loss by V against the others.
        weights: float (pieces,), or 1 for all.

    Returns:
        Scalar: the mean over the texts.
    """
    logits = wide(logits)
    each = functional.binary_cross_entropy_with_logits(
        logits, present.to(logits.dtype), weight=weights, reduction="none"
    )  # (n, pieces)
    if reduction == "mean":
        return each.mean()
    sums = each.sum(dim=1)  # (n,)
    if reduction == "per_positive":
        sums = sums / present.sum(dim=1).clamp(min=1)
    return sums.mean()


def bag_f1(logits: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """F1 of the pieces predicted with probability above 1/2, over all texts together; scalar."""
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
    """Share of each text's rarest pieces that are among its likeliest predictions, averaged.

    Args:
        logits: float (n, pieces).
        present: bool (n, pieces).
        counts: document frequencies, int64 (pieces,).
        rarest: pieces of a text that are looked for (all it has, where it has fewer).
        among: predictions that are looked at.

    Returns:
        Scalar in [0, 1]; texts without pieces do not count.
    """
    pieces = logits.shape[1]
    absent = torch.iinfo(counts.dtype).max
    sought = counts.expand_as(present).masked_fill(~present, absent)
    rare = sought.topk(min(rarest, pieces), dim=1, largest=False)
    top = torch.zeros_like(present)
    top.scatter_(1, logits.topk(min(among, pieces), dim=1).indices, True)
    wanted = rare.values != absent  # (n, rarest)
    found = top.gather(1, rare.indices) & wanted
    has = wanted.any(dim=1)
    shares = found.sum(dim=1) / wanted.sum(dim=1).clamp(min=1)  # (n,)
    return shares[has].sum() / has.sum().clamp(min=1)
