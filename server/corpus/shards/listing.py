"""Which files a corpus consists of: paths, patterns, folders and fsspec URLs, in a fixed order."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, MissingExtraError
from pocketquery.sdk.files import checked_path
from pocketquery.server.corpus.readers.lines import is_url, url_errors
from pocketquery.server.corpus.text_store import MANIFEST

__all__ = ["fingerprint", "list_shards"]

_PLAIN = (".jsonl", ".ndjson")
SUFFIXES = (*(f"{name}{packed}" for name in _PLAIN for packed in ("", ".gz", ".xz")), ".parquet")
"""Which files of a folder are its shards."""

_CHANGING = ("size", "ETag", "Last-Modified")


def list_shards(paths: Sequence[Path | str]) -> list[str]:
    """The files that ``paths`` name, absolute, each once.

    A path or URL is a file, a pattern (``corpus/*.parquet``, ``s3://bucket/part-*.jsonl.gz``;
    ``**`` is any number of folders) or a folder, whose JSON Lines and Parquet files are taken;
    these two come in the order of their names. A text store is one shard; a chain of fsspec
    (``zip://a.jsonl::s3://...``) is one file.

    Raises:
        ArtifactNotFoundError: a path or pattern names no file.
        InvalidInputError: a file is named twice, a folder has no shard, or a URL cannot be used.
        CorpusError: a URL's server gives an error.
        MissingExtraError: fsspec is needed and not installed.
    """
    for path in paths:
        checked_path(path, "the corpus")
    found = [one for path in paths for one in (_of_url if is_url(path) else _of_path)(str(path))]
    twice = {one for one in found if found.count(one) > 1} if len(set(found)) < len(found) else ()
    if twice:
        raise InvalidInputError(
            f"{min(twice)} is named twice; expected each shard once: look at the patterns"
        )
    return found


def fingerprint(shard: str) -> str:
    """What changes when a shard does: size and time of a file, what its store says of a URL.

    Raises:
        ArtifactNotFoundError: it is not there.
        CorpusError, InvalidInputError, MissingExtraError: as :func:`list_shards`.
    """
    if is_url(shard):
        with url_errors(shard):
            system, place = _system(shard)
            try:
                info = system.info(place)
                # To fsspec a page of the web never changes, whatever its server says of it.
                return str([system.ukey(place), *(info.get(name) for name in _CHANGING)])
            except FileNotFoundError as error:
                raise ArtifactNotFoundError(f"{shard}: there is no such file") from error
    path = Path(shard)
    if path.is_dir():
        path = path / MANIFEST
    try:
        stat = path.stat()
    except FileNotFoundError as error:
        raise ArtifactNotFoundError(f"{shard}: there is no such file") from error
    return f"{stat.st_size} {stat.st_mtime_ns}"


def _of_path(path: str) -> list[str]:
    place = Path(path).absolute()
    if place.is_file() or (place / MANIFEST).is_file():
        return [str(place)]
    if place.is_dir():
        return _shards_of(path, [str(one) for one in place.iterdir() if one.is_file()])
    if not glob.has_magic(path):
        raise ArtifactNotFoundError(f"{path}: there is no such file")
    matching = glob.iglob(path, recursive=True)  # noqa: PTH207 - pathlib's wants a folder
    found = {str(Path(one).absolute()) for one in matching if Path(one).is_file()}
    return _matching(path, list(found))


def _of_url(url: str) -> list[str]:
    if "::" in url:
        return [url]
    with url_errors(url):
        system, place = _system(url)
        if glob.has_magic(url):
            return [system.unstrip_protocol(one) for one in _matching(url, system.glob(place))]
        if system.isdir(place):
            names = _shards_of(url, list(system.ls(place, detail=False)))
            return [system.unstrip_protocol(one) for one in names]
        return [url]


def _matching(pattern: str, names: list[str]) -> list[str]:
    if not names:
        raise ArtifactNotFoundError(f"{pattern}: no file is named so")
    return sorted(names)


def _shards_of(folder: str, names: list[str]) -> list[str]:
    shards = [
        one
        for one in sorted(names)
        if one.endswith(SUFFIXES) and not one.rpartition("/")[2].startswith((".", "_"))
    ]
    if not shards:
        raise InvalidInputError(
            f"{folder} has no shard; expected files with the endings {', '.join(SUFFIXES)}"
        )
    return shards


def _system(url: str) -> tuple[Any, str]:
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
