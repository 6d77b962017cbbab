from __future__ import annotations

import numpy as np
import torch
from torch import nn

from pocketquery.distill.quantization_noise import quantised_forward
from pocketquery.distill.student import StudentShape, build_student
from pocketquery.server.modeling import weights_fingerprint
from tests.tiny_models import bert_teacher, sentences


def test_weights_and_activations_are_rounded_as_in_the_file() -> None:
    layer = nn.Linear(64, 8, bias=False)
    generator = torch.Generator().manual_seed(1)
    texts = torch.randn(16, 5, 64, generator=generator)
    exact = layer(texts)
    with quantised_forward(layer):
        rounded = layer(texts)
    error = (rounded - exact).abs().max().item()
    assert error > 0
    # 7 bits of a weight and 8 of an activation: two per cent of the largest output at the worst.
    assert error < 0.02 * exact.abs().max().item() * 8


def test_a_table_has_at_most_127_values() -> None:
    table = nn.Embedding(500, 16)
    with quantised_forward(table):
        rows = table(torch.arange(500))
    assert len(torch.unique(rows)) <= 127
    assert len(torch.unique(table(torch.arange(500)))) > 127


def test_gradients_pass_the_rounding() -> None:
    student = build_student(bert_teacher(), StudentShape(2, 32), max_length=32, seed=0)
    batch = student.tokenize(sentences(4))
    with quantised_forward(student):
        student(batch["input_ids"], batch["attention_mask"])[:, 0].sum().backward()
    assert all(
        parameter.grad is not None and torch.isfinite(parameter.grad).all()
        for name, parameter in student.named_parameters()
        if "token_type" not in name
    )


def test_a_text_does_not_depend_on_its_company_but_for_the_smoothing() -> None:
    """The scale of an activation is a text's own: an outlier beside it does not coarsen it."""
    layer = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4))
    small = torch.full((1, 1, 4), 1.0)
    large = torch.full((1, 1, 4), 1000.0)
    with quantised_forward(layer):
        together = layer(torch.cat([small, large]))
    np.testing.assert_allclose(together[0].detach().numpy(), 1.0, rtol=0.02)


def test_nothing_is_left_behind() -> None:
    student = build_student(bert_teacher(), StudentShape(2, 32), max_length=32, seed=0)
    before, vectors = weights_fingerprint(student.state_dict()), student.encode(sentences(3))
    with quantised_forward(student):
        assert not np.array_equal(student.encode(sentences(3)), vectors)
    np.testing.assert_array_equal(student.encode(sentences(3)), vectors)
    assert weights_fingerprint(student.state_dict()) == before
