"""Zips without compression, read strictly.

A bundle's zip is a row of plain files behind one another with a directory at the end, so that a
file can be as large in memory as it is on disk and no larger. Everything else that a zip may do is
refused before a file is read. That is compression (a megabyte that unpacks to gigabytes),
encryption, names outside the folder or twice, entries that overlap, spans and 64-bit records, and a
directory too large to be a bundle's. Nothing is guessed: the directory must end where the file
does, and each file must lie where both of its headers say.

Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.fields import shortened

__all__ = ["StoredZip"]

_END_RECORD = struct.Struct("<4s4H2LH")  # the end of the directory, the file's last record
_ENTRY = struct.Struct("<4s6H3L5H2L")  # one file in the directory
_LOCAL = struct.Struct("<4s5H3L2H")  # the same file, before its bytes
_MOST_ENTRIES = 256
_MOST_DIRECTORY = 1 << 18  # bytes
_MOST_COMMENT = (1 << 16) - 1
_ENCRYPTED, _SIZES_FOLLOW, _UTF8, _MASKED = 1 << 0, 1 << 3, 1 << 11, 1 << 13
_STORED = 0


@dataclass(frozen=True)
class _Entry:
    """A file: how the directory describes it, and where its bytes begin."""

    name: str
    crc: int
    size: int
    header: int
    start: int

    @property
    def stop(self) -> int:
        return self.start + self.size


class StoredZip:
    """The files of the zip at ``path``.

    Attributes:
        sizes: the bytes of each file, by its name.

    Raises:
        CorruptArtifactError: not a zip, or one with anything that this module does not read.
        OSError: it cannot be read at all.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._entries = self._read_directory(file)
        self._check_apart()
        self.sizes: Mapping[str, int] = {name: one.size for name, one in self._entries.items()}

    def read(self, name: str, limit: int) -> bytes:
        """The whole file, or its first ``limit`` bytes where it is longer.

        Raises:
            CorruptArtifactError: the zip was cut meanwhile, or its own check sum does not fit.
            OSError: it cannot be read.
        """
        entry = self._entries[name]
        with self._path.open("rb") as file:
            file.seek(entry.start)
            data = file.read(min(entry.size, limit))
        if len(data) < min(entry.size, limit):
            self._refuse_file(name, f"{len(data)} bytes are there, the zip says {entry.size}")
        if len(data) == entry.size and zlib.crc32(data) != entry.crc:
            self._refuse_file(name, "its check sum differs from the zip's")
        return data

    def _read_directory(self, file: BinaryIO) -> dict[str, _Entry]:
        size = file.seek(0, os.SEEK_END)
        count, length, begin = self._read_end(file, size)
        file.seek(begin)
        directory = file.read(length)
        entries: dict[str, _Entry] = {}
        position = 0
        for _ in range(count):
            if position + _ENTRY.size > len(directory):
                self._refuse("its directory is cut")
            fields = _ENTRY.unpack_from(directory, position)
            signature, flags, method, crc, packed, plain = *fields[:1], *fields[3:5], *fields[7:10]
            name_length, extra_length, comment_length, disk = fields[10:14]
            header = fields[16]
            position += _ENTRY.size
            raw = directory[position : position + name_length]
            position += name_length + extra_length + comment_length
            if signature != b"PK\1\2" or position > len(directory) or disk:
                self._refuse("its directory is broken")
            name = self._name(raw, flags)
            self._check_kind(name, flags, method, packed, plain)
            if name in entries:
                self._refuse(f"it holds {name!r} twice, expected once")
            start = self._read_local(file, name, raw, header, (method, crc, packed, plain), begin)
            entries[name] = _Entry(name, crc, plain, header, start)
        if position != length:
            self._refuse(f"its directory has {length - position} bytes more than its files take")
        return entries

    def _read_end(self, file: BinaryIO, size: int) -> tuple[int, int, int]:
        """How many files the directory has, its length, and where it begins."""
        file.seek(max(0, size - _END_RECORD.size - _MOST_COMMENT))
        tail = file.read(_END_RECORD.size + _MOST_COMMENT)
        at = tail.rfind(b"PK\5\6")
        if at < 0 or at + _END_RECORD.size > len(tail):
            self._refuse("found no directory at its end; it is truncated or no zip")
        fields = _END_RECORD.unpack_from(tail, at)
        _, disk, first_disk, here, count, length, begin, comment = fields
        if at + _END_RECORD.size + comment != len(tail):
            self._refuse("its comment does not end where it does; it is truncated")
        if disk or first_disk or here != count or begin == 0xFFFFFFFF or count == 0xFFFF:
            self._refuse("it is of several parts or of 64 bits, expected a plain one")
        if count > _MOST_ENTRIES or length > _MOST_DIRECTORY:
            self._refuse(
                f"it lists {count} files in {length} bytes, expected at most {_MOST_ENTRIES} in "
                f"{_MOST_DIRECTORY}"
            )
        if begin + length != size - len(tail) + at:
            self._refuse("its directory is not where the end says; it is truncated or was changed")
        return count, length, begin

    def _read_local(
        self,
        file: BinaryIO,
        name: str,
        raw: bytes,
        header: int,
        described: tuple[int, int, int, int],
        end: int,
    ) -> int:
        """Where the file's bytes begin, where its own header agrees with the directory."""
        file.seek(header)
        data = file.read(_LOCAL.size + len(raw))
        if len(data) < _LOCAL.size + len(raw):
            self._refuse(f"{name!r} begins behind its end; it is truncated")
        fields = _LOCAL.unpack_from(data)
        flags, local = fields[2], (fields[3], *fields[6:9])
        expected = (described[0], 0, 0, 0) if flags & _SIZES_FOLLOW else described
        if (
            fields[0] != b"PK\3\4"
            or data[_LOCAL.size :] != raw
            or local not in (expected, described)
            or flags & (_ENCRYPTED | _MASKED)
        ):
            self._refuse(f"{name!r} is described otherwise where it lies than in the directory")
        start = header + _LOCAL.size + len(raw) + int(fields[10])
        if start + described[3] > end:
            self._refuse(f"{name!r} reaches into the directory")
        return start

    def _check_kind(self, name: str, flags: int, method: int, packed: int, plain: int) -> None:
        if flags & (_ENCRYPTED | _MASKED):
            self._refuse(f"{name!r} is encrypted, expected it plain")
        if method != _STORED:
            self._refuse(
                f"{name!r} is compressed (method {method}), expected it stored as it is; pack the "
                "folder again with pocketquery export --zip, or with: zip -0"
            )
        if packed != plain:
            self._refuse(f"{name!r} has {packed} bytes for {plain}, expected as many")

    def _name(self, raw: bytes, flags: int) -> str:
        try:
            name = raw.decode("utf-8" if flags & _UTF8 else "cp437")
        except UnicodeDecodeError:
            self._refuse(f"a name in it is not UTF-8 ({raw[:40]!r})")
        parts = name.replace("\\", "/").split("/")
        if name.startswith(("/", "\\")) or ".." in parts or ":" in name or "\0" in name:
            self._refuse(f"it names {shortened(name)!r}, expected names inside the folder only")
        return name

    def _check_apart(self) -> None:
        position, before = 0, ""
        for entry in sorted(self._entries.values(), key=lambda entry: entry.header):
            if entry.header < position:
                self._refuse(f"{entry.name!r} lies over {before!r}")
            position, before = entry.stop, entry.name

    def _refuse(self, found: str) -> NoReturn:
        raise CorruptArtifactError(f"{self._path}: not a readable zip: {found}")

    def _refuse_file(self, name: str, found: str) -> NoReturn:
        raise CorruptArtifactError(f"{self._path}: {name} cannot be unzipped: {found}")
