"""Where students begin that are not cut out of their teacher's layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.distill import StudentConfig, StudentShape, TrainingConfig, build_student, distill
from pocketquery.distill.starts import check_vocabulary, fit_head, with_vocabulary
from pocketquery.distill.student_of_bundle import load_student
from pocketquery.distill.teachers import VectorTeacher
from pocketquery.distill.vector_file import FileTeacher
from pocketquery.sdk.errors import InvalidInputError, PocketQueryWarning
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from tests.tiny_models import bert_teacher, electra_teacher, sentences, xlmr_teacher

CONFIG = TrainingConfig(steps=4, batch_size=16, max_length=32, nearest=2, random_documents=16)


def asked(teacher: SentenceEncoder) -> VectorTeacher:
    return VectorTeacher(lambda texts, role: teacher.encode(texts), name="api")


def test_a_head_begins_as_the_ridge_regression_of_a_slow_twin() -> None:
    texts = sentences(120)
    teacher = bert_teacher(width=96, seed=3)
    vectors = teacher.encode(texts)
    shape = StudentShape.parse("2x64")
    student = build_student(bert_teacher(), shape, max_length=48, seed=0, teacher=asked(teacher))
    fit_head(student, texts, vectors)
    rows = []
    for text in texts:
        batch = student.tokenize([text])
        with torch.no_grad():
            rows.append(student.pooled(batch["input_ids"], batch["attention_mask"])[0].numpy())
    states = np.stack(rows).astype(float)
    centred, target = states - states.mean(0), vectors - vectors.mean(0)
    penalty = np.sqrt(1e-3 * (centred**2).sum(0).mean()) * np.eye(64)
    weight = np.linalg.lstsq(
        np.vstack([centred, penalty]), np.vstack([target, np.zeros((64, 96))]), rcond=None
    )[0]
    expected = centred @ weight + vectors.mean(0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(student.encode(texts), expected, atol=1e-4)


def test_a_head_of_one_text_is_its_vector() -> None:
    teacher = asked(bert_teacher(width=96))
    shape = StudentShape.parse("1x32")
    student = build_student(bert_teacher(), shape, max_length=48, seed=0, teacher=teacher)
    fit_head(student, ["rock"], teacher.encode(["rock"]))
    np.testing.assert_allclose(student.encode(["rock"]), teacher.encode(["rock"]), atol=1e-5)


def test_a_token_that_both_have_keeps_its_row_and_a_new_one_gets_a_mean(tmp_path: Path) -> None:
    start = bert_teacher()
    rows = start.backbone.get_input_embeddings().weight.detach()
    known = start.tokenizer.get_vocab()
    tokenizer = xlmr_teacher(tmp_path / "x", texts=sentences()).tokenizer
    other = with_vocabulary(start, tokenizer)
    found = other.backbone.get_input_embeddings().weight.detach()
    assert len(found) == len(tokenizer) == other.backbone.config.vocab_size
    for role in ("cls", "sep", "pad", "unk", "mask"):
        number, before = (getattr(one, f"{role}_token_id") for one in (tokenizer, start.tokenizer))
        assert torch.equal(found[number], rows[before])
    assert torch.equal(
        found[tokenizer.get_vocab()["▁te"]], rows[[known["t"], known["##e"]]].mean(0)
    )
    for token, number in tokenizer.get_vocab().items():
        ids = start.tokenizer(token.removeprefix("▁"), add_special_tokens=False)["input_ids"]
        if len(ids) > 1 and token not in tokenizer.all_special_tokens:
            torch.testing.assert_close(found[number], rows[ids].mean(0))
    same = with_vocabulary(start, start.tokenizer)
    assert weights_fingerprint(same.state_dict()) == weights_fingerprint(start.state_dict())


def test_positions_that_are_numbered_from_the_padding_are_not_moved(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="padding has the id 0, expected 1"):
        with_vocabulary(xlmr_teacher(tmp_path), bert_teacher().tokenizer)


def test_any_start_with_any_vocabulary_joins_the_space(tmp_path: Path) -> None:
    teacher = asked(bert_teacher(width=96, seed=5))
    tokenizer = xlmr_teacher(tmp_path / "x").tokenizer
    starts: dict[str, tuple[Any, Any, str | None, str | None]] = {
        "words, narrower": ("words", None, "1x64-pq4", None),
        "words, sentencepiece, wider": ("words", tokenizer, "1x128", None),
        "bert": (bert_teacher(), None, None, "3x64x128"),
        "bert, sentencepiece, deeper": (bert_teacher(), tokenizer, "4x64x128", None),
        "electra, narrower": (electra_teacher(), None, "2x32", None),
        "xlm-r": (xlmr_teacher(tmp_path / "y"), None, "1x64-pq4", None),
    }
    for name, (start, vocabulary, shape, expected) in starts.items():
        report = distill(
            teacher, sentences(), tmp_path / name, start=start, tokenizer=vocabulary,
            student=None if shape is None else StudentConfig(shape), config=CONFIG,
        )  # fmt: skip
        student = SentenceEncoder.load(tmp_path / name)
        assert (student.space_id, student.dimension) == (teacher.space_id, 96), name
        assert report.student == (expected or shape), name
        assert student.prompts == {}


def test_the_teachers_own_layers_are_taken_where_its_vectors_are_in_a_file(tmp_path: Path) -> None:
    teacher, texts = bert_teacher(), sentences(60)
    np.savez(
        tmp_path / "v.npz", text=texts, vector=teacher.encode(texts), space_id=teacher.space_id
    )
    by_vectors = FileTeacher(tmp_path / "v.npz")
    one, shape = replace(CONFIG, steps=1), StudentConfig("2x64")
    for name, by, start in (("cut", teacher, None), ("by vectors", by_vectors, teacher)):
        distill(by, texts, tmp_path / name, start=start, student=shape, config=one)
    cut, same = (SentenceEncoder.load(tmp_path / name) for name in ("cut", "by vectors"))
    assert same.head is None
    np.testing.assert_allclose(same.encode(texts), cut.encode(texts), atol=1e-3)


def test_a_student_of_another_space_gives_its_layers_and_that_is_said(tmp_path: Path) -> None:
    start = bert_teacher(space={"space_id": "space-theirs", "dimension": 64})
    with pytest.warns(PocketQueryWarning, match="of the space space-theirs, and the teacher of"):
        report = distill(
            asked(bert_teacher(seed=1)), sentences(), tmp_path / "s", start=start, config=CONFIG
        )
    first = SentenceEncoder.load(tmp_path / "s")
    assert report.space_id == first.space_id != "space-theirs"
    config = replace(CONFIG, steps=2)  # and from there on as any student
    teacher = asked(bert_teacher(seed=1))
    distill(teacher, sentences(), tmp_path / "on", start=first, config=config)
    assert SentenceEncoder.load(tmp_path / "on").head is not None
    with pytest.raises(InvalidInputError, match="was not cut out of its teacher"):
        distill(teacher, sentences(), tmp_path / "no", start=first, feed_forward=160, config=config)
    with pytest.raises(InvalidInputError, match="keeps its vocabulary"):
        distill(teacher, sentences(), tmp_path / "no", start=first, tokenizer=first.tokenizer)


def test_the_built_in_encoder_stays_itself_but_for_the_space() -> None:
    """Its product codes are found again, not fitted anew."""
    source = load_student("default")
    student = build_student(
        source,
        StudentShape.parse("2x384x736-pq4"),
        max_length=128,
        seed=0,
        teacher=asked(bert_teacher()),
    )
    assert not hasattr(student.backbone.config, "vocabulary_subvector")
    assert weights_fingerprint(student.backbone.state_dict()) == weights_fingerprint(
        source.backbone.state_dict()
    )


@pytest.mark.parametrize(
    "text", ["ሰላም ለዓለም", "где вокзал?", "तुम कहाँ हो", "안녕하세요 세계", "东京塔在哪里"]
)
def test_texts_that_the_vocabulary_does_not_know_are_refused(text: str, tmp_path: Path) -> None:
    teacher = VectorTeacher(lambda texts, role: np.ones((len(texts), 8)), name="api")
    with pytest.raises(InvalidInputError, match="tokens are unknown to the vocabulary of pocketq"):
        distill(teacher, [text, f"{text}!"], tmp_path / "s")


@pytest.mark.parametrize("text", ["a b c, or not?", "où est la gare", "Nerede bu?", "1 2 3"])
def test_texts_that_it_knows_are_not(text: str) -> None:
    check_vocabulary(load_student("default"), [text])
