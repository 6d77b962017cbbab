"""Named files in a folder or in a zip of it, read alike.

A bundle travels as either. Reading never unpacks to disk, never follows a name out of the folder,
and never reads more than the caller allows, so a hostile archive can at most be refused.
"""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError
from pocketquery.sdk.files import present_folder, write_atomic

if TYPE_CHECKING:  # at run time only where a zip is: it takes 9 ms that a folder need not wait for
    import zipfile

__all__ = ["Storage", "FolderStorage", "ZipStorage", "open_storage", "pack"]

# The earliest date a zip can hold: no timestamp of ours in the bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Storage(Protocol):
    """Where named files lie."""

    path: Path

    def size(self, name: str) -> int | None:
        """The file's size in bytes; None where it is not there."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """The whole file, or its first ``limit`` bytes where it is longer."""
        ...


class FolderStorage:
    """The files of a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self, name: str) -> int | None:
        """The file's size in bytes; None where it is not there."""
        file = self.path / name
        return file.stat().st_size if file.is_file() else None

    def read(self, name: str, limit: int) -> bytes:
        """The whole file, or its first ``limit`` bytes where it is longer."""
        with (self.path / name).open("rb") as file:
            return file.read(limit)


class ZipStorage:
    """The files of a zip, stored or compressed.

    Raises:
        CorruptArtifactError: not a zip, a name that leaves the folder, the same name twice, or an
            encrypted file.
    """

    def __init__(self, path: Path) -> None:
        import zipfile

        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise CorruptArtifactError(f"{path}: not a readable zip: {error}") from error
        self._sizes: dict[str, int] = {}
        for entry in entries:
            self._admit(entry)

    def _admit(self, entry: zipfile.ZipInfo) -> None:
        name = entry.filename
        if (
            name.startswith(("/", "\\"))
            or ".." in name.replace("\\", "/").split("/")
            or ":" in name
        ):
            raise CorruptArtifactError(
                f"{self.path}: the zip names {name!r}, expected names inside the folder only"
            )
        if name in self._sizes:
            raise CorruptArtifactError(f"{self.path}: the zip holds {name!r} twice, expected once")
        if entry.flag_bits & 0x1:
            raise CorruptArtifactError(f"{self.path}: {name!r} is encrypted, expected it plain")
        self._sizes[name] = entry.file_size

    def size(self, name: str) -> int | None:
        """The file's size in bytes as the zip states it; None where it is not there."""
        return self._sizes.get(name)

    def read(self, name: str, limit: int) -> bytes:
        """The whole file, or its first ``limit`` bytes where it is longer.

        Raises:
            CorruptArtifactError: the zip's own check sum or compression is broken.
        """
        import zipfile

        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                return file.read(limit)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as e:
            raise CorruptArtifactError(f"{self.path}: {name} cannot be unzipped: {e}") from e


def open_storage(path: Path | str) -> Storage:
    """The folder or zip at ``path``.

    Raises:
        ArtifactNotFoundError: nothing is there.
        CorruptArtifactError: a file that is not a usable zip.
    """
    path = Path(path)
    if not path.exists():
        path = present_folder(path)  # a writer killed between its renames leaves the old one beside
    if path.is_dir():
        return FolderStorage(path)
    if path.is_file():
        return ZipStorage(path)
    raise ArtifactNotFoundError(f"{path}: found nothing there, expected a folder or a zip of one")


def pack(folder: Path | str, zip_path: Path | str) -> None:
    """Zip the files of ``folder`` without compression; the same files give the same bytes.

    Weights do not compress, and stored files can be read in place. Written to a temporary file
    and renamed.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        OSError: the disk is full or not writable; an older ``zip_path`` is as it was before.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ArtifactNotFoundError(f"{folder}: found no folder there, expected one to pack")
    write_atomic(zip_path, _zip_bytes(folder))


def _zip_bytes(folder: Path) -> bytes:
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(path for path in folder.iterdir() if path.is_file()):
            entry = zipfile.ZipInfo(file.name, _EPOCH)
            entry.create_system = 3  # Unix, wherever it is packed
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
    return buffer.getvalue()
