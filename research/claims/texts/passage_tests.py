"""SQuAD's passages: documents to read, and questions that a passage answers."""

from __future__ import annotations

from pathlib import Path

from retrieval_test import RetrievalTest
from texts.data_sets import articles, pages, squad

from pocketquery.server.corpus.groups import GroupList

__all__ = ["passage_test"]


def passage_test(data: Path, more_pages: int = 0) -> tuple[GroupList, RetrievalTest]:
    """SQuAD's and other paragraphs of Wikipedia to read; its passages, and questions by article.

    Args:
        data: folder of the public sets.
        more_pages: of Wikipedia to read, beside its articles.
    """
    found = squad(data)
    groups = [found.documents[row] for row in range(len(found.documents))]
    rows = {group.id: row for row, group in enumerate(groups)}
    test = RetrievalTest(
        [" ".join(group.texts[1:]) for group in groups],  # titles are those of whole articles
        [(text, rows[document]) for text, document in found.training],
        [(text, rows[document]) for text, document in found.test],
    )
    further = [articles(data), *([pages(data, more_pages)[0]] if more_pages else [])]
    groups += [documents[row] for documents in further for row in range(len(documents))]
    return GroupList(groups, "documents"), test
