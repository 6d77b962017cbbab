"""How many tokens a group has, estimated from its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.server.corpus.groups import Source

__all__ = ["token_costs"]

_SAMPLE = 64  # groups a language


def token_costs(source: Source, tokenizer: Any, most: int = 0) -> NDArray[np.int64]:
    """Tokens of every group, int64 (groups,), estimated.

    Bytes a token differ from script to script, so the ratio is taken from groups of each language,
    evenly spaced: tokenizing a whole corpus only to order it would take longer than it saves.

    Args:
        source: the groups.
        tokenizer: a Hugging Face one.
        most: tokens an objective cuts to; 0 for no limit.
    """
    sizes, codes = source.lengths(), source.language_codes()
    costs = np.zeros(len(source), dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        sample = rows[np.linspace(0, len(rows) - 1, min(_SAMPLE, len(rows))).astype(np.int64)]
        texts = [" ".join(source[int(row)].texts) for row in sample]
        tokens = sum(map(len, tokenizer(texts, verbose=False)["input_ids"]))
        costs[rows] = np.ceil(sizes[rows] * tokens / max(int(sizes[sample].sum()), 1))
    costs = np.maximum(costs, 1)
    return np.minimum(costs, most) if most else costs
