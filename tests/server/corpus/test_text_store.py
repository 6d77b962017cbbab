"""What is written comes back, from disk, whole, and in any order."""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorpusError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.server.corpus import Group, GroupList, TextStore, write_text_store
from tests.kills import by_fork, printed
from tests.server.corpus.synthetic_groups import every, group_lists

ROOT = Path(__file__).parents[3]
GROUPS = [
    Group("a", ("Title", "One é.", "Two."), lang="en", title=True),
    Group("b", (), lang="de"),
    Group("c", ("", "x"), ("user", "agent"), "en"),
    Group("ñ", ("日本語",)),
]


@settings(max_examples=40)
@given(group_lists)
def test_a_store_is_the_list_of_its_groups_on_disk(groups: list[Group]) -> None:
    expected = GroupList(groups, "documents")
    with tempfile.TemporaryDirectory() as folder:
        store = write_text_store(Path(folder) / "store", iter(groups), "documents")
        assert every(store) == groups
        assert store.fingerprint == expected.fingerprint
        assert store.languages == expected.languages
        for name in ("counts", "lengths", "language_codes"):
            found, twin = getattr(store, name)(), getattr(expected, name)()
            assert found.dtype == twin.dtype
            np.testing.assert_array_equal(found, twin)
        sizes = [len(text.encode()) for group in groups for text in group.texts]
        assert store.text_lengths().tolist() == sizes


def test_rows_count_from_both_ends_and_end(tmp_path: Path) -> None:
    store = write_text_store(tmp_path / "s", GROUPS, "sessions")
    assert store[-1] == GROUPS[-1]
    assert store[-4] == GROUPS[0]
    for row in (4, -5):
        with pytest.raises(IndexError):
            store[row]


def test_a_worker_gets_the_path_and_not_the_content(tmp_path: Path) -> None:
    store = write_text_store(tmp_path / "s", [Group("a", ("x" * 100_000,))], "documents")
    written = pickle.dumps(store)
    assert len(written) < 1000
    assert pickle.loads(written)[0] == store[0]


def test_the_fingerprint_tells_content_order_and_kind_apart(tmp_path: Path) -> None:
    made = [
        write_text_store(tmp_path / "1", GROUPS, "documents"),
        write_text_store(tmp_path / "2", GROUPS[::-1], "documents"),
        write_text_store(tmp_path / "3", GROUPS, "sessions"),
        write_text_store(tmp_path / "4", [Group("a", ("x", "y"))], "documents"),
        write_text_store(tmp_path / "5", [Group("a", ("xy", ""))], "documents"),
    ]
    assert len({store.fingerprint for store in made}) == 5


def test_a_second_store_takes_the_place_of_the_first(tmp_path: Path) -> None:
    write_text_store(tmp_path / "s", GROUPS, "documents")
    store = write_text_store(tmp_path / "s", GROUPS[:1], "pairs")
    assert (store.kind, len(store)) == ("pairs", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_store_can_be_filtered_into_itself(tmp_path: Path) -> None:
    store = write_text_store(tmp_path / "s", GROUPS, "documents")
    kept = (store[row] for row in range(len(store)) if store[row].texts)
    assert len(write_text_store(tmp_path / "s", kept, "documents")) == 3


def test_what_cannot_be_written_leaves_the_old_store(tmp_path: Path) -> None:
    write_text_store(tmp_path / "s", GROUPS, "documents")
    with pytest.raises(CorpusError, match="'bad' holds a lone surrogate"):
        write_text_store(tmp_path / "s", [Group("bad", ("\ud83d",))], "documents")
    names = [Group(str(i), ("x",), (f"nick-{i}",)) for i in range(30_001)]
    with pytest.raises(CorpusError, match="30000 different roles"):
        write_text_store(tmp_path / "s", names, "sessions")
    assert len(TextStore.open(tmp_path / "s")) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_other_things_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    (tmp_path / "file").write_text("x")
    for name in ("letters", "file"):
        with pytest.raises(InvalidInputError, match="is not a text store; it is left alone"):
            write_text_store(tmp_path / name, GROUPS, "documents")
    with pytest.raises(InvalidInputError, match="kind is 'letters'"):
        write_text_store(tmp_path / "s", GROUPS, "letters")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "error", "found"),
    [
        ("store.json", None, ArtifactNotFoundError, "no store.json"),
        ("store.json", b"{", CorruptArtifactError, "is not JSON"),
        ("store.json", b"[]", CorruptArtifactError, "does not describe"),
        ("texts.bin", None, CorruptArtifactError, "found nothing, expected 26"),
        ("texts.bin", b"x", CorruptArtifactError, "found 1 bytes, expected 26"),
        ("group_ends.i64", b"x" * 31, CorruptArtifactError, "found 31 bytes, expected 32"),
    ],
)
def test_a_damaged_store_is_not_opened(
    tmp_path: Path, name: str, content: bytes | None, error: type[Exception], found: str
) -> None:
    write_text_store(tmp_path / "s", GROUPS, "documents")
    path = tmp_path / "s" / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(error, match=found):
        TextStore.open(tmp_path / "s")


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [("version", 2, UnsupportedVersionError), ("kind", "letters", CorruptArtifactError)],
)
def test_a_store_of_another_time_is_not_opened(
    tmp_path: Path, field: str, value: object, error: type[Exception]
) -> None:
    write_text_store(tmp_path / "s", GROUPS, "documents")
    manifest = json.loads((tmp_path / "s" / "store.json").read_text())
    (tmp_path / "s" / "store.json").write_text(json.dumps(manifest | {field: value}))
    with pytest.raises(error, match=str(value)):
        TextStore.open(tmp_path / "s")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="limits memory as Linux does")
def test_a_corpus_larger_than_memory_is_written_and_read(tmp_path: Path) -> None:
    command = "-m", "tests.server.corpus.large_text_store", str(tmp_path / "s"), "60", "20"
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["done", "MemoryError"], done.stderr


@by_fork
def test_killed_at_many_lines(tmp_path: Path) -> None:
    said = printed("tests.server.corpus.text_store_kill_points", tmp_path / "here" / "s", 24)
    assert set(ast.literal_eval(said[-1])) == {"old", "new"}
