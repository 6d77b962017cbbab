"""A retrieval collection (documents, queries, judgements) as it is evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pocketquery.sdk.errors import ArtifactNotFoundError, CorpusError
from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus.readers.documents import read_documents
from pocketquery.server.corpus.readers.judgements import Judgements, read_judgements, read_pairs
from pocketquery.server.corpus.readers.queries import Query, read_queries

__all__ = ["Collection", "CollectionFiles", "read_collection", "find_files"]


@dataclass(frozen=True)
class Collection:
    """Documents, the queries that have a relevant one among them, and what was left out.

    ``excluded`` are (query id, document id) pairs to take out of every ranking.
    """

    documents: list[Document]
    queries: list[Query]
    judgements: Judgements
    excluded: frozenset[tuple[str, str]]
    queries_without_relevant: int
    judgements_of_unknown_ids: int

    @classmethod
    def of(
        cls,
        documents: Iterable[Document],
        queries: Iterable[Query],
        judgements: Judgements,
        excluded: Iterable[tuple[str, str]] = (),
    ) -> Collection:
        """Keep what can be scored, and count the rest.

        A judgement of a document or query that is not there is dropped and counted: its document
        could never be found, and would lower every system alike.

        Raises:
            CorpusError: no query has a relevant document.
        """
        documents, queries = list(documents), list(queries)
        document_ids = {document.id for document in documents}
        query_ids = {query.id for query in queries}
        excluded = frozenset(excluded)
        known = {
            query: {
                document: grade
                for document, grade in grades.items()
                if document in document_ids and (query, document) not in excluded
            }
            for query, grades in judgements.items()
            if query in query_ids
        }
        unknown = sum(
            query not in query_ids or document not in document_ids
            for query, grades in judgements.items()
            for document in grades
        )
        scored = [q for q in queries if any(grade > 0 for grade in known.get(q.id, {}).values())]
        if not scored:
            raise CorpusError(
                f"none of the {len(queries)} queries has a relevant document among the "
                f"{len(documents)} given ({unknown} judgements name ids that are not there); "
                "expected corpus, queries and judgements of one data set"
            )
        judged = {query.id: known[query.id] for query in scored}
        return cls(documents, scored, judged, excluded, len(queries) - len(scored), unknown)


@dataclass(frozen=True)
class CollectionFiles:
    """Where the parts of a collection lie; ``excluded`` (pairs) is optional."""

    corpus: Path
    queries: Path
    judgements: Path
    excluded: Path | None = None


def read_collection(files: CollectionFiles) -> Collection:
    """Read all parts of a collection.

    Raises:
        ArtifactNotFoundError: a file is not there.
        CorpusError: a line cannot be read, or no query has a relevant document.
    """
    excluded = read_pairs(files.excluded) if files.excluded else frozenset()
    judgements = read_judgements(files.judgements)
    queries = read_queries(files.queries)
    return Collection.of(read_documents(files.corpus), queries, judgements, excluded)


def find_files(folder: Path | str, split: str = "test") -> CollectionFiles:
    """Find the parts of a collection in a folder: BEIR's layout, or the same names laid flat.

    Looked for are corpus.jsonl, queries.SPLIT.tsv or queries.jsonl/.tsv, and qrels/SPLIT.tsv,
    qrels.SPLIT.tsv or qrels.tsv, each also with .gz or .xz.

    Raises:
        ArtifactNotFoundError: a part is missing; names what was looked for.
    """
    folder = Path(folder)
    return CollectionFiles(
        corpus=_first(folder, "corpus.jsonl"),
        queries=_first(folder, f"queries.{split}.tsv", "queries.jsonl", "queries.tsv"),
        judgements=_first(folder, f"qrels/{split}.tsv", f"qrels.{split}.tsv", "qrels.tsv"),
    )


def _first(folder: Path, *names: str) -> Path:
    for name in names:
        for path in (folder / name, folder / f"{name}.gz", folder / f"{name}.xz"):
            if path.is_file():
                return path
    looked = ", ".join(f"{name}[.gz|.xz]" for name in names)
    raise ArtifactNotFoundError(f"{folder}: found none of {looked}; expected a folder as BEIR's")
