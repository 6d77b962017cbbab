"""What tests of folders share."""

from __future__ import annotations

from pathlib import Path

from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.text_folders.listing import Skipped, skipped_line
from pocketquery.sdk.text_folders.text_folder import read_folder


def passages(folder: Path) -> list[tuple[str, str, str]]:
    """Id, title and text of each, without the file's name, with which the first begins."""
    return [(one.id, str(one.metadata["title"]), unnamed(one)) for one in read_folder(folder)]


def unnamed(document: Document) -> str:
    """Its text, without the name of its file before it."""
    return document.text.removeprefix(f"{Path(str(document.metadata['path'])).name}\n")


def write(folder: Path, name: str, text: str | bytes) -> Path:
    """A file, with the folders above it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def seen(folder: Path, name: str, text: str | bytes) -> str:
    """All text of a file's passages; its name is that of every title."""
    write(folder, name, text)
    return "\n".join(text for *_, text in passages(folder / name))


def skipped(folder: Path) -> tuple[dict[str, str], str]:
    """Why each file is not read, by name, and the line that counts them."""
    reasons = list[Skipped]()
    list(read_folder(folder, on_skipped=reasons.append))
    return {one.name: one.why for one in reasons}, skipped_line(reasons)
