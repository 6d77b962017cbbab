from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.bundle.manifest import FileEntry, Manifest, Space, TokenizerSpec
from pocketquery.sdk.errors import CorruptArtifactError, UnsupportedVersionError

HASH = "0" * 64


def content() -> dict[str, Any]:
    return {
        "format": "pocketquery-bundle",
        "format_version": 1,
        "name": "tiny",
        "encoder_version": "2",
        "parent_version": "1",
        "space": {"id": "space-1", "dimension": 16},
        "prompts": {"query": "query: "},
        "default_prompt_name": "query",
        "max_length": 24,
        "tokenizer": {"kind": "wordpiece", "file": "tokenizer.json"},
        "files": {
            name: {"sha256": HASH, "bytes": 1}
            for name in ("encoder.onnx", "tokenizer.json", "golden.json")
        },
        "quality": {"ndcg@10": 0.5, "gate": {"excluded": []}},
        "license": "Apache-2.0",
        "signature_key_id": None,
    }


def parse(value: object) -> Manifest:
    return Manifest.from_json(json.dumps(value).encode())


def test_every_field_is_read() -> None:
    manifest = parse(content())
    assert manifest.space == Space("space-1", 16)
    assert manifest.encoder_version == "2"
    assert manifest.parent_version == "1"
    assert manifest.prompts == {"query": "query: "}
    assert manifest.default_prompt_name == "query"
    assert manifest.max_length == 24
    assert manifest.tokenizer == TokenizerSpec("wordpiece", "tokenizer.json")
    assert manifest.files["encoder.onnx"] == FileEntry(HASH, 1)
    assert manifest.quality["gate"] == {"excluded": []}
    assert manifest.license == "Apache-2.0"
    assert manifest.signature_key_id is None


@pytest.mark.parametrize("languages", [["en"], ["en", "pt-BR", "zh-Hant-TW"], []])
def test_languages_are_listed_or_unknown(languages: list[str]) -> None:
    manifest = parse(content() | {"languages": languages})
    assert manifest.languages == tuple(languages)
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert parse(content()).languages == ()
    assert b"languages" not in parse(content()).to_json()


@pytest.mark.parametrize(
    "languages", ["en", None, [1], ["English"], ["EN"], ["en_US"], [""], ["en"] * 513, [["en"]]]
)
def test_languages_that_are_no_codes(languages: object) -> None:
    with pytest.raises(CorruptArtifactError, match="languages"):
        parse(content() | {"languages": languages})


def test_written_and_read_it_is_the_same_to_the_byte() -> None:
    manifest = parse(content())
    data = manifest.to_json()
    assert Manifest.from_json(data) == manifest
    assert Manifest.from_json(data).to_json() == data
    assert json.loads(data) == content()


def test_a_sentencepiece_tokenizer_keeps_its_options() -> None:
    value = content()
    value["tokenizer"] = {
        "kind": "sentencepiece",
        "file": "tokenizer.model",
        "layout": "plain",
        "lowercase": True,
    }
    value["files"]["tokenizer.model"] = {"sha256": HASH, "bytes": 1}
    manifest = parse(value)
    assert manifest.tokenizer.options == {"layout": "plain", "lowercase": True}
    assert json.loads(manifest.to_json())["tokenizer"] == value["tokenizer"]


def test_an_unknown_field_is_ignored() -> None:
    assert parse(content() | {"from_the_future": 1}) == parse(content())


def test_a_newer_format_version_is_refused_before_anything_else() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"format_version is 2.*up to 1"):
        parse({"format": "pocketquery-bundle", "format_version": 2})


def change(path: str, value: object) -> Callable[[], dict[str, Any]]:
    def changed() -> dict[str, Any]:
        result: dict[str, Any] = content()
        inner = result
        *parents, last = path.split("/")
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
        return result

    return changed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (change("format", "zip"), "'format': found \"zip\", expected 'pocketquery-bundle'"),
        (change("format_version", "1"), "'format_version': found \"1\", expected an integer"),
        (change("format_version", 0), "'format_version': found 0, expected"),
        (change("name", ""), "'name': found \"\", expected a text"),
        (change("name", None), "'name': found null, expected a text"),
        (change("encoder_version", 1), "'encoder_version': found 1"),
        (change("parent_version", 1), "'parent_version': found 1"),
        (change("space", []), "'space': found \\[\\], expected an object"),
        (change("space/id", 3), "'space.id': found 3"),
        (change("space/dimension", True), "'space.dimension': found true"),
        (change("space/dimension", 0), "'space.dimension': found 0"),
        (change("prompts", "query"), "'prompts': found \"query\", expected an object"),
        (change("prompts/query", 1), "'prompts.query': found 1, expected a text"),
        (change("default_prompt_name", "passage"), "'default_prompt_name': found 'passage'"),
        (change("max_length", 2), "'max_length': found 2, expected at least 3"),
        (change("max_length", 1.5), "'max_length': found 1.5, expected an integer"),
        (change("tokenizer/kind", "bpe"), "'tokenizer.kind': found \"bpe\", expected one of"),
        (change("tokenizer/kind", "sentencepiece"), "'tokenizer.layout': missing"),
        (change("tokenizer/file", "vocab.txt"), "'files': found no entry 'vocab.txt'"),
        (change("files", []), "'files': found \\[\\]"),
        (change("files", {}), "'files': found no entry 'encoder.onnx'"),
        (change("files/encoder.onnx", 1), "'files.encoder.onnx': found 1"),
        (change("files/encoder.onnx/sha256", "0" * 63), "64 lowercase hexadecimal digits"),
        (change("files/encoder.onnx/sha256", "G" * 64), "64 lowercase hexadecimal digits"),
        (change("files/encoder.onnx/bytes", -1), "'files.encoder.onnx.bytes': found -1"),
        (change("space/dimension", 16_385), "'space.dimension': found 16385.*at most 16384"),
        (change("max_length", 32_769), "'max_length': found 32769, expected .* at most 32768"),
        (change("max_length", 2**31), "'max_length': found 2147483648"),
        (change("max_length", 10**30), "an integer of 31 digits"),
        (change("format_version", 10**30), "an integer of 31 digits"),
        (change("name", "n" * 1025), "'name': found 1025 characters, expected at most 1024"),
        (change("encoder_version", "9" * 1025), "'encoder_version': found 1025 characters"),
        (change("license", "x" * 1025), "'license': found 1025 characters"),
        (change("space/id", "x" * 1025), "'space.id': found 1025 characters"),
        (change("prompts/query", "x" * 16_385), "'prompts.query': found 16385 characters"),
        (change("prompts/query", "\ud800"), "'prompts.query': found .*lone surrogates"),
        (change("prompts", {str(n): "" for n in range(65)}), "'prompts': found 65 entries"),
        (change("files", {str(n): {} for n in range(65)}), "'files': found 65 entries"),
        (change("files/" + "n" * 129, {"sha256": HASH, "bytes": 1}), "plain file names"),
        (change("files/encoder.onnx/bytes", 2**31), "'files.encoder.onnx.bytes': .*2147483647"),
        (change("files/golden.json/bytes", 2**24 + 1), "'files.golden.json.bytes': .*16777216"),
        (change("files/tokenizer.json/bytes", 2**26 + 1), "'files.tokenizer.json.bytes'"),
        (change("quality", 1), "'quality': found 1"),
        (change("quality", float("nan")), "NaN is not JSON"),
        (change("license", None), "'license': found null"),
        (change("signature_key_id", 5), "'signature_key_id': found 5"),
    ],
)
def test_a_wrong_field_is_named(make: Callable[[], dict[str, Any]], message: str) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        parse(make())


def test_a_manifest_of_more_than_a_mebibyte_is_refused_unread() -> None:
    data = json.dumps(content()).encode() + b" " * (1 << 20)
    with pytest.raises(CorruptArtifactError, match=r"found \d+ bytes or more, .* at most 1048576"):
        Manifest.from_json(data)


@pytest.mark.parametrize("name", sorted(set(content()) - {"parent_version", "default_prompt_name"}))
def test_a_missing_field_is_named(name: str) -> None:
    value = content()
    del value[name]
    if name == "signature_key_id":
        assert parse(value).signature_key_id is None
        return
    with pytest.raises(CorruptArtifactError, match=f"'{name}': missing"):
        parse(value)


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "/etc/passwd", "a/b", "a\\b", "C:x", "", ".", "..", ".hidden", "a\x00b", "a\nb"),
        *("manifest.json", "signature", "\ud800"),
    ],
)
def test_a_file_name_that_leaves_the_folder_or_shadows_the_manifest_is_refused(name: str) -> None:
    value = content()
    value["files"][name] = {"sha256": HASH, "bytes": 1}
    with pytest.raises(CorruptArtifactError, match="plain file names"):
        parse(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", r"found \[\], expected a JSON object"),
        (b'{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_not_a_json_object_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        Manifest.from_json(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(content())), json_values)
def test_any_value_in_any_field_is_read_or_refused_by_name(name: str, value: object) -> None:
    try:
        manifest = parse(content() | {name: value})
    except (CorruptArtifactError, UnsupportedVersionError) as error:
        assert str(error).startswith("manifest.json")  # noqa: PT017 - both outcomes are right
        return
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_a_quality_report_that_json_cannot_hold_is_refused_when_written() -> None:
    manifest = parse(content())
    broken = Manifest(**manifest._asdict() | {"quality": {"ndcg": float("nan")}})
    with pytest.raises(CorruptArtifactError, match="quality"):
        broken.to_json()
