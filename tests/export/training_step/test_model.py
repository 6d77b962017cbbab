from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pocketquery.distill.adaptation.low_rank import linear_layers
from pocketquery.export.training_step.model import EncoderShape, encode, student_parameters
from pocketquery.export.training_step.tensors import quantise
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, electra_teacher, sentences

STUDENTS = ("student", "headed_student", "cls_student", "xlmr_student", "electra")


@pytest.fixture
def electra() -> SentenceEncoder:
    return electra_teacher()


@pytest.mark.parametrize("name", STUDENTS)
def test_the_function_computes_what_the_modules_compute(
    name: str, request: pytest.FixtureRequest
) -> None:
    student: SentenceEncoder = request.getfixturevalue(name)
    batch = student.tokenize([*sentences(6), "a", ""])
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        found = encode(student_parameters(student), EncoderShape.of(student), ids, mask)
        torch.testing.assert_close(found, student(ids, mask), atol=2e-6, rtol=0)


def test_every_parameter_of_the_student_has_a_name(headed_student: SentenceEncoder) -> None:
    named = {id(parameter) for parameter in student_parameters(headed_student).values()}
    assert named == {id(parameter) for parameter in headed_student.parameters()}


def test_padding_does_not_matter(student: SentenceEncoder) -> None:
    tensors, shape = student_parameters(student), EncoderShape.of(student)
    ids = torch.tensor([[2, 50, 51, 3]])
    longer = torch.tensor([[2, 50, 51, 3, 0, 0, 77]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0]])
    with torch.no_grad():
        alone = encode(tensors, shape, ids, torch.ones_like(ids))
        torch.testing.assert_close(encode(tensors, shape, longer, mask), alone, atol=1e-6, rtol=0)


def test_a_low_rank_path_is_the_same_as_a_changed_weight(headed_student: SentenceEncoder) -> None:
    tensors: dict[str, torch.Tensor] = {**student_parameters(headed_student)}
    generator = torch.Generator().manual_seed(0)
    low_rank, merged = dict(tensors), dict(tensors)
    for name in ("layers.0.query", "layers.1.value", "head.0", "head.1"):
        weight = tensors[f"{name}.weight"]
        down = torch.randn(3, weight.shape[1], generator=generator) * 0.1
        up = torch.randn(weight.shape[0], 3, generator=generator) * 0.1
        low_rank |= {f"adapter.{name}.down": down, f"adapter.{name}.up": up}
        merged[f"{name}.weight"] = weight + up @ down
    batch = headed_student.tokenize(sentences(5))
    shape = EncoderShape.of(headed_student)
    with torch.no_grad():
        found, expected, plain = (
            encode(values, shape, batch["input_ids"], batch["attention_mask"])
            for values in (low_rank, merged, tensors)
        )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert (found - plain).abs().max() > 0.01


def test_a_table_in_8_bits_is_looked_up_as_its_float_form(student: SentenceEncoder) -> None:
    tensors: dict[str, torch.Tensor] = {**student_parameters(student)}
    rows, scales = quantise(tensors.pop("embeddings.word").detach().numpy())
    stored = {"embeddings.word.rows": rows, "embeddings.word.scales": scales}
    in_8_bits = tensors | {name: torch.from_numpy(value) for name, value in stored.items()}
    in_float = tensors | {"embeddings.word": torch.from_numpy(rows.astype(np.float32) * scales)}
    ids = torch.tensor([[2, 50, 51, 3]])
    shape, mask = EncoderShape.of(student), torch.ones_like(ids)
    with torch.no_grad():
        torch.testing.assert_close(
            encode(in_8_bits, shape, ids, mask), encode(in_float, shape, ids, mask)
        )


def test_linear_layers_carry_the_names_of_the_adapter(headed_student: SentenceEncoder) -> None:
    names = set(linear_layers(headed_student))
    assert {"layers.0.query", "layers.1.value", "head.0", "head.1"} <= names
    assert len(names) == 2 * 6 + 2


def test_what_cannot_be_trained_is_refused_by_name() -> None:
    odd = bert_teacher(layers=1)
    odd.backbone.config.hidden_act = "gelu_new"
    with pytest.raises(UnknownModelError, match="gelu_new"):
        EncoderShape.of(odd)
    odd = bert_teacher(layers=1)
    odd.backbone.config.model_type = "deberta"
    with pytest.raises(UnknownModelError, match="deberta"):
        EncoderShape.of(odd)
    odd = bert_teacher(layers=1, head=nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8)))
    with pytest.raises(UnknownModelError, match="BatchNorm1d"):
        EncoderShape.of(odd)
