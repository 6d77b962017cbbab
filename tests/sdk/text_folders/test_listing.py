from __future__ import annotations

import os
from pathlib import Path

import pytest

from pocketquery.sdk import list_files
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.text_folders.outline import UnreadError
from pocketquery.sdk.text_folders.text_folder import read_file
from tests.sdk.text_folders.reading import passages, skipped, write


def names(folder: Path, **options: list[str]) -> list[str]:
    return [file.name for file in list_files(folder, **options).files]


def test_sizes_and_times(tmp_path: Path) -> None:
    path = write(tmp_path, "sub/a.md", "four")
    (file,) = list_files(tmp_path).files
    assert file == (path, "sub/a.md", 4, path.stat().st_mtime_ns)


def test_what_is_skipped_is_counted_in_a_line(tmp_path: Path) -> None:
    for name in ("a.png", "b.JPG", "c.py", "venv2/pyvenv.cfg", "node_modules/x.md", ".git/x.md"):
        write(tmp_path, name, "x")
    write(tmp_path, "f\udce9.txt", "fine, but for its name")
    os.mkfifo(tmp_path / "e.txt")
    with write(tmp_path, "large.txt", "").open("r+b") as file:
        file.truncate(65 << 20)
    reasons, line = skipped(tmp_path)
    total, _, kinds = line.partition(": ")
    assert total == "skipped 8 files"
    assert kinds.startswith("2 images, ")
    assert sorted(kinds.split(", ")[1:]) == [
        "1 .py",
        "1 no plain file",
        "1 node_modules",
        "1 too large",
        "1 virtual environment",
        "1 with a name that is not UTF-8",
    ]
    assert reasons["large.txt"] == "68 MB; at most 67 are read"
    assert "expected one of .txt" in reasons["c.py"]


def test_gitignore_files_are_heeded(tmp_path: Path) -> None:
    write(tmp_path, ".git/config", "")
    write(tmp_path, ".gitignore", "*.log.txt\nbuild/\n/top.md\n")
    write(tmp_path, "docs/.gitignore", "!keep.log.txt\ndrafts\n")
    for (
        name
    ) in "a.log.txt top.md build/x.md docs/keep.log.txt docs/top.md docs/drafts/y.md".split():
        write(tmp_path, name, "x")
    assert names(tmp_path) == ["docs/keep.log.txt", "docs/top.md"]
    assert names(tmp_path / "docs") == ["keep.log.txt", "top.md"]
    assert names(tmp_path / "build") == ["x.md"]  # it was asked for


def test_include_and_exclude(tmp_path: Path) -> None:
    for name in "a.md b.txt sub/c.md sub/deep/d.py".split():
        write(tmp_path, name, "x")
    assert names(tmp_path, include=["*.md"]) == ["a.md", "sub/c.md"]
    assert names(tmp_path, include=["*.py", "/a.md"]) == ["a.md", "sub/deep/d.py"]
    assert names(tmp_path, exclude=["sub/", "*.txt"]) == ["a.md"]
    assert names(tmp_path, include=["*.md"], exclude=["sub"]) == ["a.md"]
    with pytest.raises(InvalidInputError, match="expected patterns"):
        list_files(tmp_path, include=["!"])


def test_links(tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.md", "x")
    folder = tmp_path / "notes"
    write(folder, "a.md", "x")
    write(folder, ".hidden/b.md", "x")
    for name, target in (
        ("out.md", "../outside/secret.md"),
        ("outdir", "../outside"),
        ("again.md", "a.md"),
        ("b.md", ".hidden/b.md"),
        ("loop", "."),
        ("gone.md", "nowhere"),
        ("self.md", "self.md"),
    ):
        (folder / name).symlink_to(target)
    assert names(folder) == ["a.md", "b.md"]
    (tmp_path / "link").symlink_to(folder)
    assert names(tmp_path / "link") == ["a.md", "b.md"]
    reasons, _ = skipped(folder)
    assert reasons == {
        "out.md": "a link that leads out of the folder",
        "outdir": "a link that leads out of the folder",
        "loop": "a link to a folder; name the folder itself",
        "gone.md": "a link that leads nowhere",
        "self.md": "a link that leads nowhere",
    }


@pytest.mark.parametrize("kind", ["pipe", "link out", "folder", "gone"])
def test_a_file_that_is_no_file_any_more_is_not_read(tmp_path: Path, kind: str) -> None:
    folder, secret = tmp_path / "notes", tmp_path / "secret.txt"
    secret.write_text("secret")
    write(folder, "a.txt", "the sea")
    (file,) = list_files(folder).files
    file.path.unlink()
    if kind == "pipe":
        os.mkfifo(file.path)
    elif kind == "link out":
        file.path.symlink_to(secret)
    elif kind == "folder":
        file.path.mkdir()
    with pytest.raises(UnreadError) as caught:
        read_file(file)
    assert caught.value.kind == "unreadable"
    os.mkfifo(folder / ".gitignore")
    write(folder, "c.txt", "the land")
    assert [text for *_, text in passages(folder)] == ["the land"]


def test_a_deep_folder_is_listed(tmp_path: Path) -> None:
    place = tmp_path
    for _ in range(900):
        place = place / "d"
    place.mkdir(parents=True)
    write(place, "a.md", "x")
    assert len(names(tmp_path)) == 1


def test_an_unlistable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "secret/b.txt", "x")
    write(tmp_path, "a.txt", "one")
    listed = os.scandir

    def scandir(path: str) -> object:  # as for a user who is not root
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert skipped(tmp_path) == ({"secret": "Permission denied"}, "skipped 1 file: 1 unreadable")
