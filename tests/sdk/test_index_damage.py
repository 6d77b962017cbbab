"""A damaged or hostile index ends in pocketquery's own errors, and changes nothing else."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.index import open_index, verify_index
from tests.sdk.index_damage import (
    SIBLING,
    VECTORS,
    damage,
    execute,
    rebuild,
    reseal,
    tree,
    use,
)
from tests.sdk.small_index import make_documents, make_index, vectors_of

_PAIRS: list[Path] = []
_SLOW_CASES = int(os.environ.get("DAMAGED_INDEXES", "1000"))


@pytest.fixture(scope="module", autouse=True)
def pair() -> Iterator[None]:
    """Two sound indexes side by side, to be copied."""
    with TemporaryDirectory() as folder:
        make_index(Path(folder) / "index", 30)
        make_index(Path(folder) / SIBLING, 40)
        _PAIRS.append(Path(folder))
        yield
        _PAIRS.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    shutil.copytree(_PAIRS[0] / "index", tmp_path / "index")
    return tmp_path / "index"


def damaged_and_used(seed: int) -> Counter[str]:
    """One case, the same for the same seed."""
    random = Random(seed)
    with TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(_PAIRS[0], place, dirs_exist_ok=True)
        done = damage(place / "index", random)
        before = tree(place / SIBLING)
        try:
            seen = use(place / "index")
            if random.random() < 0.1:
                rebuild(place / "index")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error} after {done}") from error
        assert tree(place / SIBLING) == before, f"seed {seed}: {done}"
        left = {one.name for one in place.iterdir()}
        assert left <= {"index", SIBLING}, f"seed {seed}: {done}"
        return seen


@pytest.mark.parametrize(
    ("sql", "argument"),
    [
        ("UPDATE documents SET id = ? WHERE row = 4", b"blob"),
        ("UPDATE documents SET metadata = ? WHERE row = 4", b"{}"),
        ("UPDATE documents SET metadata = ? WHERE row = 4", "[1]"),
        ("UPDATE documents SET metadata = ? WHERE row = 4", '{"a": NaN}'),
        ("UPDATE documents SET metadata = ? WHERE row = 4", '{"a": "\\ud800"}'),
        ("UPDATE documents SET metadata = ? WHERE row = 4", '{"a":' * 5000),
        ("UPDATE documents SET metadata = ? WHERE row = 4", '{"a": ' + "9" * 5000 + "}"),
        ("UPDATE documents SET row = ? WHERE row = 4", 30),
        ("UPDATE documents SET row = ? WHERE row = 4", -1),
        ("UPDATE documents SET row = ? WHERE row = 4", 2**63 - 1),
        ("DELETE FROM documents WHERE row = ?", 4),
        ("DELETE FROM texts WHERE row = ?", 4),
        ("UPDATE texts SET text = ?", b"blob"),
        ("UPDATE texts SET text = CAST(? AS TEXT)", b"\xed\xa0\x80"),
        ("INSERT INTO tombstones VALUES (?)", 30),
        ("INSERT INTO tombstones VALUES (?)", -1),
        ("INSERT INTO tombstones VALUES (?)", 4),
        ("UPDATE segments SET count = ?", 2**62),
        ("UPDATE segments SET count = ?", -1),
        ("UPDATE segments SET count = ?", "many"),
        ("UPDATE segments SET first_row = ? WHERE first_row = 25", 24),
        ("UPDATE segments SET lengths = ?", "text"),
        ("UPDATE segments SET lengths = ?", b"123"),
        ("DELETE FROM segments WHERE first_row = ?", 0),
        ("UPDATE segments SET vectors_sha256 = ?", b"blob"),
        ("UPDATE postings SET rows = ?", b"\xff\xff\xff\xff"),
        ("UPDATE postings SET rows = ?", b"123"),
        ("UPDATE postings SET rows = ?", "text"),
        ("UPDATE postings SET rows = ?", 7),
        ("UPDATE postings SET counts = ?", b""),
        ("UPDATE postings SET counts = zeroblob(length(counts) + ?)", 0),
        ("UPDATE postings SET counts = zeroblob(length(counts) + ?)", 1),
        ("UPDATE postings SET first_row = first_row + ?", 10),
        ("UPDATE postings SET first_row = first_row + ?", 2**62),
        ("UPDATE postings SET first_row = first_row - ?", 2**31),
        ("DELETE FROM postings WHERE term = ?", "number"),
        ("UPDATE meta SET value = ? WHERE key = 'generation'", "-1"),
        ("UPDATE meta SET value = ? WHERE key = 'generation'", "9" * 5000),
        ("UPDATE meta SET value = ? WHERE key = 'generation'", "\u0663"),
        ("UPDATE meta SET value = ? WHERE key = 'generation'", 2),
        ("UPDATE meta SET value = ? WHERE key = 'vectors'", b"vectors-0.u8"),
        ("DELETE FROM meta WHERE key = ?", "vectors"),
        ("DELETE FROM meta WHERE key = ?", "generation"),
    ],
)
def test_values_that_no_index_has_are_damage(path: Path, sql: str, argument: object) -> None:
    """Sealed as they are, so that no hash is in the way."""
    execute(path, sql, argument)
    reseal(path)
    with pytest.raises(CorruptArtifactError):
        verify_index(path)
    use(path)  # whatever else is done with it


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0])
def test_vectors_of_no_number_are_never_scores(path: Path, scale: float) -> None:
    data = bytearray((path / VECTORS).read_bytes())
    data[-4:] = struct.pack("<f", scale)
    (path / VECTORS).write_bytes(data)
    rows = hashlib.sha256(data[64 + 25 * 36 :]).hexdigest()
    execute(path, "UPDATE segments SET vectors_sha256 = ? WHERE first_row = 25", rows)
    reseal(path)
    with pytest.raises(CorruptArtifactError, match="scale"):
        verify_index(path)
    vector = vectors_of(make_documents(1))[0]
    with open_index(path) as index:
        with pytest.raises(CorruptArtifactError, match="scale"):
            index.search(vector)
        with pytest.raises(CorruptArtifactError, match="scale"):
            index.vectors().vectors(np.arange(30))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_damage_ends_in_errors_of_ours(seed: int) -> None:
    damaged_and_used(seed)


@pytest.mark.very_slow
@pytest.mark.timeout(3600)
def test_much_damage_ends_in_errors_of_ours() -> None:
    seen: Counter[str] = Counter()
    for seed in range(_SLOW_CASES):
        seen += damaged_and_used(seed)
    print(f"{_SLOW_CASES} damaged indexes: {dict(seen)}")
    assert seen["CorruptArtifactError"] > _SLOW_CASES
    assert seen["well"] > _SLOW_CASES  # what is not reached by damage still works
