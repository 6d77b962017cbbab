"""Word vectors by skip-gram with negative sampling: the baseline below every encoder.

"Distributed Representations of Words and Phrases and their Compositionality", sections 2.2 and 2.3.
"""

from __future__ import annotations

import io
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pocketquery.client.views.text_units import cut
from pocketquery.sdk.arrays import Floats, Integers
from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError, InvalidInputError
from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.progress import progress
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole

__all__ = ["Word2VecConfig", "WordVectors", "skip_gram_loss", "train_word2vec", "words_of"]

_CHUNK = 50_000  # tokens whose pairs are made, and shuffled, at once

_EDGES = string.punctuation + "¿¡…“”‘’«»–—·、。，？！：；（）「」『』،؟।"


@dataclass(frozen=True)
class WordVectors:
    """A vector a word.

    Attributes:
        words: n words as :func:`words_of` cuts them.
        vectors: float32 (n, dim).
    """

    words: tuple[str, ...]
    vectors: Floats

    def rows(self, text: str) -> list[int]:
        """Rows of the words of ``text`` that are known, in their order."""
        return [self._place[word] for word in words_of(text) if word in self._place]

    def averages(self, texts: Sequence[str]) -> tuple[Floats, int]:
        """Mean vectors of texts, float32 (texts, dim), and how many had no known word.

        Those have the vector 0, whose cosine to everything is 0.
        """
        found = np.zeros((len(texts), self.vectors.shape[1]), dtype=np.float32)
        unknown = 0
        for place, text in enumerate(texts):
            rows = self.rows(text)
            unknown += not rows
            if rows:
                found[place] = self.vectors[rows].mean(axis=0)
        return found, unknown

    def save(self, path: Path | str) -> None:
        """Write one ``.npz`` file, whole or not at all."""
        buffer = io.BytesIO()
        letters = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        np.savez(buffer, words=letters, vectors=self.vectors)
        write_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> WordVectors:
        """Read what :meth:`save` wrote.

        Raises:
            ArtifactNotFoundError: there is no such file.
            CorruptArtifactError: it is not such a file.
        """
        if not Path(path).is_file():
            raise ArtifactNotFoundError(f"{path}: there is no such file; expected word vectors")
        try:
            with np.load(path, allow_pickle=False) as saved:
                words = tuple(saved["words"].tobytes().decode().split("\n"))
                vectors = saved["vectors"]
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise CorruptArtifactError(
                f"{path} holds no word vectors ({type(error).__name__}); train or copy them again"
            ) from error
        if vectors.ndim != 2 or len(words) != len(vectors):
            raise CorruptArtifactError(
                f"{path} has {len(words)} words and vectors of the shape {vectors.shape}; "
                "expected a vector a word"
            )
        return cls(words, vectors)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}


def words_of(text: str) -> list[str]:
    """Lower-case words without the punctuation around them; characters, in scripts without spaces.

    >>> words_of("How's the weather, today?")
    ["how's", 'the', 'weather', 'today']
    """
    stripped = (unit.strip(_EDGES) for unit in cut(text.lower()).texts)
    return [word for word in stripped if word]


@dataclass(frozen=True)
class Word2VecConfig(Settings):
    """Settings of :func:`train_word2vec`."""

    dimension: Annotated[int, whole(), "of the vectors"] = 200
    window: Annotated[
        int,
        whole(),
        "words on either side of a word that it may be paired with; how many it is is drawn "
        "anew for each word, as in the authors' code, so near words count more",
    ] = 5
    negatives: Annotated[int, whole(), "words drawn against each pair"] = 5
    subsampling: Annotated[
        float,
        number(above=0),
        "t; a word of the frequency f is left out with probability 1 - sqrt(t / f)",
    ] = 1e-4
    min_count: Annotated[int, whole(), "rarer words are unknown"] = 3
    epochs: Annotated[int, whole(), "passes over the texts"] = 5
    batch_size: Annotated[int, whole(), "pairs a step"] = 2048
    learning_rate: Annotated[
        float,
        number(above=0),
        "of Adam, falling linearly to 0. (The authors' code takes one pair at a time with plain "
        "gradient steps; batches need a step that does not depend on how often a word occurs in "
        "them.)",
    ] = 2e-3
    seed: Annotated[int, "of everything drawn"] = 0


def skip_gram_loss(
    words: torch.Tensor, contexts: torch.Tensor, negatives: torch.Tensor, same: torch.Tensor
) -> torch.Tensor:
    r"""Tell a word's neighbour from words drawn at random.

    .. math:: -\mathrm{mean}_i \Big[\log \sigma(u_i \cdot v_i)
        + \sum_k \log \sigma(-\bar u_{ik} \cdot v_i)\Big]

    ("Distributed Representations of Words and Phrases", equation 4.)

    Args:
        words: v, float (pairs, dim).
        contexts: u of the neighbour, float (pairs, dim).
        negatives: u of the words drawn, float (pairs, k, dim).
        same: bool (pairs, k): the drawn word is the neighbour, and does not count.

    Returns:
        Scalar, 0 or more; (1 + k) ln 2 where all vectors are 0.
    """
    near = functional.softplus(-(words * contexts).sum(dim=-1))  # (pairs,)
    far = functional.softplus((negatives @ words.unsqueeze(-1)).squeeze(-1))  # (pairs, k)
    return (near + far.masked_fill(same, 0).sum(dim=-1)).mean()


def train_word2vec(
    texts: Sequence[str], config: Word2VecConfig | None = None, *, show_progress_bar: bool = False
) -> WordVectors:
    """Train word vectors on texts, each a window's limit.

    Args:
        texts: queries or sentences.
        config: settings; equal ones on equal texts give equal vectors.
        show_progress_bar: one step an epoch.

    Raises:
        InvalidInputError: no word occurs ``min_count`` times.
    """
    config = config or Word2VecConfig()
    corpus = [words_of(text) for text in texts]
    words, counts = _vocabulary(corpus, config.min_count)
    rows = {word: row for row, word in enumerate(words)}
    sentences = [[rows[word] for word in sentence if word in rows] for sentence in corpus]
    generator = torch.Generator().manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    # Vectors of words, small and random, and of words as neighbours, 0.
    inner = nn.Embedding(len(words), config.dimension, sparse=True)
    outer = nn.Embedding(len(words), config.dimension, sparse=True)
    nn.init.zeros_(outer.weight)
    bound = 0.5 / config.dimension
    with torch.no_grad():
        inner.weight.uniform_(-bound, bound, generator=generator)
    tables = [inner.weight, outer.weight]
    optimizer: torch.optim.Optimizer = torch.optim.SparseAdam(tables, lr=config.learning_rate)
    drawn = torch.from_numpy(counts**0.75)
    for epoch in progress(range(config.epochs), "word2vec", "epoch", show=show_progress_bar):
        for share, pairs in _batches(sentences, counts, config, rng):
            for group in optimizer.param_groups:
                passed = (epoch + share) / config.epochs
                group["lr"] = config.learning_rate * max(1 - passed, 1e-3)
            word, context = torch.from_numpy(pairs).unbind(dim=1)
            count = len(pairs) * config.negatives
            far = torch.multinomial(drawn, count, True, generator=generator)
            far = far.view(len(pairs), config.negatives)
            same = far == context.unsqueeze(1)
            loss = skip_gram_loss(inner(word), outer(context), outer(far), same)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return WordVectors(words, inner.weight.detach().numpy().copy())


def _vocabulary(
    corpus: Sequence[Sequence[str]], least: int
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Words that occur often enough, the most frequent first, and how often."""
    found = Counter(word for sentence in corpus for word in sentence)
    kept = sorted((-count, word) for word, count in found.items() if count >= least)
    if not kept:
        raise InvalidInputError(
            f"no word of the {len(corpus)} texts occurs {least} times; expected more text, or a "
            "lower min_count"
        )
    return tuple(word for _, word in kept), np.array([-count for count, _ in kept], np.float64)


def _batches(
    sentences: Sequence[Sequence[int]],
    counts: NDArray[np.float64],
    config: Word2VecConfig,
    rng: np.random.Generator,
) -> Iterator[tuple[float, Integers]]:
    """Share of the epoch that is done, and pairs of word and neighbour, int64 (batch, 2)."""
    kept = np.minimum(np.sqrt(config.subsampling * counts.sum() / counts), 1.0)
    order, start = rng.permutation(len(sentences)), 0
    while start < len(order):
        tokens, stop = 0, start
        while stop < len(order) and tokens < _CHUNK:
            tokens += len(sentences[order[stop]])
            stop += 1
        pairs = _pairs([sentences[row] for row in order[start:stop]], kept, config.window, rng)
        for place in range(0, len(pairs), config.batch_size):
            yield start / len(order), pairs[place : place + config.batch_size]
        start = stop


def _pairs(
    sentences: Sequence[Sequence[int]],
    kept: NDArray[np.float64],
    window: int,
    rng: np.random.Generator,
) -> Integers:
    """All pairs (word, neighbour) of sub-sampled sentences, shuffled, int64 (pairs, 2)."""
    flat = np.array([word for sentence in sentences for word in sentence], dtype=np.int64)
    owner = np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences])
    stays = rng.random(len(flat)) < kept[flat]
    flat, owner = flat[stays], owner[stays]
    reach = rng.integers(1, window + 1, size=len(flat))
    found = []
    for distance in range(1, window + 1):
        together = owner[distance:] == owner[:-distance]
        left, right = flat[:-distance], flat[distance:]
        forward = together & (reach[:-distance] >= distance)
        backward = together & (reach[distance:] >= distance)
        found.append(np.stack([left[forward], right[forward]], axis=1))
        found.append(np.stack([right[backward], left[backward]], axis=1))
    return rng.permutation(np.concatenate(found))
