"""Sorting, shuffling and de-duplicating more lines than fit into memory.

Lines are collected until they fill ``memory``, sorted, and written as a run; then the runs are
merged. The shuffle sorts by a seeded hash, so that every order is equally likely; merging runs in
random order, as some tools do, leaves neighbours of one run near each other.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import make_folder, real_path

__all__ = ["MEMORY", "shuffled_lines", "sorted_lines", "unique_shuffled_lines"]

MEMORY = 64 << 20
"""Bytes of lines held at a time, by default."""

_FAN_IN = 64  # runs merged at once: open files, each with a buffer
_OVERHEAD = 64  # what Python adds to the bytes of a line
_DIGEST = 16  # two different lines share one once in 2^64 pairs
_PREFIX = 2 * _DIGEST  # written in hexadecimal, which holds no line feed


def sorted_lines(
    lines: Iterable[bytes], beside: Path | str, *, memory: int = MEMORY
) -> Iterator[bytes]:
    """``lines`` in the order of their bytes.

    Args:
        lines: without line feeds; read once.
        beside: the file or folder that is being made; what does not fit into memory goes to a
            temporary folder next to it. A killed process leaves that, and the next one that writes
            to ``beside`` removes it, an hour later at the earliest.
        memory: bytes of lines held at a time.

    Raises:
        InvalidInputError: a line holds a line feed.
        OSError: the disk is full.
    """
    chunks = _chunks(lines, memory)
    chunk, full = next(chunks)
    if full:
        yield from _sorted_on_disk(itertools.chain([(chunk, full)], chunks), real_path(beside))
    else:
        yield from sorted(chunk)


def _sorted_on_disk(chunks: Iterator[tuple[list[bytes], bool]], beside: Path) -> Iterator[bytes]:
    make_folder(beside.parent)
    with tempfile.TemporaryDirectory(
        dir=beside.parent, prefix=f".{beside.name}.", suffix=".tmp", ignore_cleanup_errors=True
    ) as folder:
        names = (Path(folder) / str(number) for number in itertools.count())
        runs = [_write_sorted(next(names), chunk) for chunk, _ in chunks]
        while len(runs) > _FAN_IN:
            merging, runs = runs[:_FAN_IN], runs[_FAN_IN:]
            runs.append(_write(next(names), _merged(merging)))
            for run in merging:
                run.unlink()
        yield from _merged(runs)


def shuffled_lines(
    lines: Iterable[bytes], seed: int, beside: Path | str, *, memory: int = MEMORY
) -> Iterator[bytes]:
    """``lines`` in a random order, each as often as it came; arguments as :func:`sorted_lines`."""
    key = _key(seed)
    hashed = (_hash(b"%d/%b" % (number, line), key) + line for number, line in enumerate(lines))
    for line in sorted_lines(hashed, beside, memory=memory):
        yield line[_PREFIX:]


def unique_shuffled_lines(
    lines: Iterable[tuple[bytes, bytes]], seed: int, beside: Path | str, *, memory: int = MEMORY
) -> Iterator[bytes]:
    """One line of each identity, in a random order that depends on the identities and the seed.

    One sort does both: equal identities have equal hashes, so they become neighbours.

    Args:
        lines: (identity, line); of several lines with one identity the least is taken.
        seed: another one gives another order.
        beside: see :func:`sorted_lines`.
        memory: see :func:`sorted_lines`.
    """
    key = _key(seed)
    hashed = (_hash(identity, key) + line for identity, line in lines)
    ordered = sorted_lines(hashed, beside, memory=memory)
    for _, same in itertools.groupby(ordered, itemgetter(slice(_PREFIX))):
        yield next(same)[_PREFIX:]


def _key(seed: int) -> bytes:
    return hashlib.sha256(b"%d" % seed).digest()


def _hash(data: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST, key=key).hexdigest().encode()


def _chunks(lines: Iterable[bytes], memory: int) -> Iterator[tuple[list[bytes], bool]]:
    """Lines that fill ``memory``, and whether they do; the last ones need not."""
    chunk: list[bytes] = []
    held = 0
    for line in lines:
        if b"\n" in line:
            raise InvalidInputError(
                f"a line to sort holds a line feed ({line[:40]!r}); expected lines without"
            )
        chunk.append(line)
        held += len(line) + _OVERHEAD
        if held >= memory:
            yield chunk, True
            chunk, held = [], 0
    yield chunk, False


def _write_sorted(path: Path, chunk: list[bytes]) -> Path:
    """Write a chunk's lines in order, and empty it: the next one needs its memory."""
    chunk.sort()
    _write(path, chunk)
    chunk.clear()
    return path


def _write(path: Path, lines: Iterable[bytes]) -> Path:
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in lines)
    return path


def _merged(runs: Sequence[Path]) -> Iterator[bytes]:
    """The lines of sorted files in one order."""
    return heapq.merge(*[_read(run) for run in runs])


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            yield line[:-1]
