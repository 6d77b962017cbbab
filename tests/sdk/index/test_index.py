from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import ArtifactError, InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.documents import content
from pocketquery.sdk.index.index import Document, Index, open_index, verify_index
from pocketquery.sdk.sqlite_file import SqliteKind
from pocketquery.sdk.words import Analyzer, Query, analyzer_for
from tests.sdk.small_index import (
    DIMENSION,
    SPACE,
    WordEncoder,
    add_documents,
    make_documents,
    make_index,
    new_index,
    vectors_of,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_index(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def index(path: Path) -> Iterator[Index]:
    with open_index(path, encoder=WordEncoder(), writable=True) as opened:
        yield opened


def ids(hits: list[Any]) -> list[str]:
    return [hit.id for hit in hits]


def test_what_it_says_of_itself(index: Index) -> None:
    assert (len(index), index.space_id, index.dimension) == (60, SPACE, DIMENSION)
    assert repr(index).startswith(f"Index({str(index.path)!r}, ")
    assert index.space_id in repr(index)


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_documents_own_text_finds_it_first(index: Index, mode: Any) -> None:
    for document in make_documents(60)[::7]:
        query = f"{document.metadata['title']} {document.text}"
        hit = index.search(query, 3, mode=mode)[0]
        assert (hit.id, hit.text, hit.metadata) == (document.id, document.text, document.metadata)
        if mode == "dense":
            assert hit.score == pytest.approx(1, abs=0.01)


def test_the_default_is_hybrid_for_text_and_dense_for_a_vector(index: Index) -> None:
    text = "castle painted"
    vector = WordEncoder().encode_query(text)
    assert index.search(text) == index.search(text, mode="hybrid")
    assert index.search(vector) == index.search(text, mode="dense")
    assert ids(index.search(3.5 * vector)) == ids(index.search(vector))
    assert index.search(text, vector=vector) == index.search(text)


def test_scores_fall_and_dense_ones_are_the_cosines(index: Index) -> None:
    documents = make_documents(60)
    vectors = dict(zip((d.id for d in documents), vectors_of(documents), strict=True))
    query = WordEncoder().encode_query("garden was repaired")
    hits = index.search(query, 60)
    assert len(hits) == 60
    for hit in hits:
        assert hit.score == pytest.approx(float(vectors[hit.id] @ query), abs=0.01)
    for mode in ("dense", "lexical", "hybrid"):
        scores = [hit.score for hit in index.search("the garden", 60, mode=mode)]
        assert scores == sorted(scores, reverse=True)


def test_lexical_search_finds_only_what_shares_a_word(index: Index) -> None:
    assert index.search("zeppelin", mode="lexical") == []
    assert index.search("!?", mode="lexical") == []
    assert ids(index.search("1913", mode="lexical")) == ["doc-13"]
    assert len(index.search("harbours", 100, mode="lexical")) == 7  # stemmed


def test_hybrid_search_without_a_shared_word_ranks_as_dense(index: Index) -> None:
    assert ids(index.search("zeppelin", mode="hybrid")) == ids(
        index.search("zeppelin", mode="dense")
    )


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_filters_hold_in_every_mode(index: Index, mode: Any) -> None:
    query = {"tag": {"$in": ["river", "comet"]}, "year": {"$gte": 1930}}
    hits = index.search("the river was sold", 100, filter=query, mode=mode)
    assert len(hits) == 8
    assert all(hit.metadata["year"] >= 1930 for hit in hits)
    assert index.search("river", filter={"year": 3}, mode=mode) == []


@pytest.fixture(scope="module", params=[(), range(0, 60, 3)], ids=["whole", "deleted"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Index]:
    """An index for many searches, as it is or with a third of its documents deleted."""
    path = tmp_path_factory.mktemp("kept") / "index"
    make_index(path)
    with open_index(path, encoder=WordEncoder(), writable=True) as index:
        index.delete([f"doc-{number}" for number in request.param])
        yield index


@settings(max_examples=100, deadline=None)
@given(
    year=st.integers(1895, 1965),
    k=st.integers(1, 70),
    tried=st.integers(1, 60),
    mode=st.sampled_from(["dense", "lexical", "hybrid"]),
)
def test_a_filter_that_is_asked_about_few_finds_what_one_asked_about_all_does(
    kept: Index, year: int, k: int, tried: int, mode: Any
) -> None:
    query, condition = "the river that was sold and the comet", {"year": {"$lt": year}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pocketquery.sdk.index.selection._SHARE", 0)
        expected = kept.search(query, k, filter=condition, mode=mode)
        patch.setattr("pocketquery.sdk.index.selection._SHARE", 1)
        patch.setattr("pocketquery.sdk.index.selection._FILTER_SAMPLE_ROWS", tried)
        assert kept.search(query, k, filter=condition, mode=mode) == expected


def test_deleted_documents_are_gone_everywhere(index: Index) -> None:
    assert index.delete(["doc-13", "doc-14", "unknown"]) == 2
    assert len(index) == 58
    assert index.get("doc-13") is None
    assert index.search("1913", mode="lexical") == []
    for mode in ("dense", "hybrid"):
        assert "doc-13" not in ids(index.search("number 13 in 1913", 60, mode=mode))
    assert len(index.search("the", 100, filter={"year": {"$lt": 1920}}, mode="dense")) == 18


def test_a_deleted_text_leaves_the_file(index: Index, path: Path) -> None:
    text = b"was built in 1912"
    assert any(text in file.read_bytes() for file in path.iterdir())
    index.delete(["doc-12"])
    assert not any(text in file.read_bytes() for file in path.iterdir())


def test_added_documents_are_found(index: Index) -> None:
    more = add_documents(index, 30, 60)
    assert len(index) == 90
    assert ids(index.search("number 75 in 1975", 1)) == ["doc-75"]
    assert index.get("doc-75") == more[15]
    index.delete(["doc-75"])
    index.add([more[15]], vectors_of([more[15]]))
    assert ids(index.search("number 75 in 1975", 1)) == ["doc-75"]


def test_an_add_is_all_or_nothing(index: Index) -> None:
    more = [*make_documents(5, 60), *make_documents(1, 3)]
    with pytest.raises(InvalidInputError, match="'doc-3'"):
        index.add(more, vectors_of(more))
    assert len(index) == 60
    assert index.get("doc-60") is None
    index.add(more[:5], vectors_of(more[:5]))
    assert ids(index.search("number 62 in 1962", 1)) == ["doc-62"]


def test_a_long_add_that_fails_at_its_end_is_no_damage(index: Index) -> None:
    more = [*make_documents(1100, 60), *make_documents(1)]
    with pytest.raises(InvalidInputError, match="'doc-0'"):
        index.add(more, vectors_of(more))
    index.verify()
    index.delete(["doc-1"])
    index.close()
    assert verify_index(index.path).generation > 0


def test_compacting_keeps_the_ranking_and_shrinks_the_files(index: Index, path: Path) -> None:
    index.delete([f"doc-{number}" for number in range(0, 60, 2)])
    before = index.search("violin sold", 30, mode="dense")
    size = sum(file.stat().st_size for file in path.iterdir())
    index.compact()
    assert index.search("violin sold", 30, mode="dense") == before
    assert len(index) == 30
    assert ids(index.search("1913", mode="lexical")) == ["doc-13"]
    assert index.search("1912", mode="lexical") == []
    assert len(list(path.glob("*.u8"))) == 1
    assert sum(file.stat().st_size for file in path.iterdir()) < size
    index.verify()
    add_documents(index, 3, 60)
    assert ids(index.search("number 61 in 1961", 1)) == ["doc-61"]


def test_compacting_everything_away(index: Index) -> None:
    index.delete([document.id for document in make_documents(60)])
    index.compact()
    assert len(index) == 0
    for mode in ("dense", "lexical", "hybrid"):
        assert index.search("violin", mode=mode) == []


def test_a_compacted_index_equals_one_built_of_what_is_left(index: Index, tmp_path: Path) -> None:
    index.delete([f"doc-{number}" for number in range(40, 60)])
    index.compact()
    make_index(tmp_path / "other", 40)
    with open_index(tmp_path / "other", encoder=WordEncoder()) as other:
        for query in ("river", "the castle was painted in 1922", "comet sold"):
            for mode in ("dense", "lexical", "hybrid"):
                assert index.search(query, mode=mode) == other.search(query, mode=mode)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": ""}, "blank"),
        ({"query": " \n"}, "blank"),
        ({"query": "a\ud800"}, "surrogate"),
        ({"query": 3}, r"shape \(\), expected \(32,\)"),
        ({"query": None}, "the query is a NoneType, expected a text, or its vector"),
        ({"query": ["a"]}, "the query is a list, expected a text, or its vector"),
        ({"query": [[1.0], [1.0, 2.0]]}, "the query is a list, expected a text, or its vector"),
        ({"query": np.ones(DIMENSION - 1)}, "dimension"),
        ({"query": np.ones((1, DIMENSION))}, r"shape \(1, 32\), expected \(32,\)"),
        ({"query": np.full(DIMENSION, np.nan)}, "finite"),
        ({"query": np.zeros(DIMENSION)}, "zeros"),
        ({"query": np.ones(DIMENSION), "vector": np.ones(DIMENSION)}, "already"),
        ({"query": np.ones(DIMENSION), "mode": "lexical"}, "text"),
        ({"query": np.ones(DIMENSION), "mode": "hybrid"}, "text"),
        ({"query": "a", "vector": np.ones(3)}, "dimension"),
        ({"query": "a", "mode": "fuzzy"}, "'fuzzy'.*dense"),
        ({"query": "a", "k": 0}, "from 1"),
        ({"query": "a", "k": -3}, "from 1"),
        ({"query": "a", "k": 2.5}, "whole number"),
        ({"query": "a", "k": "3"}, "whole number"),
        ({"query": "a", "filter": {"year": {"$foo": 1}}}, r"\$foo"),
        ({"query": "a", "filter": ["year"]}, "mapping"),
        ({"query": "a", "filter": []}, "mapping"),
    ],
)
def test_bad_searches_say_what_is_wrong(
    index: Index, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        index.search(**arguments)


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_any_text_can_be_searched(kept: Index, text: str) -> None:
    if text.strip():
        assert len(kept.search(text, 5)) == 5
        kept.search(text, 5, mode="lexical")


def test_an_encoder_of_another_space_is_refused(path: Path) -> None:
    encoder = WordEncoder()
    encoder.space_id = "space-of-others"
    with pytest.raises(SpaceMismatchError, match=f"{SPACE}.*space-of-others"):
        open_index(path, encoder=encoder)


def test_reading_only_refuses_to_write(path: Path) -> None:
    with open_index(path) as index:
        for write in (lambda: index.delete(["doc-1"]), index.compact):
            with pytest.raises(InvalidInputError, match="writable=True"):
                write()


@pytest.mark.parametrize(
    ("documents", "vectors", "message"),
    [
        ([Document("x", "y")], np.ones((2, DIMENSION)), "1 documents came with 2 vectors"),
        ([Document("x", "y")], np.zeros((1, DIMENSION)), "zeros"),
        ([Document("x", "y")], np.ones((1, 3)), "dimension"),
        ([Document("x", "y")] * 2, np.ones((2, DIMENSION)), "'x'"),
        ([Document("x", "\ud800")], np.ones((1, DIMENSION)), r"documents\[0\]"),
        ([7], np.ones((1, DIMENSION)), r"documents\[0\]"),
    ],
)
def test_bad_adds_say_what_is_wrong(
    index: Index, documents: Any, vectors: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        index.add(documents, vectors)
    assert len(index) == 60


SAYS_TOO_LITTLE = ["", " \n", "\x00", "\u200b\u00ad", *"-→aÉ7", "...", "— “”", "====="]
SAYS_ENOUGH = ["a a", "42", "ab", "日", "я", "ß", "½", "the", "👍"]


@pytest.mark.parametrize("built", [True, False])
def test_what_says_too_little_is_found_by_words_alone(tmp_path: Path, built: bool) -> None:
    texts = [*SAYS_TOO_LITTLE, *SAYS_ENOUGH]
    documents = [Document(text or "none", text) for text in texts]
    titled = [Document(f"titled {text}", text, {"title": "an old oak"}) for text in texts]
    opposite = -np.ones((len(texts), DIMENSION))  # to every other document
    path = tmp_path / "index"
    with new_index(path) as builder:
        if built:
            builder.add([*documents, *titled], np.concatenate([opposite, opposite]))
    with open_index(path, encoder=WordEncoder(), writable=True) as index:
        if not built:
            index.add(documents, opposite)
            index.add(titled, opposite)
        for _ in range(2):
            expected = {*SAYS_ENOUGH, *(one.id for one in titled)}
            assert set(ids(index.search(opposite[0], 100))) == expected
            assert set(ids(index.search("a", 100, mode="lexical"))) >= {"a", "a a"}
            assert set(ids(index.search("oak 7 É", 100))) == expected | {"7", "É"}
            vectors = index.vectors(["-", "42"])
            assert vectors.vectors(np.array([vectors.row_of["-"], vectors.row_of["42"]])).any(
                axis=1
            ).tolist() == [False, True]
            assert vectors.nearest(opposite[:2].astype(np.float32), 100).shape == (2, len(expected))
            assert index.get("none") == Document("none", "")
            index.verify()
            index.compact()
    verify_index(path)


def test_adding_nothing_is_harmless(index: Index) -> None:
    index.add([], np.zeros((0, DIMENSION)))
    assert len(index) == 60


def test_deleting_wants_a_list(index: Index) -> None:
    cases: list[tuple[Any, str]] = [("doc-1", "list"), (None, "list"), (["doc-1", 3], r"ids\[1\]")]
    for identifiers, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            index.delete(identifiers)


def test_a_closed_index_says_so(path: Path) -> None:
    index = open_index(path)
    index.close()
    index.close()
    with pytest.raises(InvalidInputError, match="closed"):
        index.search("x", mode="lexical")


def test_a_reader_sees_what_a_writer_commits(path: Path, index: Index) -> None:
    with open_index(path, encoder=WordEncoder()) as reader:
        assert len(reader) == 60
        index.delete(["doc-5"])
        assert len(reader) == 59
        index.compact()
        assert ids(reader.search("number 7 in 1907", 1)) == ["doc-7"]
        add_documents(index, 1, 60)
        assert ids(reader.search("number 60 in 1960", 1)) == ["doc-60"]


def test_closing_a_writer_seals_the_files(path: Path) -> None:
    with open_index(path, writable=True) as index:
        index.delete(["doc-1"])
    with open_index(path) as index:
        index.verify()
    assert verify_index(path).generation > 0


@contextlib.contextmanager
def searching(search: Callable[[], None], count: int) -> Iterator[None]:
    """Threads that search again and again; none may fail."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            search()

    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(repeat) for _ in range(count)]
        try:
            yield
        finally:
            done.set()
    for one in running:
        one.result()


def test_threads_search_while_one_writes(index: Index) -> None:
    def search() -> None:
        for mode in ("dense", "lexical", "hybrid"):
            assert len(set(ids(index.search("the violin was painted", 10, mode=mode)))) == 10

    with searching(search, 4):
        for round_number in range(6):
            more = add_documents(index, 10, 100 + 10 * round_number)
            index.delete([more[0].id])
            if round_number % 3 == 2:
                index.compact()


def test_a_reader_in_another_process_sees_whole_states(path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from pocketquery.sdk.index.index import open_index
        with open_index(Path(sys.argv[1])) as index:
            print("ready", flush=True)
            sizes = set()
            while len(index) < 160:
                sizes.add(len(index))
                hits = index.search("number", 1000, mode="lexical")
                assert len(hits) % 20 == 0, len(hits)
            assert all(size % 20 == 0 for size in sizes), sizes
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader,
        open_index(path, writable=True) as index,
    ):
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"ready\n"
        for first in range(60, 160, 20):
            add_documents(index, 20, first)
        _, errors = reader.communicate(timeout=60)
    assert reader.returncode == 0, errors.decode()


def test_a_failed_add_changes_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    more = make_documents(5, 60)
    for step in ("append_vectors", "insert_postings", "insert_documents", "next_generation"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pocketquery.sdk.index.segments.{step}", full)
            with pytest.raises(OSError, match="No space"):
                index.add(more, vectors_of(more))
        assert len(index) == 60
        assert ids(index.search("number 13 in 1913", 1)) == ["doc-13"]
    index.add(more, vectors_of(more))
    assert len(index) == 65


def test_a_full_database_leaves_the_index_as_it_was(path: Path) -> None:
    with open_index(path, writable=True) as index:
        with index._database._connection() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        more = make_documents(500, 60)
        with pytest.raises(ArtifactError, match=r"full.*is as it was"):
            index.add(more, vectors_of(more))
        assert len(index) == 60


def test_an_index_built_anew_is_taken_up_whole(index: Index, path: Path) -> None:
    assert ids(index.search("number 13 in 1913", 1)) == ["doc-13"]
    make_index(path, first=500)
    with index._database.reading():  # so that the search needs another connection
        hit = index.search(content(make_documents(1, 513)[0]), 1, mode="dense")[0]
    assert hit.id == "doc-513"
    assert hit.score == pytest.approx(1, abs=0.01)
    index.delete(["doc-513"])
    add_documents(index, 2, 900)
    index.close()
    verify_index(path)
    with open_index(path) as other:
        assert len(other) == 61


def test_an_index_of_another_space_in_its_place_is_refused(index: Index, path: Path) -> None:
    make_index(path, first=500, space_id="space-of-others")
    more = make_documents(1, 900)
    for use in (
        lambda: index.search("violin"),
        lambda: index.add(more, vectors_of(more)),
        lambda: index.delete(["doc-501"]),
    ):
        with pytest.raises(SpaceMismatchError, match=f"space-of-others.*{SPACE}"):
            use()
    index.close()
    assert verify_index(path).space_id == "space-of-others"


def test_searches_go_on_while_the_index_is_built_anew(path: Path) -> None:
    reader = open_index(path, encoder=WordEncoder())
    query = WordEncoder().encode_query("the violin was painted")

    def search() -> None:
        for hit in reader.search("the violin was painted", 10, mode="dense"):
            vector = vectors_of([Document(hit.id, hit.text, hit.metadata)])[0]
            assert hit.score == pytest.approx(float(vector @ query), abs=0.01)
        with open_index(path) as other:
            assert len(other) == 60

    with reader, searching(search, 3):
        for first in (500, 100, 900, 300):
            make_index(path, first=first)


@pytest.mark.parametrize("present", [True, False])
def test_a_folder_replaced_meanwhile(
    path: Path, present: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was looked at, SQLite finds none; when it has failed, a new one may be there."""
    aside = path.with_name("aside")
    opened = SqliteKind.open
    waited: list[float] = []

    def late(kind: SqliteKind, file: Path, mode: str, **options: Any) -> sqlite3.Connection:
        if waited or aside.exists():
            return opened(kind, file, mode, **options)
        path.rename(aside)
        try:
            return opened(kind, file, mode, **options)
        finally:
            if present:
                shutil.copytree(aside, path)

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if not path.exists():
            shutil.copytree(aside, path)

    monkeypatch.setattr(SqliteKind, "open", late)
    monkeypatch.setattr("pocketquery.sdk.index.database.time.sleep", pause)
    with open_index(path, encoder=WordEncoder()) as index:
        assert index.search("the violin was painted", 1)
    assert waited


def test_closing_on_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    index = open_index(path, writable=True)
    index.delete(["doc-1"])
    monkeypatch.setattr("pocketquery.sdk.index.index.seal", full)
    with pytest.raises(OSError, match="No space"):
        index.close()
    with pytest.raises(InvalidInputError, match="closed"):
        len(index)
    with open_index(path) as other:
        assert len(other) == 59


def test_closing_under_a_search_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = open_index(path)

    def closed_meanwhile(text: str, prefix: bool) -> Query:
        index.close()
        return Analyzer("english").query(text, prefix=prefix)

    monkeypatch.setattr(analyzer_for("english"), "query", closed_meanwhile)
    assert index.search("river", mode="lexical")  # what it holds open it may finish
    with pytest.raises(InvalidInputError, match="closed"):
        index.search("river", mode="lexical")


def test_an_index_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        with new_index("index") as builder:
            builder.add([Document(place, f"the text of {place}")], np.ones((1, DIMENSION)))
            monkeypatch.chdir(tmp_path)  # where it is published is settled, too
    monkeypatch.chdir(tmp_path / "here")
    with open_index("index", writable=True) as index:
        monkeypatch.chdir(tmp_path / "there")
        assert [hit.id for hit in index.search("text", mode="lexical")] == ["here"]
        index.add([Document("new", "new")], np.ones((1, DIMENSION)))
        index.verify()
    for place, count in (("here", 2), ("there", 1)):
        with open_index(tmp_path / place / "index") as index:
            assert len(index) == count


def test_documents_that_are_still_read_are_not_waited_for(index: Index) -> None:
    documents: Any = index.documents()
    first = next(documents)
    for change in (lambda: index.delete([first.id]), index.compact):
        with pytest.raises(InvalidInputError, match="make a list of documents"):
            change()
    documents.close()
    assert index.delete([first.id]) == 1


def test_an_index_takes_no_folder_of_anything_else(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("mine", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="is not an index; it is left alone"):
        new_index(notes)
    assert (notes / "a.md").read_text(encoding="utf-8") == "mine"


def test_what_is_no_path_and_no_encoder_is_named(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="the index is a NoneType, expected a path"):
        open_index(cast(Any, None))
    with pytest.raises(InvalidInputError, match="encoder is a str, expected an encoder"):
        open_index(path, encoder=cast(Any, "default"))


def test_the_current_folder_as_an_index(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path)
    with open_index(".") as index:
        assert len(index) == 60
    make_index(Path(), 20)
    with open_index(path) as index:
        assert len(index) == 20


def test_compacting_leaves_a_file_that_somebody_holds(
    index: Index, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (used,) = path.glob("*.u8")
    unlink = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self == used:
            raise PermissionError(13, "in use, as Windows says")
        unlink(self, missing_ok)

    index.delete(["doc-1"])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        index.compact()
    assert len(index) == 59
    assert len(list(path.glob("*.u8"))) == 2
    index.compact()
    assert len(list(path.glob("*.u8"))) == 1
