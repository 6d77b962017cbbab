from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from sentence_transformers import SentenceTransformer

from pocketquery import sdk
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.bundle.sentence_transformers_layout import (
    FLOAT_FILE,
    INT8_FILE,
    write_onnx_files,
)
from pocketquery.export.settings import ExportOptions
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import sentences

TEXTS = sentences(6)


@pytest.fixture(scope="module")
def exported(
    headed_student: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("layout")
    export_bundle(
        headed_student,
        folder / "bundle",
        calibration_texts=sentences(20),
        options=ExportOptions(parity_texts=2),
        name="tiny",
        license="MIT",
        sentence_transformers=folder / "st",
    )
    return folder / "bundle", folder / "st"


def test_float_file_gives_the_vectors_of_the_student(
    headed_student: SentenceEncoder, exported: tuple[Path, Path]
) -> None:
    found = _open(exported[1], FLOAT_FILE).encode(TEXTS)
    np.testing.assert_allclose(found, headed_student.encode(TEXTS), atol=1e-5)


def test_int8_file_gives_the_token_states_of_the_bundle(exported: tuple[Path, Path]) -> None:
    """The head is int8 in the bundle and float here, so the vectors agree only nearly."""
    model = _open(exported[1], INT8_FILE)
    encoder = sdk.load(exported[0])
    for text in TEXTS:
        cosine = float(model.encode(text) @ encoder.encode(text, prompt=""))
        assert cosine > 0.995


def test_a_kill_never_leaves_the_folder_without_its_graphs(
    student: SentenceEncoder,
    float_model: onnx.ModelProto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save, found = SentenceEncoder.save, []

    def saved(encoder: SentenceEncoder, path: Path, **options: Any) -> None:
        save(encoder, path, **options)
        found.append({file.name for file in (path / "onnx").glob("*")})

    monkeypatch.setattr(SentenceEncoder, "save", saved)
    write_onnx_files(student, float_model, float_model, tmp_path / "st")
    assert found == [{Path(FLOAT_FILE).name, Path(INT8_FILE).name}]


def test_without_a_head_int8_equals_the_bundle(student: SentenceEncoder, tmp_path: Path) -> None:
    export_bundle(
        student,
        tmp_path / "bundle",
        calibration_texts=sentences(20),
        options=ExportOptions(parity_texts=2),
        name="tiny",
        license="MIT",
        sentence_transformers=tmp_path / "st",
    )
    model, encoder = _open(tmp_path / "st", INT8_FILE), sdk.load(tmp_path / "bundle")
    for text in TEXTS:
        np.testing.assert_allclose(model.encode(text), encoder.encode(text), atol=1e-6)


def _open(folder: Path, file: str) -> SentenceTransformer:
    arguments = {"file_name": file, "provider": "CPUExecutionProvider"}
    return SentenceTransformer(str(folder), backend="onnx", model_kwargs=arguments)


def test_optimum_opens_the_folder(
    headed_student: SentenceEncoder, exported: tuple[Path, Path]
) -> None:
    import torch
    from optimum.onnxruntime import ORTModelForFeatureExtraction

    folder = exported[1]
    model = ORTModelForFeatureExtraction.from_pretrained(
        folder, subfolder="onnx", file_name=Path(FLOAT_FILE).name
    )
    batch = headed_student.tokenizer(TEXTS, padding=True, return_tensors="pt")
    found = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    with torch.no_grad():
        expected = headed_student.backbone(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        )
    np.testing.assert_allclose(
        np.asarray(found.last_hidden_state), expected.last_hidden_state.numpy(), atol=1e-4
    )
