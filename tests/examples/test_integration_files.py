"""The adapters' own conversions; what they are for runs in test_integrations.py."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.server.corpus import Collection, Query, find_files, read_collection

ADAPTERS = Path(__file__).parents[2] / "examples" / "integrations"


@pytest.fixture(scope="module", autouse=True)
def adapters() -> Iterator[None]:
    """As where the files were copied to: beside the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ADAPTERS), *sys.path])
        yield


def test_cells_become_json_values() -> None:
    from table_rows import documents_of

    row: dict[Any, Any] = {
        "id": np.int64(7),
        "text": "body",
        "year": np.int32(1999),
        "share": np.float32(0.5),
        "tags": np.array(["a", "b"]),
        "day": datetime.date(2020, 1, 2),
        "stamp": np.datetime64("2020-01-02T03:04"),
        "none": None,
        "nan": float("nan"),
        "nat": np.datetime64("NaT"),
        "infinite": np.float64("inf"),
        3: True,
    }
    (document,) = documents_of([row])
    assert document == sdk.Document(
        "7",
        "body",
        {
            "year": 1999,
            "share": 0.5,
            "tags": ["a", "b"],
            "day": "2020-01-02",
            "stamp": "2020-01-02T03:04:00",
            "3": True,
        },
    )


@pytest.mark.parametrize("row", [{"id": "1"}, {"id": None, "text": "x"}, {"text": float("nan")}])
def test_a_row_without_an_id_or_a_text_is_named(row: dict[str, Any]) -> None:
    from table_rows import documents_of

    with pytest.raises(sdk.InvalidInputError, match="row 1 has no value in the column"):
        list(documents_of([{"id": "0", "text": "y"}, row]))


def test_hits_become_rows_and_come_back() -> None:
    from table_rows import documents_of, rows_of

    rows = rows_of([sdk.Hit("a", 0.5, "body", {"year": 1999, "id": "not this"})])
    assert rows == [{"id": "a", "score": 0.5, "text": "body", "year": 1999}]
    assert list(documents_of(rows)) == [sdk.Document("a", "body", {"year": 1999, "score": 0.5})]


WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(
    lambda text: text == text.strip() != ""
)
IDS = st.text("abcdefgh0123456789-_./:", min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(IDS, WORDS, min_size=1, max_size=4), WORDS, WORDS, st.integers(1, 3))
@example({"a": 'line\u2028separator "quoted"'}, "title", "query", 1)
def test_a_beir_folder_gives_the_collection_back(
    tmp_path: Path, texts: dict[str, str], title: str, query: str, grade: int
) -> None:
    from beir_folder import write_beir

    documents = [sdk.Document(id, text, {"title": title}) for id, text in texts.items()]
    judgements = {"q": {documents[0].id: grade}}
    collection = Collection.of(documents, [Query("q", query)], judgements)
    write_beir(collection, tmp_path / "set", split="dev")
    found = read_collection(find_files(tmp_path / "set", split="dev"))
    assert found.queries == collection.queries
    assert found.judgements == collection.judgements
    assert [(one.id, one.text, one.metadata["title"]) for one in found.documents] == [
        (one.id, one.text, title) for one in documents
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"set"}
