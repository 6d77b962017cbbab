"""What a device keeps between rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pocketquery.client.round_memory import Keepsake, RoundMemory


def keepsake(value: float) -> Keepsake:
    return Keepsake({"a": np.full((2, 3), value, np.float32)}, {"b": np.ones(2, np.float32)})


def test_a_nonce_and_a_seed_are_the_same_for_the_same_occasion_and_after_a_restart(
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
    assert path.stat().st_mode & 0o077 == 0


def test_a_given_secret_decides_everything() -> None:
    first, second = (RoundMemory(secret=bytes(32)) for _ in range(2))
    assert first.nonce("x") == second.nonce("x")
    assert first.seed("x") == second.seed("x")
    assert 0 <= first.seed("x") < 2**63


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_round_that_is_repeated_begins_from_what_it_began_from(
    tmp_path: Path, on_disk: bool
) -> None:
    path = tmp_path / "memory" if on_disk else None
    memory = RoundMemory(path)
    assert memory.recall("0") == Keepsake()
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
    assert memory.recall("1") == Keepsake()
    assert memory.nonce("0") != nonce


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "memory"
    memory = RoundMemory(path)
    memory.keep("0", keepsake(1.0))
    path.write_bytes(path.read_bytes()[:-5] if damage is None else damage)
    begun = RoundMemory(path)
    assert begun.recall("1") == Keepsake()
    begun.keep("0", keepsake(2.0))
    assert RoundMemory(path).recall("1").residual["a"][0, 0] == 2.0
