from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.sdk.cli import main
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.index.documents import Document, content
from pocketquery.sdk.index.index import open_index, verify_index
from pocketquery.sdk.indexing.building import IndexReport, build_index
from pocketquery.sdk.slices.slicing import slice_index
from tests.sdk.small_index import DIMENSION, SPACE, WordEncoder, make_documents


class Recorder:
    """The encoder, remembering what it was asked; it fails after ``calls_left`` calls."""

    def __init__(self, calls_left: int = 10**9) -> None:
        self.batches: list[list[str]] = []
        self.calls_left = calls_left

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        if len(self.batches) == self.calls_left:
            raise KeyboardInterrupt
        self.batches.append(texts)
        return WordEncoder().encode(texts)

    @property
    def texts(self) -> set[str]:
        return {text for batch in self.batches for text in batch}


def build(
    path: Path,
    documents: Iterator[Document] | list[Document],
    encode: Recorder,
    encoder_digest: str = "",
) -> IndexReport:
    return build_index(
        documents,
        encode,
        path,
        space_id=SPACE,
        dimension=DIMENSION,
        batch_size=100,
        encoder_digest=encoder_digest,
    )


def test_an_index_of_a_stream(tmp_path: Path) -> None:
    documents = make_documents(1100)
    encode = Recorder()
    report = build(tmp_path / "index", iter(documents), encode)
    assert (report.documents, report.resumed, report.dimension) == (1100, 0, DIMENSION)
    assert report.bytes == sum(f.stat().st_size for f in (tmp_path / "index").iterdir())
    assert max(len(batch) for batch in encode.batches) == 100
    verify_index(tmp_path / "index")
    with open_index(tmp_path / "index", encoder=WordEncoder()) as index:
        assert len(index) == 1100
        for document in documents[::101]:
            hit = index.search(content(document), 1, mode="dense")[0]
            assert (hit.id, hit.text, hit.metadata) == (
                document.id,
                document.text,
                document.metadata,
            )
            assert hit.score == pytest.approx(1, abs=0.01)


def test_an_interrupted_build_continues(tmp_path: Path) -> None:
    documents = make_documents(1500)
    first = Recorder(calls_left=14)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "index", iter(documents), first)
    assert not (tmp_path / "index").exists()
    second = Recorder()
    report = build(tmp_path / "index", iter(documents), second)
    assert (report.documents, report.resumed) == (1500, 1024)
    assert second.texts == {content(document) for document in documents[1024:]}
    build(tmp_path / "whole", documents, Recorder())
    for name in ("vectors-0.u8",):
        assert (tmp_path / "index" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interruption_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("the sea is deep", encoding="utf-8")
    arguments = ["index", "--documents", str(tmp_path), "--output", str(tmp_path / "i")]

    def encode_document(*_: object) -> NDArray[np.float32]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "encode_document", encode_document)
        assert main([*arguments, "--symmetric"]) == 130
    assert capsys.readouterr().err.endswith("interrupted; run it again to continue\n")
    assert main([*arguments, "--symmetric"]) == 0


def test_a_slice_has_the_bytes_of_a_build(tmp_path: Path) -> None:
    documents = make_documents(1500)
    build(tmp_path / "all", documents, Recorder())
    slice_index(tmp_path / "all", {"year": {"$gte": 2100}}, tmp_path / "slice")
    build(tmp_path / "built", documents[200:], Recorder())
    for file in (tmp_path / "built").iterdir():
        assert (tmp_path / "slice" / file.name).read_bytes() == file.read_bytes(), file.name


def test_only_what_is_equal_is_taken_over(tmp_path: Path) -> None:
    documents = make_documents(1500)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "index", iter(documents), Recorder(calls_left=14))
    documents[600] = Document("changed", "another text")
    report = build(tmp_path / "index", iter(documents), Recorder())
    assert (report.documents, report.resumed) == (1500, 512)
    with open_index(tmp_path / "index", encoder=WordEncoder()) as index:
        assert index.search("another text", 1, mode="lexical")[0].id == "changed"
        assert index.get("doc-600") is None


def test_what_python_calls_equal_is_not_taken_over(tmp_path: Path) -> None:
    for public in (1, True):
        documents = [Document(f"{n}", "text", {"public": public}) for n in range(600)]
        encode = Recorder(calls_left=6 if public is not True else 10**9)
        with contextlib.suppress(KeyboardInterrupt):
            build(tmp_path / "index", documents, encode)
    with open_index(tmp_path / "index") as index:
        found = {repr(document.metadata["public"]) for document in index.documents()}
    assert found == {"True"}


def test_another_encoder_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    documents = make_documents(1500)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "index", documents, Recorder(calls_left=14), encoder_digest="one")
    with pytest.raises(KeyboardInterrupt):  # and the second, killed in its turn, is one's own
        build(tmp_path / "index", documents, Recorder(calls_left=14), encoder_digest="two")
    report = build(tmp_path / "index", documents, Recorder(), encoder_digest="two")
    assert report.resumed == 1024
    build(tmp_path / "plain", documents, Recorder())
    for file in (tmp_path / "plain").iterdir():
        assert (tmp_path / "index" / file.name).read_bytes() == file.read_bytes(), file.name
    assert len(list((tmp_path / "index").iterdir())) == len(list((tmp_path / "plain").iterdir()))


def test_a_corpus_that_became_shorter(tmp_path: Path) -> None:
    documents = make_documents(1500)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "index", iter(documents), Recorder(calls_left=14))
    report = build(tmp_path / "index", iter(documents[:700]), Recorder())
    assert (report.documents, report.resumed) == (700, 512)
    assert report.bytes <= build(tmp_path / "plain", documents[:700], Recorder()).bytes


@pytest.mark.parametrize("second", [5, 900])
def test_an_id_given_twice_is_named(tmp_path: Path, second: int) -> None:
    documents = make_documents(1000)
    documents[second] = Document("doc-1", "the same id")
    with pytest.raises(CorpusError, match="'doc-1'"):
        build(tmp_path / "index", documents, Recorder())
    assert not (tmp_path / "index").exists()
    documents[second] = Document("doc-fixed", "its own id")
    assert build(tmp_path / "index", documents, Recorder()).documents == 1000


def test_no_documents_leave_the_old_index(tmp_path: Path) -> None:
    documents = make_documents(3)
    build(tmp_path / "index", documents, Recorder())
    with pytest.raises(CorpusError, match="there are no documents"):
        build(tmp_path / "index", [], Recorder())
    with open_index(tmp_path / "index", encoder=WordEncoder()) as index:
        assert len(index) == 3


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: np.ones((len(texts) + 1, DIMENSION)), "vectors for"),
        (lambda texts: np.ones((len(texts), DIMENSION + 1)), "dimension"),
        (lambda texts: np.full((len(texts), DIMENSION), np.nan), "finite"),
    ],
)
def test_an_encoder_that_fails_is_an_error(tmp_path: Path, encode: Recorder, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build(tmp_path / "index", make_documents(3), encode)
    assert not (tmp_path / "index").exists()


def test_a_bad_document_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="doc-x"):
        build(tmp_path / "index", [Document("doc-x", "\ud800")], Recorder())


def test_the_batch_size_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="batch_size"):
        build_index([], Recorder(), tmp_path / "i", space_id=SPACE, dimension=3, batch_size=0)


def test_progress_is_shown_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketquery.sdk.progress._SECONDS_BETWEEN_LINES", 0.0)
    for show in (False, True):
        build_index(
            make_documents(10),
            Recorder(),
            tmp_path / "index",
            space_id=SPACE,
            dimension=DIMENSION,
            show_progress_bar=show,
        )
        assert ("10/10" in capsys.readouterr().err) == show


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    encode = Recorder()
    with pytest.raises(InvalidInputError, match="is not an index; it is left alone"):
        build(tmp_path / "thesis", make_documents(5), encode)
    assert not encode.batches
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    assert build(tmp_path / "empty", make_documents(5), encode).documents == 5
