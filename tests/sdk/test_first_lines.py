"""What a newcomer writes in the first hour: documents of any kind, copies, reprs, wrong turns."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from tests.sdk.multilingual_model import train_model
from tests.sdk.small_index import DIMENSION, WordEncoder, make_index, new_index
from tests.sdk.tiny_bundle import SPACE_ID, trained_adapter, write_tiny_bundle


@pytest.fixture(scope="module")
def encoder(tiny_bundle: Path) -> Encoder:
    return sdk.load(tiny_bundle)


def test_documents_of_every_kind(encoder: Encoder, tmp_path: Path) -> None:
    with sdk.create_index(tmp_path / "index", encoder=encoder) as builder:
        builder.add(["plants make sugar"])
        builder.add(
            [
                "the sea",
                ("tea", "green tea"),
                {"id": "oslo", "text": "at seven", "title": "Trains", "year": 2024},
                {"_id": "x", "text": "salt", "metadata": {"kind": "note"}},
                sdk.Document("doc", "water"),
            ]
        )
    with sdk.open_index(tmp_path / "index", encoder=encoder, writable=True) as index:
        assert [(one.id, one.text, dict(one.metadata)) for one in index.documents()] == [
            ("0", "plants make sugar", {}),
            ("1", "the sea", {}),
            ("tea", "green tea", {}),
            ("oslo", "at seven", {"title": "Trains", "year": 2024}),
            ("x", "salt", {"kind": "note"}),
            ("doc", "water", {}),
        ]
        index.add(np.array(["an array's text"]))
        assert index.search("the sea", k=1)[0].id == "1"
        assert repr(index) == (
            f"Index({str(tmp_path / 'index')!r}, 7 documents, 16 dimensions, "
            f"space_id={SPACE_ID!r}, encoder={encoder!r})"
        )
    assert "closed" in repr(index)


@pytest.mark.parametrize("language", [None, "none"])
def test_documents_added_later_give_an_empty_index_its_language(
    encoder: Encoder, tmp_path: Path, language: str | None
) -> None:
    path = tmp_path / "index"
    sdk.create_index(path, encoder=encoder, language=language).close()
    with sdk.open_index(path, encoder=encoder, writable=True) as index:
        assert index.search("Haus", mode="lexical") == []
        index.add(["Die alten Häuser stehen an der Straße und sind nicht mehr bewohnt."])
        found = [hit.id for hit in index.search("+Häusern", mode="lexical")]
        assert found == (["0"] if language is None else [])
        index.verify()
    assert json.loads((path / "index.json").read_text())["language"] == (language or "german")


def test_the_default_encoder_makes_the_vectors(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(tiny_bundle))
    with sdk.create_index(tmp_path / "index") as builder:
        builder.add(["the sea"])
    with sdk.open_index(tmp_path / "index", encoder=sdk.load()) as index:
        vector = sdk.load().encode_document("the sea")
        assert index.search(vector)[0].score == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ("one text", r"documents is one text, expected a list: add\(\[text\]\)"),
        (sdk.Document("a", "b"), r"is one document, expected a list"),
        ({"a": "text"}, r"documents is a mapping.*add\(documents.items\(\)\)"),
        (7, "documents is a int, expected a list"),
        ([7], r"documents\[0\] is a int, expected a text, \(id, text\)"),
        ([("a", "b", {}, 1)], r"documents\[0\] is a tuple, expected.* \(id, text, metadata\)"),
        ([b"text"], r"documents\[0\] is a bytes"),
        ([("a", 1)], r"text of documents\[0\] \('a'\) is a int"),
        ([(1, "a")], r"the id of documents\[0\] is a int"),
        ([{"body": "x"}], r"documents\[0\] has no text, but body"),
        ([("a", "x"), ("a", "y")], r"has the id 'a' of one before it"),
    ],
)
def test_what_is_no_list_of_documents_says_so(
    encoder: Encoder, tmp_path: Path, documents: Any, message: str
) -> None:
    with (
        sdk.create_index(tmp_path / "index", encoder=encoder) as builder,
        pytest.raises(sdk.InvalidInputError, match=message),
    ):
        builder.add(documents)


def test_an_encoder_that_is_none_says_how_to_get_one(tmp_path: Path) -> None:
    wrong: Any
    for wrong, message in ((sdk.load, r"sdk.load\(\), called"), ("x", r"sdk.load\('x'\)")):
        with pytest.raises(sdk.InvalidInputError, match=message):
            sdk.create_index(tmp_path / "index", encoder=wrong)
    with pytest.raises(sdk.SpaceMismatchError):
        sdk.create_index(tmp_path / "index", encoder=WordEncoder(), space_id="x", dimension=3)
    with pytest.raises(sdk.InvalidInputError, match="space_id and dimension go together"):
        sdk.create_index(tmp_path / "index", dimension=3)
    with (
        new_index(tmp_path / "index") as builder,
        pytest.raises(sdk.InvalidInputError, match=r"encoder=sdk\.load"),
    ):
        builder.add(["no vectors, no encoder"])


def test_a_wrong_path_names_the_right_one(tmp_path: Path) -> None:
    make_index(tmp_path / "recipes", 3)
    with pytest.raises(sdk.ArtifactNotFoundError, match=r"did you mean .*recipes\?"):
        sdk.open_index(tmp_path / "recipe")
    with pytest.raises(sdk.ArtifactNotFoundError, match="pocketquery index FOLDER --output"):
        sdk.open_index(tmp_path / "something else")
    with (
        new_index(tmp_path / "open"),
        pytest.raises(sdk.ArtifactNotFoundError, match="close its builder"),
    ):
        sdk.open_index(tmp_path / "open")


def test_hits_show_themselves(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> " + "word " * 200
    with new_index(tmp_path / "index") as builder:
        builder.add([sdk.Document("a&b", hostile, {"title": "<b>"})], np.ones((1, DIMENSION)))
    with sdk.open_index(tmp_path / "index") as index:
        hits = index.search("word", mode="lexical")
    assert isinstance(hits, list)
    assert len(repr(hits)) < 250
    assert repr(hits[0]).startswith("Hit(id='a&b', score=")
    table = hits._repr_html_()
    assert table.count("<tr>") == 2
    assert "a&amp;b" in table
    assert "&lt;b&gt;" in table
    assert "<script>" not in table
    assert len(table) < 700


def test_a_sentencepiece_tokenizer_is_pickled() -> None:
    tokenizer = SentencePieceTokenizer(train_model(), 16)
    twin = pickle.loads(pickle.dumps(tokenizer))
    assert twin.encode("the sea, Zürich") == tokenizer.encode("the sea, Zürich")


def test_an_encoder_is_copied_and_pickled_whole(tmp_path: Path) -> None:
    bundle = write_tiny_bundle(tmp_path / "bundle", adapter=trained_adapter())
    encoder = sdk.load(bundle)
    encoder.swap_adapter({name: 2 * value for name, value in trained_adapter().items()})
    encoder.encode("some words to remember, Zürich")
    shutil.rmtree(bundle)
    expected = encoder.encode(["Zürich", "the sea"])
    for twin in (copy.copy(encoder), copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(twin.encode(["Zürich", "the sea"]), expected)
        assert repr(twin) == repr(encoder)
        twin.swap_adapter(None)  # its own: the first one keeps its adapter
    np.testing.assert_array_equal(encoder.encode(["Zürich", "the sea"]), expected)
    (tmp_path / "pickle").write_bytes(pickle.dumps(encoder))
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).encode('the sea')[0])"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "pickle"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(float(expected[1, 0]), abs=1e-6)


def test_the_logger_has_no_handler_and_tells_no_text(
    tiny_bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    encoder = sdk.load(tiny_bundle)
    with sdk.create_index(tmp_path / "index", encoder=encoder) as builder:
        builder.add(["a secret text"])
    with sdk.open_index(tmp_path / "index", encoder=encoder) as index:
        index.search("a secret query")
    lines = [record.getMessage() for record in caplog.records if record.name == "pocketquery"]
    assert len(lines) == 3
    assert "loaded the encoder tiny 1" in lines[0]
    assert not any("secret" in line for line in lines)
    handlers = logging.getLogger("pocketquery").handlers
    assert [type(one) for one in handlers] == [logging.NullHandler]
