from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    InvalidInputError,
    SignatureError,
    SpaceMismatchError,
    UnknownModelError,
)
from pocketquery.server.evaluation import METRICS
from pocketquery.server.evaluation.command import evaluate
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.cpdae import Cpdae
from tests.commands import run_command
from tests.sdk.tiny_bundle import write_tiny_bundle


def run(*arguments: object) -> int:
    return run_command(evaluate, "evaluate", *arguments)


def test_json_is_one_object_with_the_five_rows(
    bundle_folder: Path,
    teacher_folder: Path,
    dataset: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--bundle", bundle_folder, "--teacher", teacher_folder, "--json")
    assert run(*options, "--dataset", dataset) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert list(result) == ["teacher", "bundle", "bm25", "hybrid", "retention"]
    assert all(tuple(row) == METRICS for row in result.values())
    assert "3 queries over 120 documents; 1 queries without" in printed.err
    assert "1 judgements of unknown ids ignored" in printed.err

    for name in ("corpus.jsonl", "qrels/test.tsv"):
        (dataset / f"{name}.gz").write_bytes(gzip.compress((dataset / name).read_bytes()))
    files = ("--corpus", dataset / "corpus.jsonl.gz", "--queries", dataset / "queries.jsonl")
    assert run(*options, *files, "--qrels", dataset / "qrels/test.tsv.gz") == 0
    assert json.loads(capsys.readouterr().out) == result


def test_the_words_of_a_cpdae_encoder_are_shown(
    teacher_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = SentenceEncoder.load(teacher_folder)
    encoder.save(tmp_path / "encoder")
    Cpdae(encoder).save_beside(tmp_path / "encoder", encoder)
    options = ("--teacher", tmp_path / "encoder", "--words", "oxygen", "--words", "who ?")
    assert run(*options, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == ["oxygen", "who ?"]
    assert [len(words) for words in shown.values()] == [10, 10]
    assert run(*options) == 0
    lines = capsys.readouterr().out.splitlines()
    best, share = next(iter(shown["oxygen"].items()))
    assert lines[0] == "oxygen"
    assert lines[1].split()[:2] == [best, f"{share:.3f}"]
    with pytest.raises(ArtifactNotFoundError, match="cpdae"):
        run("--teacher", teacher_folder, "--words", "oxygen")
    with pytest.raises(InvalidInputError, match="--teacher alone"):
        run("--bundle", tmp_path, "--words", "oxygen")
    with pytest.raises(InvalidInputError, match="--teacher alone"):
        run("--teacher", tmp_path, "--dataset", tmp_path, "--words", "oxygen")


def test_the_table_is_readable(
    bundle_folder: Path,
    teacher_folder: Path,
    dataset: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--bundle", bundle_folder, "--teacher", teacher_folder, "--dataset", dataset)
    assert run(*options, "--typos", 0.3, "--seed", 2, "--cache", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == list(METRICS)
    assert [line.split()[0] for line in lines[1:]] == [
        "teacher",
        "bundle",
        "bm25",
        "hybrid",
        "retention",
    ]
    assert list(tmp_path.iterdir())


def test_an_encoder_is_measured_alone(
    bundle_folder: Path, teacher_folder: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--teacher", teacher_folder, "--dataset", dataset)
    assert run(*options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["teacher", "bm25", "hybrid"]
    assert run(*options, "--json") == 0
    alone = json.loads(capsys.readouterr().out)
    assert list(alone) == ["teacher", "bm25", "hybrid"]
    assert run(*options, "--json", "--bundle", bundle_folder) == 0
    beside = json.loads(capsys.readouterr().out)
    assert {name: beside[name] for name in ("teacher", "bm25")} == {
        name: alone[name] for name in ("teacher", "bm25")
    }
    assert alone["hybrid"]["recall@100"] > 0.5  # the index's, not the teacher's row again
    with pytest.raises(InvalidInputError, match="expected --bundle, --teacher or both"):
        run("--dataset", dataset)


@pytest.mark.parametrize("options", [(), ("--corpus", "c"), ("--dataset", "d", "--qrels", "q")])
def test_unclear_data_is_refused(bundle_folder: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError, match="either --dataset FOLDER, or all of"):
        run("--bundle", bundle_folder, *options)


def test_a_split_is_of_a_dataset(bundle_folder: Path) -> None:
    files = ("--corpus", "c", "--queries", "q", "--qrels", "r", "--split", "train")
    with pytest.raises(InvalidInputError, match="--split is given without --dataset"):
        run("--bundle", bundle_folder, *files)


def test_a_seed_that_is_none_is_a_usage_error(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run("--teacher", "demo", "--dataset", dataset, "--seed", "-1")
    assert 'argument --seed: found "-1", expected a whole number from 0' in capsys.readouterr().err


def test_with_a_key_an_unsigned_bundle_is_refused(
    bundle_folder: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--bundle", bundle_folder, "--dataset", dataset)
    with pytest.raises(SignatureError, match="found no signature"):
        run(*options, "--public-key", "0" * 64)
    monkeypatch.setenv("POCKETQUERY_PUBLIC_KEY", "0" * 64)
    with pytest.raises(SignatureError, match="found no signature"):
        run(*options)


def test_an_unknown_teacher_and_one_of_another_space_are_refused(
    bundle_folder: Path, teacher_folder: Path, dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(UnknownModelError):
        run("--bundle", bundle_folder, "--dataset", dataset, "--teacher", tmp_path / "absent")
    stranger = write_tiny_bundle(tmp_path / "stranger")
    with pytest.raises(SpaceMismatchError):
        run("--bundle", stranger, "--dataset", dataset, "--teacher", teacher_folder)


def test_offering_the_command_loads_nothing_heavy() -> None:
    code = (
        "import sys, pocketquery.server.evaluation.command;"
        "print([m for m in ('torch', 'transformers', 'ir_measures') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
