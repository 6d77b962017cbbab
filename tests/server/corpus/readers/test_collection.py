from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pocketquery.sdk.errors import ArtifactNotFoundError, CorpusError
from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus import (
    Collection,
    CollectionFiles,
    Query,
    find_files,
    read_collection,
)

DOCUMENTS = [Document(name, f"text of {name}", {}) for name in ("a", "b", "c")]
QUERIES = [Query("1", "one"), Query("2", "two"), Query("3", "three")]


def test_what_cannot_be_scored_is_left_out_and_counted() -> None:
    judgements = {"1": {"a": 1, "gone": 1}, "2": {"b": 0}, "9": {"a": 1}}
    collection = Collection.of(DOCUMENTS, QUERIES, judgements)
    assert [query.id for query in collection.queries] == ["1"]
    assert collection.judgements == {"1": {"a": 1}}
    assert collection.queries_without_relevant == 2
    assert collection.judgements_of_unknown_ids == 2


def test_an_excluded_pair_is_not_relevant() -> None:
    judgements = {"1": {"a": 1, "b": 1}, "2": {"b": 1}}
    collection = Collection.of(DOCUMENTS, QUERIES, judgements, [("1", "a"), ("2", "b")])
    assert collection.judgements == {"1": {"b": 1}}


def test_files_of_different_sets_are_refused() -> None:
    with pytest.raises(CorpusError, match=r"none of the 3 queries .*1 judgements name ids"):
        Collection.of(DOCUMENTS, QUERIES, {"1": {"elsewhere": 1}})


def beir(folder: Path, qrels: str = "qrels/test.tsv") -> Path:
    (folder / qrels).parent.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_text('{"_id": "a", "title": "", "text": "x"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "q"}\n{"_id": "2", "text": "r"}\n')
    (folder / qrels).write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n")
    return folder


def test_a_folder_in_the_layout_of_beir(tmp_path: Path) -> None:
    collection = read_collection(find_files(beir(tmp_path)))
    assert [query.id for query in collection.queries] == ["1"]
    assert collection.judgements == {"1": {"a": 1}}
    assert collection.queries_without_relevant == 1


def test_a_flat_folder_with_packed_files(tmp_path: Path) -> None:
    beir(tmp_path, "qrels.tsv")
    for name in ("corpus.jsonl", "qrels.tsv"):
        path = tmp_path / name
        path.with_name(f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert find_files(tmp_path) == CollectionFiles(
        tmp_path / "corpus.jsonl.gz", tmp_path / "queries.jsonl", tmp_path / "qrels.tsv.gz"
    )


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    (beir(tmp_path) / "qrels/test.tsv").unlink()
    with pytest.raises(ArtifactNotFoundError, match=r"qrels/test\.tsv\[\.gz\|\.xz\]"):
        find_files(tmp_path)
