"""Word vectors on their own: a text is the mean of its words' vectors."""

from __future__ import annotations

import io
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.views.text_units import cut
from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError
from pocketquery.sdk.files import write_atomic

__all__ = ["WordVectors", "words_of"]

_EDGES = string.punctuation + "¿¡…“”‘’«»–—·、。，？！：；（）「」『』،؟।"

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class WordVectors:
    """A vector a word.

    Attributes:
        words: n words as :func:`words_of` cuts them.
        vectors: float32 (n, dim).
    """

    words: tuple[str, ...]
    vectors: FloatArray

    def rows(self, text: str) -> list[int]:
        """Rows of the words of ``text`` that are known, in their order."""
        return [self._place[word] for word in words_of(text) if word in self._place]

    def averages(self, texts: Sequence[str]) -> tuple[FloatArray, int]:
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
