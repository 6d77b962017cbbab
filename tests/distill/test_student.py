from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import DistilBertConfig, DistilBertModel

from pocketquery.distill.pruning.pruned_student import prune_student
from pocketquery.distill.student import StudentShape, build_student, kept_layers
from pocketquery.sdk.errors import InvalidInputError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, electra_teacher, sentences, xlmr_teacher


def test_evenly_spaced_layers() -> None:
    assert kept_layers(6, 3) == [0, 2, 5]
    assert kept_layers(6, 2) == [0, 5]
    assert kept_layers(12, 4) == [0, 3, 7, 11]
    assert kept_layers(6, 1) == [5]


def test_a_student_of_all_layers_is_the_teacher() -> None:
    teacher = bert_teacher()
    student = build_student(teacher, StudentShape(3, 64), max_length=48, seed=0)
    texts = sentences(8)
    np.testing.assert_allclose(student.encode(texts), teacher.encode(texts), atol=1e-6)
    assert student.space_id == teacher.space_id


def test_kept_layers_are_the_teachers_own() -> None:
    teacher = bert_teacher()
    student = build_student(teacher, StudentShape(2, 64), max_length=48, seed=0, layers=[1, 2])
    for place, source in ((0, 1), (1, 2)):
        ours = student.backbone.encoder.layer[place].state_dict()
        theirs = teacher.backbone.encoder.layer[source].state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_narrow_student_has_a_head_into_the_teachers_dimension(tmp_path: Path) -> None:
    teacher = bert_teacher()
    student = build_student(teacher, StudentShape(2, 32), max_length=48, seed=0)
    assert student.encode(["castle"]).shape == (1, 64)
    assert student.head is not None
    student.save(tmp_path / "student")
    again = SentenceEncoder.load(tmp_path / "student")
    np.testing.assert_array_equal(again.encode(["castle"]), student.encode(["castle"]))
    assert again.space_id == teacher.space_id
    same = build_student(teacher, StudentShape(2, 32), max_length=48, seed=0)
    np.testing.assert_array_equal(same.encode(["castle"]), student.encode(["castle"]))


def test_a_linear_head_is_one_layer(tmp_path: Path) -> None:
    shape = StudentShape.parse("1x32-linear")
    student = build_student(bert_teacher(), shape, max_length=48, seed=0)
    assert student.head is not None
    assert [type(part).__name__ for part in student.head] == ["Linear", "Identity"]
    student.save(tmp_path / "student")
    again = SentenceEncoder.load(tmp_path / "student")
    np.testing.assert_array_equal(again.encode(["castle"]), student.encode(["castle"]))


def test_pruning_cuts_the_positions_to_the_maximum_length(tmp_path: Path) -> None:
    for teacher in (bert_teacher(), xlmr_teacher(tmp_path / "xlmr")):
        student = build_student(teacher, StudentShape(2, 64), max_length=16, seed=0)
        before = student.encode(sentences(4))
        table = student.backbone.embeddings.position_embeddings
        prune_student(student, sentences(), coverage=1.0)
        smaller = student.backbone.embeddings.position_embeddings
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        assert smaller.num_embeddings == 16 + first
        student.save(tmp_path / teacher.backbone.config.model_type)
        again = SentenceEncoder.load(tmp_path / teacher.backbone.config.model_type)
        np.testing.assert_allclose(again.encode(sentences(4)), before, atol=1e-6)
        long = " ".join(sentences(40))
        assert again.encode([long]).shape == (1, student.dimension)


@pytest.mark.parametrize("text", ["3x384", "2x384x640-pq4", "1x128-linear-pq4", "3x384x768"])
def test_a_shape_is_written_as_it_is_read(text: str) -> None:
    assert str(StudentShape.parse(text)) == text


@pytest.mark.parametrize("text", ["3", "x384", "3x100", "0x128", "3x384x2", "three"])
def test_a_bad_shape_says_what_was_expected(text: str) -> None:
    with pytest.raises(InvalidInputError, match="expected LAYERSxWIDTH"):
        StudentShape.parse(text)


def test_layers_the_teacher_lacks_are_refused() -> None:
    teacher = bert_teacher()
    with pytest.raises(InvalidInputError, match="layers 0 to 2"):
        build_student(teacher, StudentShape(2, 64), max_length=48, seed=0, layers=[0, 3])
    with pytest.raises(InvalidInputError, match="layers 0 to 2"):
        build_student(teacher, StudentShape(4, 64), max_length=48, seed=0)


def test_a_narrower_feed_forward_network_has_the_units_that_matter_most() -> None:
    teacher = bert_teacher()
    whole = build_student(teacher, StudentShape.parse("2x64"), max_length=48, seed=0)
    student = build_student(teacher, StudentShape.parse("2x64x96"), max_length=48, seed=0)
    assert student.backbone.config.intermediate_size == 96
    assert student.head is None  # as wide as the teacher: already in its space
    mine, all_units = (
        encoder.backbone.encoder.layer[1].intermediate.dense.weight for encoder in (student, whole)
    )
    assert mine.shape == (96, 64)
    assert {tuple(row.tolist()) for row in mine} < {tuple(row.tolist()) for row in all_units}


def test_a_shape_that_does_not_fit_the_teacher_is_refused() -> None:
    teacher = bert_teacher()
    with pytest.raises(InvalidInputError, match="96 wide and its teacher 64"):
        build_student(teacher, StudentShape(2, 96), max_length=48, seed=0)
    with pytest.raises(InvalidInputError, match="needs no linear head; leave -linear out"):
        build_student(teacher, StudentShape.parse("2x64-linear"), max_length=48, seed=0)
    with pytest.raises(InvalidInputError, match="FFN is 256 wide and its teacher's 128"):
        build_student(teacher, StudentShape.parse("2x64x256"), max_length=48, seed=0)
    with pytest.raises(InvalidInputError, match="48 dimensions, no multiple of the 32"):
        build_student(electra_teacher(), StudentShape.parse("2x64-pq32"), max_length=48, seed=0)


def test_an_architecture_that_cannot_be_exported_is_refused_before_it_is_trained() -> None:
    config = DistilBertConfig(vocab_size=200, dim=64, n_layers=2, n_heads=2, hidden_dim=64)
    teacher = SentenceEncoder(DistilBertModel(config), bert_teacher().tokenizer)
    with pytest.raises(UnknownModelError, match='architecture "distilbert" cannot be exported'):
        build_student(teacher, StudentShape(1, 64), max_length=48, seed=0)


@pytest.mark.parametrize("width", [32, 64])
def test_students_of_other_architectures_have_no_dropout(tmp_path: Path, width: int) -> None:
    for teacher in (electra_teacher(), xlmr_teacher(tmp_path)):
        student = build_student(teacher, StudentShape(2, width), max_length=48, seed=0).train()
        batch = student.tokenize(sentences(4))
        first = student(batch["input_ids"], batch["attention_mask"])
        assert torch.equal(first, student(batch["input_ids"], batch["attention_mask"]))


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece"])
def test_pruning_keeps_the_vectors_of_what_it_keeps(tmp_path: Path, kind: str) -> None:
    teacher = bert_teacher() if kind == "wordpiece" else xlmr_teacher(tmp_path / "sp")
    student = build_student(teacher, StudentShape(2, 64), max_length=48, seed=0)
    texts = [text for text in sentences() if "castle" in text or "oxygen" in text]
    before = student.encode(texts)
    statistics = prune_student(student, texts, coverage=1.0)
    assert statistics["size_after"] < statistics["size_before"]
    assert student.backbone.get_input_embeddings().weight.shape[0] == len(student.tokenizer)
    np.testing.assert_allclose(student.encode(texts), before, atol=1e-6)
    student.save(tmp_path / "student")
    again = SentenceEncoder.load(tmp_path / "student")
    np.testing.assert_allclose(again.encode(texts), before, atol=1e-6)
