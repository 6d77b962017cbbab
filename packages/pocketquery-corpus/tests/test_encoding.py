"""A corpus encoded shard by shard: what is in it, what is refused, and what a kill leaves."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small_corpus import bytes_of, documents, write_shards

from pocketquery import sdk
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorpusError,
    CorruptArtifactError,
    InvalidInputError,
    MissingExtraError,
    PocketQueryError,
)
from pocketquery.sdk.folders import hold_folder, publish_folder, release_folder
from pocketquery.sdk.index.documents import content
from pocketquery.sdk.indexing.building import build_index
from pocketquery.sdk.indexing.command import index
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder, EncoderSource
from pocketquery.server.corpus import read_documents
from pocketquery.server.corpus.listing import list_shards
from pocketquery_corpus import encoding
from pocketquery_corpus.encoder_source import absolute_source
from pocketquery_corpus.encoding import EncodedCorpus, encode_corpus
from pocketquery_corpus.engine import Engine
from pocketquery_corpus.indexing import build_encoded_index
from pocketquery_corpus.parts import fingerprint, open_parts
from tests.commands import run_command
from tests.kills import by_fork, killed
from tests.sdk.tiny_bundle import write_tiny_bundle

pytest.importorskip("pyarrow", reason="needs pyarrow (extra shards)")
pytest.importorskip("fsspec", reason="needs fsspec (extra shards)")

CALLS: list[int] = []


def vectors(texts: list[str]) -> NDArray[Any]:
    """Vectors that tell texts apart, and how many were encoded."""
    CALLS.append(len(texts))
    seeds = [sum(text.encode()) for text in texts]
    rows = [np.random.default_rng(seed).normal(size=8) for seed in seeds]
    return np.array(rows, np.float32)


def toy() -> DocumentEncoder:
    return encoder_of(vectors, name="toy 1")


def encoder_of(
    encode: Callable[[list[str]], NDArray[Any]], *, space_id: str = "space-toy", name: str = ""
) -> DocumentEncoder:
    """One that reads the first 100 characters."""
    return DocumentEncoder(
        space_id, 8, encode, lambda texts: [[*map(ord, one[:100])] for one in texts], 100, name
    )


def encoded_count() -> int:
    """Documents encoded since the last call."""
    count = sum(CALLS)
    CALLS.clear()
    return count


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet"])
def test_an_index_of_it_is_the_index_of_its_documents(kind: str, tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (700, 3, 600), kind)
    report = encode_corpus([corpus], toy, tmp_path / "encoded")
    assert (report.documents, report.shards, report.resumed) == (1303, 3, 0)
    build_encoded_index(tmp_path / "encoded", tmp_path / "index")
    every = [one for shard in list_shards([corpus]) for one in read_documents(shard)]
    build_index(
        every, vectors, tmp_path / "plain", space_id="space-toy", dimension=8, encoded_by="toy 1"
    )
    assert bytes_of(tmp_path / "index") == bytes_of(tmp_path / "plain")
    rows = list(EncodedCorpus.open(tmp_path / "encoded").rows())
    assert [one for one, _ in rows] == every
    np.testing.assert_array_equal(
        rows[5][1], vectors([f"{every[5].metadata['title']} {every[5].text}"])[0]
    )


def test_json_lines_and_parquet_give_the_same_bytes(tmp_path: Path) -> None:
    for kind in ("jsonl", "parquet"):
        write_shards(tmp_path / kind, (40, 30), kind)
        encode_corpus([tmp_path / kind], toy, tmp_path / f"encoded-{kind}")
    found = [bytes_of(tmp_path / f"encoded-{kind}") for kind in ("jsonl", "parquet")]
    assert found[0] == found[1]
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".")) == []


def test_shards_are_patterns_folders_and_urls(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (3, 4))
    (corpus / "_SUCCESS").touch()
    (corpus / "notes.txt").touch()
    names = [str(corpus / "0.jsonl"), str(corpus / "1.jsonl")]
    assert list_shards([corpus]) == list_shards([f"{corpus}/*.jsonl"]) == names
    urls = [f"file://{one}" for one in names]
    assert list_shards([f"file://{corpus}"]) == list_shards([f"file://{corpus}/*.jsonl"]) == urls
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(names[0], "0.jsonl")
    chained = f"zip://0.jsonl::file://{tmp_path}/a.zip"
    encode_corpus([corpus / "0.jsonl"], toy, tmp_path / "of-path")
    for number, url in enumerate((urls[0], chained)):
        encode_corpus([url], toy, tmp_path / str(number))
        assert bytes_of(tmp_path / str(number)) == bytes_of(tmp_path / "of-path")
    refused: list[tuple[list[Path | str], type[Exception], str]] = [
        ([corpus, names[0]], InvalidInputError, "named twice"),
        ([tmp_path / "none.jsonl"], ArtifactNotFoundError, "no such file"),
        ([f"{corpus}/*.gone"], ArtifactNotFoundError, "no file is named so"),
        (["nonsense://x/y.jsonl"], InvalidInputError, "cannot be opened"),
        ([f"file://{tmp_path}/none.jsonl"], ArtifactNotFoundError, "no such file"),
        ([], InvalidInputError, "there is no shard"),
    ]
    for bad, error, words in refused:
        with pytest.raises(error, match=words):
            encode_corpus(bad, toy, tmp_path / "bad")


def written(folder: Path, name: str, rows: Sequence[Mapping[str, object]], kind: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


LONG = " ".join(f"word {number} is here." for number in range(200))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("engine", [(), ("--engine", "local")])
def test_what_an_index_could_not_find_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, engine: tuple[str, ...]
) -> None:
    texts: list[tuple[str, str | None]] = [
        ("", "apples"), ("", ""), ("", None), ("...", "\u200b - "), ("A title", ""), ("", LONG),
    ]  # fmt: skip
    rows = [
        {"_id": str(number), "title": title, "text": text}
        for number, (title, text) in enumerate(texts)
    ]
    written(tmp_path / "c", "a", rows[:3], kind)
    written(tmp_path / "c", "b", rows[3:], kind)
    (tmp_path / "c" / "notes.md").touch()
    command = ["index", "--corpus", str(tmp_path / "c"), "--symmetric", *engine]
    assert main([*command, "--output", str(tmp_path / "plain"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["texts"] == {
        "documents": 6, "without_words": 3, "longer": 1, "passages": 0,
    }  # fmt: skip
    assert "notes.md: expected one of" in err
    assert "left out: 3 of 6 documents" in err
    assert "warning: 1 of 6 documents are longer than the 128 tokens" in err
    with sdk.open_index(tmp_path / "plain") as index:
        assert [one.id for one in index.documents()] == ["0", "4", "5"]
    assert main([*command, "--passages", "--output", str(tmp_path / "cut"), "--json"]) == 0
    out, err = capsys.readouterr()
    encoder = sdk.load()
    with sdk.open_index(tmp_path / "cut", encoder=encoder) as index:
        cut = [one for one in index.documents() if one.id not in ("0", "4")]
        assert index.search("word 199", k=1, mode="dense")[0].id.startswith("5#")
    assert json.loads(out)["texts"]["passages"] == len(cut) > 5
    assert "1 of 6 documents, which are longer than the 128 tokens" in err
    assert [one.id for one in cut] == [f"5#{part}" for part in range(1, len(cut) + 1)]
    assert " ".join(one.text for one in cut) == LONG
    assert all(len(encoder.tokenize(content(one))) < 128 for one in cut)
    assert dict(cut[1].metadata) == {"document": "5", "part": 2}


@pytest.mark.parametrize("text", ["", "the harbour at dawn"])
def test_a_long_title_leaves_room_for_the_text_and_is_never_lost(tmp_path: Path, text: str) -> None:
    """A title begins every passage: one as long as all that is read would make them all equal."""
    title = " ".join(f"word{number}" for number in range(300))
    rows = [{"_id": "a", "title": title, "text": text}]
    _index(written(tmp_path, "corpus", rows, "jsonl"), tmp_path / "index", "--passages")
    with sdk.open_index(tmp_path / "index") as index:
        passages = list(index.documents())
    assert [one.id for one in passages] == [f"a#{part}" for part in range(1, len(passages) + 1)]
    titles = {passage.metadata["title"] for passage in passages}
    (short,) = titles
    assert title.startswith(short)
    parts = " ".join([short, *(passage.text for passage in passages)]).split()
    assert parts == f"{title} {text}".split()
    assert len(passages) > 3


def test_a_corpus_without_a_word_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a", [{"_id": str(n), "text": " "} for n in range(3)], "jsonl")
    for engine in ((), ("--engine", "local")):
        with pytest.raises(CorpusError, match="none of the 3 documents has a letter or digit"):
            _index(path, tmp_path / "index", *engine)
    with pytest.raises(CorpusError, match="none of the 3 documents"):
        encode_corpus([path], toy, tmp_path / "encoded")


def test_an_id_of_two_shards_is_named_with_both(tmp_path: Path) -> None:
    rows = [{"_id": one, "text": f"text {one}"} for one in "abcd"]
    first = written(tmp_path, "first", rows[:3], "jsonl")
    first.write_text("\n" + first.read_text())
    second = written(tmp_path, "second", [rows[3], rows[1]], "jsonl")
    with pytest.raises(
        CorpusError, match=r"second\.jsonl, line 2: .*'b' of .*first\.jsonl, line 3"
    ):
        _index(tmp_path, tmp_path / "index")
    with pytest.raises(
        CorpusError, match=r"second\.jsonl, document 2: .*'b' of .*first\.jsonl, doc"
    ):
        _index(tmp_path, tmp_path / "index", "--engine", "local")
    encode_corpus([first, second], toy, tmp_path / "encoded")
    with pytest.raises(CorpusError, match=r"part-000001.*document 2: .*'b' of .*part-000000.* 2,"):
        build_encoded_index(tmp_path / "encoded", tmp_path / "index")


def _index(corpus: Path, output: Path, *options: str) -> None:
    """As the command, with its errors."""
    run_command(index, "index", "--corpus", corpus, "--output", output, "--symmetric", *options)


def test_a_bad_shard_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (20, 20, 20))
    good = (corpus / "1.jsonl").read_text()
    (corpus / "1.jsonl").write_text(good + '{"_id": "x"}\n')
    with pytest.raises(CorpusError, match=r"1\.jsonl, line 21: no field 'text'"):
        encode_corpus([corpus], toy, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    encoded_count()
    (corpus / "1.jsonl").write_text(good)
    report = encode_corpus([corpus], toy, tmp_path / "out")
    assert (report.resumed, encoded_count()) == (1, 40)
    encode_corpus([corpus], toy, tmp_path / "fresh")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "fresh")


def test_damaged_parquet_and_what_json_cannot_hold_are_told(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (600,), "parquet")
    path = corpus / "0.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CorpusError, match=r"0\.parquet: after row 0 found damaged Parquet"):
        encode_corpus([corpus], toy, tmp_path / "out")
    import pyarrow
    import pyarrow.parquet

    rows = [{"_id": "a", "text": "x", "blob": b"\xff"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    with pytest.raises(CorpusError, match="the column 'blob'"):
        encode_corpus([corpus], toy, tmp_path / "out")
    names = ["_id", "text", "text"]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays([["a"], ["x"], ["y"]], names), path)
    with pytest.raises(CorpusError, match=r"0\.parquet: two columns have the name 'text'"):
        encode_corpus([corpus], toy, tmp_path / "out")


def test_vectors_that_no_index_has_a_place_for_are_refused_as_they_are_made(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (20, 20))

    def spoilt(texts: list[str]) -> NDArray[np.float32]:
        found = vectors(texts)
        found[0, 3] = np.nan
        return found

    with pytest.raises(InvalidInputError, match="not finite"):
        encode_corpus([corpus], lambda: encoder_of(spoilt), tmp_path / "out")


def test_other_settings_and_changed_shards_are_encoded_anew(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (20, 20, 20))
    (corpus / "2.jsonl").write_text("nonsense")

    def run(encoder: Any = toy, **options: Any) -> int:
        encoded_count()
        with pytest.raises(CorpusError):
            encode_corpus([corpus], encoder, tmp_path / "out", **options)
        return encoded_count()

    assert run() == 40
    assert run() == 0
    assert run(batch_size=3) == 40
    assert run(lambda: encoder_of(vectors, space_id="space-other")) == 40
    assert run() == 40
    (corpus / "0.jsonl").write_text(json.dumps({"_id": "new", "text": "y"}) + "\n")
    assert run() == 1


class _Website(SimpleHTTPRequestHandler):
    """Files, /refused.jsonl, and /cut.jsonl, which has fewer bytes than it says."""

    def do_GET(self) -> None:
        if self.path == "/cut.jsonl":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"_id": "a", "text": "b"}\n')
        elif self.path == "/refused.jsonl":
            self.send_error(403)
        else:
            super().do_GET()

    def log_message(self, *words: object) -> None:
        """Nothing."""


def test_another_bundle_of_the_same_name_and_version_begins_anew(tmp_path: Path) -> None:
    first = write_tiny_bundle(tmp_path / "first")
    second = write_tiny_bundle(tmp_path / "second", max_length=4)  # "student", version "1", again
    corpus = write_shards(tmp_path / "corpus", (5, 5))
    (corpus / "1.jsonl").write_text("nonsense")
    with pytest.raises(CorpusError):
        encode_corpus([corpus], EncoderSource(bundle=str(first)).open, tmp_path / "out")
    shutil.copyfile(corpus / "0.jsonl", corpus / "1.jsonl")
    for place in ("out", "fresh"):
        source = EncoderSource(bundle=str(second))
        encode_corpus([corpus], source.open, tmp_path / place)
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "fresh")


@contextlib.contextmanager
def website(folder: Path) -> Iterator[str]:
    """The address of ``folder``."""
    pytest.importorskip("aiohttp", reason="needs aiohttp, which fsspec opens http:// with")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Website, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_a_shard_that_changed_on_the_web_is_another(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (3,))
    with website(corpus) as address:
        before = fingerprint(f"{address}/0.jsonl")
        assert fingerprint(f"{address}/0.jsonl") == before
        with (corpus / "0.jsonl").open("a") as file:
            file.write(json.dumps({"_id": "new", "text": "y"}) + "\n")
        assert fingerprint(f"{address}/0.jsonl") != before


def test_what_a_server_refuses_or_cuts_is_named(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_text("no zip")
    with website(tmp_path) as address:
        for url, error, words in (
            (f"{address}/refused.jsonl", CorpusError, r"refused\.jsonl cannot be read: .*\(403"),
            (f"{address}/cut.jsonl", CorpusError, r"cut\.jsonl cannot be read: found "),
            (f"{address}/gone.jsonl", ArtifactNotFoundError, r"gone\.jsonl: there is no such file"),
            ("http://[bad", CorpusError, "bad cannot be read: found "),
            (f"zip://a.jsonl::{tmp_path}/no.zip", CorpusError, "found BadZipFile"),
        ):
            with pytest.raises(error, match=words):
                encode_corpus([url], toy, tmp_path / "out")


@by_fork
def test_a_killed_run_goes_on_with_the_next_shard(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (20, 20, 20))

    def dying() -> DocumentEncoder:
        def encode(texts: list[str]) -> NDArray[Any]:
            if len(CALLS) == 1:
                os.kill(os.getpid(), 9)
            return vectors(texts)

        CALLS.clear()
        return encoder_of(encode, name="toy 1")

    def run() -> None:
        encode_corpus([corpus], dying, tmp_path / "out")

    killed(run)
    encoded_count()
    report = encode_corpus([corpus], toy, tmp_path / "out")
    assert (report.resumed, encoded_count()) == (1, 40)
    encode_corpus([corpus], toy, tmp_path / "fresh")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "fresh")


def test_what_is_damaged_is_refused(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (20, 20))
    encode_corpus([corpus], toy, tmp_path / "out")
    table = tmp_path / "out" / "part-000001" / "documents.parquet"
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with pytest.raises(CorruptArtifactError, match=r"part-000001.* was changed"):
        build_encoded_index(tmp_path / "out", tmp_path / "index")
    table.unlink()
    with pytest.raises(ArtifactNotFoundError, match="part-000001"):
        build_encoded_index(tmp_path / "out", tmp_path / "index")
    (tmp_path / "out" / "encoded.json").write_text("{}")
    with pytest.raises(CorruptArtifactError, match="does not describe"):
        EncodedCorpus.open(tmp_path / "out")
    with pytest.raises(ArtifactNotFoundError, match="encode-corpus"):
        EncodedCorpus.open(corpus)
    assert not (tmp_path / "index").exists()


def test_what_is_encoded_is_kept_until_its_index_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EncoderSource, "open", lambda _: toy())
    corpus = write_shards(tmp_path / "corpus", (5, 6))
    (corpus / "2.jsonl").write_text(json.dumps(documents(0, 1)[0]) + "\n")
    words = ["index", "--corpus", str(corpus), "--engine", "local", "--output"]
    words.append(str(tmp_path / "index"))
    encoded_count()
    assert (main(words), encoded_count()) == (2, 12)  # an id comes twice
    (corpus / "2.jsonl").write_text(json.dumps({"_id": "new", "text": "y"}) + "\n")
    assert (main(words), encoded_count()) == (0, 1)
    encode_corpus([corpus], toy, tmp_path / "encoded")
    build_encoded_index(tmp_path / "encoded", tmp_path / "fresh")
    assert bytes_of(tmp_path / "index") == bytes_of(tmp_path / "fresh")
    assert not [one.name for one in tmp_path.iterdir() if one.name.startswith(".")]


def test_two_at_once_and_other_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write_shards(tmp_path / "corpus", (5,))
    lock = hold_folder(tmp_path / ".out.parts")
    with pytest.raises(ArtifactError, match="another process"):
        encode_corpus([corpus], toy, tmp_path / "out")
    release_folder(lock)
    with pytest.raises(InvalidInputError, match="is not an encoded corpus; it is left alone"):
        encode_corpus([corpus], toy, corpus)
    with pytest.raises(InvalidInputError, match="the Ray engine's"):
        Engine("local", 2)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pocketquery-corpus\[ray\]"):
        encode_corpus([corpus], toy, tmp_path / "out", engine=Engine("ray"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pocketquery\[shards\]"):
        encode_corpus([corpus], toy, tmp_path / "out")


def test_who_begins_while_another_ends_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write_shards(tmp_path / "corpus", (5,))
    with contextlib.ExitStack() as stack:

        def publish(finished: Path, path: Path) -> None:
            publish_folder(finished, path)
            (part,) = stack.enter_context(open_parts(path, [str(corpus / "0.jsonl")], {}))
            part.folder.mkdir()

        monkeypatch.setattr(encoding, "publish_folder", publish)
        encode_corpus([corpus], toy, tmp_path / "out")
        assert (tmp_path / ".out.parts" / "part-000000").is_dir()
        assert (tmp_path / ".out.json").is_file()
    assert not [one.name for one in tmp_path.iterdir() if one.name.startswith(".")]


def test_what_ray_data_ends_with_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine too busy to start Ray's own actors; a stand-in, for Ray takes minutes."""

    def rows() -> Iterator[object]:
        raise RuntimeError("Failed to get allocated resources")
        yield

    context = SimpleNamespace(enable_progress_bars=True)
    data = SimpleNamespace(
        DataContext=SimpleNamespace(get_current=lambda: context),
        ActorPoolStrategy=lambda size: None,
        from_items=lambda *_, **__: SimpleNamespace(
            map_batches=lambda *_, **__: SimpleNamespace(iter_rows=rows)
        ),
    )
    ray = SimpleNamespace(
        data=data,
        is_initialized=lambda: True,
        exceptions=SimpleNamespace(RayError=type("RayError", (Exception,), {})),
    )
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_DEDUP_LOGS", "RAY_BACKEND_LOG_LEVEL"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", data)
    corpus = write_shards(tmp_path / "corpus", (5,))
    with pytest.raises(PocketQueryError, match="Ray ended with RuntimeError: Failed to get"):
        encode_corpus([corpus], toy, tmp_path / "out", engine=Engine("ray", 1))


def test_the_light_encoder_searches_what_it_encoded(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (30,))
    encode_corpus([corpus], absolute_source(EncoderSource()).open, tmp_path / "out")
    build_encoded_index(tmp_path / "out", tmp_path / "index")
    with sdk.open_index(tmp_path / "index", encoder=sdk.load()) as index:
        assert "railway" in index.search("a king's railway")[0].metadata["title"]


def test_the_demo_teacher_is_no_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("demo", "all-MiniLM-L6-v2", "teacher"):  # `pocketquery demo` leaves the first
        (tmp_path / name).mkdir()
    for source in (EncoderSource(), EncoderSource("demo"), EncoderSource("all-MiniLM-L6-v2")):
        assert absolute_source(source) == source
    assert absolute_source(EncoderSource("./demo")).teacher == str(tmp_path / "demo")
    assert absolute_source(EncoderSource("teacher")).teacher == str(tmp_path / "teacher")
