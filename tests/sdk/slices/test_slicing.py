"""A slice is what a build of its documents alone writes, to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
)
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import open_index, verify_index
from tests.kills import in_memory
from tests.sdk.built_indexes import FIELDS, TEXTS, assert_same_hits, build
from tests.sdk.index_damage import VECTORS, reseal, snapshot
from tests.sdk.small_index import WordEncoder, make_documents, vectors_of
from tests.shell import Shell

PRIVATE = bytes(range(32))
_FOLDER = Path(gettempdir())
RIVERS = {"tag": "river"}
DOCUMENTS = st.lists(st.tuples(TEXTS, FIELDS), min_size=1, max_size=12).map(
    lambda found: [Document(f"d{n}", text, fields) for n, (text, fields) in enumerate(found)]
)


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    return build(tmp_path / "all", make_documents(1300))


def rivers(documents: Sequence[Document]) -> list[Document]:
    return [one for one in documents if "river" in one.metadata["tag"]]


def test_a_slice_has_the_bytes_of_a_build_of_it(everything: Path, tmp_path: Path) -> None:
    filter = {"year": {"$gte": 2000}, "tag": {"$ne": "river"}}
    before = snapshot(everything)
    report = sdk.slice_index(everything, filter, tmp_path / "slice")
    expected = [
        one
        for one in make_documents(1300)
        if one.metadata["year"] >= 2000 and "river" not in one.metadata["tag"]
    ]
    assert report.documents == len(expected) > 1024  # several segments
    build(tmp_path / "built", expected)
    assert snapshot(tmp_path / "slice") == snapshot(tmp_path / "built")
    assert report.bytes == sum(map(len, snapshot(tmp_path / "slice").values()))
    assert snapshot(everything) == before


@settings(max_examples=40, deadline=None)
@given(DOCUMENTS, st.sampled_from(["a", "b", 1, True, 0.5, "日本"]), st.sets(st.integers(0, 11)))
def test_searches_find_what_an_index_of_the_selected_finds(
    documents: list[Document], value: object, deleted: set[int]
) -> None:
    """Also where the index cut from has deleted documents and was changed since it was built."""
    with in_memory(_FOLDER) as place:
        build(place / "all", documents[: len(documents) // 2 + 1])
        with open_index(place / "all", writable=True) as index:
            if rest := documents[len(documents) // 2 + 1 :]:
                index.add(rest, vectors_of(rest))
            index.delete([f"d{number}" for number in deleted])
        with open_index(place / "all") as index:
            living = list(index.documents())
        filter = {"$or": [{"tenant": value}, {"region": {"$in": [value]}}]}
        selected = [
            one for one in living if _has(one, "tenant", value) or _has(one, "region", value)
        ]
        if not selected:
            with pytest.raises(InvalidInputError, match="selects none of the"):
                sdk.slice_index(place / "all", filter, place / "slice")
            return
        sdk.slice_index(place / "all", filter, place / "slice")
        build(place / "built", selected)
        assert snapshot(place / "slice") == snapshot(place / "built")
        verify_index(place / "slice")
        assert_same_hits(place / "slice", place / "built", [one.text for one in selected])


def _has(document: Document, field: str, value: object) -> bool:
    found = document.metadata.get(field)
    kind = bool if isinstance(value, bool) else str if isinstance(value, str) else (int, float)
    return any(
        isinstance(one, kind) and isinstance(one, bool) == isinstance(value, bool) and one == value
        for one in (found if isinstance(found, list) else [found])
    )


@settings(max_examples=30, deadline=None)
@given(DOCUMENTS, st.sampled_from(["tenant", "region"]))
def test_each_value_gets_what_its_filter_selects(documents: list[Document], field: str) -> None:
    with in_memory(_FOLDER) as place:
        build(place / "all", documents)
        lists = [one.metadata.get(field) for one in documents]
        listed = [one if isinstance(one, list) else [one] for one in lists]
        values = {(type(v) is bool, isinstance(v, str), v): v for one in listed for v in one}
        values = {key: value for key, value in values.items() if value is not None}
        if not values:
            with pytest.raises(InvalidInputError, match="none of the"):
                sdk.slice_index_by(place / "all", field, place / "by")
            assert not (place / "by").exists()
            return
        report = sdk.slice_index_by(place / "all", field, place / "by")
        assert report.left_out == sum(all(v is None for v in one) for one in listed)
        assert len(report.slices) == len(values)
        found = {path.name: snapshot(path) for path in (place / "by").iterdir()}
        for value in values.values():
            sdk.slice_index(place / "all", {field: value}, place / "one")
            assert snapshot(place / "one") in found.values()


def test_the_folders_have_the_values_names(tmp_path: Path) -> None:
    values = ["a b", ".", "..", "", "x/y", "é", 1.5, True, "C", ["p", "q"]]
    documents = [Document(str(n), "text", {"v": value}) for n, value in enumerate(values)]
    build(tmp_path / "all", [*documents, Document("none", "text"), Document("n", "", {"v": {}})])
    report = sdk.slice_index_by(tmp_path / "all", "v", tmp_path / "by")
    names = ["a%20b", "%2E", "%2E.", "%", "x%2Fy", "%C3%A9", "1.5", "true", "C", "p", "q"]
    assert list(report.slices) == names
    assert sorted(names) == sorted(path.name for path in (tmp_path / "by").iterdir())
    assert (report.left_out, report.others) == (2, ())
    build(tmp_path / "all", documents[:1])
    assert set(sdk.slice_index_by(tmp_path / "all", "v", tmp_path / "by").others) == set(names[1:])


@pytest.mark.parametrize(("values", "name"), [((-0.0, 0, 0.0), "0"), ((2.0, 2), "2")])
def test_equal_numbers_have_one_folder(
    tmp_path: Path, values: tuple[float, ...], name: str
) -> None:
    for order in (values, values[::-1]):
        build(tmp_path / "all", [Document(str(n), "x", {"v": v}) for n, v in enumerate(order)])
        report = sdk.slice_index_by(tmp_path / "all", "v", tmp_path / "by")
        assert {key: one.documents for key, one in report.slices.items()} == {name: len(values)}


@pytest.mark.parametrize("values", [("a", "A"), ("1", 1), ("true", True)])
def test_values_of_one_folder_are_refused(tmp_path: Path, values: tuple[object, object]) -> None:
    build(tmp_path / "all", [Document(str(v) + str(type(v)), "x", {"v": v}) for v in values])
    with pytest.raises(InvalidInputError, match="would have one folder"):
        sdk.slice_index_by(tmp_path / "all", "v", tmp_path / "by")
    assert not (tmp_path / "by").exists()


def test_a_value_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    build(tmp_path / "all", [Document("1", "x", {"v": "é" * 40})])
    with pytest.raises(InvalidInputError, match="240 characters, expected at most 200"):
        sdk.slice_index_by(tmp_path / "all", "v", tmp_path / "by")


def test_what_cannot_be_cut_leaves_everything_as_it_was(everything: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    before = snapshot(everything)
    for filter, output, message in (
        (RIVERS, tmp_path / "thesis", "is not an index; it is left alone"),
        (RIVERS, everything, "the index that is cut from"),
        (RIVERS, everything / "rivers", "or is in it"),
        ({"tag": "sea"}, tmp_path / "slice", "none of the 1300 documents"),
        ({"$nor": []}, tmp_path / "slice", "unknown operator"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            sdk.slice_index(everything, filter, output)
    with pytest.raises(InvalidInputError, match="or is in it"):
        sdk.slice_index_by(everything, "tag", everything)
    with pytest.raises(ArtifactNotFoundError):
        sdk.slice_index(tmp_path / "absent", RIVERS, tmp_path / "slice")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "thesis"]
    assert snapshot(everything) == before


def test_an_empty_slice_on_request_replaces_an_old_one(everything: Path, tmp_path: Path) -> None:
    sdk.slice_index(everything, RIVERS, tmp_path / "slice")
    report = sdk.slice_index(everything, {"tag": "sea"}, tmp_path / "slice", allow_empty=True)
    assert report.documents == 0
    verify_index(tmp_path / "slice")
    with open_index(tmp_path / "slice", encoder=WordEncoder()) as index:
        assert len(index) == 0
        assert index.search("river") == []


def test_damage_is_not_cut_into_a_slice(everything: Path, tmp_path: Path) -> None:
    data = bytearray((everything / VECTORS).read_bytes())
    data[-1000] ^= 1
    (everything / VECTORS).write_bytes(data)
    for sealed in (False, True):
        with pytest.raises(CorruptArtifactError, match="was changed after it was written"):
            sdk.slice_index(everything, RIVERS, tmp_path / "slice")
        assert not (tmp_path / "slice").exists()
        assert not sealed or sorted(path.name for path in tmp_path.iterdir()) == ["all"]
        reseal(everything)


def test_signed_in_signed_out(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    public = public_key_of(PRIVATE)
    other = public_key_of(b"\7" * 32)
    path = build(tmp_path / "all", make_documents(40), signing_key=PRIVATE)
    report = sdk.slice_index(
        path, RIVERS, tmp_path / "slice", public_key=public, signing_key=b"\7" * 32
    )
    assert sdk.verify(report.path, public_key=other).signed_by == report.signature_key_id
    with pytest.raises(SignatureError):
        sdk.slice_index(path, RIVERS, tmp_path / "slice", public_key=other)
    assert sdk.slice_index(path, RIVERS, tmp_path / "slice").signature_key_id is None
    by = sdk.slice_index_by(path, "tag", tmp_path / "by", public_key=public, signing_key=PRIVATE)
    for one in by.slices.values():
        sdk.open_index(one.path, public_key=public).close()


def test_the_name_of_an_encoder_other_than_the_spaces_goes_along(tmp_path: Path) -> None:
    documents = make_documents(40)
    build(tmp_path / "all", documents, encoded_by="light 3")
    sdk.slice_index(tmp_path / "all", RIVERS, tmp_path / "slice")
    build(tmp_path / "built", rivers(documents), encoded_by="light 3")
    assert snapshot(tmp_path / "slice") == snapshot(tmp_path / "built")


def test_the_shell_cuts(everything: Path, tmp_path: Path, shell: Shell) -> None:
    output = tmp_path / "slice"
    cut = ["slice", "--index", everything, "--output"]
    shell(*cut, output, "--filter", '{"tag": "river"}', says=f"{output}: 163 documents")
    shell(*cut, tmp_path / "by", "--by", "tag", "--json", says='"left_out": 0')
    assert len(list((tmp_path / "by").iterdir())) == 14
    shell(*cut, output, "--filter", '{"tag": "sea"}', code=2, says="--allow-empty")
