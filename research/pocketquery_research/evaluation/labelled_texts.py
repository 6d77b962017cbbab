"""Texts with a class each: a tab-separated file with a header row, plain, gzip or xz."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus.readers.lines import bad_line, numbered_lines

__all__ = ["LabelledTexts", "label_text", "read_labelled_texts"]


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and the number of each one's class.

    Attributes:
        texts: n of them.
        classes: int64 (n,), indices into ``names``.
        names: of all classes, sorted.
    """

    texts: tuple[str, ...]
    classes: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, texts: Sequence[str], labels: Sequence[str], names: Collection[str] = ()
    ) -> LabelledTexts:
        """Number the labels, among ``names`` where these are given (a test set's: the training's).

        Raises:
            CorpusError: numbers of texts and labels differ, or a label is not among ``names``.
        """
        if len(texts) != len(labels):
            raise CorpusError(
                f"there are {len(texts)} texts and {len(labels)} labels; expected as many"
            )
        known = {name: number for number, name in enumerate(sorted(set(names or labels)))}
        unknown = sorted(set(labels) - known.keys())
        if unknown:
            raise CorpusError(
                f'the label "{unknown[0]}" is not among the {len(known)} known classes; expected '
                "the classes of the training texts"
            )
        numbers = np.array([known[label] for label in labels], dtype=np.int64)
        return cls(tuple(texts), numbers, tuple(known))


def read_labelled_texts(
    path: Path | str,
    *,
    label: str,
    text: str = "text",
    names: Collection[str] = (),
    left_out: Collection[str] = (),
) -> LabelledTexts:
    """Read texts and labels from two columns of a file.

    Args:
        path: tab-separated, UTF-8, the columns' names in its first row.
        label: the column of the classes.
        text: the column of the texts.
        names: see :meth:`LabelledTexts.of`.
        left_out: classes whose rows are not read ("out of scope").

    Raises:
        ArtifactNotFoundError: no such file.
        CorpusError: it has no such column, a row has too few, or nothing is left.
    """
    lines = numbered_lines(path)
    _, header = next(lines, (0, ""))
    columns = header.split("\t")
    if label not in columns or text not in columns:
        found = f"the columns {', '.join(columns) or 'of an empty file'}"
        raise bad_line(path, 1, found, f'a header row with "{label}" and "{text}"')
    texts, labels = [], []
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise bad_line(
                path, number, f"{len(cells)} cells", f"{len(columns)}, as the header has"
            )
        row = dict(zip(columns, cells, strict=True))
        if row[label] not in left_out:
            texts.append(row[text])
            labels.append(row[label])
    if not texts:
        raise CorpusError(f"{path} holds no labelled text; expected at least one")
    return LabelledTexts.of(texts, labels, names)


def label_text(name: str) -> str:
    """A class's name as words: ``"transfer_money"`` and ``"PlayMusic"`` become two."""
    words = "".join(
        f" {mark}" if mark.isupper() and before.islower() else mark
        for before, mark in zip(" " + name, name, strict=False)
    )
    return " ".join(words.replace("_", " ").replace("/", " ").replace("-", " ").split()).lower()
