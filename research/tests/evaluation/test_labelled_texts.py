"""Texts with a class each: the file, its errors, and names as words."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.errors import CorpusError
from pocketquery_research.evaluation.labelled_texts import (
    LabelledTexts,
    label_text,
    read_labelled_texts,
)

ROWS = 'domain\tintent\ttext\ntravel\tbook\ta "flight"\nhome\tlamp\tlights on\nx\toos\twhat\n'


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["rows.tsv", "rows.tsv.gz"])
def test_two_columns_of_a_file(tmp_path: Path, name: str) -> None:
    found = read_labelled_texts(write(tmp_path / name, ROWS), label="intent", left_out=("oos",))
    assert found.texts == ('a "flight"', "lights on")
    assert found.names == ("book", "lamp")
    assert found.classes.tolist() == [0, 1]
    assert found.classes.dtype == np.int64
    domains = read_labelled_texts(tmp_path / name, label="domain")
    assert domains.names == ("home", "travel", "x")
    assert domains.classes.tolist() == [1, 0, 2]


def test_a_test_set_is_numbered_as_its_training_set(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.tsv", ROWS)
    names = ("book", "call", "lamp", "oos")
    found = read_labelled_texts(path, label="intent", names=names)
    assert found.classes.tolist() == [0, 2, 3]
    with pytest.raises(CorpusError, match='"lamp" is not among the 2 known classes'):
        read_labelled_texts(path, label="intent", names=("book", "oos"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns of an empty file; expected a header row"),
        ("a\tb\n1\t2\n", 'columns a, b; expected a header row with "intent" and "text"'),
        ("intent\ttext\nonly\n", "line 2: 1 cells; expected 2"),
        ("intent\ttext\n", "holds no labelled text"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_labelled_texts(write(tmp_path / "rows.tsv", text), label="intent")


def test_every_text_has_a_label() -> None:
    with pytest.raises(CorpusError, match="2 texts and 1 labels"):
        LabelledTexts.of(["a", "b"], ["x"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("transfer_money", "transfer money"),
        ("PlayMusic", "play music"),
        ("weather/find", "weather find"),
        ("USA-trip", "usa trip"),
        ("plain words", "plain words"),
    ],
)
def test_a_classes_name_as_words(name: str, words: str) -> None:
    assert label_text(name) == words
