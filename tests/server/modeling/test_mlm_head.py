"""An MLM head beside an encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import (
    MLM_HEAD,
    head_misfit,
    load_mlm_heads,
    save_mlm_head,
    set_biases,
)
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.mlm import Mlm
from pocketquery.server.objectives.shared.span_masking import sentinel_ids
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


@pytest.mark.parametrize("names", [("tsdae", "mlm"), ("mlm", "tsdae"), ("simcse", "mlm", "tsdae")])
def test_a_decoders_head_is_saved_only_where_there_is_no_other(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    objectives = [
        mlm(ENCODER) if name == "mlm" else build_objective(name, ENCODER) for name in names
    ]
    save_mlm_head(tmp_path, objectives)
    taken = mlm(ENCODER)
    assert load_mlm_heads(tmp_path, [taken]) == 1
    made = objectives[names.index("mlm")]
    assert isinstance(made, Mlm)
    assert torch.equal(taken.head.bias, made.head.bias)
    (tmp_path / MLM_HEAD).unlink()
    save_mlm_head(tmp_path, [build_objective("tsdae", ENCODER)])
    assert (tmp_path / MLM_HEAD).is_file()


def test_without_a_head_nothing_is_written_and_nothing_changes(tmp_path: Path) -> None:
    save_mlm_head(tmp_path, [build_objective("simcse", ENCODER)])
    assert list(tmp_path.iterdir()) == []
    assert load_mlm_heads(tmp_path, [build_objective("mlm", ENCODER)]) == 0


def mlm(encoder: SentenceEncoder) -> Mlm:
    """The objective, with a bias that no other one starts with."""
    made = build_objective("mlm", encoder)
    assert isinstance(made, Mlm)
    torch.nn.init.normal_(made.head.bias)
    return made


@pytest.mark.parametrize(
    ("encoder", "difference"),
    [
        (bert_teacher(width=32), "dense.weight is 64x64, expected 32x32"),
        (None, "bias is 152, expected 148"),
    ],
)
def test_a_head_of_another_shape_is_left_alone_and_it_is_said_why(
    tmp_path: Path, encoder: SentenceEncoder | None, difference: str
) -> None:
    made = mlm(ENCODER)
    if encoder is None:
        made.head.bias = torch.nn.Parameter(torch.zeros(152))
    save_mlm_head(tmp_path, [made])
    other = mlm(encoder or ENCODER)
    before = {name: tensor.clone() for name, tensor in other.head.state_dict().items()}
    assert load_mlm_heads(tmp_path, [other]) == 0
    assert all(torch.equal(other.head.state_dict()[name], before[name]) for name in before)
    misfit = head_misfit(tmp_path, [other])
    assert difference in misfit
    assert str(tmp_path / MLM_HEAD) in misfit
    assert "\n" not in misfit
    assert head_misfit(tmp_path, [other, mlm(ENCODER)]) == ("" if encoder else misfit)
    assert head_misfit(tmp_path, [build_objective("simcse", ENCODER)]) == ""
    assert head_misfit(tmp_path / "elsewhere", [other]) == ""


def test_a_head_for_a_vocabulary_that_has_grown_takes_the_rows_that_were_saved(
    tmp_path: Path,
) -> None:
    encoder = bert_teacher()
    made = mlm(encoder)
    save_mlm_head(tmp_path, [made])
    rows = len(sentinel_ids(encoder, 5)) + len(made.head.bias)
    grown = mlm(encoder)
    added = grown.head.bias[-5:].clone()
    assert load_mlm_heads(tmp_path, [grown]) == 1
    assert head_misfit(tmp_path, [grown]) == ""
    assert len(grown.head.bias) == rows
    assert torch.equal(grown.head.bias[:-5], made.head.bias)
    assert torch.equal(grown.head.bias[-5:], added)
    assert torch.equal(grown.head.dense.weight, made.head.dense.weight)


@pytest.mark.parametrize("grown", [-5, 0, 5])
def test_biases_of_a_smaller_or_larger_vocabulary_reach_the_rows_that_both_have(
    grown: int,
) -> None:
    made = mlm(ENCODER)
    own, rows = made.head.bias.detach().clone(), len(made.head.bias)
    biases = torch.arange(1.0, 1.0 + rows + grown)
    set_biases([made], biases)
    both = min(rows, len(biases))
    assert torch.equal(made.head.bias[:both], biases[:both])
    assert torch.equal(made.head.bias[both:], own[both:])


def test_a_damaged_head_is_named(tmp_path: Path) -> None:
    made = build_objective("mlm", ENCODER)
    save_mlm_head(tmp_path, [made])
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CorruptArtifactError, match=r"mlm_head\.safetensors is damaged"):
        load_mlm_heads(tmp_path, [made])
