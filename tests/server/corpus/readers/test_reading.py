from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorpusError,
    InvalidInputError,
)
from pocketquery.server.corpus import (
    Columns,
    Group,
    Kind,
    ReadOptions,
    TextStore,
    open_source,
    read_groups,
    write_text_store,
)
from pocketquery.server.corpus.readers.reading import read_all


@pytest.mark.parametrize(
    ("kind", "content", "reading", "texts"),
    [
        ("documents", '{"title": "T", "text": "A. B."}', None, ("T", "A. B.")),
        ("documents", "One\nhere. Two.", None, ("One here.", "Two.")),
        ("documents", "One.\n\nTwo.", ReadOptions(document="file"), ("One.", "Two.")),
        ("documents", "One\nTwo", ReadOptions(sentence_lines=True), ("One", "Two")),
        ("documents", "t\nA b.\n", ReadOptions(columns=Columns(("t",))), ("A b.",)),
        ("sessions", '{"turns": [["U", "a"], ["U", "b"]]}', None, ("a b",)),
        ("pairs", "a\tb", None, ("a", "b")),
        ("triples", "a\tb\tc", None, ("a", "b", "c")),
        ("queries", "what?", None, ("what?",)),
    ],
)
def test_the_layout_is_known_by_kind_and_first_character(
    tmp_path: Path, kind: Kind, content: str, reading: ReadOptions | None, texts: tuple[str, ...]
) -> None:
    (tmp_path / "a").write_text(content)
    (group,) = read_groups(tmp_path / "a", kind, reading)
    assert group.texts == texts


def test_a_source_is_a_store_or_a_raw_file(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("a\tb\nc\td\n")
    groups = read_groups(tmp_path / "raw", "pairs", ReadOptions(lang="en"))
    write_text_store(tmp_path / "store", groups, "pairs")
    store = open_source(tmp_path / "store", "pairs")
    assert isinstance(store, TextStore)
    assert store[1] == Group("2", ("c", "d"), lang="en")
    raw = open_source(tmp_path / "raw", "pairs", ReadOptions(lang="en"))
    assert raw.fingerprint == store.fingerprint
    with pytest.raises(InvalidInputError, match="holds pairs, and sessions are asked for"):
        open_source(tmp_path / "store", "sessions")
    with pytest.raises(ArtifactNotFoundError):
        open_source(tmp_path / "nothing", "pairs")
    with pytest.raises(ArtifactNotFoundError, match=r"no store\.json"):
        open_source(tmp_path, "pairs")


def test_json_is_not_read_as_sentences(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"text": "A. B."}\n')
    with pytest.raises(InvalidInputError, match="without --sentence-lines"):
        list(read_groups(tmp_path / "a", "documents", ReadOptions(sentence_lines=True)))


def test_first_lines_of_two_files_are_two_documents(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path in paths:
        path.write_text(f"Of {path.name}.\n\nAnother of {path.name}.\n", encoding="utf-8")
    alone = list(read_all(paths[:1], "documents"))
    assert [group.id for group in alone] == [
        group.id for group in read_groups(paths[0], "documents")
    ]
    write_text_store(tmp_path / "store", iter(alone), "documents")
    together = list(read_all([*paths, tmp_path / "store"], "documents"))
    assert [group.texts[0] for group in together][:2] == ["Of a.txt.", "Another of a.txt."]
    assert len({group.id for group in together}) == len(together) == 6


def write_manual(folder: Path) -> Path:
    """Three files that are read, a picture, and one that says it is text and is not."""
    (folder / "more").mkdir(parents=True)
    (folder / "index.html").write_text(
        "<title>Manual</title><p>It opens. It closes.</p><h2>Locks</h2><p>A key turns.</p>"
    )
    (folder / "more" / "notes.md").write_text("# Notes\n\nOil the hinges once a year.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "torn.txt").write_bytes(b"\xff\xfe\xfd a text that is none")
    return folder


def test_a_folder_of_texts_is_documents_of_their_sections(tmp_path: Path) -> None:
    folder = write_manual(tmp_path / "manual")
    with pytest.warns(UserWarning, match=r"left out 2 of its files: (.*)picture\.png(.*)torn\.txt"):
        source = open_source(folder, "documents", ReadOptions(lang="en"))
    groups = [source[row] for row in range(len(source))]
    assert [(one.texts, one.lang, one.title) for one in groups] == [
        (("Manual", "It opens.", "It closes."), "en", True),
        (("Manual: Locks", "A key turns."), "en", True),
        (("Notes", "notes.md Oil the hinges once a year."), "en", True),
    ]
    assert len({one.id for one in groups}) == 3
    with pytest.warns(UserWarning, match=r"torn\.txt"):
        assert [one.texts for one in read_all([folder], "documents")] == [
            one.texts for one in groups
        ]


def test_a_folder_that_is_neither_store_nor_texts(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0")
    missing = pytest.raises(CorpusError, match=r"neither a text store nor a file with text.*\.md")
    with missing, pytest.warns(UserWarning, match=r"left out 1 of its files"):
        open_source(tmp_path, "documents")
    with pytest.raises(ArtifactError, match=r"store\.json"):
        open_source(tmp_path, "pairs")
    (tmp_path / "a.txt").write_text("A text.")
    for reading in (ReadOptions(columns=Columns(("a",))), ReadOptions(sentence_lines=True)):
        with pytest.raises(InvalidInputError, match="is a folder of texts"):
            open_source(tmp_path, "documents", reading)


def test_a_store_is_mined_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_manual(tmp_path / "manual")
    for name in ("torn.txt", "picture.png"):
        (folder / name).unlink()
    store = tmp_path / "store"
    assert main(["mine", "store", "--documents", str(folder), "--output", str(store)]) == 0
    assert len(TextStore.open(store)) == 3
