from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.sdk.folders import publish_folder
from pocketquery.sdk.index.database import PAGE
from pocketquery.sdk.index.index import create_index, open_index, verify_index
from tests.sdk.small_index import (
    DIMENSION,
    SPACE,
    add_documents,
    make_documents,
    make_index,
    new_index,
    vectors_of,
)


def left_beside(path: Path) -> list[str]:
    return [one.name for one in path.parent.iterdir() if one != path]


class FailureError(Exception):
    """Ends a build."""


def fail_while_building(path: Path, *, resume: bool) -> None:
    with contextlib.suppress(FailureError), new_index(path, resume=resume) as builder:
        add_documents(builder, 10)
        add_documents(builder, 10, 10)
        raise FailureError


def size_of(path: Path) -> int:
    with open_index(path) as index:
        return len(index)


def test_an_empty_index(tmp_path: Path) -> None:
    new_index(tmp_path / "index").close()
    with open_index(tmp_path / "index", writable=True) as index:
        assert len(index) == 0
        assert index.search(np.ones(DIMENSION)) == []
        assert index.search("word", mode="lexical") == []
        add_documents(index, 3)
        assert len(index) == 3


def test_building_replaces_an_index_at_the_end_only(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 5)
    with new_index(tmp_path / "index") as builder:
        add_documents(builder, 7)
        assert size_of(tmp_path / "index") == 5
    assert size_of(tmp_path / "index") == 7
    assert left_beside(tmp_path / "index") == []


def test_a_failed_build_leaves_the_old_index_and_nothing_else(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 5)
    fail_while_building(tmp_path / "index", resume=False)
    assert size_of(tmp_path / "index") == 5
    assert left_beside(tmp_path / "index") == []


def test_a_failed_build_can_be_resumed(tmp_path: Path) -> None:
    fail_while_building(tmp_path / "index", resume=True)
    assert not (tmp_path / "index").exists()
    with new_index(tmp_path / "index", resume=True) as builder:
        assert [len(segment) for segment in builder.stored()] == [10, 10]
        assert builder.known(["doc-3", "doc-30"]) == ["doc-3"]
        builder.truncate(10)
        assert len(builder) == 10
        add_documents(builder, 5, 40)
    with open_index(tmp_path / "index") as index:
        assert len(index) == 15
        assert index.get("doc-12") is None
        assert len(index.search("number", 50, mode="lexical")) == 15
    assert left_beside(tmp_path / "index") == []


@pytest.mark.parametrize("change", [{"space_id": "another"}, {"dimension": DIMENSION + 1}])
def test_a_build_of_another_space_is_not_resumed(tmp_path: Path, change: dict[str, Any]) -> None:
    fail_while_building(tmp_path / "index", resume=True)
    with new_index(tmp_path / "index", resume=True, **change) as builder:
        assert len(builder) == 0


def _build(path: Path) -> None:
    new_index(path).close()


def test_two_builds_at_once_are_refused(tmp_path: Path) -> None:
    with new_index(tmp_path / "index") as builder:
        add_documents(builder, 5)
        with pytest.raises(ArtifactError, match="another process is building"):
            new_index(tmp_path / "index")
        process = multiprocessing.get_context("spawn").Process(
            target=_build, args=(tmp_path / "index",)
        )
        process.start()
        process.join()
        assert process.exitcode != 0
    assert size_of(tmp_path / "index") == 5


def test_a_refused_build_disturbs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    make_index(path, 5)
    rename = Path.rename

    def between_the_renames(self: Path, target: Path) -> Path:
        moved = rename(self, target)
        if self == path:
            with pytest.raises(ArtifactError, match="another process is building"):
                new_index(path)
            assert not path.exists()
        return moved

    monkeypatch.setattr(Path, "rename", between_the_renames)
    make_index(path, 7)
    assert size_of(path) == 7


def test_an_ended_build_leaves_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    first = new_index(path)
    add_documents(first, 3)
    begun = []

    def then_another_begins(finished: Path, path: Path) -> None:
        publish_folder(finished, path)
        begun.append(new_index(path))

    monkeypatch.setattr("pocketquery.sdk.index.builder.publish_folder", then_another_begins)
    first.close()
    monkeypatch.undo()
    add_documents(begun[0], 2)
    begun[0].close()
    assert size_of(path) == 2


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("precious")
    with pytest.raises(InvalidInputError, match="is a file"):
        new_index(tmp_path / "index")
    assert (tmp_path / "index").read_text() == "precious"


@pytest.mark.parametrize(
    ("space", "dimension"),
    [
        ("", 3),
        ("\ud800", 3),
        *((SPACE, dimension) for dimension in (0, -1, 2**16 + 1, "8", 8.0, None)),
    ],
)
def test_what_cannot_be_a_space(tmp_path: Path, space: str, dimension: int) -> None:
    with pytest.raises(InvalidInputError):
        create_index(tmp_path / "index", space_id=space, dimension=dimension)


def test_an_index_moved_aside_by_a_kill_is_opened(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 5)
    (tmp_path / "index").rename(tmp_path / ".index.old")
    assert size_of(tmp_path / "index") == 5
    make_index(tmp_path / "index", 6)
    assert size_of(tmp_path / "index") == 6
    assert left_beside(tmp_path / "index") == []


def test_ids_are_unique_in_a_build(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="doc-0"), new_index(tmp_path / "i") as builder:
        builder.add(make_documents(2) * 2, vectors_of(make_documents(2) * 2))


def clear_a_page(data: bytes) -> bytes:
    page = data.index(b"The castle number") // PAGE * PAGE
    return data[:page] + b"\0" * 8 + data[page + 8 :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("documents.sqlite", lambda data: b"damaged"),
        ("vectors-0.u8", lambda data: b"damaged"),
        ("documents.sqlite", clear_a_page),
        ("vectors-0.u8", lambda data: data[:200] + bytes([data[200] ^ 4]) + data[201:]),
    ],
)
def test_a_damaged_build_is_begun_anew(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    """Even where no size shows it: else the seal at its end would call the damage good."""
    fail_while_building(tmp_path / "index", resume=True)
    file = tmp_path / ".index.building" / name
    file.write_bytes(damage(file.read_bytes()))
    with new_index(tmp_path / "index", resume=True) as builder:
        assert len(builder) == 0


def test_a_build_never_empties_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    (tmp_path / ".index.building").symlink_to(tmp_path / "precious")
    with pytest.raises(ArtifactError, match="is a link"):
        new_index(tmp_path / "index")
    assert (tmp_path / "precious" / "file").read_text() == "precious"


def test_what_lies_in_the_place_of_a_build_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".index.building" / "folder").mkdir(parents=True)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".index.building" / "link").symlink_to(tmp_path / "precious")
    new_index(tmp_path / "index").close()
    assert (tmp_path / "precious").read_text() == "precious"
    assert size_of(tmp_path / "index") == 0


def test_ids_that_are_asked_for_are_texts(tmp_path: Path) -> None:
    with new_index(tmp_path / "index") as builder:
        for strange in ("\ud800", 3, None):
            with pytest.raises(InvalidInputError, match="an id"):
                builder.known([strange])  # type: ignore[list-item]
        assert builder.known(["a\0b"]) == []


def test_the_sum_of_the_vectors_follows_every_change(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with new_index(path) as builder:
        add_documents(builder, 30)
        add_documents(builder, 20, 30)
        builder.truncate(30)
        add_documents(builder, 10, 30)
    verify_index(path)
    with open_index(path, writable=True) as index:
        add_documents(index, 5, 90)
        index.delete(["doc-3", "doc-92"])
    verify_index(path)
    with open_index(path, writable=True) as index:
        before = index.search(np.ones(DIMENSION), 100)
        index.compact()
        assert [hit.id for hit in index.search(np.ones(DIMENSION), 100)] == [
            one.id for one in before
        ]
    verify_index(path)
