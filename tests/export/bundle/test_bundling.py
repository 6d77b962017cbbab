from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, BertTokenizerFast

from pocketquery import sdk
from pocketquery.distill.student import StudentShape, build_student
from pocketquery.export.bundle.bundling import ExportReport, export_bundle
from pocketquery.export.quantization.ranking_gate import GateData
from pocketquery.export.settings import ExportOptions, GateThresholds, GraphOptions
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import ArtifactError, InvalidInputError, PocketQueryError
from pocketquery.server.corpus import Query
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import sentences, xlmr_teacher

TEXTS = sentences(40)
FEW = ExportOptions(calibration_texts=20, parity_texts=4)
KEY = bytes(range(32))


def _export(student: SentenceEncoder | Path, output: Path, **options: object) -> ExportReport:
    settings = {"calibration_texts": TEXTS, "options": FEW, "name": "tiny", "license": "MIT"}
    return export_bundle(student, output, **(settings | options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bundle(headed_student: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("bundle") / "bundle"
    _export(headed_student, output, signing_key=KEY)
    return output


def test_the_bundle_verifies_and_encodes_as_the_student(
    headed_student: SentenceEncoder, bundle: Path
) -> None:
    report = sdk.verify(bundle, public_key=public_key_of(KEY))
    assert report.golden is not None
    assert report.golden.texts == 16
    encoder = sdk.load(bundle)
    assert encoder.space_id == headed_student.space_id
    assert encoder.dimension == 48
    found = encoder.encode(TEXTS)  # the bundle's default prompt is the query's
    cosines = np.einsum("nd,nd->n", found, headed_student.encode_query(TEXTS))
    assert cosines.mean() > 0.98
    np.testing.assert_array_equal(found, encoder.encode_query(TEXTS))


def test_the_adapter_file_equals_the_defaults_of_the_graph(bundle: Path) -> None:
    opened = Bundle.open(bundle)
    tensors = parse(opened.read("adapter.safetensors"))
    assert all(tensor.dtype == np.float16 for tensor in tensors.values())
    assert len(tensors) == 2 * 2 * 2 + 2 * 2
    assert opened.manifest.files["adapter.safetensors"].bytes < 100_000


def test_a_sentencepiece_student_is_trained_measured_and_shipped_with_the_devices_ids(
    tmp_path: Path,
) -> None:
    texts = ["000", "1000000", "80000-1", "a\u0085b", "ﾊﾟ", "a\u0323\u0302", "\u1100\u1161\u11a8"]
    teacher = xlmr_teacher(
        tmp_path / "teacher", texts=[*texts, *texts, *("0" * n for n in range(40))]
    )
    student = build_student(teacher, StudentShape.parse("1x64"), max_length=32, seed=0)
    for number, encoder in enumerate((student, teacher)):  # a teacher may be exported itself
        path = tmp_path / str(number)
        _export(encoder, path, calibration_texts=[*texts, *TEXTS])
        shipped = sdk.load(path)
        assert shipped.space_id == teacher.space_id
        own = encoder.with_device_ids()
        for text in texts:
            assert shipped.tokenize(text) == own.tokenizer(text)["input_ids"]
            assert shipped.encode(text) @ own.encode([text])[0] > 0.99
    assert any(student.tokenizer(text) != teacher.tokenizer(text) for text in texts)


def test_the_manifest_tells_the_quality(bundle: Path) -> None:
    manifest = Bundle.open(bundle).manifest
    assert manifest.license == "MIT"
    assert manifest.default_prompt_name == "query"
    assert manifest.quality["gate"] is None
    assert 0.9 < manifest.quality["int8_cosine"]["min"] <= manifest.quality["int8_cosine"]["mean"]
    assert manifest.quality["float_graph"]["largest_difference"] < 1e-4


def test_the_same_input_gives_the_same_bytes(
    headed_student: SentenceEncoder, bundle: Path, tmp_path: Path
) -> None:
    _export(headed_student, tmp_path / "again", signing_key=KEY)
    names = sorted(file.name for file in bundle.iterdir())
    assert names == sorted(file.name for file in (tmp_path / "again").iterdir())
    for name in names:
        assert (bundle / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_xlm_r_from_a_folder_into_a_zip(xlmr_student: SentenceEncoder, tmp_path: Path) -> None:
    xlmr_student.save(tmp_path / "student")
    _export(tmp_path / "student", tmp_path / "made" / "encoder.zip")
    encoder = sdk.load(tmp_path / "made" / "encoder.zip")
    assert encoder.manifest.tokenizer.kind == "sentencepiece"
    cosines = np.einsum("nd,nd->n", encoder.encode(TEXTS), xlmr_student.encode(TEXTS))
    assert cosines.mean() > 0.98
    _export(tmp_path / "student", tmp_path / "made" / "encoder.zip", version="2")
    assert sdk.load(tmp_path / "made" / "encoder.zip").version == "2"


def test_without_adapter_and_with_own_golden_texts(
    student: SentenceEncoder, tmp_path: Path
) -> None:
    options = ExportOptions(GraphOptions(adapter_rank=0), calibration_texts=5, parity_texts=2)
    _export(student, tmp_path / "b", options=options, golden_texts=["castle rock"])
    report = sdk.verify(tmp_path / "b")
    assert report.golden is not None
    assert report.golden.texts == 1
    assert not (tmp_path / "b" / "adapter.safetensors").exists()


def test_the_gate_report_goes_into_the_manifest(student: SentenceEncoder, tmp_path: Path) -> None:
    told: list[str] = []
    options = ExportOptions(thresholds=GateThresholds(0.3, 0.9), calibration_texts=10)
    report = _export(
        student, tmp_path / "b", gate=_gate(student), options=options, progress=told.append
    )
    gate = Bundle.open(tmp_path / "b").manifest.quality["gate"]
    assert gate["passed"] is True
    assert gate["queries"] == 20
    assert gate["steps"][-1]["overlap"] == pytest.approx(report.gate.last.overlap)  # type: ignore[union-attr]
    assert any(line.startswith("gate: 0 MatMuls in float") for line in told)


@pytest.mark.slow
def test_a_failing_gate_writes_nothing(student: SentenceEncoder, tmp_path: Path) -> None:
    options = ExportOptions(thresholds=GateThresholds(1.0, -2.0), calibration_texts=5)
    with pytest.raises(ArtifactError, match="all 12 MatMuls left in float"):
        _export(student, tmp_path / "b", gate=_gate(student), options=options)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_bundle(
    student: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "bundle"
    _export(student, output)
    before = {file.name: file.read_bytes() for file in output.iterdir()}
    write_bytes = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if tmp_path in path.parents and path.name == "encoder.onnx":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="the disk is full"):
        _export(student, output, version="2")
    assert {file.name: file.read_bytes() for file in output.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_text_that_is_cut_elsewhere_is_found(student: SentenceEncoder, tmp_path: Path) -> None:
    """Whole words of the public texts, so that none of them alone is longer than 128 tokens."""
    document = json.loads(student.tokenizer.backend_tokenizer.to_str())
    vocabulary = document["model"]["vocab"]
    for word in "quick brown fox jumps over lazy dog".split():
        vocabulary[word] = len(vocabulary)
    tokenizer = BertTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(document)), truncation_side="left"
    )
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
    long = SentenceEncoder(BertModel(config), tokenizer, max_length=128)
    with pytest.raises(ArtifactError, match="the device's tokenizer gives"):
        _export(long, tmp_path / "b")


def test_mistakes_are_found_before_the_work(student: SentenceEncoder, tmp_path: Path) -> None:
    def unreachable(line: str) -> None:
        raise AssertionError(f"work began: {line}")

    with pytest.raises(InvalidInputError, match="no texts"):
        _export(student, tmp_path / "b", calibration_texts=[], progress=unreachable)
    with pytest.raises(PocketQueryError):
        _export(student, tmp_path / "b", signing_key=b"short", progress=unreachable)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InvalidInputError, match="is not a bundle; it is left alone"):
        _export(student, tmp_path / "thesis", progress=unreachable)
    (tmp_path / "holiday.zip").write_bytes(b"photos")
    with pytest.raises(InvalidInputError, match=r"holiday.zip exists and is not a bundle"):
        _export(student, tmp_path / "holiday.zip", progress=unreachable)
    with pytest.raises(InvalidInputError, match="not a sentence-transformers folder"):
        _export(
            student,
            tmp_path / "b",
            sentence_transformers=tmp_path / "thesis",
            progress=unreachable,
        )
    student.save(tmp_path / "own")
    with pytest.raises(InvalidInputError, match="which is only read"):
        _export(
            SentenceEncoder.load(tmp_path / "own"),
            tmp_path / "b",
            sentence_transformers=tmp_path / "own",
            progress=unreachable,
        )
    for place in ("b", "b/st", "."):
        with pytest.raises(InvalidInputError, match="expected two folders"):
            _export(
                student,
                tmp_path / "b",
                sentence_transformers=tmp_path / place,
                progress=unreachable,
            )
    with pytest.raises(InvalidInputError, match="parity_texts"):
        ExportOptions(parity_texts=0)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def _gate(student: SentenceEncoder) -> GateData:
    texts = sentences(100)
    queries = [Query(str(i), text) for i, text in enumerate(texts[:20])]
    judgements = {str(i): {f"d{i}": 1} for i in range(20)}
    ids = [f"d{i}" for i in range(100)]
    return GateData(queries, ids, student.encode(texts), judgements)
