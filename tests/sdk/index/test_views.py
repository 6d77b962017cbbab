from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.index import open_index
from tests.sdk.small_index import make_index


@pytest.mark.parametrize("stored", ["x", "[1]", b"\xff", "[" * 2000])
def test_fields_of_metadata_that_are_none_are_damage(tmp_path: Path, stored: object) -> None:
    make_index(tmp_path / "index", 1)
    database = sqlite3.connect(tmp_path / "index" / "documents.sqlite")
    with contextlib.closing(database), database:
        database.execute("UPDATE documents SET metadata = ?", (stored,))
    with open_index(tmp_path / "index") as index:
        for view in (index.fields, lambda: index.facets("year")):
            with pytest.raises(CorruptArtifactError):
                view()
