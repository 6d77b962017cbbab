"""SQuAD's and SciFact's passages: documents to read, and questions that a passage answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from data_sets import Asked, articles, pages, scifact, squad
from retrieval_test import RetrievalTest

from pocketquery.server.corpus.groups import GroupList

__all__ = ["passage_test"]

_SETS: Mapping[str, tuple[Callable[[Path], Asked], int]] = {
    "squad": (squad, 1),  # its titles are those of whole articles, and no part of the passages
    "scifact": (scifact, 0),
}
"""Name -> reader, and the first of a document's texts that its passage has."""


def passage_test(name: str, data: Path, more_pages: int = 0) -> tuple[GroupList, RetrievalTest]:
    """The set's documents and Wikipedia's paragraphs to read; its passages and questions.

    Args:
        name: ``"squad"`` (questions split by article) or ``"scifact"``.
        data: folder of the public sets.
        more_pages: of Wikipedia to read, beside its articles.
    """
    read, first = _SETS[name]
    found = read(data)
    groups = [found.documents[row] for row in range(len(found.documents))]
    rows = {group.id: row for row, group in enumerate(groups)}
    test = RetrievalTest(
        [" ".join(group.texts[first:]) for group in groups],
        [(text, rows[document]) for text, document in found.training],
        [(text, rows[document]) for text, document in found.test],
    )
    further = [articles(data), *([pages(data, more_pages)[0]] if more_pages else [])]
    groups += [documents[row] for documents in further for row in range(len(documents))]
    return GroupList(groups, "documents"), test
