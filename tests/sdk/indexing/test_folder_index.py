"""An index of a folder follows its files: what an update leaves is what a new index would be."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorpusError,
    InvalidInputError,
)
from pocketquery.sdk.folders import held_for_building
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import open_index, verify_index
from pocketquery.sdk.indexing import folder_index
from pocketquery.sdk.indexing.building import FileChanges, IndexReport
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder
from pocketquery.sdk.indexing.folder_index import build_folder, source_of, update_folder
from pocketquery.sdk.plain_files import open_plain
from pocketquery.sdk.text_folders.listing import Skipped
from pocketquery.sdk.text_folders.text_folder import read_file
from tests.sdk.small_index import DIMENSION, SPACE, WordEncoder, make_index
from tests.sdk.text_folders.test_formats import pdf

READER = "pocketquery.sdk.indexing.folder_reader"
OLD_S = 10  # seconds: a file that was written so long ago is not looked at again


class Words:
    """A document encoder that remembers what it encoded."""

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.encoder = DocumentEncoder(
            SPACE,
            DIMENSION,
            self._encode,
            lambda texts: [[1] * len(text.split()) for text in texts],
            64,
            name="words 1",
            digest="1" * 64,
        )

    def _encode(self, texts: list[str]) -> Any:
        self.encoded += texts
        return WordEncoder().encode(texts)


class Notes:
    """A folder of notes and its index."""

    def __init__(self, place: Path) -> None:
        self.folder, self.index = place / "notes", place / "index"
        self.folder.mkdir()
        self.skipped: list[Skipped] = []

    def write(self, name: str, text: str, age: float = OLD_S) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        then = time.time() - age
        os.utime(path, (then, then))

    def build(self, place: Path | None = None) -> IndexReport:
        words = Words()
        source = source_of(self.folder, (), ["drafts/"], words.encoder)
        return build_folder(source, place or self.index, words.encoder)

    def update(self, **expected: object) -> tuple[IndexReport, list[str]]:
        words = Words()
        self.skipped = []
        language = expected.pop("language", None)
        report = update_folder(
            self.index,
            lambda _: words.encoder,
            expected,
            None if language is None else str(language),
            on_skipped=self.skipped.append,
        )
        return report, words.encoded


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    made = Notes(tmp_path)
    made.write("garden.md", "# Garden\n\nTomatoes.\n\n## May\n\nThe apple tree.\n")
    made.write("tea.txt", "Green tea wants eighty degrees.")
    made.write("trips/oslo.md", "# Oslo\n\nThe train leaves at seven.\n")
    made.write("drafts/none.md", "left out")
    return made


def contents(path: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    verify_index(path)
    with open_index(path) as index:
        return {one.id: (one.text, dict(one.metadata)) for one in index.documents()}


def test_an_update_reads_and_encodes_what_changed(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = notes.build()
    assert (built.documents, built.passages, built.encoded) == (3, 4, 4)
    read = list[str]()

    def recorded(file: Any, **options: Any) -> list[Document]:
        read.append(file.name)
        return read_file(file, **options)

    monkeypatch.setattr(f"{READER}.read_file", recorded)
    report, encoded = notes.update()
    assert (report.changes, read, encoded) == (FileChanges(), [], [])
    notes.write("empty.md", "")
    for _ in range(2):  # the second time it is not read, and told again
        notes.update()
        assert [(one.name, one.kind) for one in notes.skipped[-1:]] == [
            ("empty.md", "without text")
        ]
    read.clear()
    notes.write("tea.txt", "Green tea wants eighty degrees.", age=OLD_S / 2)  # touched alone
    assert notes.update()[0].changes == FileChanges()
    assert read == []
    notes.write("garden.md", "# Garden\n\nTomatoes.\n\n## May\n\nThe pear tree.\n")
    notes.write("new/one.md", "# New\n\nSomething new.\n")
    (notes.folder / "trips/oslo.md").rename(notes.folder / "oslo.md")
    (notes.folder / "tea.txt").unlink()
    report, encoded = notes.update()
    assert report.changes == FileChanges(added=1, changed=1, moved=1, removed=1)
    assert sorted(read) == ["garden.md", "new/one.md", "oslo.md"]
    assert sorted(encoded) == ["Garden: May The pear tree.", "New one.md\nSomething new."]
    assert (report.documents, report.passages, report.encoded) == (3, 4, 2)
    notes.build(notes.index.with_name("anew"))
    assert contents(notes.index) == contents(notes.index.with_name("anew"))
    assert notes.update()[0].changes == FileChanges()


NAMES = st.sampled_from(["a.md", "b.md", "deep/a.md", "deep/c.txt"])
TEXTS = st.sampled_from(["# One\n\nsea\n", "# One\n\nsea\n\n## Two\n\nland\n", "two seas\n", ""])
EDITS = st.one_of(
    st.tuples(st.just("write"), NAMES, TEXTS),
    st.tuples(st.just("move"), NAMES, NAMES),
    st.tuples(st.just("remove"), NAMES, st.just("")),
)


@settings(max_examples=25)
@given(st.lists(st.lists(EDITS, max_size=4), min_size=1, max_size=3))
def test_an_update_leaves_what_a_new_index_would_be(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[str, str, str]]]
) -> None:
    notes = Notes(tmp_path_factory.mktemp("notes"))
    notes.write("always.md", "# Always\n\nthere\n")
    notes.build()
    for edits in rounds:
        for number, (kind, name, other) in enumerate(edits):
            path = notes.folder / name
            if kind == "write":
                notes.write(name, other, age=OLD_S + number)
            elif path.exists():
                notes.write(f"{other}.gone" if kind == "remove" else other, path.read_text())
                if kind == "remove" or other != name:
                    path.unlink()
        notes.update()
        notes.build(notes.index.with_name("anew"))
        assert contents(notes.index) == contents(notes.index.with_name("anew"))


def test_a_change_within_the_time_a_file_system_tells_is_seen(notes: Notes) -> None:
    notes.write("now.md", "first text", age=0)
    status = (notes.folder / "now.md").stat()
    notes.build()
    notes.write("now.md", "other text", age=0)
    os.utime(notes.folder / "now.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert notes.update()[0].changes == FileChanges(changed=1)


def test_what_cannot_be_read_just_now_stays(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    notes.build()
    before = contents(notes.index)
    notes.write("tea.txt", "other text")

    def refusing(path: Path) -> BufferedReader:
        if path.name == "tea.txt":
            raise PermissionError(13, "Permission denied")
        return open_plain(path)

    with monkeypatch.context() as patch:
        patch.setattr(f"{READER}.open_plain", refusing)
        assert notes.update()[0].changes == FileChanges()
    assert notes.skipped[1:] == [Skipped("tea.txt", "unreadable", "Permission denied")]
    assert contents(notes.index) == before
    assert notes.update()[0].changes == FileChanges(changed=1)


def test_a_file_that_lacked_a_package_is_read_once_it_is_there(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes.folder / "paper.pdf").write_bytes(pdf("A paper about whales."))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pypdfium2", None)
        notes.build()
        assert notes.update()[0].changes == FileChanges()
        assert "pocketquery[files]" in notes.skipped[-1].why
    assert notes.update()[0].changes == FileChanges(added=1)


def test_a_folder_that_is_gone_or_empty_leaves_the_index(notes: Notes) -> None:
    notes.build()
    before = contents(notes.index)
    aside = notes.folder.rename(notes.folder.with_name("aside"))
    with pytest.raises(ArtifactNotFoundError, match="found nothing there, expected a folder"):
        notes.update()
    notes.folder.mkdir()
    with pytest.raises(CorpusError, match=r"found no file with text.*stays as it was"):
        notes.update()
    notes.folder.rmdir()
    aside.rename(notes.folder)
    assert contents(notes.index) == before
    assert notes.update()[0].changes == FileChanges()


def test_a_file_that_lost_its_text_leaves_the_index(notes: Notes) -> None:
    notes.build()
    notes.write("tea.txt", "")
    report, _ = notes.update()
    assert report.changes == FileChanges(removed=1)
    assert report.documents == 2
    assert notes.update()[0].changes == FileChanges()
    notes.write("tea.txt", "Black tea.")
    assert notes.update()[0].changes == FileChanges(added=1)


def test_an_index_is_closed_where_a_file_is_even_one_without_text(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketquery.sdk.text_folders.text_folder.is_private", lambda _: False)
    monkeypatch.setattr(
        f"{READER}.any_closed", lambda files: any(file.name == "closed.txt" for file in files)
    )
    notes.build()
    assert notes.index.stat().st_mode & 0o077
    notes.write("closed.txt", "")
    notes.update()
    notes.build(notes.index.with_name("new"))
    for place in (notes.index, notes.index.with_name("new")):
        assert not any(one.stat().st_mode & 0o077 for one in (place, *place.iterdir()))


def test_documents_of_ones_own_stay(notes: Notes) -> None:
    notes.build()
    with open_index(notes.index, encoder=None, writable=True) as index:
        index.add([Document("mine", "added by hand")], WordEncoder().encode(["added by hand"]))
    notes.write("tea.txt", "Black tea.")
    notes.update()
    assert contents(notes.index)["mine"] == ("added by hand", {})


def test_the_index_itself_is_no_text(notes: Notes) -> None:
    notes.index = notes.folder / "my [index]"
    notes.build()
    (notes.index / "readme.md").write_text("of the index")
    assert notes.update()[0].documents == 3


def test_many_updates_are_compacted(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    notes.build()
    monkeypatch.setattr(folder_index, "_MOST_SEGMENTS", 2)
    monkeypatch.setattr(folder_index, "_MOST_DELETED", 1)
    for number in range(6):
        notes.write(f"{number}.txt", f"note number {number}")
        notes.update()
    with open_index(notes.index) as index, index.reading() as (connection, snapshot):
        assert connection.execute("SELECT count(*) FROM segments").fetchone()[0] <= 3
        assert len(snapshot) == 10
    monkeypatch.setattr(folder_index, "_MOST_DELETED", 0.2)
    (notes.folder / "0.txt").unlink()
    (notes.folder / "1.txt").unlink()
    (notes.folder / "2.txt").unlink()
    notes.update()
    with open_index(notes.index) as index, index.reading() as (_, snapshot):
        assert len(snapshot.vectors) == len(snapshot) == 7
    verify_index(notes.index)


def other_encoder(notes: Notes) -> object:
    words = Words()
    changed = replace(words.encoder, digest="2" * 64, name="words 2")
    notes.write("tea.txt", "other text")
    return update_folder(notes.index, lambda _: changed)


def other_version(notes: Notes) -> object:
    folder_index._READING += 1
    try:
        return notes.update()
    finally:
        folder_index._READING -= 1


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda notes: notes.update(folder="/elsewhere"), "of the folder .*notes, not of /elsewh"),
        (lambda notes: notes.update(exclude=()), "with exclude drafts/, not with none"),
        (lambda notes: notes.update(language="german"), "with language .*, not with german"),
        (lambda notes: notes.update(teacher="demo"), "with teacher None, not with demo"),
        (other_encoder, "encoded by words 1, and this is another one, words 2"),
        (other_version, f"made by version {folder_index._READING} of the rules"),
    ],
)
def test_what_does_not_fit_is_refused(
    notes: Notes, action: Callable[[Notes], object], message: str
) -> None:
    notes.build()
    before = contents(notes.index)
    with pytest.raises(InvalidInputError, match=message) as refused:
        action(notes)
    assert "uild it again" in str(refused.value)
    assert contents(notes.index) == before


def test_an_index_of_no_folder_is_refused(notes: Notes) -> None:
    make_index(notes.index, 3)
    with pytest.raises(InvalidInputError, match="was not made of a folder"):
        notes.update()


def test_two_at_once_are_told_apart(notes: Notes) -> None:
    notes.build()
    with (
        held_for_building(notes.index),
        pytest.raises(ArtifactError, match="another process is building"),
    ):
        notes.update()
    assert sorted(one.name for one in notes.index.parent.iterdir()) == ["index", "notes"]


def test_one_call_builds_and_updates(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(tiny_bundle))
    notes = Notes(tmp_path)
    notes.write("a.md", "# One\n\nthe sea\n")
    notes.write("b.md", "# Two\n\nthe land\n")
    assert sdk.index_folder(notes.folder, notes.index).changes == FileChanges(added=2)
    notes.write("b.md", "# Two\n\nthe mountain\n")
    assert sdk.index_folder(notes.folder, notes.index).changes == FileChanges(changed=1)
    with pytest.raises(InvalidInputError, match=r"with exclude none, not with b\.md"):
        sdk.index_folder(notes.folder, notes.index, exclude="b.md")
    report = sdk.index_folder(notes.folder, notes.index, exclude="b.md", rebuild=True)
    assert report.documents == 1
    shutil.rmtree(notes.folder)
    with pytest.raises(ArtifactNotFoundError):
        sdk.index_folder(notes.folder, notes.index, exclude="b.md", rebuild=True)
    with sdk.open_index(notes.index, encoder=sdk.load()) as index:
        assert index.search("sea")[0].metadata["path"] == "a.md"
