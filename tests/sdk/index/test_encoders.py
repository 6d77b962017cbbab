"""An index that is opened without an encoder takes the one at hand, where that fits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk

NOTES = ["The rear brake squeals.", "The train to Oslo leaves at seven."]


@pytest.fixture(autouse=True)
def at_hand() -> None:
    """The built-in encoder, whatever another test has loaded."""
    sdk.load()


def test_queries_and_documents_are_encoded_by_the_encoder_at_hand(tmp_path: Path) -> None:
    with sdk.create_index(tmp_path / "index") as builder:
        builder.add(NOTES)
    with sdk.open_index(tmp_path / "index", writable=True) as index:
        assert index.search("when must I be at the station", k=1)[0].text == NOTES[1]
        index.add([("ferry", "The ferry leaves at nine.")])
        index.upsert([("ferry", "The ferry leaves at ten.")])
        assert index.search("departure of the ship", k=1)[0].id == "ferry"


def test_the_space_of_another_encoder_is_searched_by_words_and_vectors(tmp_path: Path) -> None:
    with sdk.create_index(tmp_path / "index", space_id="other", dimension=3) as builder:
        builder.add(NOTES, np.eye(3)[:2])
    with sdk.open_index(tmp_path / "index") as index:
        assert [hit.id for hit in index.search("Oslo", mode="lexical")] == ["1"]
        assert index.search(np.array([1.0, 0, 0]), k=1)[0].id == "0"
        with pytest.raises(sdk.InvalidInputError, match="space other, and the encoder at hand"):
            index.search("Oslo")


def test_documents_are_not_encoded_by_another_than_made_the_vectors(tmp_path: Path) -> None:
    encoder = sdk.load()
    with sdk.create_index(
        tmp_path / "index", space_id=encoder.space_id, dimension=encoder.dimension
    ) as builder:
        builder.add(NOTES, encoder.encode_document(NOTES))
    with sdk.open_index(tmp_path / "index", writable=True) as index:
        assert index.search("when must I be at the station", k=1)[0].text == NOTES[1]
        with pytest.raises(sdk.InvalidInputError, match="that it does not name"):
            index.add(["The ferry leaves at nine."])
    with sdk.open_index(tmp_path / "index", encoder=encoder, writable=True) as index:
        index.add(["The ferry leaves at nine."])
