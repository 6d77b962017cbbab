"""The demo's corpus: 36 Wikipedia articles with questions, eight of them held out.

Nothing distilled here has seen a word of those eight. They were drawn once
(``random.Random(0).sample(sorted(articles), 8)`` of the 36) and then written down, so that the
demo, the quality benchmark and the reference student share one split.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus import (
    Collection,
    Query,
    read_documents,
    read_judgements,
    read_queries,
)

__all__ = ["DATA", "HELD_OUT_ARTICLES", "DemoCorpus", "article", "is_held_out", "read_demo_corpus"]

DATA = Path(__file__).parent / "data"
"""Corpus, questions and judgements, with their licence (CC BY-SA 4.0)."""

HELD_OUT_ARTICLES = frozenset(
    {
        "American_Broadcasting_Company",
        "Geology",
        "Imperialism",
        "Normans",
        "Oxygen",
        "Pharmacy",
        "Sky_(United_Kingdom)",
        "Teacher",
    }
)


@dataclass(frozen=True)
class DemoCorpus:
    """All paragraphs; the questions apart by whether their article is held out.

    Attributes:
        documents: every paragraph of all 36 articles: what is searched.
        training: questions on the other 28 articles, with judgements: distillation and the gate.
        held_out: questions on the eight articles no training text comes from: evaluation.
    """

    documents: list[Document]
    training: Collection
    held_out: Collection

    @property
    def training_documents(self) -> list[Document]:
        """The paragraphs of the 28 articles that may be learnt from."""
        return [document for document in self.documents if not is_held_out(document.id)]


def article(document_id: str) -> str:
    """The article of a paragraph id, ``"Oxygen#12"`` → ``"Oxygen"``."""
    return document_id.rsplit("#", 1)[0]


def is_held_out(document_id: str) -> bool:
    """Whether the paragraph belongs to an article kept for evaluation."""
    return article(document_id) in HELD_OUT_ARTICLES


def read_demo_corpus(folder: Path = DATA) -> DemoCorpus:
    """Read the corpus that ships with the package."""
    documents = list(read_documents(folder / "corpus.jsonl.gz"))
    judgements = read_judgements(folder / "qrels.tsv.gz")
    training: list[Query] = []
    held_out: list[Query] = []
    for query in read_queries(folder / "queries.tsv.gz"):
        unseen = any(is_held_out(document) for document in judgements[query.id])
        (held_out if unseen else training).append(query)
    return DemoCorpus(
        documents,
        Collection.of(documents, training, _of(judgements, training)),
        Collection.of(documents, held_out, _of(judgements, held_out)),
    )


def _of(judgements: dict[str, dict[str, int]], queries: list[Query]) -> dict[str, dict[str, int]]:
    return {query.id: judgements[query.id] for query in queries}
