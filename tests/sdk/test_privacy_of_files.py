"""What is made of a place that others cannot read cannot be read by others, whatever the umask."""

from __future__ import annotations

import os
import stat
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.sdk.cli import _sources, main
from pocketquery.sdk.folders import replace_folder
from pocketquery.sdk.plain_files import is_private
from tests.sdk.small_index import make_documents, new_index, vectors_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")

UMASKS = (0o022, 0o002, 0o077)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody can read; pytest's own are closed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(params=UMASKS, ids="{:03o}".format)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(place: Path) -> set[int]:
    """The permissions of a file, or of a folder and all in it."""
    return {stat.S_IMODE(one.stat().st_mode) for one in (place, *place.rglob("*"))}


def open_index_modes(umask: int) -> set[int]:
    """Of an index as the umask says; SQLite makes its file 0644 at most."""
    return {mode & ~umask for mode in (0o777, 0o666, 0o644)}


def notes(folder: Path, closed: str) -> Path:
    """Two texts; ``closed`` is what others cannot read of them: "", "folder", "file" or "above"."""
    place = folder / "home" / "notes"
    place.mkdir(parents=True)
    for name in ("garden", "diary"):
        (place / f"{name}.txt").write_text(f"What I planted in March, in the {name}.\n")
        (place / f"{name}.txt").chmod(0o644)
    for one in (place, place.parent):
        one.chmod(0o755)
    which = {"folder": place, "file": place / "diary.txt", "above": place.parent}.get(closed)
    if which is not None:
        which.chmod(0o700 if which.is_dir() else 0o600)
    return place


@pytest.mark.parametrize("closed", ["folder", "file", "above"])
def test_an_index_of_what_others_cannot_read_is_for_its_owner_alone(
    public: Path, umask: int, closed: str
) -> None:
    output = public / "index"
    command = ["index", "--documents", str(notes(public, "")), "--symmetric", "--output"]
    assert main([*command, str(output)]) == 0
    assert modes(output) == open_index_modes(umask)  # as before: a server may serve it
    which = {"folder": "home/notes", "file": "home/notes/diary.txt", "above": "home"}[closed]
    (public / which).chmod(0o600 if closed == "file" else 0o700)
    assert main([*command, str(output)]) == 0  # in the place of one that others can read
    assert modes(output) == {0o700, 0o600}
    assert os.umask(umask) == umask


def test_a_corpus_that_others_cannot_read(public: Path, umask: int) -> None:
    corpus = public / "corpus"
    corpus.mkdir(mode=0o755)
    (corpus / "a.jsonl").write_text('{"_id": "1", "text": "the sea"}\n')
    (corpus / "a.jsonl").chmod(0o600)
    links = public / "links"
    links.mkdir(mode=0o755)
    (links / "b.jsonl").symlink_to(corpus / "a.jsonl")
    named = f"{corpus}/a.jsonl"
    addresses = [f"{before}{named}" for before in ("file://", "local://", "simplecache::file://")]
    if find_spec("fsspec") is None:  # what opens addresses: extra shards
        addresses = []
    for number, pattern in enumerate((corpus, corpus / "*.jsonl", links, *addresses)):
        output = public / f"index-{number}"
        command = ["index", "--corpus", str(pattern), "--symmetric", "--output", str(output)]
        assert main(command) == 0
        assert modes(output) == {0o700, 0o600}


def test_what_is_cut_or_made_of_a_private_index_is_private(public: Path, umask: int) -> None:
    documents = make_documents(20)
    for name, private in (("old", True), ("new", False)):
        with new_index(public / name, private=private) as builder:
            some = documents if private else documents[3:]
            builder.add(some, vectors_of(some))
    assert modes(public / "old") == {0o700, 0o600}
    assert modes(public / "new") == open_index_modes(umask)
    everything = {"year": {"$gte": 0}}
    for name in ("old", "new"):
        sdk.slice_index(public / name, everything, public / f"slice-{name}")
        assert modes(public / f"slice-{name}") == modes(public / name)
    sdk.make_delta(public / "old", public / "new", public / "a.delta")
    assert modes(public / "a.delta") == {0o600}
    sdk.make_delta(public / "new", public / "slice-new", public / "b.delta")
    assert modes(public / "b.delta") == {0o666 & ~umask}
    sdk.apply_delta(public / "a.delta", public / "old")
    assert modes(public / "old") == {0o700, 0o600}


def test_a_private_index_stays_private_whatever_is_done_to_it(public: Path, umask: int) -> None:
    documents, more = make_documents(20), make_documents(5, first=100)
    place = public / "index"
    for private in (True, False):  # the second build only takes the place of the first
        with new_index(place, private=private) as builder:
            assert stat.S_IMODE((public / ".index.building").stat().st_mode) == 0o700
            builder.add(documents, vectors_of(documents))
        assert modes(place) == {0o700, 0o600}
    with sdk.open_index(place, writable=True) as index:
        index.add(more, vectors_of(more))
        assert modes(place) == {0o700, 0o600}
        index.delete(["doc-3"])
        index.compact()
    assert modes(place) == {0o700, 0o600}


@pytest.mark.parametrize("closed", ["", "folder", "file", "above"])
def test_private_texts_close_their_index(public: Path, umask: int, closed: str) -> None:
    expected = {0o700, 0o600} if closed else open_index_modes(umask)
    documents = list(sdk.read_folder(notes(public, closed)))
    with new_index(public / "built") as builder:
        builder.add(documents, vectors_of(documents))
    assert modes(public / "built") == expected
    with new_index(public / "own"):
        pass
    assert modes(public / "own") == open_index_modes(umask)
    with sdk.open_index(public / "own", writable=True) as index:
        index.add(documents, vectors_of(documents))
        assert modes(public / "own") == expected
        assert index.get("diary.txt#1") == documents[0]
    assert modes(public / "own") == expected


def test_a_private_folder_is_replaced_by_a_private_one(public: Path, umask: int) -> None:
    with replace_folder(public / "folder", private=True) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("a")
    assert modes(public / "folder") == {0o700, 0o600}
    with replace_folder(public / "folder") as folder:
        (folder / "file").write_text("a")
    assert modes(public / "folder") == {0o700, 0o600}
    with replace_folder(public / "another") as folder:
        (folder / "file").write_text("a")
    assert modes(public / "another") == {0o777 & ~umask, 0o666 & ~umask}


@pytest.mark.parametrize(
    ("closed", "expected"), [("", False), ("folder", True), ("file", True), ("above", True)]
)
def test_which_places_are_private(public: Path, closed: str, expected: bool) -> None:
    place = notes(public, closed)
    assert is_private(place) == expected
    (public / "link").symlink_to(place)
    assert is_private(public / "link") == expected
    assert is_private(place / "garden.txt") == (closed in ("folder", "above"))
    (place / "nowhere").symlink_to("nothing")
    (place / "circle").symlink_to(".")
    assert is_private(place) == expected


@pytest.mark.parametrize("closed", ["folder", "file", "above"])
@pytest.mark.parametrize("linked", ["home", "home/notes", "home/notes/diary.txt"])
def test_what_links_lead_to_is_of_a_folder(public: Path, closed: str, linked: str) -> None:
    notes(public, closed)
    for folder, target in (("one", f"../{linked}"), ("two", "../one")):
        (public / folder).mkdir(mode=0o755)
        (public / folder / "link").symlink_to(target)
        assert is_private(public / folder)


def test_a_question_is_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    options = Namespace(texts=["what did I plant?", "and [where]", "n?tes"], output="notes")
    assert set(_sources(options)) == {"notes"}


def test_what_is_made_of_a_student_is_as_private_as_it() -> None:
    options = Namespace(
        student="a", start="b", teacher="c", bundle="d", signing_key="e", output="f"
    )
    assert set(_sources(options)) == {"a", "b"}


@pytest.mark.parametrize("name", ["absent", "x" * 5000, "a\0b", "s3://bucket/corpus"])
def test_what_is_not_there_is_not_private(name: str) -> None:
    assert not is_private(name)


def test_other_bits_than_those_of_others_do_not_count(public: Path) -> None:
    place = notes(public, "")
    (place / "diary.txt").chmod(0o604)
    place.chmod(0o705)
    assert not is_private(place)
