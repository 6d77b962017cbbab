from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool
from tests.tiny_models import bert_teacher, electra_teacher, sentences, xlmr_teacher

TEXTS = ["water", "the castle of the king and its river", "rock sky", ""]


@pytest.fixture(scope="module")
def teacher() -> SentenceEncoder:
    return bert_teacher()


def test_vectors_have_unit_length_and_input_order(teacher: SentenceEncoder) -> None:
    vectors = teacher.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, 64)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(teacher.encode([text])[0], vector, atol=1e-5)


def test_padding_does_not_change_a_vector(teacher: SentenceEncoder) -> None:
    batch = teacher.tokenize(["castle of the king"])
    padded = {
        key: nn.functional.pad(value, (0, 7)) for key, value in batch.items()
    }  # the padding id is 0
    with torch.inference_mode():
        plain = teacher(batch["input_ids"], batch["attention_mask"])
        wide = teacher(padded["input_ids"], padded["attention_mask"])
    torch.testing.assert_close(plain, wide, atol=1e-6, rtol=0)


def test_pooling_by_hand() -> None:
    states = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [100.0, 100.0]]])
    mask = torch.tensor([[1, 1, 0]])
    assert pool(states, mask, "mean").tolist() == [[2.0, 4.0]]
    assert pool(states, mask, "cls").tolist() == [[1.0, 2.0]]
    assert pool(states, mask, "eos").tolist() == [[3.0, 6.0]]
    assert pool(states, mask.flip(1), "eos").tolist() == [[100.0, 100.0]]
    assert pool(states, mask.flip(1), "cls").tolist() == [[3.0, 6.0]]
    assert pool(states, torch.zeros(1, 3), "mean").tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("pooling", ["mean", "cls", "eos"])
def test_a_saved_model_loads_to_the_same_vectors_and_space(tmp_path: Path, pooling: str) -> None:
    head = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 16), nn.Identity())
    prompts = {"query": "find: ", "document": "text: "}
    model = bert_teacher(pooling=pooling, head=head, prompts=prompts)
    model.save(tmp_path / "model")
    again = SentenceEncoder.load(tmp_path / "model")
    assert again.dimension == 16
    assert again.pooling == pooling
    assert again.prompts == prompts
    assert again.max_length == 48
    assert again.space_id == model.space_id
    np.testing.assert_array_equal(again.encode_query(TEXTS), model.encode_query(TEXTS))
    assert not np.allclose(again.encode_query(TEXTS), again.encode_document(TEXTS))


@pytest.mark.parametrize("pooling", ["mean", "cls", "eos"])
def test_sentence_transformers_gives_the_same_vectors(tmp_path: Path, pooling: str) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    head = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 16), nn.Identity())
    model = bert_teacher(pooling=pooling, head=head, prompts={"query": "find: "})
    model.save(tmp_path / "model")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(theirs.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(
        theirs.encode(TEXTS, prompt_name="query"), model.encode_query(TEXTS), atol=1e-5
    )


def test_a_sentencepiece_model_is_saved_and_loaded(tmp_path: Path) -> None:
    model = xlmr_teacher(tmp_path / "sp")
    model.save(tmp_path / "model")
    again = SentenceEncoder.load(tmp_path / "model")
    assert again.space_id == model.space_id
    np.testing.assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))


def test_a_plain_hugging_face_folder_is_mean_pooled(tmp_path: Path) -> None:
    model = bert_teacher()
    model.backbone.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    plain = SentenceEncoder.load(tmp_path)
    assert plain.pooling == "mean"
    assert plain.max_length == 64
    np.testing.assert_allclose(plain.encode(TEXTS[:2]), model.encode(TEXTS[:2]), atol=1e-6)
    assert SentenceEncoder.load(tmp_path, pooling="cls").pooling == "cls"


def test_the_space_id_follows_everything_that_changes_a_vector() -> None:
    original = bert_teacher()
    assert original.space_id == bert_teacher().space_id
    assert original.space_id != bert_teacher(seed=1).space_id
    assert original.space_id != bert_teacher(pooling="cls").space_id
    assert original.space_id != bert_teacher(prompts={"query": "q: "}).space_id
    renamed = bert_teacher()
    renamed.tokenizer.add_tokens(["castles"])
    assert original.space_id != renamed.space_id


def test_a_student_carries_its_teachers_space() -> None:
    student = bert_teacher(space={"space_id": "space-of-the-teacher"})
    assert student.space_id == "space-of-the-teacher"


def test_the_demo_teacher_is_the_published_model() -> None:
    demo = SentenceEncoder.load("demo")
    assert (demo.dimension, demo.max_length, demo.name) == (384, 256, "all-MiniLM-L6-v2")
    assert demo.space_id == "space-c908b0599cb71548933014c3f35124fc"
    close, far = (
        demo.encode(["how plants make sugar", "photosynthesis", "stock market"])[1:]
        @ (demo.encode(["how plants make sugar"])[0])
    )
    assert close > far + 0.3


def test_bad_arguments_say_what_was_expected(teacher: SentenceEncoder) -> None:
    with pytest.raises(InvalidInputError, match="single string; expected a list"):
        teacher.encode("water")
    with pytest.raises(InvalidInputError, match='unknown prompt_name "question"; the model has'):
        teacher.encode(["water"], prompt_name="question")
    with pytest.raises(InvalidInputError, match='pooling is "max"'):
        bert_teacher(pooling="max")


def test_unknown_models_say_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnknownModelError, match="neither a folder nor"):
        SentenceEncoder.load("no such model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnknownModelError, match=r"expected config.json, model.safetensors"):
        SentenceEncoder.load(tmp_path / "empty")
    model = bert_teacher()
    model.save(tmp_path / "model")
    modules = json.loads((tmp_path / "model" / "modules.json").read_text())
    modules.append(
        {"idx": 9, "name": "9", "path": "9", "type": "sentence_transformers.models.LSTM"}
    )
    (tmp_path / "model" / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnknownModelError, match='a module "LSTM"; supported are'):
        SentenceEncoder.load(tmp_path / "model")


def test_long_texts_are_truncated(teacher: SentenceEncoder) -> None:
    long = " ".join(sentences(100))
    assert teacher.tokenize([long])["input_ids"].shape == (1, 48)


def test_a_device_this_machine_lacks_is_named(tmp_path: Path) -> None:
    bert_teacher().save(tmp_path / "model")
    for device in ("cuda:99", "abacus"):
        with pytest.raises(InvalidInputError, match=f'the device "{device}" cannot be used'):
            SentenceEncoder.load(tmp_path / "model", device=device)


def test_a_model_without_fused_attention_is_loaded_too(tmp_path: Path) -> None:
    model = electra_teacher()
    model.save(tmp_path / "model")
    again = SentenceEncoder.load(tmp_path / "model")
    np.testing.assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))
