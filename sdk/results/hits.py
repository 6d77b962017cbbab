"""What a search returns: a list of hits, which shows itself as a table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Hit", "Hits"]

_MOST_IN_REPR = 80  # characters of a text
_MOST_IN_TABLE = 300


@dataclass(frozen=True, repr=False)
class Hit:
    """A document found.

    Attributes:
        id: the document's.
        score: the higher the better: the cosine (dense; of several languages less what each has by
            itself), BM25 (lexical), or the fused score (hybrid, 1 at most), which no other
            document and no filter changes, so that it can be compared with ``min_score``.
        text: the document's.
        metadata: the document's.
        cosine: with the query; None in a search by words, and for a text too short to have a
            vector.
        bm25: of the query's words; None in a search by meaning.
        others: in a search with ``group_by``, how many more of the hundred best documents are of
            the same group.
    """

    id: str
    score: float
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    cosine: float | None = None
    bm25: float | None = None
    others: int = 0

    def __repr__(self) -> str:
        title = self.metadata.get("title")
        named = f", title={title!r}" if isinstance(title, str) else ""
        text = _shortened(self.text, _MOST_IN_REPR)
        return f"Hit(id={self.id!r}, score={self.score:.4f}{named}, text={text!r})"


class Hits(list[Hit]):
    """The hits of one search, best first. A list; Jupyter shows it as a table.

    Attributes:
        absent_phrases: how many phrases in quotes no document has: their words alone were sought.
    """

    absent_phrases = 0

    def _repr_html_(self) -> str:
        from html import escape  # here: a search needs none of it

        head = "".join(f"<th>{name}</th>" for name in ("", "score", "id", "title", "text"))
        lines = [
            (
                f"{rank}",
                f"{hit.score:.4f}",
                hit.id,
                str(hit.metadata.get("title") or ""),
                _shortened(hit.text, _MOST_IN_TABLE),
            )
            for rank, hit in enumerate(self, start=1)
        ]
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in line)}</tr>" for line in lines
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _shortened(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
