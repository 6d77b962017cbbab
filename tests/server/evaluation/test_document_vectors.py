from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.index.documents import Document
from pocketquery.server.evaluation import encode_documents
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher

DOCUMENTS = [Document("a", "the sea", {"title": "sugar"}), Document("b", "light", {})]


def test_title_and_text_are_encoded(teacher: SentenceEncoder) -> None:
    expected = teacher.encode_document(["sugar the sea", "light"])
    np.testing.assert_array_equal(encode_documents(teacher, DOCUMENTS), expected)


def test_a_second_run_reads_the_cache(teacher: SentenceEncoder, tmp_path: Path) -> None:
    first = encode_documents(teacher, DOCUMENTS, cache=tmp_path / "new")
    (kept,) = (tmp_path / "new").iterdir()
    np.save(kept, first * 2)  # marks what comes from the file
    second = encode_documents(teacher, DOCUMENTS, cache=tmp_path / "new")
    np.testing.assert_array_equal(second, first * 2)


def test_another_corpus_is_another_entry(teacher: SentenceEncoder, tmp_path: Path) -> None:
    encode_documents(teacher, DOCUMENTS, cache=tmp_path)
    encode_documents(teacher, DOCUMENTS[::-1], cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_another_length_is_another_entry(tmp_path: Path) -> None:
    model = bert_teacher()
    long = [Document("a", "castle rock sugar plant king river", {})]
    whole = encode_documents(model, long, cache=tmp_path)
    model.max_length = 4
    cut = encode_documents(model, long, cache=tmp_path)
    assert not np.allclose(whole, cut)


def test_another_encoder_of_the_same_space_is_another_entry(tmp_path: Path) -> None:
    for seed in (0, 1):
        student = bert_teacher(seed=seed, space={"space_id": "space-of-their-teacher"})
        found = encode_documents(student, DOCUMENTS, cache=tmp_path)
        np.testing.assert_array_equal(found, encode_documents(student, DOCUMENTS))


@pytest.mark.parametrize("damage", [b"", b"no array", "truncated", "shape", "nan"])
def test_a_damaged_entry_is_written_anew(
    teacher: SentenceEncoder, tmp_path: Path, damage: bytes | str
) -> None:
    first = encode_documents(teacher, DOCUMENTS, cache=tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    if isinstance(damage, bytes):
        kept.write_bytes(damage)
    elif damage == "truncated":
        kept.write_bytes(whole[:-8])
    else:
        np.save(kept, first[:1] if damage == "shape" else first * np.float32("nan"))
    np.testing.assert_array_equal(encode_documents(teacher, DOCUMENTS, cache=tmp_path), first)
    assert kept.read_bytes() == whole
