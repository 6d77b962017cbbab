from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from pocketquery.distill.student import StudentShape, build_student
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.device_tokenizer import DeviceTokenizer, device_tokenizer
from pocketquery.server.modeling.loading import load_tokenizer
from pocketquery.server.modeling.sentencepiece_tokenizer import xlm_roberta_tokenizer
from pocketquery.server.modeling.tokenizer_file import save_tokenizer, tokenizer_file
from tests.tiny_models import sentences, wordpiece_tokenizer, xlmr_teacher

TEXTS = [
    *sentences(3),
    "000",
    "1000000",
    "80000-1",
    "a\u0085b",
    "ｽﾅｯﾌﾟﾘﾝｸﾞ\u3000SC-40",
    "a\u0323\u0302",
    "\u1100\u1161\u11a8",
    "foo::foo 00foo",
    "<s> x </s> <mask> <0x41>",
    "",
    " \u200b\ufeff ",
    "☃ 👩\u200d👧 ﬁ ½",
    "water " * 60,
]
CORPUS = [
    *sentences(200),
    *("0" * n for n in range(1, 30)),
    *TEXTS[6:10],
    "スナップリング",
    "한국어 가각",
]


def model_file(folder: Path, **options: Any) -> Path:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        minloglevel=2,
        **{"vocab_size": 180, "hard_vocab_limit": False} | options,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sentencepiece.bpe.model"
    path.write_bytes(model.getvalue())
    return path


MODELS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "split digits": {"split_digits": True},
    "bytes": {"byte_fallback": True, "vocab_size": 440},
    "identity": {"normalization_rule_name": "identity"},
    "user's symbols": {"user_defined_symbols": ["foo", "::", "00"]},
    "merges": {"model_type": "bpe", "hard_vocab_limit": True},
}


@pytest.fixture(params=list(MODELS))
def fast(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = model_file(tmp_path / "model", **MODELS[request.param])
    return xlm_roberta_tokenizer(path, model_max_length=32)


def test_the_ids_are_those_of_the_device_and_stay_so(fast: Any, tmp_path: Path) -> None:
    tokenizer = device_tokenizer(fast)
    (tmp_path / "saved").mkdir()
    save_tokenizer(tokenizer, tmp_path / "saved")
    saved = load_tokenizer(tmp_path / "saved")
    device = tokenizer_file(fast).open(32)
    expected = [device.encode(text) for text in TEXTS]
    for same in (
        tokenizer,
        device_tokenizer(saved),
        copy.deepcopy(tokenizer),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert same(TEXTS, truncation=True, max_length=32)["input_ids"] == expected


def test_the_fast_tokenizer_has_other_ids(tmp_path: Path) -> None:
    fast = xlm_roberta_tokenizer(model_file(tmp_path))
    assert fast(TEXTS)["input_ids"] != device_tokenizer(fast)(TEXTS)["input_ids"]


def test_a_call_answers_as_the_fast_tokenizer_does(tmp_path: Path) -> None:
    fast = xlm_roberta_tokenizer(model_file(tmp_path), model_max_length=9)
    tokenizer = device_tokenizer(fast)
    texts = [*sentences(5), "water", ""]
    for options in (
        {"padding": True, "truncation": True, "max_length": 6, "return_tensors": "pt"},
        {"padding": True, "truncation": True, "return_special_tokens_mask": True},
        {"add_special_tokens": False, "return_attention_mask": False},
        {"add_special_tokens": False, "truncation": True, "max_length": 3},
    ):
        for text in (texts, texts[:1], texts[0]):
            expected, found = fast(text, **options), tokenizer(text, **options)
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                assert type(found[name]) is type(value)
                assert list(map(list_of, found[name])) == list(map(list_of, value))
    assert len(tokenizer) == len(fast)
    assert tokenizer.pad_token_id == 1
    tokenizer.model_max_length = 7
    assert fast.model_max_length == 7


def list_of(row: Any) -> Any:
    return row.tolist() if isinstance(row, torch.Tensor) else row


def test_wordpiece_stays_as_it_is() -> None:
    tokenizer = wordpiece_tokenizer()
    assert device_tokenizer(tokenizer) is tokenizer


def test_a_student_has_the_devices_ids_wherever_it_is_and_its_teacher_its_own(
    tmp_path: Path,
) -> None:
    teacher = xlmr_teacher(tmp_path / "model")
    teacher.save(tmp_path / "teacher")
    student = build_student(teacher, StudentShape.parse("1x64"), max_length=32, seed=0)
    student.save(tmp_path / "student")
    loaded = SentenceEncoder.load(tmp_path / "student")
    device: Tokenizer = tokenizer_file(loaded.tokenizer).open(32)
    for encoder in (student, loaded):
        assert isinstance(encoder.tokenizer, DeviceTokenizer)
        batch = encoder.tokenize(TEXTS)
        for text, ids, mask in zip(TEXTS, batch["input_ids"], batch["attention_mask"], strict=True):
            assert ids[mask == 1].tolist() == device.encode(text)
    for text in TEXTS:
        assert student.encode([text])[0] @ loaded.encode([text])[0] > 1 - 1e-6
    again = SentenceEncoder.load(tmp_path / "teacher")
    assert not isinstance(again.tokenizer, DeviceTokenizer)
    assert again.with_device_ids().space_id == again.space_id == teacher.space_id
    assert not isinstance(again.tokenizer, DeviceTokenizer)


def test_a_model_file_of_other_numbers_is_refused(tmp_path: Path) -> None:
    fast = xlm_roberta_tokenizer(model_file(tmp_path / "one"))
    fast.vocab_file = str(model_file(tmp_path / "other", character_coverage=0.98))
    with pytest.raises(UnknownModelError, match=r"the id \d+ is"):
        device_tokenizer(fast)
