"""Numbered lines of a text file, plain, gzip or xz, and the errors that name them."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorpusError,
    InvalidInputError,
    MissingExtraError,
    PocketQueryError,
)

__all__ = [
    "all_lines",
    "bad_line",
    "encodable",
    "identifier",
    "is_url",
    "numbered_lines",
    "open_bytes",
    "url_errors",
]

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_NEVER_EMPTY = (".gz", ".xz", ".parquet")  # a file of no rows has bytes there


def numbered_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a UTF-8 file, blank lines left out.

    Otherwise as :func:`all_lines`.
    """
    return ((number, line) for number, line in all_lines(path) if line.strip())


def all_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a UTF-8 file, at a path or an fsspec URL.

    Gzip and xz are known by their first bytes, not by the file's name. A byte order mark is
    dropped.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: the bytes are not UTF-8, the packed stream is cut or damaged, there is no byte
            where the name says gzip, xz or Parquet, or a URL's server gives an error.
    """
    number = 0
    with url_errors(path):
        try:
            with _open(path) as file:
                for number, raw in enumerate(file, start=1):
                    yield number, _decode(path, number, raw)
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
            found = f"a damaged or truncated gzip or xz stream after this line ({error})"
            raise bad_line(path, number, found, "a whole file; copy it again") from error


def is_url(path: Path | str) -> bool:
    """Whether ``path`` is for fsspec: ``s3://bucket/corpus.jsonl``, ``file:///corpus.jsonl``."""
    return isinstance(path, str) and "://" in path


@contextlib.contextmanager
def url_errors(path: Path | str) -> Iterator[None]:
    """Give one class to the errors with which fsspec's file systems end, where ``path`` is a URL.

    Raises:
        CorpusError: for any of them that is not ours.
    """
    try:
        yield
    except PocketQueryError:
        raise
    except Exception as error:
        if not is_url(path):
            raise
        raise CorpusError(
            f"{path} cannot be read: found {type(error).__name__} ({error}); expected a file that "
            "fsspec opens: look at the address, and at its server"
        ) from error


def open_bytes(path: Path | str) -> BinaryIO:
    """The file at a path or an fsspec URL, to be read from anywhere in it.

    Raises:
        ArtifactNotFoundError: there is no such file.
        InvalidInputError: a URL that fsspec has no way to open; names what to install.
        MissingExtraError: fsspec is not installed (extra "shards").
    """
    try:
        if not is_url(path):
            return Path(path).open("rb")
        import fsspec

        return cast("BinaryIO", fsspec.open(path, "rb").open())
    except ModuleNotFoundError as error:
        if error.name == "fsspec":
            raise MissingExtraError.of("fsspec", "shards") from error
        raise InvalidInputError(f"{path} cannot be opened: {error}") from error
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ArtifactNotFoundError(f"{path}: there is no such file") from error
    except (ImportError, ValueError) as error:  # of fsspec: no such protocol, or its package
        if is_url(path):
            raise InvalidInputError(f"{path} cannot be opened: {error}") from error
        raise ArtifactNotFoundError(f"{path}: there is no such file") from error


def _open(path: Path | str) -> BinaryIO:
    file = open_bytes(path)
    begin = file.read(len(_XZ_MAGIC))
    if not begin and str(path).lower().endswith(_NEVER_EMPTY):
        file.close()
        raise CorpusError(
            f"{path}: found no byte in it, expected what its name says: a file of no rows has some "
            "too. Copy it again, or remove it"
        )
    file.seek(0)
    unpacked = gzip.open if begin.startswith(_GZIP_MAGIC) else lzma.open
    if unpacked is lzma.open and begin != _XZ_MAGIC:
        return file
    if is_url(path):
        return cast("BinaryIO", unpacked(file))
    file.close()
    return cast("BinaryIO", unpacked(path, "rb"))


def _decode(path: Path | str, number: int, raw: bytes) -> str:
    try:
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        found = f"bytes that are not UTF-8 (byte {error.start} of the line)"
        raise bad_line(path, number, found, "UTF-8 text; convert the file") from error
    return line.rstrip("\r\n")


def bad_line(path: Path | str, number: int, found: str, expected: str) -> CorpusError:
    """The error for one line: where, what was found, what was expected."""
    return CorpusError(f"{path}, line {number}: {found}; expected {expected}")


def identifier(path: Path | str, number: int, value: object, field: str) -> str:
    """``value`` as an id: a non-empty string, or an integer written out.

    Raises:
        CorpusError: it is anything else, or cannot be written as UTF-8.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        found = f"{field} is {type(value).__name__}"
        raise bad_line(path, number, found, "a string or an integer")
    if not value.strip():
        raise bad_line(path, number, f"{field} is empty", "a string that names the entry")
    return encodable(path, number, value, field)


def encodable(path: Path | str, number: int, value: str, field: str) -> str:
    r"""``value`` itself, refused when it holds half of a surrogate pair (JSON's "\ud83d" alone)."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"{field} holds a lone surrogate at character {error.start}"
        raise bad_line(path, number, found, "text that UTF-8 can hold") from error
    return value
