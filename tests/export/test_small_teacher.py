from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.export.small_teacher import small_teacher
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences, xlmr_teacher

TEXTS = sentences(60)


@pytest.fixture(scope="module")
def teacher() -> SentenceEncoder:
    return bert_teacher(layers=2, width=64, prompts={"query": "query "})


def test_the_teacher_stays_as_it_was_and_the_small_one_in_its_space(
    teacher: SentenceEncoder,
) -> None:
    content, expected = teacher.content_id, teacher.encode_query(TEXTS)
    small = small_teacher(teacher, TEXTS, vocabulary_size=120, subvector=4, max_length=16)
    assert teacher.content_id == content
    assert small.space_id == teacher.space_id
    assert small.max_length == 16
    assert len(small.tokenizer) <= 120 < len(teacher.tokenizer)
    cosines = np.einsum("nd,nd->n", small.encode_query(TEXTS), expected)
    assert cosines.mean() > 0.95


def test_all_pieces_and_bytes_give_the_teachers_own_vectors(teacher: SentenceEncoder) -> None:
    small = small_teacher(teacher, TEXTS)
    np.testing.assert_array_equal(small.encode_query(TEXTS), teacher.encode_query(TEXTS))


def test_dimensions_that_no_byte_holds_are_refused(teacher: SentenceEncoder) -> None:
    with pytest.raises(InvalidInputError, match=r"subvector is 7, expected a divisor of .* 64"):
        small_teacher(teacher, TEXTS, subvector=7)


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece"])
def test_a_teachers_folder_becomes_a_bundle_that_ranks_as_it_does(
    kind: str, teacher: SentenceEncoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "sentencepiece":
        teacher = xlmr_teacher(tmp_path / "model", texts=TEXTS)
    teacher.save(tmp_path / "teacher")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    lines = [json.dumps({"_id": f"d{i}", "text": text}) for i, text in enumerate(TEXTS)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    queries = "\n".join(f"q{i}\t{text}" for i, text in enumerate(TEXTS[:30]))
    (tmp_path / "queries.tsv").write_text(queries, "utf-8")
    given = ["export", "--teacher", str(tmp_path / "teacher"), "--subvector", "2", "--four-bit"]
    given += ["--queries", str(tmp_path / "queries.tsv"), "--texts", str(tmp_path / "texts.txt")]
    given += ["--corpus", str(tmp_path / "corpus.jsonl"), "--output", str(tmp_path / "bundle")]
    assert main([*given, "--least-overlap", "0.5", "--least-cosine", "0.8", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["space_id"] == teacher.space_id
    assert summary["quality"]["gate"]["queries"] == 30
    encoder = sdk.load(tmp_path / "bundle")
    assert encoder.manifest.name == "teacher"
    cosines = np.einsum("nd,nd->n", encoder.encode(TEXTS), teacher.encode_query(TEXTS))
    assert cosines.mean() > 0.9
    graph = Bundle.open(tmp_path / "bundle").read("encoder.onnx")
    assert b"weights.0.codes" in graph
    assert b"word.codes" in graph

    # The gate holds to the teacher, not to the float graph of what is left of it.
    given[given.index("--output") + 1] = str(tmp_path / "refused")
    assert main([*given, "--least-overlap", "1", "--least-cosine", "0.8"]) == 2
    assert "the ranking gate fails with all 0 MatMuls" in capsys.readouterr().err
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((), "nothing to export; give --student, --teacher alone, or --bundle"),
        (
            ("--bundle", "default", "--with-tokenizer", "--zip"),
            "--bundle goes with --with",
        ),
        (("--student", "s", "--vocabulary", "9"), "make a teacher small; leave them out beside"),
    ],
)
def test_what_has_nothing_to_be_made_of_is_said(
    given: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--queries", "q.tsv", "--output", "b", *given]) == 2
    assert error in capsys.readouterr().err
