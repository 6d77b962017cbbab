"""The index that is built and searched where nobody names one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.indexing.default_index import default_index
from pocketquery.sdk.plugins import load_plugin
from tests.shell import Shell


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


def test_search_finds_what_index_built(home: Path, shell: Shell) -> None:
    shell("search", "sea", code=2, says="build it with: pocketquery index FOLDER")
    folder = notes(home / "notes", "the sea is deep")
    shell("index", folder)
    (home / "notes" / "two.txt").write_text("the sea is cold", encoding="utf-8")
    shell("index", folder)  # the same folder again takes its own place
    shell("search", "how cold is the sea", says="two.txt:1")
    assert default_index() == home / "data" / "pocketquery" / "index"
    assert default_index().parent.stat().st_mode & 0o777 == 0o700


def test_the_path_of_a_hit_opens_from_the_working_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    folder = notes(home / "notes", "the sea is deep")
    options = ["search", "sea", "--index", str(home / "named")]
    shell("index", folder, "--output", str(home / "named"))
    for place, shown in ((home, "notes/one.txt:1"), (home / "notes", "one.txt:1")):
        monkeypatch.chdir(place)
        assert shell(*options).out.startswith(shown)
    file = home / "notes" / "one.txt"
    shell("index", str(file), "--output", str(home / "named"))  # a folder of one file
    assert shell(*options).out.startswith("one.txt:1")
    monkeypatch.chdir(home)
    file.unlink()
    file.parent.rmdir()  # or the index is from another machine
    assert shell(*options).out.startswith("one.txt:1")


def test_an_index_of_another_folder_is_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    shell("index", notes(home / "notes", "the sea is deep"))
    mail = notes(home / "mail", "the train leaves at seven")
    refused = shell("index", mail, code=2, says=f"is of {home / 'notes'}, not of {home / 'mail'}")
    assert "name another place with --output" in refused.err.lower()
    shell("index", str(home / "mial"), code=2, says="mial: found nothing there")
    monkeypatch.setenv("POCKETQUERY_INDEX", str(home / "mail.index"))
    shell("index", mail)
    shell("search", "when does the train leave", says="train leaves at seven")


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
        ([".", "--device", "cuda"], "--device cuda is given without --teacher"),
    ],
)
def test_what_cannot_be_indexed_says_why(
    home: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(home)
    shell("index", *arguments, code=2, says=message)
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
