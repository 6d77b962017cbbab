"""The collections of the quality benchmarks, as they are in the data folder.

``SETS`` are five that come as collections; ``FORUMS`` are three made of pairs of questions that
people marked as asking the same: an earlier question answers a new one.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from data_files import rows

from pocketquery.sdk.files import sha256_bytes
from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus import (
    Collection,
    CollectionFiles,
    Query,
    find_files,
    read_collection,
    read_queries,
)
from pocketquery_demo.corpus import is_held_out

__all__ = ["FORUMS", "SETS", "data_folder", "read_set"]

SETS = ("squad", "scifact", "cacm", "cranfield", "medline")
FORUMS = ("stackexchange", "cqa", "quora")
MOST_ASKED = 1000  # posts of a forum
_FOLDERS = {
    "squad": "squad_dev_passages",
    "stackexchange": "stackexchange_english_pairs",
    "cqa": "cqa_question_ranking",
}


def data_folder(given: str | None) -> Path:
    """The folder with the public data sets: given, else POCKETQUERY_DATA, else data/.

    Raises:
        SystemExit: a set is missing; says which and where it was looked for.
    """
    beside = Path(__file__).resolve().parents[1] / "data"
    folder = Path(given or os.environ.get("POCKETQUERY_DATA") or beside)
    missing = [name for name in SETS if not (folder / _folder_name(name)).is_dir()]
    if missing:
        raise SystemExit(
            f"{folder} lacks {', '.join(map(_folder_name, missing))}; expected the data sets "
            "there. Name their folder with --data or POCKETQUERY_DATA"
        )
    return folder


def read_set(data: Path, name: str) -> Collection:
    """One collection by its name in SETS or FORUMS."""
    if name in FORUMS:
        return _duplicates(_posts(data / _folder_name(name), name))
    files = find_files(data / _folder_name(name))
    if name == "squad":
        return _held_out(files)
    if name == "scifact":
        return _without_training_claims(files, data / name / "queries.train.tsv")
    if name == "cranfield":
        # Each query's source paper, which was judged neither way: out of the ranking.
        files = dataclasses.replace(files, excluded=data / name / "unclear_docs.tsv")
    return read_collection(files)


def _held_out(files: CollectionFiles) -> Collection:
    """All passages, but only the questions on articles that no distillation of ours has seen."""
    whole = read_collection(files)
    judgements = {
        query: grades
        for query, grades in whole.judgements.items()
        if all(is_held_out(document) for document in grades)
    }
    queries = [query for query in whole.queries if query.id in judgements]
    return Collection.of(whole.documents, queries, judgements)


def _without_training_claims(files: CollectionFiles, training: Path) -> Collection:
    """The test claims but two of the 300, which stand word for word among the training claims.

    The reference student has learnt from those.
    """
    whole = read_collection(files)
    seen = {query.text.casefold() for query in read_queries(training)}
    queries = [query for query in whole.queries if query.text.casefold() not in seen]
    judgements = {query.id: whole.judgements[query.id] for query in queries}
    return Collection.of(whole.documents, queries, judgements)


def _posts(folder: Path, name: str) -> Iterator[tuple[Document, Document, bool]]:
    """Pairs of posts, and whether they ask the same."""
    if name == "stackexchange":
        for label, one, two, title, other_title, body, other_body in rows(folder / "pairs.tsv.gz"):
            asked = Document(one, body, {"title": title})
            yield asked, Document(two, other_body, {"title": other_title}), label == "1"
        return
    for part in ("train", "dev") if name == "cqa" else ("train", "valid"):
        for row in rows(folder / f"{part}.tsv.gz"):
            if name == "cqa":
                query, candidate, label, text, other = row
            else:
                label, text, other, _ = row
                query, candidate = (sha256_bytes(one.encode())[:16] for one in (text, other))
            yield Document(query, text), Document(candidate, other), label == "1"


def _duplicates(pairs: Iterable[tuple[Document, Document, bool]]) -> Collection:
    """For each post that asks what another asks, find that one among all but itself; a post is
    asked by its title, where it has one.
    """
    documents: dict[str, Document] = {}
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    for asked, other, same in pairs:
        documents |= {asked.id: asked, other.id: other}
        if same:
            judgements[asked.id][other.id] = 1
    queries = [
        Query(name, str(documents[name].metadata.get("title", documents[name].text)))
        for name in judgements
    ]
    if len(queries) > MOST_ASKED:
        queries = random.Random(0).sample(queries, MOST_ASKED)
    itself = [(query.id, query.id) for query in queries]
    return Collection.of(documents.values(), queries, judgements, itself)


def _folder_name(name: str) -> str:
    return _FOLDERS.get(name, name)
