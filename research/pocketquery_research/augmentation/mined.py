"""Another query of the corpus, near in meaning, in a query's place."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.validation import check_fields, number, whole
from pocketquery.server.corpus.readers.reading import open_source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.augmentation.local_models import (
    load_teacher,
    missing_teacher,
    teacher_folders,
)
from pocketquery_research.augmentation.model_augmenter import ModelAugmenter

__all__ = ["Mined"]


@dataclass(frozen=True, kw_only=True)
class Mined(ModelAugmenter):
    """The nearest other query of a corpus whose cosine lies in a band. Heavy: it asks otherwise.

    Attributes:
        path: the queries: a store, or a raw file.
        teacher: folder of the sentence encoder that says what is near, or ``"demo"``.
        least: cosine from which a query counts as near.
        most: cosine above which it counts as the same.
        among: how many of the nearest one is drawn from.

    Raises:
        InvalidInputError: no band of cosines, or no count.
    """

    path: str
    teacher: str
    least: float = 0.6
    most: float = 0.95
    among: int = 1
    name = "mined"

    def __post_init__(self) -> None:
        check_fields(self, among=whole(), most=number(-1, 1))
        check_fields(self, least=number(-1, below=self.most))

    @property
    def requires(self) -> tuple[str, ...]:
        """Queries and teacher."""
        return (self.path, *teacher_folders(self.teacher))

    def available(self) -> tuple[bool, str]:
        """Whether both are here."""
        if not Path(self.path).exists():
            return False, f"there are no queries at {self.path}"
        missing = missing_teacher(self.teacher)
        return not missing, missing

    def rewrite(self, texts: list[str], rng: random.Random) -> list[str]:
        """A neighbour of each; the text itself where the band is empty."""
        cosines = self._encoder.encode(texts) @ self._vectors.T  # (texts, queries)
        return [self._drawn(text, row, rng) for text, row in zip(texts, cosines, strict=True)]

    def _drawn(self, text: str, cosines: NDArray[np.float32], rng: random.Random) -> str:
        near = np.flatnonzero((cosines >= self.least) & (cosines <= self.most))
        best = near[np.argsort(-cosines[near], kind="stable")]
        others = [self._queries[row] for row in best[: self.among + 1]]
        others = [other for other in others if other != text][: self.among]
        return rng.choice(others) if others else text

    @cached_property
    def _queries(self) -> list[str]:
        source = open_source(self.path, "queries")
        # Of a blank query there is no text.
        texts = (text for row in range(len(source)) for text in source[row].texts[:1])
        return [text for text in dict.fromkeys(texts) if text.strip()]

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        return self._encoder.encode(self._queries)  # (queries, dim)

    @cached_property
    def _encoder(self) -> SentenceEncoder:
        return load_teacher(self.teacher, self.device)
