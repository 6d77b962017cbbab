from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.sdk.errors import SpaceMismatchError
from pocketquery.server.corpus import Collection, Query, find_files, read_collection
from pocketquery.server.evaluation import (
    METRICS,
    encode_documents,
    evaluate,
    mistyped,
    rank_exactly,
    score_rankings,
    temporary_index,
)
from pocketquery.server.modeling import SentenceEncoder


@pytest.fixture(scope="module")
def collection(dataset: Path) -> Collection:
    return read_collection(find_files(dataset))


@pytest.fixture(scope="module")
def bundle(bundle_folder: Path) -> sdk.Encoder:
    return sdk.load(bundle_folder)


@pytest.fixture(scope="module")
def index(
    collection: Collection, bundle: sdk.Encoder, teacher: SentenceEncoder
) -> Iterator[sdk.Index]:
    vectors = encode_documents(teacher, collection.documents)
    with temporary_index(collection, bundle, vectors) as index:
        yield index


def test_all_systems_are_scored_on_the_queries_that_can_be(
    collection: Collection, bundle: sdk.Encoder, teacher: SentenceEncoder
) -> None:
    result = evaluate(collection, bundle, teacher)
    assert list(result.scores) == ["teacher", "bundle", "bm25", "hybrid"]
    for scores in result.scores.values():
        assert scores.query_ids == ("1", "2", "3")
        assert tuple(scores.means()) == METRICS
    means = result.means()
    assert means["bm25"]["recall@100"] > 0.5  # the queries' numbers stand in their documents
    kept = result.retention()["recall@100"]
    assert kept == means["bundle"]["recall@100"] / means["teacher"]["recall@100"]


def test_the_teacher_row_is_exact_symmetric_search(
    collection: Collection, bundle: sdk.Encoder, teacher: SentenceEncoder, index: sdk.Index
) -> None:
    result = evaluate(
        collection, bundle, teacher, index=index, more_encoders={"same": teacher.encode_query}
    )
    documents = encode_documents(teacher, collection.documents)
    queries = teacher.encode_query([query.text for query in collection.queries])
    ids = [document.id for document in collection.documents]
    found = rank_exactly(queries, documents, ids, 100)
    names = [query.id for query in collection.queries]
    expected = score_rankings(collection.judgements, dict(zip(names, found, strict=True))).means()
    assert result.means()["teacher"] == expected
    assert result.means()["same"] == expected


def test_the_bundle_row_is_the_int8_index_searched_with_the_bundle(
    collection: Collection, bundle: sdk.Encoder, teacher: SentenceEncoder, index: sdk.Index
) -> None:
    documents = encode_documents(teacher, collection.documents)
    vectors = bundle.encode_query([query.text for query in collection.queries])
    ids = [document.id for document in collection.documents]
    nearest = rank_exactly(vectors, documents, ids, 20)
    judgements = {
        query.id: dict.fromkeys(ranking, 1)
        for query, ranking in zip(collection.queries, nearest, strict=True)
    }
    ideal = Collection.of(collection.documents, collection.queries, judgements)
    result = evaluate(
        ideal, bundle, teacher, index=index, more_encoders={"float": bundle.encode_query}
    )
    assert result.means()["float"]["recall@20"] == 1
    assert result.means()["bundle"]["recall@20"] > 0.9  # rounding to int8 swaps near neighbours
    assert result.means()["teacher"]["recall@20"] < 0.9


def test_excluded_documents_leave_every_ranking(
    collection: Collection, bundle: sdk.Encoder, teacher: SentenceEncoder, index: sdk.Index
) -> None:
    excluded = [("1", "d7"), ("2", "d11")]
    less = Collection.of(collection.documents, collection.queries, collection.judgements, excluded)
    result = evaluate(less, bundle, teacher, index=index)
    for scores in result.scores.values():
        assert scores.query_ids == ("1", "3")
    everything = Collection.of(
        collection.documents,
        collection.queries,
        {"1": {"d8": 1}},
        [("1", document.id) for document in collection.documents if document.id != "d8"],
    )
    for name, means in evaluate(everything, bundle, teacher, index=index).means().items():
        assert means["recall@1"] == 1 or name == "bm25", name  # only one document is left


def test_typos_are_reproducible_and_change_every_system_s_queries(
    collection: Collection, bundle: sdk.Encoder, teacher: SentenceEncoder, index: sdk.Index
) -> None:
    def run(typos: float, seed: int) -> dict[str, dict[str, float]]:
        return evaluate(collection, bundle, teacher, index=index, typos=typos, seed=seed).means()

    assert run(0.5, 1) == run(0.5, 1)
    assert run(0.5, 1) != run(0.0, 1)


def test_the_typos_of_a_query_do_not_depend_on_the_others() -> None:
    queries = [Query(str(i), f"the query number {i} of many") for i in range(20)]
    assert mistyped(queries, 0.3, 5)[7] == mistyped([queries[7]], 0.3, 5)[0]
    assert mistyped(queries, 0.3, 5) != mistyped(queries, 0.3, 6)
    assert mistyped(queries, 0.0, 5) == [query.text for query in queries]


def test_a_bundle_of_another_space_is_refused(
    collection: Collection, teacher: SentenceEncoder, tmp_path: Path
) -> None:
    from tests.sdk.tiny_bundle import SPACE_ID, write_tiny_bundle

    stranger = sdk.load(write_tiny_bundle(tmp_path / "stranger"))
    with pytest.raises(SpaceMismatchError) as caught:
        evaluate(collection, stranger, teacher)
    assert SPACE_ID in str(caught.value)
    assert teacher.space_id in str(caught.value)
