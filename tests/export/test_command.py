from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.cli import main
from pocketquery.server.modeling import SentenceEncoder
from tests.sdk.tiny_bundle import write_tiny_bundle
from tests.tiny_models import bert_teacher, sentences


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, queries and judgements as files."""
    folder = tmp_path_factory.mktemp("files")
    texts = sentences(40)
    lines = [json.dumps({"_id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    queries = "\n".join(f"q{i}\t{text}" for i, text in enumerate(texts[:20]))
    (folder / "queries.tsv").write_text(queries, encoding="utf-8")
    qrels = "\n".join(f"q{i}\td{i}\t1" for i in range(20))
    (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
    (folder / "other.tsv").write_text("z9\td1\t1\n", encoding="utf-8")
    return folder


def test_export_and_index_work_together(
    student_folder: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--student", str(student_folder), "--teacher", str(student_folder)]
    arguments += ["--output", str(tmp_path / "bundle"), "--queries", str(files / "queries.tsv")]
    arguments += ["--corpus", str(files / "corpus.jsonl"), "--qrels", str(files / "qrels.tsv")]
    arguments += ["--least-overlap", "0.3", "--most-ndcg-loss", "0.9", "--json"]
    assert main(arguments) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["quality"]["gate"]["passed"] is True
    assert summary["quality"]["gate"]["float_ndcg"] == pytest.approx(1.0)

    arguments = ["index", "--corpus", str(files / "corpus.jsonl"), "--teacher", str(student_folder)]
    arguments += ["--bundle", str(tmp_path / "bundle"), "--output", str(tmp_path / "index")]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 40

    encoder = sdk.load(tmp_path / "bundle")
    with sdk.open_index(tmp_path / "index", encoder=encoder) as index:
        query = sentences(40)[7]
        assert index.search(query, k=1, mode="dense")[0].text == query


def test_a_small_adapter_is_exported(
    student_folder: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "export",
        "--student",
        str(student_folder),
        "--queries",
        str(files / "queries.tsv"),
    ]
    sizes = {}
    for name, extra in (("both", []), ("up", ["--adapter-rank", "1", "--adapter-train", "up"])):
        assert main([*arguments, "--output", str(tmp_path / name), *extra]) == 0
        bundle = Bundle.open(tmp_path / name)
        sizes[name] = bundle.manifest.files["adapter.safetensors"].bytes
        assert all(tensor.endswith(".up") for tensor in sdk.load(bundle.path).adapter) == (
            name == "up"
        )
    assert sizes["up"] < sizes["both"] / 4
    assert main([*arguments, "--output", str(tmp_path / "x"), "--adapter-rank", "0"]) == 0


def test_an_index_is_signed_and_the_bundle_beside_it_checked(
    student_folder: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = bytes(range(32))
    public = public_key_of(private).hex()
    arguments = ["index", "--corpus", str(files / "corpus.jsonl"), "--teacher", str(student_folder)]
    arguments += ["--output", str(tmp_path / "index")]
    bundle = write_tiny_bundle(tmp_path / "bundle")
    assert main([*arguments, "--bundle", str(bundle), "--public-key", public]) == 2
    assert "found no signature" in capsys.readouterr().err
    assert main([*arguments, "--signing-key", private.hex()]) == 0
    assert f"signed by  {key_id(public)}" in capsys.readouterr().out
    assert sdk.verify(tmp_path / "index", public_key=public).signed_by == key_id(public)
    assert main(arguments) == 0  # built anew without a key, the old signature goes
    assert sdk.verify(tmp_path / "index").claimed_key_id is None
    assert not (tmp_path / "index" / "signature").exists()


def test_zip_without_a_corpus(
    student_folder: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--student", str(student_folder), "--queries"]
    arguments += [str(files / "queries.tsv"), "--output", str(tmp_path / "bundle"), "--zip"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "the ranking gate is left out" in printed.err
    assert "verified" in printed.out
    assert sdk.load(tmp_path / "bundle.zip").name == "student"


@pytest.mark.slow
def test_export_with_the_tokenizer(
    student_folder: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--student", str(student_folder), "--output", str(tmp_path / "bundle")]
    arguments += ["--queries", str(files / "queries.tsv"), "--with-tokenizer"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "putting the tokenizer into a second graph" in printed.err
    assert "MB, the encoder again: an app ships it alone" in printed.out
    assert "the tokenizer's ids for 100.00% of the queries, 100.00% of English" in printed.out
    assert "encoder_with_tokenizer.onnx" in Bundle.open(tmp_path / "bundle").manifest.files


@pytest.mark.slow
def test_export_with_a_training_step(
    student_folder: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--student", str(student_folder), "--output", str(tmp_path / "bundle")]
    arguments += ["--queries", str(files / "queries.tsv"), "--training-step", "byol"]
    assert main([*arguments, "--training-views", "4"]) == 0
    printed = capsys.readouterr()
    assert "tracing the training step" in printed.err
    assert "of torch after 20 steps" in printed.out
    opened = Bundle.open(tmp_path / "bundle")
    assert {"train_step.onnx", "train_state.safetensors"} <= set(opened.manifest.files)
    assert opened.manifest.quality["training_step"]["state_error"] < 1e-5
    sdk.verify(opened.path)


def test_another_space_is_refused_before_encoding(
    student_folder: Path,
    headed_student: SentenceEncoder,
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    headed_student.save(tmp_path / "other")
    arguments = ["export", "--student", str(student_folder), "--teacher", str(tmp_path / "other")]
    arguments += ["--output", str(tmp_path / "b"), "--queries", str(files / "queries.tsv")]
    assert main([*arguments, "--corpus", str(files / "corpus.jsonl")]) == 2
    message = capsys.readouterr().err
    assert headed_student.space_id in message
    assert SentenceEncoder.load(student_folder).space_id in message
    assert not (tmp_path / "b").exists()


def test_a_teacher_known_by_its_folder_alone_is_asked_for(
    student: SentenceEncoder, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"space_id": student.space_id, "teacher": "my-teacher"}
    bert_teacher(layers=2, space=space).save(tmp_path / "student")
    arguments = ["export", "--student", str(tmp_path / "student"), "--output", str(tmp_path / "b")]
    arguments += ["--queries", str(files / "queries.tsv"), "--corpus", str(files / "corpus.jsonl")]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert 'distilled from "my-teacher"' in error
    assert "give its place with --teacher" in error


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--qrels", "qrels.tsv"], "--qrels is given without --corpus"),
        (["--training-step", "index_byol", "--training-views", "4"], "views is 4; index_byol"),
        (["--adapter-rank", "0", "--training-step"], "would train the adapter, and adapter_rank"),
        (["--corpus", "corpus.jsonl"], "does not name its teacher"),
        (["--corpus", "corpus.jsonl", "--qrels", "other.tsv"], "other.tsv judges none of the"),
    ],
)
def test_bad_arguments_are_one_line(
    extra: list[str],
    message: str,
    student_folder: Path,
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    extra = [str(files / word) if (files / word).is_file() else word for word in extra]
    arguments = ["export", "--student", str(student_folder), "--output", str(tmp_path / "b")]
    assert main([*arguments, "--queries", str(files / "queries.tsv"), *extra]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("pocketquery: error: ")
    assert message in error


@pytest.mark.parametrize("command", ["export", "index"])
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"pocketquery {command} --" in capsys.readouterr().out


def test_a_folder_of_texts_is_indexed_by_the_bundle_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, output = tmp_path / "notes", tmp_path / "index"
    notes.mkdir()
    (notes / "a.txt").write_text("the sea is deep and cold", encoding="utf-8")
    (notes / "b.md").write_text("# Plants\nplants make sugar from light", encoding="utf-8")
    (notes / "c.pdf").write_bytes(b"%PDF")
    bundle = write_tiny_bundle(tmp_path / "bundle")
    arguments = ["index", "--documents", str(notes), "--output", str(output), "--symmetric"]
    assert main([*arguments, "--bundle", str(bundle)]) == 0
    shown = capsys.readouterr()
    assert "2 documents" in shown.out
    assert "encoded    by the light encoder" in shown.out
    assert "skipped 1 file" in shown.err
    encoder = sdk.load(bundle)
    with sdk.open_index(output, encoder=encoder, writable=True) as index:
        assert index.search("plants make sugar from light", mode="dense")[0].id == "b.md#plants"
        index.add([sdk.Document("new", "how do plants make light")])
        assert index.search("how do plants make light", mode="dense")[0].id == "new"


def test_a_build_is_not_resumed_with_another_encoder(tmp_path: Path) -> None:
    documents = [sdk.Document("a", "one")]
    for encoder, kept in (("light 1", 0), ("light 1", 1), ("", 0), ("", 1)):
        builder = sdk.create_index(
            tmp_path / "index", space_id="s", dimension=4, resume=True, encoded_by=encoder
        )
        assert len(builder) == kept
        if not kept:
            builder.add(documents, np.ones((1, 4), np.float32))
        builder.abandon()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--documents", "absent", "--symmetric"], "absent: found nothing there"),
        (["--documents", "", "--symmetric"], "the folder of texts is an empty path"),
        (["--corpus", "", "--symmetric"], "the corpus is an empty path"),
        (["--documents", ".", "--symmetric", "--teacher", "x"], "expected one of them"),
        (
            ["--documents", ".", "--symmetric", "--device", "cuda"],
            "the bundle runs on the processor",
        ),
        (["--encoded", "absent"], "--bundle is given with --encoded"),
        (["--documents", "EMPTY", "--symmetric"], "empty: found no file with text; expected files"),
        (["--documents", "ROWS", "--symmetric"], "JSON Lines and Parquet are for --corpus"),
        (["--corpus", "EMPTY", "--symmetric"], "is for: pocketquery index --documents"),
    ],
)
def test_what_cannot_be_indexed_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.jsonl").write_text('{"_id": "a", "text": "one"}')
    places = {"EMPTY": str(tmp_path / "empty"), "ROWS": str(tmp_path / "rows.jsonl")}
    arguments = [places.get(argument, argument) for argument in arguments]
    bundle = write_tiny_bundle(tmp_path / "bundle")
    command = ["index", *arguments, "--bundle", str(bundle), "--output", str(tmp_path / "index")]
    assert main(command) == 2
    assert message in capsys.readouterr().err
