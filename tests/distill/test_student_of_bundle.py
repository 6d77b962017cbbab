"""A student read out of its bundle: exported, read back and exported again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from torch import nn

from pocketquery import sdk
from pocketquery.distill import (
    StudentConfig,
    TrainingConfig,
    bundle_student,
    distill,
    load_student,
)
from pocketquery.distill.pruning.product_codes import product_codes
from pocketquery.distill.student import StudentShape, build_student, student_shape
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization import quantization
from pocketquery.export.settings import ExportOptions, GraphOptions, QuantizationOptions
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.golden import parse_golden
from pocketquery.sdk.bundle.installed import DEFAULT_BUNDLE
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, GOLDEN_FILE
from pocketquery.sdk.bundle.writing import file_entries, write_bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import (
    InvalidInputError,
    PocketQueryWarning,
    SignatureError,
    UnknownModelError,
)
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, electra_teacher, sentences, xlmr_teacher


def export(student: SentenceEncoder, path: Path, options: ExportOptions | None = None) -> Bundle:
    report = export_bundle(
        student,
        path,
        calibration_texts=sentences(40),
        options=options,
        name="tiny",
        license="Apache-2.0",
    )
    return Bundle.open(report.path)


def rewritten(bundle: Bundle, path: Path, model: onnx.ModelProto) -> Bundle:
    """The bundle with another graph, as if it had been exported so."""
    files = {name: bundle.read(name) for name in bundle.manifest.files}
    files[ENCODER_FILE] = model.SerializeToString()
    manifest = bundle.manifest._replace(files=file_entries(files))
    write_bundle(path, manifest, files)
    return Bundle.open(path)


def closeness(student: SentenceEncoder, encoder: Encoder) -> float:
    """Least cosine of their vectors of texts and queries."""
    texts = sentences(30)
    plain = (student.encode(texts) * encoder.encode(texts, prompt="")).sum(axis=1)
    asked = (student.encode_query(texts) * encoder.encode_query(texts)).sum(axis=1)
    return float(min(plain.min(), asked.min()))


def headed(*modules: nn.Module) -> SentenceEncoder:
    return bert_teacher(layers=2, head=nn.Sequential(*modules), prompts={"query": "query "})


STUDENTS = {
    "plain": lambda: bert_teacher(layers=2),
    "cls": lambda: bert_teacher(layers=1, pooling="cls"),
    "head": lambda: headed(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 48), nn.Identity()),
    "linear head": lambda: headed(nn.Linear(64, 48), nn.Identity()),
    "tanh head": lambda: headed(nn.Linear(64, 48), nn.Tanh()),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STUDENTS)
def test_it_computes_what_the_bundle_computes(tmp_path: Path, kind: str) -> None:
    bundle = export(STUDENTS[kind](), tmp_path / "bundle")
    student = bundle_student(bundle)
    encoder = Encoder.of_bundle(bundle)
    assert closeness(student, encoder) > 0.99
    assert student.space_id == encoder.space_id
    assert student.dimension == encoder.dimension
    for text in [*sentences(30), "Ünknown  wörds 東京 [SEP] #hash", ""]:
        ids = student.tokenizer(text, truncation=True, max_length=student.max_length)
        assert ids["input_ids"] == encoder.tokenize(text), text


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ExportOptions(graph=GraphOptions(adapter_rank=0)),
        ExportOptions(graph=GraphOptions(opset=18, adapter_train="up")),
        ExportOptions(quantization=QuantizationOptions(seven_bit=False)),
        ExportOptions(quantization=QuantizationOptions(smoothing_alpha=None)),
    ],
)
def test_however_it_was_exported(tmp_path: Path, options: ExportOptions) -> None:
    bundle = export(STUDENTS["head"](), tmp_path / "bundle", options)
    assert closeness(bundle_student(bundle), Encoder.of_bundle(bundle)) > 0.98


def test_products_that_stayed_in_float_are_read(tmp_path: Path) -> None:
    student = STUDENTS["head"]()
    bundle = rewritten(export(student, tmp_path / "b"), tmp_path / "float", build_graph(student))
    for name, value in bundle_student(bundle).state_dict().items():
        if "token_type" not in name:
            np.testing.assert_allclose(value, student.state_dict()[name], atol=1e-6, err_msg=name)


def test_products_that_were_not_fused_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = STUDENTS["head"]()
    fused = bundle_student(export(student, tmp_path / "fused")).state_dict()
    monkeypatch.setattr(quantization, "fuse_products", lambda model, joined: model)
    bundle = export(student, tmp_path / "plain")
    kinds = {n.op_type for n in onnx.load_model_from_string(bundle.read(ENCODER_FILE)).graph.node}
    assert "MatMulInteger" in kinds
    assert "DynamicQuantizeMatMul" not in kinds
    for name, value in bundle_student(bundle).state_dict().items():
        np.testing.assert_array_equal(value, fused[name], err_msg=name)


def test_it_learns_on_and_keeps_shape_and_vocabulary(tmp_path: Path) -> None:
    teacher, short = bert_teacher(), TrainingConfig(steps=30, batch_size=16, nearest=2)
    first = StudentConfig("2x64x32-pq4", vocabulary_size=120)
    distill(teacher, sentences(100), tmp_path / "first", student=first, config=short)
    bundle = export(SentenceEncoder.load(tmp_path / "first"), tmp_path / "bundle")
    start = bundle_student(bundle)
    still = TrainingConfig(steps=1, batch_size=16, learning_rate=1e-12, weight_decay=0.0)
    for width, shape in ((None, "2x64x32-pq4"), (96, "2x64x96-pq4")):
        output = tmp_path / shape
        report = distill(
            teacher, sentences(100), output, start=start, feed_forward=width, config=still
        )
        assert (report.student, report.vocabulary) == (shape, len(start.tokenizer))
        found = SentenceEncoder.load(output)
        np.testing.assert_allclose(found.encode(sentences()), start.encode(sentences()), atol=1e-5)
        assert found.space["teacher"] == teacher.name
    table = found.backbone.get_input_embeddings().weight.detach().numpy()
    assert product_codes(table, 4)[0].shape == (len(table), 16)  # still codes, which export finds


@pytest.mark.parametrize("shape", ["1x32", "1x32x64", "2x32-linear", "2x64x128", "2x64x64-pq8"])
def test_the_shape_is_read_off_a_student(shape: str) -> None:
    teacher = bert_teacher()
    student = build_student(teacher, StudentShape.parse(shape), max_length=48, seed=0)
    found = student_shape(student, teacher)
    subvector = StudentShape.parse(shape).subvector  # is set where the table is quantised
    assert replace(found, subvector=subvector) == StudentShape.parse(shape)


def test_saved_and_exported_again_it_is_the_same_encoder(tmp_path: Path) -> None:
    config = TrainingConfig(steps=4, batch_size=16, nearest=2, random_documents=16)
    distill(
        bert_teacher(),
        sentences(),
        tmp_path / "student",
        student=StudentConfig("2x64-pq4"),
        config=config,
    )
    bundle = export(SentenceEncoder.load(tmp_path / "student"), tmp_path / "bundle")
    bundle_student(bundle).save(tmp_path / "read")
    again = export(SentenceEncoder.load(tmp_path / "read"), tmp_path / "again")
    assert again.manifest.space.id == bundle.manifest.space.id
    assert len(again.read(ENCODER_FILE)) == pytest.approx(len(bundle.read(ENCODER_FILE)), rel=0.02)
    first, second = (sdk.load(one.path) for one in (bundle, again))
    texts = sentences(30)
    assert (first.encode(texts) * second.encode(texts)).sum(axis=1).min() > 0.995


def test_the_encoder_that_comes_along_is_read() -> None:
    bundle = Bundle.open("default")
    student = bundle_student(bundle)
    golden = parse_golden(bundle.read(GOLDEN_FILE))
    found = student.encode([one.text for one in golden])
    assert (found * np.array([one.vector for one in golden])).sum(axis=1).min() > 0.998


def test_a_folder_here_does_not_take_the_name_of_an_installed_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bundle = export(bert_teacher(), tmp_path / "default")
    with pytest.warns(PocketQueryWarning, match=r"write \./default for that"):
        assert load_student("default").space_id == Bundle.open(DEFAULT_BUNDLE).manifest.space.id
    assert load_student("./default").space_id == bundle.manifest.space.id


def test_a_device_that_is_not_there_and_a_key_that_did_not_sign_are_refused(tmp_path: Path) -> None:
    bundle = export(bert_teacher(), tmp_path / "b")
    with pytest.raises(InvalidInputError, match='the device "no-such" cannot be used'):
        load_student(tmp_path / "b", device="no-such")
    with pytest.raises(SignatureError):
        load_student(tmp_path / "b", public_key="00" * 31 + "01")
    assert load_student(tmp_path / "b").space_id == bundle.manifest.space.id


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    bundle = export(xlmr_teacher(tmp_path / "xlmr"), tmp_path / "sentencepiece")
    with pytest.raises(UnknownModelError, match="only a WordPiece one can be read back"):
        bundle_student(bundle)
    with pytest.raises(UnknownModelError, match="cannot be read back into a student"):
        bundle_student(export(electra_teacher(), tmp_path / "electra"))


@pytest.mark.slow
def test_whatever_a_graph_lacks_is_said(tmp_path: Path) -> None:
    bundle = export(STUDENTS["head"](), tmp_path / "bundle")
    model = onnx.load_model_from_string(bundle.read(ENCODER_FILE))
    refused = 0
    for place, array in enumerate(list(model.graph.initializer)):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        del changed.graph.initializer[place]
        try:
            bundle_student(rewritten(bundle, tmp_path / "changed", changed))
        except UnknownModelError:
            refused += 1
        else:  # what has a default, or is not of the student
            assert re.match(r"adapter|norm\.|pooling\.|.*(widths|length)", array.name), array.name
    assert refused > 30
    rewritten(bundle, tmp_path / "none", onnx.ModelProto())
    with pytest.raises(UnknownModelError, match="its graph has no"):
        bundle_student(Bundle.open(tmp_path / "none"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("without norm", "its weights are not BERT's"),
        ("without positions", "its graph has no embeddings.position_embeddings.weight"),
        ("other weights", r"its golden texts are [\d.]+ from their vectors"),
    ],
)
def test_a_graph_that_is_not_ours_is_refused(tmp_path: Path, change: str, said: str) -> None:
    bundle = export(STUDENTS["plain"](), tmp_path / "bundle")
    model = onnx.load_model_from_string(bundle.read(ENCODER_FILE))
    for node in model.graph.node:
        if change == "without norm" and node.name.startswith("/encoder/layer.1/output/LayerNorm"):
            node.name = "norm"
    for array in model.graph.initializer:
        if change == "without positions" and "position_embeddings.weight" in array.name:
            array.name = array.name.replace("position_embeddings", "places")
        if change == "other weights" and array.name == "token_type_embedding":
            values = np.random.default_rng(0).normal(size=(1, 1, 64)).astype(np.float32)
            array.CopyFrom(numpy_helper.from_array(9 * values, array.name))
    with pytest.raises(UnknownModelError, match=said):
        bundle_student(rewritten(bundle, tmp_path / "changed", model))
