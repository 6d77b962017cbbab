from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.sdk.folders import publish_folder
from pocketquery.sdk.index.index import create_index, open_index
from tests.sdk.small_index import DIMENSION, SPACE, make_documents, make_index, vectors_of


def left_beside(path: Path) -> list[str]:
    return [one.name for one in path.parent.iterdir() if one != path]


class FailureError(Exception):
    """Ends a build."""


def build_and_fail(path: Path, *, resume: bool) -> None:
    documents = make_documents(20)
    with create_index(path, space_id=SPACE, dimension=DIMENSION, resume=resume) as builder:
        builder.add(documents[:10], vectors_of(documents[:10]))
        builder.add(documents[10:], vectors_of(documents[10:]))
        raise FailureError


def fail_while_building(path: Path, *, resume: bool) -> None:
    with pytest.raises(FailureError):
        build_and_fail(path, resume=resume)


def test_an_empty_index(tmp_path: Path) -> None:
    create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION).close()
    with open_index(tmp_path / "index", writable=True) as index:
        assert len(index) == 0
        assert index.search(np.ones(DIMENSION)) == []
        assert index.search("word", mode="lexical") == []
        documents = make_documents(3)
        index.add(documents, vectors_of(documents))
        assert len(index) == 3


def test_building_replaces_an_index_at_the_end_only(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 5)
    documents = make_documents(7)
    with create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION) as builder:
        builder.add(documents, vectors_of(documents))
        with open_index(tmp_path / "index") as old:
            assert len(old) == 5
    with open_index(tmp_path / "index") as new:
        assert len(new) == 7
    assert left_beside(tmp_path / "index") == []


def test_a_failed_build_leaves_the_old_index_and_nothing_else(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 5)
    fail_while_building(tmp_path / "index", resume=False)
    with open_index(tmp_path / "index") as old:
        assert len(old) == 5
    assert left_beside(tmp_path / "index") == []


def test_a_failed_build_can_be_resumed(tmp_path: Path) -> None:
    fail_while_building(tmp_path / "index", resume=True)
    assert not (tmp_path / "index").exists()
    with create_index(
        tmp_path / "index", space_id=SPACE, dimension=DIMENSION, resume=True
    ) as builder:
        assert [len(segment) for segment in builder.stored()] == [10, 10]
        assert builder.known(["doc-3", "doc-30"]) == ["doc-3"]
        builder.truncate(10)
        assert len(builder) == 10
        documents = make_documents(5, first=40)
        builder.add(documents, vectors_of(documents))
    with open_index(tmp_path / "index") as index:
        assert len(index) == 15
        assert index.get("doc-12") is None
        assert len(index.search("number", 50, mode="lexical")) == 15
    assert left_beside(tmp_path / "index") == []


@pytest.mark.parametrize(("space", "dimension"), [("another", DIMENSION), (SPACE, DIMENSION + 1)])
def test_a_build_of_another_space_is_not_resumed(
    tmp_path: Path, space: str, dimension: int
) -> None:
    fail_while_building(tmp_path / "index", resume=True)
    with create_index(
        tmp_path / "index", space_id=space, dimension=dimension, resume=True
    ) as builder:
        assert len(builder) == 0


@pytest.mark.parametrize("name", ["documents.sqlite", "vectors-0.u8"])
def test_a_damaged_build_is_begun_anew(tmp_path: Path, name: str) -> None:
    fail_while_building(tmp_path / "index", resume=True)
    (tmp_path / ".index.building" / name).write_bytes(b"damaged")
    with create_index(
        tmp_path / "index", space_id=SPACE, dimension=DIMENSION, resume=True
    ) as builder:
        assert len(builder) == 0


def _build(path: Path) -> None:
    create_index(path, space_id=SPACE, dimension=DIMENSION).close()


def test_two_builds_at_once_are_refused(tmp_path: Path) -> None:
    documents = make_documents(5)
    with create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION) as builder:
        builder.add(documents, vectors_of(documents))
        with pytest.raises(ArtifactError, match="another process is building"):
            create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION)
        process = multiprocessing.get_context("spawn").Process(
            target=_build, args=(tmp_path / "index",)
        )
        process.start()
        process.join()
        assert process.exitcode != 0
    with open_index(tmp_path / "index") as index:
        assert len(index) == 5


def test_a_build_that_is_refused_does_not_disturb_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index"
    make_index(path, 5)
    rename = Path.rename

    def between_the_renames(self: Path, target: Path) -> Path:
        moved = rename(self, target)
        if self == path:
            with pytest.raises(ArtifactError, match="another process is building"):
                create_index(path, space_id=SPACE, dimension=DIMENSION)
            assert not path.exists()
        return moved

    monkeypatch.setattr(Path, "rename", between_the_renames)
    make_index(path, 7)
    with open_index(path) as index:
        assert len(index) == 7


def test_a_build_that_has_ended_leaves_the_next_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index"
    documents = make_documents(3)
    first = create_index(path, space_id=SPACE, dimension=DIMENSION)
    first.add(documents, vectors_of(documents))
    begun = []

    def then_another_begins(finished: Path, path: Path) -> None:
        publish_folder(finished, path)
        begun.append(create_index(path, space_id=SPACE, dimension=DIMENSION))

    monkeypatch.setattr("pocketquery.sdk.index.builder.publish_folder", then_another_begins)
    first.close()
    monkeypatch.undo()
    begun[0].add(documents[:2], vectors_of(documents[:2]))
    begun[0].close()
    with open_index(path) as index:
        assert len(index) == 2


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("precious")
    with pytest.raises(InvalidInputError, match="is a file"):
        create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION)
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
    with open_index(tmp_path / "index") as index:
        assert len(index) == 5
    make_index(tmp_path / "index", 6)
    with open_index(tmp_path / "index") as index:
        assert len(index) == 6
    assert left_beside(tmp_path / "index") == []


def test_ids_are_unique_in_a_build(tmp_path: Path) -> None:
    documents = make_documents(2) * 2
    with (
        pytest.raises(InvalidInputError, match="doc-0"),
        create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION) as builder,
    ):
        builder.add(documents, vectors_of(documents))


@pytest.mark.parametrize("part", [b"The castle number", None])
def test_a_build_damaged_where_no_size_shows_it_is_begun_anew(
    tmp_path: Path, part: bytes | None
) -> None:
    """Else the seal at its end would call the damage good."""
    fail_while_building(tmp_path / "index", resume=True)
    file = tmp_path / ".index.building" / ("documents.sqlite" if part else "vectors-0.u8")
    data = bytearray(file.read_bytes())
    if part is None:
        data[200] ^= 4
    else:
        page = data.index(part) // 4096 * 4096
        data[page : page + 8] = b"\0" * 8
    file.write_bytes(data)
    with create_index(
        tmp_path / "index", space_id=SPACE, dimension=DIMENSION, resume=True
    ) as builder:
        assert len(builder) == 0


def test_a_build_never_empties_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    (tmp_path / ".index.building").symlink_to(tmp_path / "precious")
    with pytest.raises(ArtifactError, match="is a link"):
        create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION)
    assert (tmp_path / "precious" / "file").read_text() == "precious"


def test_what_lies_in_the_place_of_a_build_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".index.building" / "folder").mkdir(parents=True)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".index.building" / "link").symlink_to(tmp_path / "precious")
    create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION).close()
    assert (tmp_path / "precious").read_text() == "precious"
    with open_index(tmp_path / "index") as index:
        assert len(index) == 0


def test_ids_that_are_asked_for_are_texts(tmp_path: Path) -> None:
    with create_index(tmp_path / "index", space_id=SPACE, dimension=DIMENSION) as builder:
        for strange in ("\ud800", 3, None):
            with pytest.raises(InvalidInputError, match="an id"):
                builder.known([strange])  # type: ignore[list-item]
        assert builder.known(["a\0b"]) == []
