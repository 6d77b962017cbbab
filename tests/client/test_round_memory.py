"""What a device keeps between rounds."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pocketquery.client.round_memory import ClientState, RoundMemory
from pocketquery.sdk.bundle.safetensors import serialize
from pocketquery.sdk.files import sha256_bytes


def keepsake(value: float) -> ClientState:
    return ClientState({"a": np.full((2, 3), value, np.float32)}, {"b": np.ones(2, np.float32)})


def test_nonce_and_seed_survive_a_restart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state" / "rounds.safetensors"
    memory = RoundMemory(path)
    nonce, seed = memory.nonce("round 1"), memory.seed("round 1")
    assert len(nonce) == 32
    assert int(nonce, 16) >= 0
    again = RoundMemory(path)
    assert (again.nonce("round 1"), again.seed("round 1")) == (nonce, seed)
    assert again.nonce("round 2") != nonce
    assert RoundMemory().nonce("round 1") != nonce


@pytest.mark.parametrize("rewritten", [True, False])
def test_it_is_for_its_owner_alone_also_where_it_was_not(tmp_path: Path, rewritten: bool) -> None:
    path = tmp_path / "memory"
    RoundMemory(path).keep("0", keepsake(1.0))
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    memory = RoundMemory(path)
    if rewritten:
        path.chmod(0o644)
        memory.keep("1", keepsake(2.0))
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_of_another_epoch_is_forgotten_from_the_disk_too(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    memory = RoundMemory(path)
    memory.attach("first")
    memory.keep("0", keepsake(1.0))
    again = RoundMemory(path)
    again.attach("first")
    assert again.recall("1").residual
    nonce = again.nonce("1")
    (tmp_path / ".memory.0123abcd.tmp").write_bytes(path.read_bytes())  # of a killed writing
    again.attach("second")
    assert again.recall("1") == ClientState()
    assert list(tmp_path.iterdir()) == []
    assert again.nonce("1") != nonce
    memory.attach("second")
    assert memory.recall("1") == ClientState()


def test_what_an_earlier_release_left_is_of_no_epoch(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    fields = {"format": "pocketquery-round-memory", "format_version": "1", "occasion": "0"}
    tensors = {"after.residual:a": np.ones(3, np.float32)}
    path.write_bytes(serialize(tensors, fields | {"secret": "00" * 32}))
    memory = RoundMemory(path)
    assert memory.recall("1") == ClientState()
    assert not path.exists()


def test_a_given_secret_decides_everything() -> None:
    first, second = (RoundMemory(secret=bytes(32)) for _ in range(2))
    assert first.nonce("x") == second.nonce("x")
    assert first.seed("x") == second.seed("x")
    assert 0 <= first.seed("x") < 2**63


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_repeated_round_begins_where_it_began(tmp_path: Path, on_disk: bool) -> None:
    path = tmp_path / "memory" if on_disk else None
    memory = RoundMemory(path)
    assert memory.recall("0") == ClientState()
    memory.keep("0", keepsake(1.0))
    memory.keep("1", keepsake(2.0))
    memory.keep("1", keepsake(3.0))
    memory = RoundMemory(path) if on_disk else memory
    np.testing.assert_array_equal(memory.recall("1").residual["a"], keepsake(1.0).residual["a"])
    np.testing.assert_array_equal(memory.recall("2").residual["a"], keepsake(3.0).residual["a"])
    assert memory.recall("2").adapter["b"].tolist() == [1.0, 1.0]


def test_what_is_of_another_encoder_is_left_out() -> None:
    kept = keepsake(1.0)
    assert kept.fitting({"a": np.zeros((2, 3), np.float16)}).residual is kept.residual
    assert not kept.fitting({"a": np.zeros((2, 3))}).adapter
    assert not kept.fitting({"a": np.zeros((3, 2))}).residual
    assert not kept.fitting({"a": np.zeros((2, 3)), "c": np.zeros(1)}).residual


def test_erasing_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    memory = RoundMemory(path)
    nonce = memory.nonce("0")
    memory.keep("0", keepsake(1.0))
    memory.erase()
    assert not path.exists()
    assert memory.recall("1") == ClientState()
    assert memory.nonce("0") != nonce


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "memory"
    memory = RoundMemory(path)
    memory.keep("0", keepsake(1.0))
    path.write_bytes(path.read_bytes()[:-5] if damage is None else damage)
    begun = RoundMemory(path)
    assert begun.recall("1") == ClientState()
    begun.keep("0", keepsake(2.0))
    assert RoundMemory(path).recall("1").residual["a"][0, 0] == 2.0


@given(place=st.integers(0, 10**6), flipped=st.integers(1, 255), cut=st.booleans())
@settings(deadline=None)
def test_any_damage_is_seen(
    tmp_path_factory: pytest.TempPathFactory, place: int, flipped: int, cut: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged-memory"
    memory = RoundMemory(path)
    memory.keep("0", keepsake(1.0))
    data = bytearray(path.read_bytes())
    place %= len(data)
    data[place] ^= flipped
    path.write_bytes(data[:place] if cut else data)
    assert RoundMemory(path).recall("1") == ClientState()
    assert not path.exists()


HOSTILE: list[tuple[dict[str, NDArray[Any]], dict[str, str]]] = [
    ({"after.residual:a": np.array([np.nan], np.float32)}, {}),
    ({"after.residual:a": np.array([1.0])}, {}),
    ({"elsewhere:a": np.ones(1, np.float32)}, {}),
    ({}, {"secret": ""}),
    ({}, {"secret": "zz" * 32}),
    ({}, {"format_version": "2"}),
    ({}, {"occasion": "\ud800"}),
]


@pytest.mark.parametrize(("tensors", "changes"), HOSTILE)
def test_what_it_never_writes_is_damage(
    tmp_path: Path, tensors: dict[str, NDArray[Any]], changes: dict[str, str]
) -> None:
    path = tmp_path / "memory"
    fields = {"format": "pocketquery-round-memory", "format_version": "1", "occasion": "0"}
    fields |= {"epoch": "e", "secret": "00" * 32, **changes}
    if "\ud800" in fields["occasion"]:  # as JSON may spell it
        data = serialize(tensors, fields | {"occasion": "@", "sha256": "0" * 64})
        length = int.from_bytes(data[:8], "little")
        text = data[8 : 8 + length].rstrip().replace(b"@", b"\\ud800")
        data = len(text).to_bytes(8, "little") + text + data[8 + length :]
    else:
        data = serialize(tensors, fields | {"sha256": sha256_bytes(serialize(tensors, fields))})
    path.write_bytes(data)
    memory = RoundMemory(path)
    assert memory.recall("1") == ClientState()
    assert not path.exists()
    memory.attach("e")
    assert len(memory.nonce("1")) == 32


def test_a_file_of_any_size_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with path.open("wb") as file:
        file.truncate(10 << 30)  # takes no room on the disk
    tracemalloc.start()
    try:
        assert RoundMemory(path).recall("1") == ClientState()
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    assert not path.exists()
