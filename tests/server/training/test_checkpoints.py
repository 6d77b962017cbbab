from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError
from pocketquery.server.training.checkpoints import load_checkpoint, save_checkpoint
from tests.kills import killed_process


def test_a_checkpoint_returns_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    assert load_checkpoint(path, {"seed": 1}) is None
    save_checkpoint(path, {"seed": 1}, {"step": 3, "weights": torch.arange(4.0)})
    state = load_checkpoint(path, {"seed": 1})
    assert state is not None
    assert state["step"] == 3
    assert state["weights"].tolist() == [0, 1, 2, 3]


def test_another_runs_checkpoint_is_refused_and_says_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"seed": 1, "texts": "a"}, {"step": 3})
    with pytest.raises(ArtifactError, match=r"another run \(seed: 1 → 2\)"):
        load_checkpoint(path, {"seed": 2, "texts": "a"})


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {}, {"step": 3})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CorruptArtifactError, match="not a readable checkpoint"):
        load_checkpoint(path, {})


_WRITER = """
import sys, torch
from pathlib import Path
from pocketquery.server.training.checkpoints import save_checkpoint
print("ready", flush=True)
step = 0
while True:
    save_checkpoint(Path(sys.argv[1]), {}, {"step": step, "weights": torch.full((200_000,), step)})
    step += 1
"""


def test_a_kill_during_a_write_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    killed_process(_WRITER, path, lines=1, until=path, delay=0.137)
    state = load_checkpoint(path, {})
    assert state is not None
    assert (state["weights"] == state["step"]).all()
