"""Judged collections: nDCG@10 of words and hybrid, and what an index of them weighs."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quality_sets import SETS, read_set

from pocketquery import sdk
from pocketquery.sdk.index.documents import content
from pocketquery.server.corpus import Collection, CollectionFiles, read_collection
from pocketquery.server.evaluation import DEPTH, encode_documents, score_rankings
from pocketquery.server.evaluation.ranking import without_excluded
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["XQUAD", "five", "xquad"]

XQUAD = ("de", "ru", "ar", "hi")
CACHE = Path(__file__).resolve().parents[2] / "runs" / "document_vectors"
Vectors = NDArray[np.float32]


def five(data: Path, encoder: sdk.Encoder, teacher: SentenceEncoder, work: Path) -> dict[str, Any]:
    """nDCG@10 by set, with the teacher's documents and with the encoder's own; bytes."""
    figures: dict[str, Any] = {"teacher": {}, "symmetric": {}, "words": {}, "bytes": {}}
    for name in SETS:
        collection = read_set(data, name)
        teachers = encode_documents(teacher, collection.documents, cache=CACHE)
        own = _own_vectors(encoder, [content(document) for document in collection.documents])
        for kind, vectors in (("teacher", teachers), ("symmetric", own)):
            path = _index(work / f"{name}-{kind}", collection, encoder.space_id, vectors)
            with sdk.open_index(path, encoder=encoder) as index:
                figures[kind][name] = _ndcg(index, collection, "hybrid")
                if kind == "symmetric":
                    figures["words"][name] = _ndcg(index, collection, "lexical")
        figures["bytes"][name] = sum(file.stat().st_size for file in path.iterdir())
    return figures


def xquad(data: Path, work: Path) -> dict[str, float]:
    """nDCG@10 by words, by language."""
    figures = {}
    for language in XQUAD:
        folder = data / "xquad"
        collection = read_collection(
            CollectionFiles(
                folder / f"{language}.corpus.jsonl.gz",
                folder / f"{language}.queries.tsv.gz",
                folder / "qrels.tsv",
            )
        )
        vectors = np.random.default_rng(0).normal(size=(len(collection.documents), 8))
        path = _index(work / f"xquad-{language}", collection, "none", vectors.astype(np.float32))
        with sdk.open_index(path) as index:
            figures[language] = _ndcg(index, collection, "lexical")
    return figures


def _own_vectors(encoder: sdk.Encoder, texts: list[str]) -> Vectors:
    """The encoder's vectors of the texts, kept in runs/ under both of their hashes."""
    kept = hashlib.sha256("\0".join([encoder.name, encoder.space_id, *texts]).encode()).hexdigest()
    path = CACHE / f"own-{kept[:32]}.npy"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(path, encoder.encode_document(texts))
    vectors: Vectors = np.load(path)
    return vectors


def _index(path: Path, collection: Collection, space_id: str, vectors: Vectors) -> Path:
    """An index of the collection, its rows shuffled: they break ties."""
    order = np.random.default_rng(0).permutation(len(collection.documents))
    documents = [collection.documents[row] for row in order]
    with sdk.create_index(path, space_id=space_id, dimension=vectors.shape[1]) as builder:
        builder.add(documents, vectors[order])
    return path


def _ndcg(index: sdk.Index, collection: Collection, mode: Any) -> float:
    excluded = Counter(query for query, _ in collection.excluded)
    depth = DEPTH + max(excluded.values(), default=0)
    rankings = {
        query.id: without_excluded(
            query.id,
            [hit.id for hit in index.search(query.text, depth, mode=mode)],
            collection.excluded,
            DEPTH,
        )
        for query in collection.queries
    }
    return score_rankings(collection.judgements, rankings).means()["ndcg@10"]
