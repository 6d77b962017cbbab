"""A small corpus of several shards, as JSON Lines and as Parquet, and the bytes of folders."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

__all__ = ["bytes_of", "write_shards"]

TOPICS = ("sugar in leaves", "the tides of the sea", "a king's railway", "bread", "old maps")


def documents(shard: int, count: int) -> list[dict[str, object]]:
    """Texts of various lengths."""
    return [
        {
            "_id": f"{shard}-{row}",
            "title": TOPICS[row % 5],
            "text": " ".join(f"{TOPICS[(row + i) % 5]} {row * i}" for i in range(1 + row % 7)),
            "year": 1900 + row,
        }
        for row in range(count)
    ]


def write_shards(folder: Path, counts: tuple[int, ...], kind: str = "jsonl") -> Path:
    """One shard for each of ``counts``: "jsonl", "jsonl.gz" or "parquet"."""
    folder.mkdir(parents=True)
    for number, count in enumerate(counts):
        rows = documents(number, count)
        path = folder / f"{number}.{kind}"
        if kind == "parquet":
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
            continue
        data = "".join(json.dumps(one) + "\n" for one in rows).encode()
        path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    return folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder``."""
    return {
        str(one.relative_to(folder)): one.read_bytes()
        for one in sorted(folder.rglob("*"))
        if one.is_file()
    }
