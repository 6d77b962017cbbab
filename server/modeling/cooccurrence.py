"""Start a new encoder's token table from co-occurrence statistics instead of noise.

Masked language modelling from random tables first learns how frequent every token is, then for
thousands of steps which tokens occur together, and only then to read. Both can be counted: the
head's bias is set to the log frequencies, the table to a factorisation of what co-occurs. With it a
4x128 encoder was after 750 steps where it came to in 6,000 without (research/LOG.md).

"Neural Word Embedding as Implicit Matrix Factorization" (Levy & Goldberg, 2014), section 3, with
the smoothed contexts and the square root of the singular values of "Improving Distributional
Similarity with Lessons Learned from Word Embeddings" (Levy, Goldberg & Dagan, 2015), sections 3.2
and 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, MissingExtraError
from pocketquery.sdk.files import make_folder, write_atomic
from pocketquery.server.modeling.mlm_head import set_biases
from pocketquery.server.modeling.sentence_encoder import SentenceEncoder

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Cooccurrence", "begin_with_cooccurrence"]

_BATCH_TEXTS = 6000  # tokenized at a time
_SMOOTHING = 0.75  # exponent of a context's frequency
_OVERSAMPLED, _POWER_STEPS = 32, 4  # of the randomised factorisation
_NORM = 1.0  # of a row in the mean; drawn rows of a 4x128 encoder have .23


class Cooccurrence:
    """How often tokens occur, and how often within some places of one another in a text.

    Args:
        vocabulary: how many ids there are.
        window: places to either side that count.
    """

    def __init__(self, vocabulary: int, window: int = 5) -> None:
        self.counts: NDArray[np.int64] = np.zeros(vocabulary, dtype=np.int64)  # of each id
        self._window = window
        self._pairs: csr_matrix = _sparse().csr_matrix((vocabulary, vocabulary), dtype=np.int32)

    def add(self, texts: Sequence[Sequence[int]]) -> None:
        """Count the ids of ``texts``, specials left out."""
        apart = [-1] * self._window
        ids = np.array([one for text in texts for one in (*text, *apart)], dtype=np.int64)
        self.counts += np.bincount(ids[ids >= 0], minlength=len(self.counts))
        firsts, seconds = [], []
        for distance in range(1, self._window + 1):
            first, second = ids[:-distance], ids[distance:]
            both = (first >= 0) & (second >= 0)
            firsts.append(first[both])
            seconds.append(second[both])
        places = np.concatenate(firsts), np.concatenate(seconds)
        ones = np.ones(len(places[0]), dtype=np.int32)
        self._pairs = self._pairs + _sparse().csr_matrix((ones, places), shape=self._pairs.shape)

    def vectors(self, width: int, seed: int = 0) -> Floats:
        r"""The tokens' vectors, float32 (vocabulary, width); zeros for tokens without company.

        The positive part of :math:`\log \frac{p(a, b)}{p(a)\, p_{3/4}(b)}` is factorised into
        :math:`U \Sigma V^\top` (randomised, Halko et al. 2011); vectors are rows of
        :math:`U \Sigma^{1/2}`, their norms 1 in the mean.
        """
        pairs = (self._pairs + self._pairs.T).tocoo()
        if not pairs.nnz:
            return np.zeros((len(self.counts), width), dtype=np.float32)
        each = np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel()
        smoothed = each**_SMOOTHING / (each**_SMOOTHING).sum()
        information = np.log(pairs.data / (each[pairs.row] * smoothed[pairs.col]))
        positive = information > 0
        places = (pairs.row[positive], pairs.col[positive])
        values = information[positive].astype(np.float32)
        matrix = _sparse().csr_matrix((values, places), shape=pairs.shape)
        rows = _factorised(matrix, min(width, len(self.counts)), seed)
        rows[np.diff(matrix.indptr) == 0] = 0  # and not what rounding left
        norms = np.linalg.norm(rows, axis=1)
        rows *= _NORM / max(float(norms[norms > 0].mean()), 1e-9)
        return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


def _factorised(matrix: csr_matrix, width: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    columns = min(width + _OVERSAMPLED, matrix.shape[0])
    basis = rng.standard_normal((matrix.shape[0], columns)).astype(np.float32)
    for _ in range(_POWER_STEPS):
        basis, _ = np.linalg.qr(matrix @ basis)
        basis, _ = np.linalg.qr(matrix.T @ basis)
    basis, _ = np.linalg.qr(matrix @ basis)
    rotation, values, _ = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    factors: Floats = (basis @ rotation)[:, :width] * np.sqrt(values[:width])
    return factors.astype(np.float32)


def begin_with_cooccurrence(
    encoder: SentenceEncoder,
    heads: Iterable[nn.Module],
    texts: Iterable[str],
    *,
    window: int = 5,
    seed: int = 0,
    cache: Path | None = None,
) -> int:
    """Give a new encoder a token table of what co-occurs in ``texts``, and MLM heads its biases.

    Tokens that do not occur, specials among them, keep the rows they were drawn with. Eleven
    million tokens take 45 s of a core.

    Args:
        encoder: its token table is changed in place.
        heads: objectives; MLM heads among them get the log frequencies of the tokens.
        texts: to count in.
        window: places to either side that count.
        seed: of the factorisation.
        cache: a file of vectors and counts, read where it exists and else written, so that a
            resumed run begins with the same bits on another machine.

    Returns:
        How many tokens were counted.

    Raises:
        CorruptArtifactError: the file is damaged, or of another vocabulary or width.
        InvalidInputError: no text has two tokens.
        MissingExtraError: scipy is not installed.
    """
    table = encoder.backbone.get_input_embeddings().weight
    if cache is not None and cache.is_file():
        statistics = _read(cache, len(encoder.tokenizer), table.shape[1])
    else:
        statistics = _counted(encoder.tokenizer, texts, window, table.shape[1], seed)
        if cache is not None:
            make_folder(cache.parent)
            write_atomic(cache, save(statistics), mode=0o600)
    vectors, counts = statistics["vectors"].to(table), statistics["counts"].double()
    seen = vectors.any(dim=1)
    with torch.no_grad():
        table[: len(vectors)][seen] = vectors[seen]
    set_biases(heads, ((counts + 0.5) / (counts + 0.5).sum()).log())
    return int(counts.sum())


def _counted(
    tokenizer: Any, texts: Iterable[str], window: int, width: int, seed: int
) -> dict[str, torch.Tensor]:
    cooccurrence = Cooccurrence(len(tokenizer), window)
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    rest = iter(texts)
    while some := list(islice(rest, _BATCH_TEXTS)):
        cooccurrence.add(tokenizer(some, **options)["input_ids"])
    vectors = cooccurrence.vectors(width, seed)
    if not vectors.any():
        raise InvalidInputError(
            "no text to begin with has two tokens of the vocabulary; expected texts of words"
        )
    return {"vectors": torch.from_numpy(vectors), "counts": torch.from_numpy(cooccurrence.counts)}


def _read(path: Path, vocabulary: int, width: int) -> dict[str, torch.Tensor]:
    try:
        statistics: dict[str, torch.Tensor] = load_file(path)
        shapes = statistics["vectors"].shape, statistics["counts"].shape
    except (SafetensorError, KeyError, OSError) as error:
        raise CorruptArtifactError(
            f"{path} is damaged ({error}); delete it to count anew"
        ) from error
    if shapes != ((vocabulary, width), (vocabulary,)):
        raise CorruptArtifactError(
            f"{path} holds vectors of {tuple(shapes[0])}, expected {(vocabulary, width)}: it is of "
            "another vocabulary or width; delete it to count anew"
        )
    return statistics


def _sparse() -> Any:
    try:
        import scipy.sparse
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("scipy", "server") from error
    return scipy.sparse
