"""Write conformance/index/databases.json.gz: SQLite files of all sorts and the rows SQLite reads.

    python -m tests.sdk.javascript_databases [NUMBER] [TARGET]

The committed file has 16; for a search over more, write 300 elsewhere and name it to the test:
``DATABASES=/tmp/more.json.gz npm test``.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "conformance" / "index" / "databases.json.gz"
INTEGERS = [0, 1, -1, 127, 128, -129, 2**15, -(2**23), 2**31, -(2**40), 2**53 - 1, -(2**53) + 1]
CHARACTERS = "abcé東𠮷 "


def main() -> None:
    """Write them."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else TARGET
    with tempfile.TemporaryDirectory() as folder:
        made = [
            make(Path(folder) / f"{seed}.sqlite", random.Random(seed)) for seed in range(number)
        ]
    text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), mtime=0))


def make(path: Path, draw: random.Random) -> dict[str, Any]:
    """One database: a table, an index of its texts, and a table that is an index itself."""
    database = sqlite3.connect(path, isolation_level=None)
    page_size = draw.choice((512, 512, 1024, 4096, 32768, 65536))
    database.execute(f"PRAGMA page_size = {page_size}")
    database.execute(f"PRAGMA auto_vacuum = {draw.randrange(3)}")
    database.execute("CREATE TABLE items (row INTEGER PRIMARY KEY, name TEXT UNIQUE, more, number)")
    database.execute(
        "CREATE TABLE terms (term TEXT, number INTEGER, data BLOB, PRIMARY KEY (term, number))"
        " WITHOUT ROWID"
    )
    longest = draw.choice((0, 20, 300, 3 * page_size))
    database.execute("BEGIN")
    for _ in range(draw.choice((0, 1, 30, 400)) if longest < 2000 else 12):
        row = draw.choice((None, draw.randrange(1000), draw.randrange(2**40)))
        values = (row, make_text(draw, longest), make_value(draw, longest), draw.choice(INTEGERS))
        database.execute("INSERT OR IGNORE INTO items VALUES (?, ?, ?, ?)", values)
        term = make_text(draw, draw.choice((3, 3, longest)))
        data = draw.randbytes(4) * draw.randrange(longest // 4 + 1)
        database.execute(
            "INSERT OR IGNORE INTO terms VALUES (?, ?, ?)", (term, draw.choice(INTEGERS), data)
        )
    database.execute("COMMIT")
    if draw.random() < 0.5:
        database.execute(f"DELETE FROM items WHERE row % 3 = {draw.randrange(3)}")
        database.execute(f"DELETE FROM terms WHERE number % 3 = {draw.randrange(3)}")
        database.execute("UPDATE items SET more = 'changed' WHERE row % 5 = 0")
    if draw.random() < 0.3:
        database.execute("VACUUM")
    items = database.execute("SELECT * FROM items ORDER BY row").fetchall()
    terms = database.execute("SELECT * FROM terms ORDER BY term, number").fetchall()
    database.close()
    return {
        "file": base64.b64encode(path.read_bytes()).decode(),
        "items": [[shown(value) for value in row] for row in items],
        "terms": [[shown(value) for value in row] for row in terms],
    }


def make_text(draw: random.Random, longest: int) -> str:
    unit = "".join(draw.choice(CHARACTERS) for _ in range(draw.randrange(6)))
    return f"{draw.randrange(10**6)}{unit * draw.randrange(longest // 6 + 1)}"[: longest + 6]


def make_value(draw: random.Random, longest: int) -> Any:
    some = draw.randbytes(3) * draw.randrange(longest // 3 + 1)
    return draw.choice((None, make_text(draw, longest), some, draw.choice(INTEGERS)))


def shown(value: Any) -> Any:
    """A value as JSON; bytes as a list of one text in base 64."""
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


if __name__ == "__main__":
    main()
