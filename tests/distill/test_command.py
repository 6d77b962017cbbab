from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.sdk.cli import main
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    bert_teacher().save(folder / "teacher")
    lines = [json.dumps({"_id": str(i), "text": text}) for i, text in enumerate(sentences(20))]
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "queries.tsv").write_text("q1\twhat is a castle\n", encoding="utf-8")
    (folder / "log.txt.gz").write_bytes(gzip.compress(b"king of the rock\n\nplant sugar\n"))
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    (folder / "empty.txt").write_bytes(b"\n")
    return folder


def distil(files: Path, output: Path, *more: str) -> int:
    arguments = ["distill", "--teacher", str(files / "teacher"), "--output", str(output)]
    return main([*arguments, "--student", "1x32", "--steps", "2", "--batch-size", "8", *more])


def test_every_source_of_texts_is_learnt_from(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = ["--corpus", "corpus.jsonl", "--queries", "queries.tsv", "--texts", "log.txt.gz"]
    sources = [word if word.startswith("--") else str(files / word) for word in sources]
    assert distil(files, tmp_path / "student", *sources, "--typos", "0.5", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    student = SentenceEncoder.load(tmp_path / "student")
    assert report["texts"] == 20 + 1 + 2
    assert report["documents"] == 20
    assert report["space_id"] == student.space_id
    assert student.max_length == 48  # the teacher's: it is below 128


def test_a_student_learns_on_and_stops_halfway(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["--texts", str(files / "log.txt.gz")]
    assert distil(files, tmp_path / "first", *texts) == 0
    on = ["distill", "--teacher", str(files / "teacher"), "--start", str(tmp_path / "first"),
          "--steps", "3", "--batch-size", "2", *texts]  # fmt: skip
    assert main([*on, "--interpolation", "0.5", "--output", str(tmp_path / "half")]) == 0
    known = SentenceEncoder.load(tmp_path / "half").space["distillation"]
    assert (known["student"], known["interpolation"]) == ("1x32", 0.5)
    capsys.readouterr()
    for more in (["--student", "1x32"], ["--student", "3x384"], ["--max-length", "128"]):
        assert main([*on, *more, "--output", str(tmp_path / "other")]) == 2
        assert "student and start are both given" in capsys.readouterr().err
    plain = ["distill", "--teacher", str(files / "teacher"), *texts, "--interpolation", "0.5"]
    assert main([*plain, "--output", str(tmp_path / "other")]) == 2
    assert "interpolation is 0.5 without start" in capsys.readouterr().err


def test_the_student_of_a_bundle_learns_on(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["--texts", str(files / "log.txt.gz")]
    assert distil(files, tmp_path / "first", *texts, "--vocabulary", "150") == 0
    export_bundle(
        SentenceEncoder.load(tmp_path / "first"), tmp_path / "bundle",
        calibration_texts=sentences(40), name="tiny", license="Apache-2.0",
    )  # fmt: skip
    on = ["distill", "--teacher", str(files / "teacher"), "--start", str(tmp_path / "bundle"),
          "--steps", "3", "--batch-size", "2", *texts]  # fmt: skip
    assert main([*on, "--output", str(tmp_path / "on")]) == 0
    first, second = (SentenceEncoder.load(tmp_path / name) for name in ("first", "on"))
    assert second.space["distillation"]["student"] == "1x32"
    assert second.tokenizer.get_vocab() == first.tokenizer.get_vocab()
    capsys.readouterr()
    assert main([*on[:3], "--start", "nothing", *texts, "--output", str(tmp_path / "no")]) == 2
    assert "; installed bundles: default" in capsys.readouterr().err


def test_a_student_learns_on_wider(files: Path, tmp_path: Path) -> None:
    texts = ["--texts", str(files / "log.txt.gz")]
    assert distil(files, tmp_path / "first", *texts, "--student", "1x32x64") == 0
    on = ["distill", "--teacher", str(files / "teacher"), "--start", str(tmp_path / "first"),
          "--steps", "3", "--batch-size", "2", *texts]  # fmt: skip
    assert main([*on, "--feed-forward", "96", "--output", str(tmp_path / "wide")]) == 0
    wide = SentenceEncoder.load(tmp_path / "wide")
    assert wide.space["distillation"]["student"] == "1x32x96"
    assert wide.backbone.config.intermediate_size == 96


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "nothing to learn from"),
        (["--texts", "empty.txt"], "found no text in"),
        (["--texts", "log.txt.gz", "--feed-forward", "64"], "feed_forward is 64 without start"),
        (["--texts", "missing.txt"], "missing.txt: there is no such file"),
        (["--texts", "latin.txt"], "latin.txt, line 1: bytes that are not UTF-8"),
        (["--texts", "log.txt.gz", "--student", "2x96"], "is 96 wide and its teacher 64"),
        (["--texts", "log.txt.gz", "--layers", "0,9"], "the teacher has layers 0 to"),
        (["--texts", "log.txt.gz", "--vocabulary", "9"], "target_size is 9"),
        (["--texts", "log.txt.gz", "--device", "cuda:99"], 'the device "cuda:99"'),
    ],
)
def test_bad_arguments_are_one_line(
    more: list[str], message: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [str(files / word) if word.endswith((".txt", ".gz")) else word for word in more]
    assert distil(files, tmp_path / "student", *more) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("pocketquery: error: ")
    assert message in error
    assert "\n" not in error
    assert not (tmp_path / "student").exists()


def test_a_student_may_go_into_the_folder_one_stands_in(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "student").mkdir()
    monkeypatch.chdir(tmp_path / "student")
    assert distil(files, Path(), "--texts", str(files / "log.txt.gz")) == 0
    assert SentenceEncoder.load(tmp_path / "student").max_length == 48
    assert not (tmp_path / "student.work").exists()


@pytest.mark.parametrize("output", ["../thesis", "."])
def test_a_folder_of_something_else_is_left_alone(
    output: str,
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    monkeypatch.chdir(tmp_path / "thesis")
    assert distil(files, Path(output), "--texts", str(files / "log.txt.gz")) == 2
    assert "it is left alone" in capsys.readouterr().err
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
