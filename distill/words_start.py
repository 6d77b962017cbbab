"""A student's start that needs texts and their vectors, and no other encoder.

Product codes are fixed while a student learns, so a table must mean something before it is cut into
them: under codes of random rows nothing is learnt. This one is fitted first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pocketquery.distill.student import StudentShape
from pocketquery.sdk.arrays import Floats
from pocketquery.server.modeling import new_encoder
from pocketquery.server.modeling.presets import Shape

__all__ = ["fit_words", "unfitted_words"]

_MOST = 64  # tokens of a text
_ROUNDS = 10  # of conjugate gradients
_RIDGE = 2.0  # texts' worth of zeros that a token's row is pulled to


def unfitted_words(shape: StudentShape, tokenizer: Any, *, max_length: int, seed: int) -> Any:
    """An encoder of ``shape`` with random weights over the vocabulary of ``tokenizer``."""
    inner = shape.intermediate or 4 * shape.width
    drawn = Shape(shape.layers, shape.width, shape.width // 32, inner)
    return new_encoder(drawn, tokenizer, max_length=max_length, seed=seed)


def fit_words(encoder: Any, texts: Sequence[str], vectors: Floats, *, seed: int = 0) -> None:
    """Layers that change nothing yet, over words whose mean is already near the teacher's vectors,
    in place.

    The rows of the table are the ridge regression from a text's share of each token to its vector,
    or to the vector's part in as many dimensions as the table has, those in which vectors differ
    most. All of them get one constant vector of their own mean length added. Without it the
    normalisation behind the table would make a row of little meaning, such as a comma's, as long as
    a rare word's; with it, that row is mostly the constant, which the head behind all layers takes
    away. The output projections of attention and feed-forward part begin at zero.

    Args:
        encoder: as :func:`unfitted_words` gives it.
        texts: training texts.
        vectors: float32 (texts, dimension), the teacher's, of unit length.
        seed: of the constant.
    """
    backbone, tokenizer = encoder.backbone, encoder.tokenizer
    table = backbone.get_input_embeddings().weight
    ids = tokenizer(list(texts))["input_ids"]
    fitted = _regression(ids, _of_width(torch.from_numpy(vectors), table.shape[1]), len(table))
    constant = torch.randn(table.shape[1], generator=torch.Generator().manual_seed(seed)).sign()
    length = fitted.norm(dim=1)
    rows = fitted + constant * length[length > 0].mean() / constant.norm()
    with torch.no_grad():
        table.copy_(rows / rows.std())
        backbone.embeddings.position_embeddings.weight.zero_()
        backbone.embeddings.token_type_embeddings.weight.zero_()
        for layer in backbone.encoder.layer:
            for part in (layer.attention.output.dense, layer.output.dense):
                part.weight.zero_()
                part.bias.zero_()


def _of_width(vectors: torch.Tensor, width: int) -> torch.Tensor:
    """The vectors' part in the ``width`` dimensions of most variance; zeros behind fewer."""
    if vectors.shape[1] <= width:
        return torch.nn.functional.pad(vectors, (0, width - vectors.shape[1]))
    centred = vectors - vectors.mean(dim=0)
    _, directions = torch.linalg.eigh(centred.T @ centred)  # of rising variance
    projected: torch.Tensor = vectors @ directions[:, -width:]
    return projected


def _regression(ids: Sequence[Sequence[int]], targets: torch.Tensor, count: int) -> torch.Tensor:
    """A row a token, float32 (count, width), by conjugate gradients; of unknown tokens zero."""
    cut = [one[:_MOST] for one in ids]
    lengths = torch.tensor([len(one) for one in cut])
    places = torch.stack(
        [
            torch.repeat_interleave(lengths),
            torch.tensor([token for one in cut for token in one]),
        ]
    )
    weights = (1 / lengths)[places[0]]
    shares = torch.sparse_coo_tensor(
        places, weights, (len(cut), count), check_invariants=True
    ).coalesce()
    turned = shares.t().coalesce()
    ridge = _RIDGE * (1 / lengths).square().mean()
    scale = 1 / (torch.sparse.sum(turned * turned, 1).to_dense() + ridge)[:, None]
    rows = torch.zeros(count, targets.shape[1])
    residual = turned @ (targets - targets.mean(dim=0))
    direction = scale * residual
    before = (residual * direction).sum(dim=0)
    for _ in range(_ROUNDS):
        product = turned @ (shares @ direction) + ridge * direction
        step = before / (direction * product).sum(dim=0).clamp_min(1e-20)
        rows += step * direction
        residual -= step * product
        after = (residual * scale * residual).sum(dim=0)
        direction = scale * residual + after / before.clamp_min(1e-20) * direction
        before = after
    return rows
