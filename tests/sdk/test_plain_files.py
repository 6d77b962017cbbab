from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from pocketquery.sdk.errors import ArtifactError, ArtifactNotFoundError, CorruptArtifactError
from pocketquery.sdk.plain_files import (
    any_closed,
    check_own_file,
    has_one_name,
    open_own_file,
    plain_size,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(b"12345")
    return tmp_path / "file"


def test_a_plain_file_is_read_and_written(path: Path) -> None:
    assert plain_size(path) == 5
    assert has_one_name(path)
    with open_own_file(path) as file:
        assert file.read(2) == b"12"
        file.write(b"x")
    assert path.read_bytes() == b"12x45"


@pytest.mark.skipif(os.name == "nt", reason="no pipes with names")
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_damage_and_holds_nobody_up(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for use in (plain_size, check_own_file, open_own_file):
        with pytest.raises(CorruptArtifactError, match="expected a plain file"):
            use(path)


def test_links_are_read_and_not_written(path: Path, tmp_path: Path) -> None:
    for make in ((tmp_path / "link").symlink_to, (tmp_path / "name").hardlink_to):
        make(path)
    for link in (tmp_path / "link", tmp_path / "name"):
        assert plain_size(link) == 5
        for use in (check_own_file, open_own_file):
            with pytest.raises(ArtifactError, match="is a link"):
                use(link)
    assert path.read_bytes() == b"12345"


def test_links_to_nothing_and_in_circles_are_missing(tmp_path: Path) -> None:
    (tmp_path / "nothing").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("absent", "nothing", "circle"):
        for use in (plain_size, check_own_file, open_own_file):
            with pytest.raises(ArtifactNotFoundError, match=name):
                use(tmp_path / name)


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_a_file_is_closed_by_itself_or_by_a_folder() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        folder.chmod(0o755)
        file = folder / "a.txt"
        file.touch(0o644)
        file.chmod(0o644)
        assert not any_closed([file])
        file.chmod(0o640)
        assert any_closed([file])
        file.chmod(0o644)
        folder.chmod(0o750)
        assert any_closed([file])
