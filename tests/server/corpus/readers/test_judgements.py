from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus import read_judgements, read_pairs

EXPECTED = {"1": {"d 1": 1, "d2": 0}, "2": {"d2": 4}}


@pytest.mark.parametrize(
    "written",
    [
        "1\td 1\t1\n1\td2\t0\n2\td2\t4\n",
        "query-id\tcorpus-id\tscore\n1\td 1\t1\r\n1\td2\t0\n2 d2 4",
        "1\t0\td 1\t1\n1 Q0 d2 0\n2 Q0 d2 4\n2 Q0 d2 4\n",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_layout(tmp_path: Path, written: str, packed: bool) -> None:
    data = written.encode()
    path = tmp_path / "qrels"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert read_judgements(path) == EXPECTED


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("1\td", "2 fields"),
        ("1\td\t1\t2\t3", "5 fields"),
        ("1\td\tyes", "grade 'yes'"),
        ("1\td\t0.5", "grade '0.5'"),
        ("1\td\t" + "9" * 5000, "grade '99999"),
        ("1\t\t1", "the document id is empty"),
        ("1\ta\t3", "grade 3 for '1', 'a', which had 1 before"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, found: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(f"1\ta\t1\n{line}\n", encoding="utf-8")
    with pytest.raises(CorpusError) as caught:
        read_judgements(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert found in str(caught.value)


def test_pairs(tmp_path: Path) -> None:
    path = tmp_path / "unclear.tsv"
    path.write_text("1\t486\n2\t485\n", encoding="utf-8")
    assert read_pairs(path) == {("1", "486"), ("2", "485")}
    path.write_text("1\t486\t1\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="line 1: 3 fields"):
        read_pairs(path)


@given(st.binary(max_size=100) | st.text("a1\t\n -", max_size=60).map(str.encode))
def test_arbitrary_bytes_give_judgements_or_a_corpus_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.tsv"
    path.write_bytes(data)
    for read in (read_judgements, read_pairs):
        message = ""
        try:
            read(path)
        except CorpusError as error:
            message = str(error)
        assert not message or f"{path}, line " in message
