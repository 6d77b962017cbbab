"""A delta makes the old index what the new one is, or says why not and changes nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.bundle.storage import ZipStorage
from pocketquery.sdk.bundle.writing import pack_files
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
    SpaceMismatchError,
)
from pocketquery.sdk.index import delta_manifest
from pocketquery.sdk.index.delta_manifest import (
    DELTA_FILE,
    PARTS,
    DeltaManifest,
    PartRecord,
    manifest_bytes,
    parse_manifest,
)
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import create_index, open_index, verify_index
from pocketquery.sdk.index.info import DATABASE
from tests.kills import in_memory
from tests.sdk.built_indexes import FIELDS, TEXTS, assert_same_hits, build
from tests.sdk.index_damage import reseal, snapshot
from tests.sdk.small_index import DIMENSION, SPACE, make_documents, vectors_of
from tests.shell import Shell

_FOLDER = Path(gettempdir())
VERSION = st.dictionaries(st.integers(0, 14), st.tuples(TEXTS, FIELDS), max_size=12)


def documents_of(version: dict[int, tuple[str, dict[str, Any]]]) -> list[Document]:
    return [Document(f"é{n}", text, fields) for n, (text, fields) in version.items()]


def pair(folder: Path) -> tuple[Path, Path, Path]:
    """An index, the next version of it, and the delta between them."""
    documents = make_documents(60)
    old = build(folder / "old", documents)
    changed = [dataclasses.replace(one, text=f"{one.text}!") for one in documents[10:13]]
    new = build(
        folder / "new",
        [*make_documents(4, first=70), *documents[20:], *changed, *documents[:10]],
    )
    sdk.make_delta(old, new, folder / "delta")
    return old, new, folder / "delta"


@settings(max_examples=15, deadline=None)
@given(VERSION, VERSION, VERSION, st.randoms(use_true_random=False))
def test_random_edits(
    first: dict[int, Any], second: dict[int, Any], kept: dict[int, Any], random: Random
) -> None:
    """Some documents in both as they are, some changed, gone and new, in another order."""
    with in_memory(_FOLDER) as place:
        before, after = documents_of({**first, **kept}), documents_of({**second, **kept})
        random.shuffle(after)
        build(place / "old", before)
        build(place / "new", after)
        report = sdk.make_delta(place / "old", place / "new", place / "delta")
        done = sdk.apply_delta(place / "delta", place / "old")
        was, is_now = (
            {one.id: (one.text, json.dumps(one.metadata)) for one in version}
            for version in (before, after)
        )
        both = was.keys() & is_now.keys()
        counts = (
            len(was.keys() - both),
            len(is_now.keys() - both),
            sum(was[one] != is_now[one] for one in both),
        )
        assert counts == (report.removed, report.added, report.changed)
        assert counts == (done.removed, done.added, done.changed)
        assert done.documents == report.documents == len(after)
        assert done.was_there == (list(was.items()) == list(is_now.items()))
        verify_index(place / "old")
        assert_same_hits(place / "old", place / "new", [one.text for one in after])
        # One release of SQLite writes one and the same.
        assert snapshot(place / "old") == snapshot(place / "new")
        assert sdk.apply_delta(place / "delta", place / "old").was_there
        assert {one.name for one in place.iterdir()} == {"old", "new", "delta"}


@pytest.mark.slow
def test_a_chain_of_versions_of_several_segments(tmp_path: Path) -> None:
    documents = make_documents(1400)
    versions = [documents, documents[:600] + documents[700:], documents[1:]]
    for number, version in enumerate(versions):
        build(tmp_path / str(number), version)
    shutil.copytree(tmp_path / "0", tmp_path / "device")
    for number in range(2):
        delta = tmp_path / f"{number}.delta"
        sdk.make_delta(tmp_path / str(number), tmp_path / str(number + 1), delta)
        sdk.apply_delta(delta, tmp_path / "device")
        assert snapshot(tmp_path / "device") == snapshot(tmp_path / str(number + 1))


def test_files_of_another_layout_are_the_same_index(tmp_path: Path) -> None:
    """As another release of SQLite would write them: what counts is what they hold."""
    old, new, delta = pair(tmp_path)
    with open_index(old, writable=True) as index:
        index.compact()
    sdk.apply_delta(delta, old)
    assert snapshot(old) == snapshot(new)
    with open_index(new, writable=True) as index:
        index.compact()
    assert snapshot(old) != snapshot(new)
    sdk.make_delta(old, new, delta)
    assert sdk.apply_delta(delta, old).was_there


def test_a_vector_that_changed_is_a_change(tmp_path: Path) -> None:
    documents = make_documents(5)
    build(tmp_path / "old", documents)
    vectors = vectors_of(documents)
    vectors[2] = vectors[3]
    with create_index(tmp_path / "new", space_id=SPACE, dimension=DIMENSION) as builder:
        builder.add(documents, vectors)
    report = sdk.make_delta(tmp_path / "old", tmp_path / "new", tmp_path / "delta")
    assert (report.removed, report.added, report.changed) == (0, 0, 1)
    sdk.apply_delta(tmp_path / "delta", tmp_path / "old")
    assert snapshot(tmp_path / "old") == snapshot(tmp_path / "new")


def test_an_index_it_was_not_made_for_is_left_alone(tmp_path: Path) -> None:
    old, new, delta = pair(tmp_path)
    sdk.make_delta(new, old, tmp_path / "back")
    build(tmp_path / "other", make_documents(59))
    before = snapshot(tmp_path / "other")
    with pytest.raises(
        ArtifactError, match=r"has 59 documents, contents .* was made from an index"
    ):
        sdk.apply_delta(delta, tmp_path / "other")
    assert snapshot(tmp_path / "other") == before
    with open_index(old, writable=True) as index:
        index.delete(["doc-3"])
    before = snapshot(old)
    with pytest.raises(ArtifactError, match="changed on this device"):
        sdk.apply_delta(delta, old)
    with pytest.raises(InvalidInputError, match=r"1 deleted documents.*compact"):
        sdk.make_delta(new, old, tmp_path / "next")
    with pytest.raises(InvalidInputError, match="compact"):
        sdk.make_delta(old, new, tmp_path / "next")
    assert snapshot(old) == before
    with create_index(tmp_path / "far", space_id="elsewhere", dimension=DIMENSION):
        pass
    for action in (
        lambda: sdk.apply_delta(delta, tmp_path / "far"),
        lambda: sdk.make_delta(new, tmp_path / "far", tmp_path / "next"),
    ):
        with pytest.raises(SpaceMismatchError, match="elsewhere"):
            action()
    names = {"old", "new", "delta", "back", "other", "far"}
    assert {one.name for one in tmp_path.iterdir()} == names


def test_what_is_no_delta_is_not_replaced(tmp_path: Path) -> None:
    old, new, delta = pair(tmp_path)
    (tmp_path / "thesis").write_text("years of work")
    for output in (tmp_path / "thesis", old):
        with pytest.raises(InvalidInputError, match="is not a delta; it is left alone"):
            sdk.make_delta(old, new, output)
    assert (tmp_path / "thesis").read_text() == "years of work"
    data = delta.read_bytes()
    sdk.make_delta(old, new, delta)
    assert delta.read_bytes() == data


def test_a_part_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, delta = pair(tmp_path)
    delta.unlink()
    monkeypatch.setattr(delta_manifest, "_MOST_PART", 10)
    with pytest.raises(InvalidInputError, match=r"no device could read .* publish the whole index"):
        sdk.make_delta(old, new, delta)
    assert not delta.exists()


def test_metadata_of_another_spelling_are_refused(tmp_path: Path) -> None:
    old, new, delta = pair(tmp_path)
    with open_index(new, writable=True) as index:
        index.add([Document("x", "y", {"a": 1})], np.ones((1, DIMENSION)))
    connection = sqlite3.connect(new / DATABASE)
    connection.execute("UPDATE documents SET metadata = '{\"a\":1}' WHERE id = 'x'")
    connection.commit()
    connection.close()
    reseal(new)
    with pytest.raises(InvalidInputError, match=r"'x' in .* were not written by"):
        sdk.make_delta(old, new, delta)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_damage_ends_in_errors_of_ours(seed: int) -> None:
    random = Random(seed)
    with in_memory(_FOLDER) as place:
        for name in ("old", "new", "delta"):
            source = _PAIR[0] / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, place / name)
        before = snapshot(place / "old")
        data = bytearray((place / "delta").read_bytes())
        if random.random() < 0.3:
            del data[random.randrange(len(data)) :]
        else:
            for _ in range(random.choice((1, 1, 3))):
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        (place / "delta").write_bytes(data)
        try:
            sdk.apply_delta(place / "delta", place / "old")
        except PocketQueryError:
            assert snapshot(place / "old") == before
        else:  # a bit that says nothing, of a zip's times, say
            assert snapshot(place / "old") == snapshot(place / "new")
        assert {one.name for one in place.iterdir()} == {"old", "new", "delta"}


def forged(delta: Path, part: str, edit: Callable[[bytes], bytes], **fields: Any) -> None:
    """Change a part and give it the hash and sizes it has then, as malice would."""
    files = files_of(delta)
    data = edit(zlib.decompress(files[part]))
    files[part] = zlib.compress(data)
    manifest = parse_manifest(files[DELTA_FILE], "delta")
    record = PartRecord(hashlib.sha256(files[part]).hexdigest(), len(files[part]), len(data))
    parts = {**manifest.parts, part: record}
    files[DELTA_FILE] = manifest_bytes(dataclasses.replace(manifest, parts=parts, **fields))
    pack_files(files, delta)


def files_of(delta: Path) -> dict[str, bytes]:
    storage = ZipStorage(delta)
    return {name: storage.read(name, 1 << 30) for name in (DELTA_FILE, *PARTS)}


@pytest.mark.parametrize(
    ("part", "edit"),
    [
        ("order", lambda data: data[:-1]),
        ("order", lambda data: data[:-8]),
        ("order", lambda data: b""),
        ("order", lambda data: data[8:] + data[:8]),  # the rows are others then
        ("order", lambda data: data.replace(b"\x14\0\0\0", b"\x13\0\0\0", 1)),
        ("order", lambda data: b"\xff\xff\xff\xff\xff\xff\xff\xff" + data),
        ("order", lambda data: b"\0\0\0\0\xff\xff\xff\xff" + data),
        ("removed", lambda data: data[:-1]),
        ("removed", lambda data: data + b"\0"),
        ("removed", lambda data: b"\xff\xff\xff\xff" + data[4:]),
        ("removed", lambda data: data.replace(b"doc-13", b"doc-14")),
        ("removed", lambda data: data.replace(b"doc-13", b"doc-59")),
        ("removed", lambda data: data.replace(b"doc-13", b"d\xff\xff-13")),
        ("documents", lambda data: data[:-1]),
        ("documents", lambda data: data.replace(b'{"year"', b'["year"')),
        ("documents", lambda data: data.replace(b"doc-70", b"doc-59")),
        ("documents", lambda data: data.replace(b"doc-70", b"doc-71")),
        ("documents", lambda data: data.replace(b"doc-70", b"doc-99")),
        ("documents", lambda data: data.replace(b"bridge", b"Bridge")),
        ("vectors", lambda data: data[:-1]),
        ("vectors", lambda data: bytes(len(data))),
        ("vectors", lambda data: bytes([data[0] ^ 1]) + data[1:]),
    ],
)
def test_parts_that_are_none_are_refused(
    tmp_path: Path, part: str, edit: Callable[[bytes], bytes]
) -> None:
    old, _, delta = pair(tmp_path)
    before = snapshot(old)
    was = files_of(delta)[part]
    forged(delta, part, edit)
    assert files_of(delta)[part] != was
    with pytest.raises(PocketQueryError):
        sdk.apply_delta(delta, old)
    assert snapshot(old) == before
    assert not (tmp_path / ".old.building").exists()


@pytest.mark.parametrize(
    "edit",
    [
        lambda one: dataclasses.replace(one, added=one.added + 1),
        lambda one: dataclasses.replace(one, changed=one.changed + 1),
        lambda one: dataclasses.replace(one, changed=(1 << 32) - 1),
        lambda one: dataclasses.replace(one, removed=one.removed - 1, added=one.added - 1),
        lambda one: dataclasses.replace(
            one,
            parts={name: dataclasses.replace(p, unpacked_bytes=3) for name, p in one.parts.items()},
        ),
        lambda one: dataclasses.replace(
            one,
            parts={name: dataclasses.replace(p, bytes=1 << 31) for name, p in one.parts.items()},
        ),
        lambda one: dataclasses.replace(one, new=dataclasses.replace(one.new, sha256="0" * 64)),
        lambda one: dataclasses.replace(one, new=dataclasses.replace(one.new, sha256="A" * 64)),
        lambda one: dataclasses.replace(one, dimension=0),
        lambda one: dataclasses.replace(one, dimension=DIMENSION + 1),
        lambda one: dataclasses.replace(one, space_id=""),
    ],
)
def test_descriptions_that_are_none_are_refused(
    tmp_path: Path, edit: Callable[[DeltaManifest], DeltaManifest]
) -> None:
    old, _, delta = pair(tmp_path)
    before, files = snapshot(old), files_of(delta)
    files[DELTA_FILE] = manifest_bytes(edit(parse_manifest(files[DELTA_FILE], "delta")))
    pack_files(files, delta)
    with pytest.raises((ArtifactError, SpaceMismatchError)):
        sdk.apply_delta(delta, old)
    assert snapshot(old) == before


@pytest.mark.parametrize("name", [DELTA_FILE, *PARTS])
def test_a_part_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    old, _, delta = pair(tmp_path)
    files = files_of(delta)
    del files[name]
    pack_files(files, delta)
    with pytest.raises(CorruptArtifactError, match=f"lacks {name}"):
        sdk.apply_delta(delta, old)


def test_the_shell_makes_shows_and_applies(tmp_path: Path, shell: Shell) -> None:
    old, new, made = pair(tmp_path)
    delta = tmp_path / "made" / "delta"
    make = ["delta", "make", "--old", old, "--new", new, "--output", delta]
    shell(*make, says="7 documents go, 4 come, 3 change, 57 then")
    assert delta.read_bytes() == made.read_bytes()
    shell("delta", "show", delta, says="7 go, 4 come, 3 change")
    apply = ["delta", "apply", delta, "--index", old]
    shell(*apply, says="57 documents; 7 went, 4 came, 3 changed")
    shell(*apply, says="has these 57 documents already")
    shell(*apply, "--json", says='"was_there": true')


_PAIR: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two versions and their delta, to be copied."""
    _PAIR[:] = [tmp_path_factory.mktemp("pair")]
    pair(_PAIR[0])
