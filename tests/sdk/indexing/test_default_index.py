"""The index that is built and searched where nobody names one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.indexing.default_index import default_index
from pocketquery.sdk.plugins import load_plugin


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with nothing yet."""
    for name in ("POCKETQUERY_INDEX", "POCKETQUERY_BUNDLE", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def notes(folder: Path, text: str) -> str:
    folder.mkdir()
    (folder / "one.txt").write_text(text, encoding="utf-8")
    return str(folder)


def test_search_finds_what_index_built(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "sea"]) == 2
    assert "build it with: pocketquery index FOLDER" in capsys.readouterr().err
    folder = notes(home / "notes", "the sea is deep")
    assert main(["index", folder]) == 0
    (home / "notes" / "two.txt").write_text("the sea is cold", encoding="utf-8")
    assert main(["index", folder]) == 0  # the same folder again takes its own place
    capsys.readouterr()
    assert main(["search", "how cold is the sea"]) == 0
    assert "two.txt#1" in capsys.readouterr().out
    assert default_index() == home / "data" / "pocketquery" / "index"
    assert default_index().parent.stat().st_mode & 0o777 == 0o700


def test_an_index_of_another_folder_is_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", notes(home / "notes", "the sea is deep")]) == 0
    mail = notes(home / "mail", "the train leaves at seven")
    capsys.readouterr()
    assert main(["index", mail]) == 2
    message = capsys.readouterr().err
    assert f"is of {home / 'notes'}, not of {home / 'mail'}" in message
    assert "name another place with --output" in message.lower()
    monkeypatch.setenv("POCKETQUERY_INDEX", str(home / "mail.index"))
    assert main(["index", mail]) == 0
    assert main(["search", "when does the train leave"]) == 0
    assert "train leaves at seven" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "found no documents, expected one of FOLDER, --documents, --corpus and --encoded"),
        (["a", "--documents", "b"], "found FOLDER, --documents, expected one of"),
        (["--corpus", "a.jsonl"], "--corpus is given without --output"),
        (["a", "--engine", "local"], "--engine is given without --corpus"),
        (["a", "--workers", "2"], "--workers and --ray-address go with --engine ray"),
        (["a", "--passages"], "--passages is given without --corpus"),
        (["."], "found no file with text"),
        ([".", "--device", "cuda"], "found no file with text"),
    ],
)
def test_what_cannot_be_indexed_says_why(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(home)
    assert main(["index", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not default_index().exists()


@pytest.mark.parametrize(
    ("system", "place"),
    [
        ("linux", "data/pocketquery/index"),
        ("darwin", "Library/Application Support/pocketquery/index"),
        ("win32", "AppData/Local/pocketquery/index"),
    ],
)
def test_every_system_has_a_place(
    home: Path, monkeypatch: pytest.MonkeyPatch, system: str, place: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert default_index() == home / place


def test_a_relative_data_folder_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "data")  # as the XDG specification says
    assert default_index() == home / ".local" / "share" / "pocketquery" / "index"


def test_a_plugin_that_nobody_registered_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"'unheard-of' in .*pocketquery\[shards\]"):
        load_plugin("pocketquery.corpora", "unheard-of", "shards")
