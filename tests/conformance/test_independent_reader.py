"""docs/formats suffices to write a reader: one that was written from it alone agrees."""

from __future__ import annotations

import ast
import base64
import gzip
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.sdk import words
from tests.conformance import independent
from tests.conformance.independent import artefacts, filters
from tests.conformance.independent.artefacts import Refused
from tests.conformance.independent.characters import TABLES, table
from tests.conformance.independent.index import Index, mean_of, quantized
from tests.conformance.independent.wordpiece import WordPiece
from tests.conformance.tables import tables

CONFORMANCE = Path(__file__).parents[2] / "conformance"
ENCODER, INDEX = CONFORMANCE / "encoder", CONFORMANCE / "index"
EXPECTED = json.loads((ENCODER / "expected.json").read_text(encoding="utf-8"))
KEY, OTHER_KEY = bytes.fromhex(EXPECTED["key"]), bytes.fromhex(EXPECTED["other_key"])
ANSWERS = filters.parsed(gzip.decompress((INDEX / "expected.json.gz").read_bytes()).decode())


def test_it_imports_nothing_of_ours() -> None:
    allowed = {"numpy", "snowballstemmer", "tests", *sys.stdlib_module_names}
    for path in Path(independent.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed
            elif isinstance(node, ast.ImportFrom):
                module = str(node.module)
                assert module.split(".")[0] in allowed, path
                assert not module.startswith("tests") or module.startswith(independent.__name__)


@pytest.mark.slow  # every character, several times
def test_the_tables_are_the_codes() -> None:
    if table("wordpiece.json")["unicode"] != unicodedata.unidata_version:
        pytest.skip("written with another version of Unicode")
    for name, text in tables().items():
        assert (TABLES / name).read_text(encoding="utf-8") == text, (
            "run: python -m tests.conformance.tables"
        )


@pytest.mark.parametrize("place", ["tiny", "tiny.zip"])
def test_a_bundle(place: str) -> None:
    files = artefacts.files_at(ENCODER / place)
    manifest = artefacts.open_bundle(files, KEY)
    assert manifest["signature_key_id"] == EXPECTED["key_id"] == artefacts.key_id(KEY)
    with pytest.raises(Refused, match="signature"):
        artefacts.open_bundle(files, OTHER_KEY)
    with pytest.raises(Refused, match="signature"):  # before it is parsed
        artefacts.open_bundle({**files, "manifest.json": b"x"}, KEY)
    changed = files["golden.json"].replace(b"0", b"1", 1)
    with pytest.raises(Refused, match=r"hash of golden\.json"):
        artefacts.open_bundle({**files, "golden.json": changed})
    tokenizer = WordPiece(files[manifest["tokenizer"]["file"]], manifest["max_length"])
    assert [tokenizer.encode(text) for text in EXPECTED["texts"]] == EXPECTED["tiny"]["ids"]
    golden = json.loads(files["golden.json"])["texts"]
    assert [tokenizer.encode(one["text"]) for one in golden] == [one["ids"] for one in golden]


def test_releases() -> None:
    files = artefacts.files_at(ENCODER / "tiny")
    manifest = artefacts.open_bundle(files)
    data = (ENCODER / "release.safetensors").read_bytes()
    tensors, metadata = artefacts.read_release(data, manifest, KEY)
    own, _ = artefacts.safetensors(files["adapter.safetensors"])
    assert metadata["encoder_version"] == "2"
    assert {name: one.shape for name, one in tensors.items()} == {
        name: one.shape for name, one in own.items()
    }
    unsigned = (ENCODER / "unsigned.safetensors").read_bytes()
    artefacts.read_release(unsigned, manifest)
    for wrong, key, reason in (
        (data, OTHER_KEY, "signature"),
        (unsigned, KEY, "not signed"),
        ((ENCODER / "elsewhere.safetensors").read_bytes(), None, "space"),
        ((ENCODER / "another.safetensors").read_bytes(), None, "encoder"),
    ):
        with pytest.raises(Refused, match=reason):
            artefacts.read_release(wrong, manifest, key)
    for at in range(0, len(data), 41):
        broken = bytearray(data)
        broken[at] ^= 1
        with pytest.raises((Refused, KeyError, ValueError, TypeError)):
            artefacts.read_release(bytes(broken), manifest)


def test_every_setting_of_wordpiece() -> None:
    found = json.loads(gzip.decompress((CONFORMANCE / "tokenizer/wordpiece.json.gz").read_bytes()))
    for case in found["cases"]:
        tokenizer = WordPiece(
            json.dumps(found["tokenizer"] | case["change"]).encode(), case["max_length"]
        )
        assert [tokenizer.encode(text) for text in found["texts"]] == case["ids"], case["name"]


def test_lineages() -> None:
    found = json.loads(gzip.decompress((CONFORMANCE / "lineage/lineages.json.gz").read_bytes()))
    for case in found["cases"]:
        key = bytes.fromhex(case["public_key"])
        known = None if case["known"] is None else json.loads(case["known"])
        if case.get("error") in ("CorruptArtifactError", "UnsupportedVersionError"):
            continue  # of the fields' bounds; this reader reads what is sound
        lineage = artefacts.statements_in(case["lineage"].encode())
        if "error" in case:
            with pytest.raises(Refused):
                artefacts.follow(lineage, known, key, case["version"])
            continue
        newest = artefacts.follow(lineage, known, key, case["version"])
        assert newest["signed"]["sequence"] == case["sequence"], case["name"]
        for secret, version in case["targets"].items():
            assert artefacts.target(newest, bytes.fromhex(secret))["version"] == version
    for left, right, older in found["older"]:
        assert (artefacts.order(left) < artefacts.order(right)) == older


def test_a_signed_index_is_searched_by_words() -> None:
    place = CONFORMANCE / "search" / "index"
    index = Index(place, words, KEY)
    with pytest.raises(Refused, match="signature"):
        Index(place, words, OTHER_KEY)
    for search in json.loads((place.parent / "expected.json").read_bytes())["searches"]:
        if search["mode"] == "lexical":
            hits = index.search(search["query"], None, search["k"], "lexical", search["filter"])
            _check_hits(hits, search)


@pytest.mark.parametrize("name", ["base", "compact"])
def test_hits(name: str) -> None:
    expected = ANSWERS[name]
    index = Index(INDEX / name, words)
    assert len(index) == expected["size"]
    for search in expected["searches"]:
        hits = index.search(
            search["query"],
            search.get("vector"),
            search["k"],
            search["mode"],
            search.get("filter"),
        )
        _check_hits(hits, search)


def _check_hits(hits: list[tuple[str, float]], search: Any) -> None:
    ids, scores = [one[0] for one in search["hits"]], [one[1] for one in search["hits"]]
    assert len(hits) == len(ids), search
    if search["mode"] == "lexical":
        assert hits == list(zip(ids, scores, strict=True)), search
        return
    assert [score for _, score in hits] == pytest.approx(list(scores), abs=1e-6), search
    for (found, _), wanted, score in zip(hits, ids, scores, strict=True):
        # Another order only where sums in another order decide.
        near = [one[0] for one in search["hits"] if abs(one[1] - score) <= 1e-6]
        assert found == wanted or found in near or abs(score - scores[-1]) <= 1e-6, search


@pytest.mark.parametrize("name", ["base", "compact"])
def test_filters(name: str) -> None:
    index = Index(INDEX / name, words)
    documents = [index.documents[row] for row in index.documents if index.placed[row]]
    for condition, expected in ANSWERS[name]["filters"]:
        if expected is None:
            with pytest.raises(Refused):
                filters.check(condition)
            continue
        filters.check(condition)
        found = sorted(
            one for one, metadata, _ in documents if filters.matches(condition, metadata)
        )
        assert found == expected, condition


def test_means() -> None:
    for values, mean in ANSWERS["means"]:
        assert mean_of(np.array(values, np.float32)) == mean


def test_quantisation() -> None:
    added = [change for change in ANSWERS["changes"] if "vectors" in change]
    vectors = np.concatenate([change["vectors"] for change in added])
    documents = [(one["metadata"], one["text"]) for change in added for one in change["add"]]
    assert quantized(vectors, documents, words) == base64.b64decode(ANSWERS["rows"])
