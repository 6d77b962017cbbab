"""An MLM head beside an encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.head_file import load_mlm_heads, save_mlm_head
from pocketquery.server.objectives.mlm import Mlm
from tests.tiny_models import bert_teacher

ENCODER = bert_teacher()


def test_a_head_is_carried_to_every_objective_that_has_one(tmp_path: Path) -> None:
    made = build_objective("mlm", ENCODER)
    save_mlm_head(tmp_path, [made])
    others = [build_objective(name, ENCODER) for name in ("mlm", "auto_mlm", "simcse")]
    assert load_mlm_heads(tmp_path, others) == 2
    assert isinstance(made, Mlm)
    assert isinstance(others[0], Mlm)
    for name, tensor in made.head.state_dict().items():
        assert torch.equal(tensor, others[0].head.state_dict()[name])


def test_without_a_head_nothing_is_written_and_nothing_changes(tmp_path: Path) -> None:
    save_mlm_head(tmp_path, [build_objective("simcse", ENCODER)])
    assert list(tmp_path.iterdir()) == []
    assert load_mlm_heads(tmp_path, [build_objective("mlm", ENCODER)]) == 0


def test_a_head_of_another_shape_is_left_alone(tmp_path: Path) -> None:
    made = build_objective("mlm", ENCODER)
    assert isinstance(made, Mlm)
    made.head.bias = torch.nn.Parameter(torch.zeros(3))
    save_mlm_head(tmp_path, [made])
    assert load_mlm_heads(tmp_path, [build_objective("mlm", ENCODER)]) == 0


def test_a_damaged_head_is_named(tmp_path: Path) -> None:
    made = build_objective("mlm", ENCODER)
    save_mlm_head(tmp_path, [made])
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CorruptArtifactError, match=r"mlm_head\.safetensors is damaged"):
        load_mlm_heads(tmp_path, [made])
