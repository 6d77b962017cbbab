"""Which files a corpus consists of: paths, patterns, folders and fsspec URLs, in a fixed order."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, MissingExtraError
from pocketquery.sdk.files import checked_path
from pocketquery.server.corpus.readers.lines import is_url, url_errors
from pocketquery.server.corpus.text_store import MANIFEST

__all__ = ["OnSkipped", "file_system", "list_shards"]

_PLAIN = (".jsonl", ".ndjson")
SUFFIXES = (*(f"{name}{packed}" for name in _PLAIN for packed in ("", ".gz", ".xz")), ".parquet")
"""Which files of a folder are its shards, in capitals or not."""
_HIDDEN_PREFIXES = (".", "_")  # how names begin of what is none of a corpus: _SUCCESS, .part-0.crc
_IS_HIDDEN = "its name begins with a dot or an underscore"

OnSkipped = Callable[[str, str], object]


def list_shards(paths: Sequence[Path | str], on_skipped: OnSkipped | None = None) -> list[str]:
    """The files that ``paths`` name, absolute, each once.

    A path or URL is a file, a pattern (``corpus/*.parquet``, ``s3://bucket/part-*.jsonl.gz``;
    ``**`` is any number of folders) or a folder. Of a folder the JSON Lines and Parquet files are
    taken, with those of the folders in it. Files of patterns and folders come in the order of their
    names. Names that begin with a dot or an underscore are left out of folders. A text store is one
    shard; a chain of fsspec (``zip://a.jsonl::s3://...``) is one file.

    Args:
        paths: of files, patterns and folders.
        on_skipped: told of each file or folder in a folder that is not read, and why.

    Raises:
        ArtifactNotFoundError: a path or pattern names no file.
        InvalidInputError: a file is named twice, a folder has no shard, or a URL cannot be used.
        CorpusError: a URL's server gives an error.
        MissingExtraError: fsspec is needed and not installed.
    """
    for path in paths:
        checked_path(path, "the corpus")
    skipped = on_skipped or (lambda path, why: None)
    shards = [
        one for path in paths for one in (_of_url if is_url(path) else _of_path)(str(path), skipped)
    ]
    twice = (
        {one for one in shards if shards.count(one) > 1} if len(set(shards)) < len(shards) else ()
    )
    if twice:
        raise InvalidInputError(
            f"{min(twice)} is named twice; expected each shard once: look at the patterns"
        )
    return shards


def _of_path(path: str, skipped: OnSkipped) -> list[str]:
    place = Path(path).absolute()
    if place.is_file() or (place / MANIFEST).is_file():
        return [str(place)]
    if place.is_dir():
        return _shards_of(path, str(place), _walked(place, skipped), skipped)
    if not glob.has_magic(path):
        raise ArtifactNotFoundError(f"{path}: there is no such file")
    matching = glob.iglob(path, recursive=True)  # noqa: PTH207 - pathlib's wants a folder
    files = {str(Path(one).absolute()) for one in matching if Path(one).is_file()}
    return _matching(path, list(files))


def _walked(folder: Path, skipped: OnSkipped) -> Iterator[str]:
    """All below a folder that may be a shard."""
    for place, folders, names in os.walk(
        folder, onerror=lambda error: skipped(error.filename, str(error.strerror))
    ):
        for name in folders:
            if name.startswith(_HIDDEN_PREFIXES):
                skipped(f"{place}/{name}", _IS_HIDDEN)
            elif (Path(place) / name).is_symlink():
                skipped(f"{place}/{name}", "a link to a folder; name the folder itself")
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN_PREFIXES)]
        for name in names:
            path = Path(place) / name
            if path.is_file():
                yield str(path)
            else:
                skipped(str(path), "no plain file")


def _of_url(url: str, skipped: OnSkipped) -> list[str]:
    if "::" in url:
        return [url]
    with url_errors(url):
        system, place = file_system(url)
        if glob.has_magic(url):
            return [system.unstrip_protocol(one) for one in _matching(url, system.glob(place))]
        if system.isdir(place):
            names = _shards_of(url, place, system.find(place), skipped)
            return [system.unstrip_protocol(one) for one in names]
        return [url]


def _matching(pattern: str, names: list[str]) -> list[str]:
    if not names:
        raise ArtifactNotFoundError(f"{pattern}: no file is named so")
    return sorted(names)


def _shards_of(folder: str, place: str, names: Iterable[str], skipped: OnSkipped) -> list[str]:
    """Those of ``names``, files below ``place``, that are shards of ``folder``."""
    shards, hidden = list[str](), set[str]()
    for name in sorted(names):
        parts = name.removeprefix(place).strip("/").split("/")
        first = next(
            (n for n, part in enumerate(parts) if part.startswith(_HIDDEN_PREFIXES)), len(parts)
        )
        if first < len(parts):  # with all that a hidden folder holds
            hidden.add("/".join([place.rstrip("/"), *parts[: first + 1]]))
        elif name.lower().endswith(SUFFIXES):
            shards.append(name)
        else:
            skipped(name, f"expected one of {', '.join(SUFFIXES)}")
    for name in sorted(hidden):
        skipped(name, _IS_HIDDEN)
    if not shards:
        raise InvalidInputError(
            f"{folder} has no shard; expected files with the endings {', '.join(SUFFIXES)}. A "
            "folder of texts is for: pocketquery index --documents"
        )
    return shards


def file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the place there."""
    try:
        import fsspec.core
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("fsspec", "shards") from error
    try:
        system, place = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # no such protocol, or its package is missing
        raise InvalidInputError(f"{url} cannot be opened: {error}") from error
    return system, place
