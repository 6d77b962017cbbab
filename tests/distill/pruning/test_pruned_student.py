from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.normalizers import BertNormalizer
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from pocketquery import sdk
from pocketquery.distill.pruning.pruned_student import prune_student, vocabulary_source
from pocketquery.distill.student import StudentShape, build_student
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.settings import ExportOptions
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.server.corpus import Group, GroupList
from pocketquery.server.corpus.new_tokenizer import TokenizerConfig, train_tokenizer
from pocketquery.server.modeling import SentenceEncoder, new_encoder
from tests.tiny_models import bert_teacher, sentences, wordpiece_tokenizer, xlmr_teacher


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece"])
@pytest.mark.parametrize("width", [32, 64])
def test_a_pruned_student_reaches_the_device(tmp_path: Path, kind: str, width: int) -> None:
    teacher = bert_teacher() if kind == "wordpiece" else xlmr_teacher(tmp_path / "teacher")
    student = build_student(teacher, StudentShape(2, width), max_length=48, seed=0)
    statistics = prune_student(student, sentences(60), coverage=0.95)
    assert statistics["size_after"] < statistics["size_before"]
    student.save(tmp_path / "student")
    export_bundle(
        tmp_path / "student",
        tmp_path / "bundle",
        calibration_texts=sentences(20),
        options=ExportOptions(calibration_texts=10, parity_texts=4),
        name="pruned",
        license="MIT",
    )
    sdk.verify(tmp_path / "bundle")
    encoder = sdk.load(tmp_path / "bundle")
    assert encoder.space_id == teacher.space_id
    texts = sentences(20)
    cosines = np.einsum("nd,nd->n", encoder.encode(texts), student.encode(texts))
    assert cosines.min() > 0.98


def test_a_vocabulary_trained_here_is_pruned_and_reaches_the_device(tmp_path: Path) -> None:
    """With byte pieces, which spell what the kept ones cannot, on the server as on the device."""
    source = GroupList([Group(text, (text,)) for text in sentences(60)], "queries")
    tokenizer = train_tokenizer(source, tmp_path / "tokenizer", TokenizerConfig(vocabulary=500))
    student = new_encoder("nano", tokenizer, max_length=32)
    prune_student(student, sentences(60), coverage=0.95)
    assert "<0xE2>" in student.tokenizer.tokenize("☃")
    export_bundle(
        student,
        tmp_path / "bundle",
        calibration_texts=["a ☃ é 水", *sentences(9)],
        options=ExportOptions(calibration_texts=10, parity_texts=4),
        name="pruned",
        license="MIT",
    )
    sdk.verify(tmp_path / "bundle")


def test_a_cased_tokenizer_stays_cased(tmp_path: Path) -> None:
    teacher = bert_teacher()
    backend = wordpiece_tokenizer().backend_tokenizer
    backend.normalizer = BertNormalizer(lowercase=False)
    teacher.tokenizer = BertTokenizerFast(tokenizer_object=backend, do_lower_case=False)
    unknown = teacher.tokenizer("Castle")["input_ids"]
    student = build_student(teacher, StudentShape(2, 64), max_length=48, seed=0)
    prune_student(student, sentences(60), coverage=1.0)
    assert student.tokenizer("Castle")["input_ids"] == unknown  # no capitals in its vocabulary
    student.save(tmp_path / "student")
    assert SentenceEncoder.load(tmp_path / "student").tokenizer("Castle")["input_ids"] == unknown


def test_a_vocabulary_that_is_numbered_otherwise_is_refused(tmp_path: Path) -> None:
    xlmr_teacher(tmp_path)
    # CamemBERT's numbers: the pieces at their number in the model plus four.
    names = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>")
    pieces = Unigram([(name, 0.0) for name in names], unk_id=3)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(pieces), name_or_path=str(tmp_path), unk_token="<unk>"
    )
    with pytest.raises(UnknownModelError, match="numbers its pieces in a way of its own"):
        vocabulary_source(tokenizer)
