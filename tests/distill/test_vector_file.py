"""Files of texts and vectors: what they teach, and what is refused, by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.distill.vector_file import FileTeacher
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import ArtifactError, InvalidInputError, PocketQueryError
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences

TEXTS = ["tea", "the train", "Oslo", "a rock"]
VECTORS = np.random.default_rng(0).normal(size=(4, 6))


def written(path: Path, text: Any = TEXTS, vector: Any = VECTORS, **more: Any) -> Path:
    """As npz or Parquet, by the path's name."""
    if path.suffix == ".npz":
        np.savez(path, text=np.array(text), vector=np.asarray(vector), **more)
    else:
        columns = {"text": text, "vector": list(vector), **more}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


BOTH = pytest.mark.parametrize("name", ["v.npz", "v.parquet"])


@BOTH
def test_rows_are_vectors_of_unit_length_by_text(name: str, tmp_path: Path) -> None:
    teacher = FileTeacher(written(tmp_path / name))
    assert (teacher.texts, teacher.documents, teacher.dimension) == (TEXTS, [], 6)
    expected = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    for role in ("query", "document"):
        found = teacher.encode(TEXTS[::-1], prompt_name=role)
        np.testing.assert_allclose(found, expected[::-1], atol=1e-6)
    with pytest.raises(InvalidInputError, match="no query vector of 'cocoa' and 1 more texts"):
        teacher.encode(["tea", "cocoa", "milk"])


@BOTH
def test_roles_keep_queries_and_documents_apart(name: str, tmp_path: Path) -> None:
    texts, roles = [*TEXTS[:2], *TEXTS[:2]], ["query", "query", "document", "document"]
    teacher = FileTeacher(written(tmp_path / name, texts, VECTORS, role=roles))
    assert teacher.texts == teacher.documents == TEXTS[:2]
    assert not np.allclose(teacher.encode(["tea"]), teacher.encode_document(["tea"]))


@BOTH
def test_blank_and_repeated_rows_are_counted(name: str, tmp_path: Path) -> None:
    texts = ["tea", " ", "tea ", "rock"]
    vectors = VECTORS[[0, 1, 0, 3]] * (1 + 1e-5 * VECTORS)
    teacher = FileTeacher(written(tmp_path / name, texts, vectors))
    assert (teacher.texts, teacher.blank, teacher.repeated) == (["tea", "rock"], 1, 1)


def test_a_space_is_named_after_the_rows_or_by_the_file(tmp_path: Path) -> None:
    first = FileTeacher(written(tmp_path / "a.npz"))
    assert first.space_id == FileTeacher(written(tmp_path / "b.npz")).space_id
    assert first.space_id != FileTeacher(written(tmp_path / "c.npz", TEXTS[::-1])).space_id
    named = FileTeacher(written(tmp_path / "d.npz", space_id="space-ours"))
    assert (named.space_id, named.content_id) == ("space-ours", first.content_id)
    columns = pyarrow.table({"text": TEXTS, "vector": list(VECTORS)})
    columns = columns.replace_schema_metadata({"pocketquery.space_id": "space-theirs"})
    pyarrow.parquet.write_table(columns, tmp_path / "e.parquet")
    assert FileTeacher(tmp_path / "e.parquet").space_id == "space-theirs"


def changed(row: int, value: float) -> Any:
    vectors = VECTORS.copy()
    vectors[row, 2:] = value
    vectors[row, :2] = 0
    return vectors


@BOTH
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"vector": changed(2, np.nan)}, r"row 3 \('Oslo'\): the vector is all zeros or has a"),
        ({"vector": changed(2, np.inf)}, "in 1 of 4 rows"),
        ({"vector": changed(0, 0.0)}, "row 1 .*a direction"),
        ({"text": ["tea", "rock", "tea", "sky"]}, r"'tea' has two vectors, in rows 1 and 3 \(cos"),
        ({"vector": (9 * VECTORS).astype(np.int64)}, "int64"),
        ({"vector": VECTORS[:, 0]}, "expected (floats of shape|lists of floats)"),
        ({"text": ["", " ", "\n", "\t"]}, "no text of the role query"),
        ({"text": [1, 2, 3, 4]}, "row 1: the text is 1, expected a string"),
        ({"role": ["query", "passage", "query", "query"]}, "has the role 'passage'"),
        ({"role": ["document"] * 4}, "no text of the role query"),
        ({"vectors": np.ones(4)}, "expected one 'vector'"),
    ],
)
def test_what_cannot_be_learnt_of_is_named(
    columns: dict[str, Any], message: str, name: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        FileTeacher(written(tmp_path / name, **columns))


def test_what_one_format_alone_can_have_is_named(tmp_path: Path) -> None:
    rows = [[1.0, 2.0], [1.0, 2.0], [1.0], [1.0, 3.0]]
    cases = {
        "row 3: the vector has 1 values, others have 2": written(
            tmp_path / "a.parquet", vector=rows
        ),
        "row 2: the vector has 0": written(
            tmp_path / "b.parquet", vector=[rows[0], None, *rows[:2]]
        ),
        "row 4: the text is None": written(tmp_path / "c.parquet", [*TEXTS[:3], None]),
        "3 and 4 texts, vectors": written(tmp_path / "d.npz", TEXTS[:3]),
        "an array of Python objects": tmp_path / "e.npz",
        "has text; expected one 'vector'": tmp_path / "f.npz",
    }
    np.savez(tmp_path / "e.npz", text=np.array(TEXTS, object), vector=VECTORS)
    np.savez(tmp_path / "f.npz", text=np.array(TEXTS))
    for message, path in cases.items():
        with pytest.raises(InvalidInputError, match=message):
            FileTeacher(path)


@given(data=st.binary(max_size=60), magic=st.sampled_from([b"", b"PAR1", b"PK\x03\x04"]))
def test_any_bytes_are_refused_as_ours(
    data: bytes, magic: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.npz"
    path.write_bytes(magic + data)
    with pytest.raises(PocketQueryError):
        FileTeacher(path)


def test_what_is_no_such_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v.csv").write_text("text,vector\n")
    cases = {"v.csv": "neither Parquet nor a whole npz file", "v.npz": "there is no such file"}
    for name, message in cases.items():
        command = ["distill", "--teacher", str(tmp_path / name), "--output", str(tmp_path / "s")]
        assert main(command) == 2
        assert message in capsys.readouterr().err


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    for name in ("v.npz", "v.parquet"):
        data = written(tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        with pytest.raises(ArtifactError, match="whole"):
            FileTeacher(tmp_path / name)


def test_from_a_file_to_hits_without_the_teacher(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api, texts = bert_teacher(), sentences(120)
    path = written(tmp_path / "v.parquet", texts, api.encode(texts))
    command = ["distill", "--teacher", str(path), "--student", "1x32", "--start", "words"]
    command += ["--steps", "30", "--batch-size", "16", "--max-length", "32"]
    assert main([*command, "--output", str(tmp_path / "student"), "--json"]) == 0
    output = capsys.readouterr()
    assert "vectors   120 texts, 0 documents; 0 blank and 0 repeated rows left out" in output.err
    report = json.loads(output.out)
    assert (report["texts"], report["start"]) == (120, "words")
    assert main([*command, "--texts", str(path), "--output", str(tmp_path / "no")]) == 2
    assert "has texts of its own to learn from" in capsys.readouterr().err
    student = SentenceEncoder.load(tmp_path / "student")
    bundle = tmp_path / "bundle"
    export_bundle(student, bundle, calibration_texts=texts[:40], name="api", license="MIT")
    encoder = sdk.load(bundle)
    with sdk.create_index(tmp_path / "index", encoder=encoder) as builder:
        builder.add(texts, api.encode(texts))
    with sdk.open_index(tmp_path / "index", encoder=encoder) as index:
        assert index.space_id == FileTeacher(path).space_id
        assert any(hit.text == texts[3] for hit in index.search(texts[3], k=5))
