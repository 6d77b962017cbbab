"""The parts made of each shard, kept beside the output until all are complete.

A part is a folder that appears in one step when it is complete, so what a killed run had finished
is known by its presence. A record beside them says of which shards, and how, they were made: what
changed since is made anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.files import make_folder, real_path, remove_file, write_atomic
from pocketquery.sdk.folders import hold_folder, recover_folder, release_folder
from pocketquery.sdk.plain_files import is_closed
from pocketquery.server.corpus.listing import file_system
from pocketquery.server.corpus.readers.lines import is_url, url_errors
from pocketquery.server.corpus.text_store import MANIFEST

__all__ = ["ShardPart", "finish_parts", "fingerprint", "open_parts"]

_VERSION_FIELDS = ("size", "ETag", "Last-Modified")


@dataclass(frozen=True)
class ShardPart:
    """What is made of one shard.

    Attributes:
        number: of the shard, from 0.
        source: the shard: an absolute path, or a URL.
        folder: where what is made of it goes.
    """

    number: int
    source: str
    folder: Path

    @property
    def done(self) -> bool:
        """Whether it is complete."""
        return self.folder.is_dir()


def _name(number: int) -> str:
    return f"part-{number:06d}"


def fingerprint(shard: str) -> str:
    """What changes when a shard does: size and time of a file, what its store says of a URL.

    Raises:
        ArtifactNotFoundError: it is not there.
        CorpusError, InvalidInputError, MissingExtraError: as
            :func:`~pocketquery.server.corpus.listing.list_shards`.
    """
    if is_url(shard):
        with url_errors(shard):
            system, place = file_system(shard)
            try:
                info = system.info(place)
                # To fsspec a page of the web never changes, whatever its server says of it.
                return str([system.ukey(place), *(info.get(name) for name in _VERSION_FIELDS)])
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


def finish_parts(folder: Path, parts: Sequence[ShardPart], name: str, text: str) -> None:
    """Leave the parts alone in their folder, with a file ``name`` that describes them.

    What killed workers and earlier runs left goes, so equal parts make equal folders.
    """
    for entry in folder.iterdir():
        if entry.is_dir() and entry not in {one.folder for one in parts}:
            shutil.rmtree(entry)
    write_atomic(folder / name, text)


@contextlib.contextmanager
def open_parts(
    output: Path | str,
    shards: Sequence[str],
    settings: Mapping[str, Any],
    *,
    private: bool = False,
) -> Iterator[list[ShardPart]]:
    """Yield the parts of ``shards``, those of an earlier run kept as far as they still hold.

    They are in ``.<name>.parts`` beside ``output``, and are removed on leaving without an error,
    where nobody has published them. One process at a time works on them.

    Args:
        output: what is going to be made of them.
        shards: of :func:`~pocketquery.server.corpus.listing.list_shards`.
        settings: what else the parts depend on, as JSON: with others, all are made anew.
        private: they are for their owner alone, as they are where ``output`` is.

    Raises:
        ArtifactError: another process works on the same output.
        ArtifactNotFoundError: a shard is not there.
        InvalidInputError: there is no shard.
    """
    if not shards:
        raise InvalidInputError("there is no shard; expected at least one file of documents")
    real = real_path(output)
    make_folder(real.parent)
    recover_folder(real)
    folder = real.parent / f".{real.name}.parts"
    lock = hold_folder(folder, private=private or is_closed(real))
    ours = folder.stat()
    try:
        run = {"settings": settings, "shards": [[one, fingerprint(one)] for one in shards]}
        run = json.loads(json.dumps(run))  # as it is read again
        record = folder.with_suffix(".json")
        _forget_stale(folder, record, run)
        write_atomic(record, json.dumps(run, indent=1))
        yield [
            ShardPart(number, shard, folder / _name(number)) for number, shard in enumerate(shards)
        ]
        # Where ours is published, another process may have begun the next.
        if not folder.exists() or os.path.samestat(folder.stat(), ours):
            shutil.rmtree(folder, ignore_errors=True)
            remove_file(record)
    finally:
        release_folder(lock)


def _forget_stale(folder: Path, record: Path, run: Mapping[str, Any]) -> None:
    """Remove all but the parts whose shards and settings are those of ``run``."""
    try:
        before = json.loads(record.read_text("utf-8"))
        same = before["settings"] == run["settings"]
        pairs = zip(before["shards"], run["shards"], strict=False)
        unchanged = {
            _name(number) for number, (old, new) in enumerate(pairs) if same and old == new
        }
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it says nothing
        unchanged = set()
    for entry in folder.iterdir():
        if entry.name not in unchanged:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
