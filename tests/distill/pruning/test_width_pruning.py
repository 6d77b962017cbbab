from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pocketquery.distill.pruning.width_pruning import (
    copy_narrowed,
    identity_head,
    kept_dimensions,
    widen_feed_forward,
)
from pocketquery.distill.student import StudentShape, alignment_head, build_student
from tests.tiny_models import bert_teacher, electra_teacher, sentences, xlmr_teacher


def test_the_dimensions_with_the_largest_gains_stay() -> None:
    teacher = bert_teacher().backbone
    with torch.no_grad():
        for layer in (teacher.encoder.layer[0], teacher.encoder.layer[2]):
            layer.output.LayerNorm.weight.fill_(0.1)
            layer.output.LayerNorm.weight[[3, 8, 40]] = 2.0
        teacher.encoder.layer[1].output.LayerNorm.weight[5] = 9.0  # a layer that is left out
    assert kept_dimensions(teacher, [0, 2], 3).tolist() == [3, 8, 40]


@pytest.mark.parametrize("kind", ["mlp", "linear"])
def test_the_head_begins_as_the_identity(kind: str) -> None:
    head = alignment_head(32, 64, kind)  # type: ignore[arg-type]
    dimensions = torch.arange(1, 64, 2)
    identity_head(head, dimensions)
    vectors = torch.randn(5, 32)
    out = head(vectors)
    torch.testing.assert_close(out[:, dimensions], vectors, atol=1e-5, rtol=1e-5)
    assert not out[:, ::2].any()
    assert all(parameter.requires_grad for parameter in head.parameters())


def test_as_wide_and_as_deep_a_student_would_be_the_teacher() -> None:
    teacher = bert_teacher(layers=2)
    dimensions = kept_dimensions(teacher.backbone, [0, 1], teacher.hidden_size)
    assert dimensions.tolist() == list(range(teacher.hidden_size))


def test_dimensions_that_are_not_used_cost_little() -> None:
    """Half of the teacher's hidden dimensions, heads and intermediate units are zero everywhere:
    what is left of it differs by the deviations that its norms divide by."""
    teacher = bert_teacher(layers=2)
    assert teacher.backbone.config.num_attention_heads == 2
    unused = torch.arange(0, 64, 2)
    with torch.no_grad():
        for name, value in teacher.backbone.named_parameters():
            if "LayerNorm" in name or name.endswith("output.dense.bias"):
                value[unused] = 0.0
            elif "embeddings" in name:
                value[:, unused] = 0.0
            elif name.endswith("output.dense.weight"):
                value[unused] = 0.0
                value[:, value.shape[1] // 2 :] = 0.0
    student = build_student(teacher, StudentShape(2, 32), max_length=48, seed=0)
    cosines = np.sum(student.encode(sentences(60)) * teacher.encode(sentences(60)), axis=1)
    assert cosines.min() > 0.9


def test_every_architecture_can_be_narrowed(tmp_path: Path) -> None:
    for teacher in (bert_teacher(), electra_teacher(), xlmr_teacher(tmp_path)):
        student = build_student(teacher, StudentShape(2, 32), max_length=48, seed=0)
        assert student.encode(["castle"]).shape == (1, teacher.dimension)


def test_a_teacher_on_an_accelerator_gives_a_start() -> None:
    """Tensors of "meta" mix with the processor's no more than those of an accelerator do."""
    teacher, student = bert_teacher().to("meta"), bert_teacher(layers=2).to("meta")
    dimensions = kept_dimensions(teacher.backbone, [0, 2], 64)
    copy_narrowed(teacher.backbone, student.backbone, [0, 2], dimensions)
    identity_head(alignment_head(64, 64).to("meta"), torch.arange(64))


def test_a_narrow_student_may_have_more_layers_than_its_teacher() -> None:
    student = build_student(bert_teacher(), StudentShape(5, 32), max_length=48, seed=0)
    assert len(student.backbone.encoder.layer) == 5


def test_a_wider_feed_forward_begins_with_the_units_that_were_left_out() -> None:
    """Read as the teacher reads them, the units that are added make up the teacher again."""
    teacher = bert_teacher(layers=2)
    inner = teacher.backbone.config.intermediate_size
    student = build_student(teacher, StudentShape(2, 64, intermediate=32), max_length=48, seed=0)
    before = student.encode(sentences(8))
    dimensions = kept_dimensions(teacher.backbone, [0, 1], 64)
    widen_feed_forward(teacher.backbone, student.backbone, [0, 1], dimensions, inner)
    np.testing.assert_allclose(student.encode(sentences(8)), before, atol=1e-6)
    for ours, theirs in zip(
        student.backbone.encoder.layer, teacher.backbone.encoder.layer, strict=True
    ):
        rows, wanted = ours.intermediate.dense.weight, theirs.intermediate.dense.weight
        place = [int((wanted == row).all(dim=1).nonzero()) for row in rows]
        assert sorted(place) == list(range(inner))
        assert torch.equal(ours.intermediate.dense.bias, theirs.intermediate.dense.bias[place])
        with torch.no_grad():
            ours.output.dense.weight.copy_(theirs.output.dense.weight[:, place])
    np.testing.assert_allclose(
        student.encode(sentences(8)), teacher.encode(sentences(8)), atol=1e-5
    )
