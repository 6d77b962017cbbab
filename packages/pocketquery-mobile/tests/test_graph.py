from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from pocketquery import sdk
from pocketquery.export.bundle.bundling import ExportReport, export_bundle
from pocketquery.export.quantization.ranking_gate import GateData
from pocketquery.export.settings import ExportOptions, GateThresholds
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.golden import parse_golden
from pocketquery.sdk.bundle.installed import DEFAULT_BUNDLE
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    MissingExtraError,
    UnknownModelError,
)
from pocketquery.server.corpus import Query
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.tokenizer_file import TokenizerFile
from pocketquery_mobile.agreement import check_string_graph, every_character
from pocketquery_mobile.graph import StringGraph, build_string_graph
from tests.tiny_models import sentences

TEXTS = sentences(40)
FEW = ExportOptions(calibration_texts=20, parity_texts=4, with_tokenizer=True)
KEY = bytes(range(32))
NAME = "encoder_with_tokenizer.onnx"


def _export(student: SentenceEncoder | Path, output: Path, **options: object) -> ExportReport:
    settings = {"calibration_texts": TEXTS, "options": FEW, "name": "tiny", "license": "MIT"}
    return export_bundle(student, output, **(settings | options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def exported(
    headed_student: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory
) -> ExportReport:
    output = tmp_path_factory.mktemp("bundle") / "bundle"
    return _export(headed_student, output, signing_key=KEY)


def test_one_call_gives_the_encoders_vector(exported: ExportReport) -> None:
    encoder = sdk.load(exported.path)
    graph = StringGraph.of_bundle(Bundle.open(exported.path))
    for text in ["castle rock", "Wátér  of the 日本 [SEP]☃", ""]:
        expected = encoder.encode(text)  # both put the bundle's default prompt before the text
        np.testing.assert_array_equal(graph.encode(text), expected)
        assert graph.ids(text) == encoder.tokenize("query " + text)
        np.testing.assert_array_equal(
            graph.encode(text, prompt=""), encoder.encode(text, prompt="")
        )


def test_the_golden_texts_are_replayed(exported: ExportReport) -> None:
    bundle = Bundle.open(exported.path)
    graph = StringGraph.of_bundle(bundle)
    goldens = parse_golden(bundle.read("golden.json"))
    for golden in goldens:
        assert graph.ids(golden.text, prompt="") == list(golden.ids)
        found = graph.encode(golden.text, prompt="")
        np.testing.assert_allclose(found, golden.vector, atol=1e-5)
    assert bundle.manifest.quality["with_tokenizer"]["golden"]["equal"] == len(goldens)


def test_it_is_one_more_file_of_the_bundle(exported: ExportReport) -> None:
    sdk.verify(exported.path, public_key=public_key_of(KEY))
    manifest = Bundle.open(exported.path).manifest
    told = manifest.quality["with_tokenizer"]
    assert told["bytes"] == manifest.files[NAME].bytes > manifest.files["encoder.onnx"].bytes
    assert told["file"] == NAME
    assert told["exact"] is False
    assert told["kind"] == "wordpiece"
    assert told["prompt"] == "query "
    assert told["extensions"].count(".") == 2
    for texts in ("queries", "english", "characters"):
        assert told[texts]["share"] == 1.0
        assert told[texts]["texts"] >= 40
    assert told["overlap"] is None


def test_the_file_says_by_itself_which_encoder_it_is(exported: ExportReport) -> None:
    bundle = Bundle.open(exported.path)
    metadata = StringGraph.of_bundle(bundle).metadata
    assert metadata == {
        "format": "pocketquery-encoder-with-tokenizer",
        "format_version": "1",
        "name": "tiny",
        "encoder_version": "1",
        "space_id": bundle.manifest.space.id,
        "dimension": "48",
        "max_length": "48",
        "encoder_sha256": bundle.manifest.files["encoder.onnx"].sha256,
        "license": "MIT",
        "prompt": "query ",
    }


def test_an_adapter_is_fed_to_it_as_to_the_encoder(exported: ExportReport) -> None:
    bundle = Bundle.open(exported.path)
    model = onnx.load_from_string(bundle.read(NAME))
    initialisers = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input]
    assert [name for name in inputs if name not in initialisers] == ["text"]
    assert len([name for name in inputs if name.startswith("adapter.")]) == 12
    assert [value.name for value in model.graph.output] == ["sentence_embedding", "input_ids"]


def test_the_same_input_gives_the_same_bytes(exported: ExportReport) -> None:
    bundle = Bundle.open(exported.path)
    file = TokenizerFile("wordpiece", "tokenizer.json", bundle.read("tokenizer.json"))
    encoder = onnx.load_from_string(bundle.read("encoder.onnx"))
    again = build_string_graph(encoder, bundle.manifest, file)
    assert again.SerializeToString(deterministic=True) == bundle.read(NAME)


def test_xlm_r_without_prompts(xlmr_student: SentenceEncoder, tmp_path: Path) -> None:
    report = _export(xlmr_student, tmp_path / "b")
    assert report.string_graph is not None
    assert report.string_graph.characters.share == 1.0
    graph = StringGraph.of_bundle(Bundle.open(tmp_path / "b"))
    encoder = sdk.load(tmp_path / "b")
    for text in ["castle  <mask></s> rock", "", "日本"]:
        np.testing.assert_array_equal(graph.encode(text), encoder.encode(text))
    assert "prompt" not in graph.metadata
    with pytest.raises(InvalidInputError, match="takes none: its bundle has no prompts"):
        graph.encode("castle", prompt="query ")


@pytest.mark.slow
def test_both_rank_the_users_documents_alike(student: SentenceEncoder, tmp_path: Path) -> None:
    ids = [f"d{i}" for i in range(40)]
    gate = GateData([Query(str(i), t) for i, t in enumerate(TEXTS)], ids, student.encode(TEXTS))
    options = dataclasses.replace(FEW, thresholds=GateThresholds(0.3, 0.9))
    report = _export(student, tmp_path / "b", gate=gate, options=options)
    assert report.string_graph is not None
    assert report.string_graph.overlap == 1.0


def test_another_encoder_or_tokenizer_behind_it_is_found(
    exported: ExportReport, student: SentenceEncoder
) -> None:
    bundle = Bundle.open(exported.path)
    graph = onnx.load_from_string(bundle.read(NAME))
    encoder = onnx.load_from_string(bundle.read("encoder.onnx"))
    data = bundle.read("tokenizer.json")
    exact = TokenizerFile("wordpiece", "tokenizer.json", data).open(48)
    shifted = data.replace(b'"water":', b'"zzz":', 1)  # a piece that is not there
    other = TokenizerFile("wordpiece", "tokenizer.json", shifted).open(48)
    with pytest.raises(ArtifactError, match=r"texts \(queries\) other ids than the tokenizer"):
        check_string_graph(
            graph, encoder, other, kind="wordpiece", queries=["water"], golden_texts=[]
        )
    changed = onnx.ModelProto()
    changed.CopyFrom(encoder)
    for tensor in changed.graph.initializer:
        if tensor.name == "head.0.bias":
            tensor.raw_data = np.ones(tensor.dims, np.float32).tobytes()
    with pytest.raises(ArtifactError, match="with equal ids a vector of cosine"):
        check_string_graph(
            graph, changed, exact, kind="wordpiece", queries=["water"], golden_texts=["water"]
        )
    documents = np.eye(48, dtype=np.float32)
    gate = GateData([Query("1", "castle rock")], [f"d{i}" for i in range(48)], documents)
    with pytest.raises(ArtifactError, match="top-10 overlap"):
        check_string_graph(
            graph,
            changed,
            exact,
            kind="wordpiece",
            queries=["water"],
            golden_texts=[],
            gate=gate,
            thresholds=GateThresholds(1.0, 0.0),
        )


def test_a_changed_or_missing_file_is_refused(exported: ExportReport, tmp_path: Path) -> None:
    for name in exported.path.iterdir():
        (tmp_path / name.name).write_bytes(name.read_bytes())
    data = bytearray((tmp_path / NAME).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(CorruptArtifactError, match=NAME):
        StringGraph.of_bundle(Bundle.open(tmp_path))
    with pytest.raises(CorruptArtifactError, match=NAME):
        sdk.verify(tmp_path)
    (tmp_path / NAME).unlink()
    with pytest.raises(ArtifactNotFoundError, match=f"{NAME} is missing"):
        StringGraph.of_bundle(Bundle.open(tmp_path))
    with pytest.raises(ArtifactNotFoundError, match=NAME):
        sdk.verify(tmp_path)
    assert sdk.load(tmp_path).dimension == 48  # who does not use it does not need it
    with pytest.raises(CorruptArtifactError, match="onnxruntime cannot load"):
        StringGraph(b"no graph")


def test_a_bundle_without_it_says_so(student: SentenceEncoder, tmp_path: Path) -> None:
    report = _export(
        student, tmp_path / "b", options=dataclasses.replace(FEW, with_tokenizer=False)
    )
    assert report.string_graph is None
    assert "with_tokenizer" not in report.manifest.quality
    assert not (tmp_path / "b" / NAME).exists()
    with pytest.raises(InvalidInputError, match=f"names no file '{NAME}'"):
        StringGraph.of_bundle(Bundle.open(tmp_path / "b"))


def test_a_missing_extra_is_named_before_the_work(
    student: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(line: str) -> None:
        raise AssertionError(f"work began: {line}")

    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    with pytest.raises(MissingExtraError, match=r"extensions.*packages/pocketquery-mobile"):
        _export(student, tmp_path / "b", progress=unreachable)
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_it_cannot_follow_is_refused_before_the_work(
    exported: ExportReport, tmp_path: Path
) -> None:
    bundle = Bundle.open(exported.path)
    data = bundle.read("tokenizer.json").replace(
        b'"max_input_chars_per_word":100', b'"max_input_chars_per_word":60'
    )
    file = TokenizerFile("wordpiece", "tokenizer.json", data)
    encoder = onnx.load_from_string(bundle.read("encoder.onnx"))
    with pytest.raises(UnknownModelError, match="words of up to 60 characters"):
        build_string_graph(encoder, bundle.manifest, file)


def test_every_character_is_there() -> None:
    texts = list(every_character())
    met = set("".join(texts))
    assert len(met) > 140_000
    assert len(set("".join(every_character(16)))) < 40_000
    assert set("aéßİ́의日ア☃\u200b\U0001f600") <= met
    assert "\0" not in met


def test_the_built_in_encoder_becomes_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / NAME
    command = ["export", "--bundle", "default", "--with-tokenizer", "--output", str(output)]
    assert main(command) == 0
    assert "937 of 937 English questions" in capsys.readouterr().out
    graph, encoder = StringGraph(output.read_bytes()), sdk.load()
    assert graph.metadata["space_id"] == encoder.space_id
    for text in ["when does the train leave", "Grüße 日本", "word " * 300, ""]:
        assert graph.encode(text) @ encoder.encode(text) > 0.999


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bundle", "default"], "--bundle goes with --with-tokenizer"),
        (["--bundle", "default", "--with-tokenizer", "--student", "s"], "--bundle goes with"),
        (["--bundle", "nowhere", "--with-tokenizer"], "nowhere: found nothing there"),
        (["--student", "s"], "--queries is missing"),
    ],
)
def test_what_does_not_fit_is_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / NAME
    assert main(["export", "--output", str(output), *options]) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_the_bundle_and_files_that_are_there_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle")
    (tmp_path / "mine.onnx").write_text("mine", "utf-8")
    for output in (bundle / "encoder.onnx", bundle / NAME, bundle, tmp_path / "mine.onnx"):
        command = ["export", "--bundle", str(bundle), "--with-tokenizer", "--output", str(output)]
        assert main(command) == 2
        assert "name " in capsys.readouterr().err
    Bundle.open(bundle).check_files()
    assert (tmp_path / "mine.onnx").read_text("utf-8") == "mine"
