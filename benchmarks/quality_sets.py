"""The five collections of the quality benchmark, as they lie in the data folder."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from pocketquery.export.demo.split import is_held_out
from pocketquery.server.corpus import (
    Collection,
    CollectionFiles,
    find_files,
    read_collection,
    read_queries,
)

__all__ = ["SETS", "data_folder", "read_set"]

SETS = ("squad", "scifact", "cacm", "cranfield", "medline")


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
    """One collection by its name in SETS."""
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


def _folder_name(name: str) -> str:
    return "squad_dev_passages" if name == "squad" else name
