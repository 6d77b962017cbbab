"""What is made in Python of a corpus that others cannot read is for its owner alone."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_encoding import toy

from pocketquery.sdk.index.builder import create_index
from pocketquery.server.corpus import read_documents
from pocketquery_corpus.encoding import EncodedCorpus, encode_corpus
from pocketquery_corpus.indexing import build_encoded_index

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody can read, and a corpus in it that nobody else can."""
    before = os.umask(0o022)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "corpus.jsonl").write_text(
            '{"_id": "1", "text": "' + "the sea. " * 30 + '"}\n{"_id": "2", "text": "a hill"}\n'
        )
        (folder / "corpus.jsonl").chmod(0o600)
        yield folder
    os.umask(before)


def modes(place: Path) -> set[int]:
    """The permissions of a folder and all in it."""
    return {stat.S_IMODE(one.stat().st_mode) for one in (place, *place.rglob("*"))}


@pytest.mark.parametrize("before", ["", "file://", "simplecache::file://"])
def test_an_index_of_documents_that_others_cannot_read(public: Path, before: str) -> None:
    documents = list(read_documents(f"{before}{public}/corpus.jsonl"))
    with create_index(public / "index", space_id="space-toy", dimension=8) as builder:
        builder.add(documents, toy().encode([one.text for one in documents]))
    assert modes(public / "index") == {0o700, 0o600}


@pytest.mark.parametrize("passages", [False, True])
def test_an_encoded_corpus_that_others_cannot_read(public: Path, passages: bool) -> None:
    encoded = public / "encoded"
    for mode in (0o600, 0o644):  # then in the place of what was for its owner alone
        (public / "corpus.jsonl").chmod(mode)
        encode_corpus([public / "corpus.jsonl"], toy, encoded, passages=passages)
        assert modes(encoded) == {0o700, 0o600}
    assert all(document.private for document, _ in EncodedCorpus.open(encoded).rows())
    build_encoded_index(encoded, public / "index")
    assert modes(public / "index") == {0o700, 0o600}


def test_what_others_can_read_is_as_the_umask_says(public: Path) -> None:
    (public / "corpus.jsonl").chmod(0o644)
    encode_corpus([public / "corpus.jsonl"], toy, public / "encoded")
    build_encoded_index(public / "encoded", public / "index")
    assert modes(public / "encoded") == modes(public / "index") == {0o755, 0o644}
