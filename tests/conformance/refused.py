"""Write conformance/refused.json.gz: what must be refused, as changes to the sound files beside it.

A case changes the files of a place (a bundle, an index or a release) and names the error that
opening and verifying it must end with, whoever does it.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pocketquery import sdk
from pocketquery.client.training.step import LocalStep
from pocketquery.sdk.bundle.adapter import read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.bundle.storage import ZipStorage
from pocketquery.sdk.bundle.writing import pack_files
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.files import sha256_bytes
from pocketquery.sdk.index.delta_manifest import DELTA_FILE, PARTS
from pocketquery.sdk.index.index import open_index, verify_index
from pocketquery.sdk.slices.deltas import apply_delta
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from tests.conformance.deltas import MADE_FROM
from tests.sdk.handmade_sentencepiece import REFUSED
from tests.sdk.index_damage import LOOKUPS, exchange_rows, mislead, reseal
from tests.sdk.javascript_fixtures import KEY, OTHER_KEY

__all__ = ["CONFORMANCE", "Case", "main", "opened", "read_cases"]

CONFORMANCE = Path(__file__).parents[2] / "conformance"
TARGET = CONFORMANCE / "refused.json.gz"
MODEL = "encoder/bpe.model"
BUNDLE, ZIP, RELEASE, INDEX, SIGNED, STEP = (
    "encoder/tiny",
    "encoder/tiny.zip",
    "encoder/release.safetensors",
    "index/base",
    "search/index",
    "training/bundle",
)


@dataclass(frozen=True)
class Case:
    """One thing that must be refused.

    Attributes:
        name: what is wrong.
        kind: bundle, tokenizer, release, index, step or delta: how it is opened.
        place: the sound files, below conformance/.
        changes: each a ``file`` (of a folder; "" where the place is a file) that is ``absent``, or
            whose ``cut`` bytes from ``at`` on are replaced by ``put`` (base 64).
        key: the public key it is opened with, hexadecimal; None for none.
        error: the class that it ends with.
    """

    name: str
    kind: str
    place: str
    changes: list[dict[str, Any]]
    key: str | None
    error: str


def read_cases() -> list[Case]:
    """Those that were written."""
    return [Case(**case) for case in json.loads(gzip.decompress(TARGET.read_bytes()))]


def made(case: Case, folder: Path) -> Path:
    """The changed files, in ``folder``."""
    source, path = CONFORMANCE / case.place, folder / Path(case.place).name
    if source.is_dir():
        shutil.copytree(source, path)
    else:
        shutil.copy(source, path)
    for change in case.changes:
        file = path / change["file"] if change["file"] else path
        if change.get("absent"):
            file.unlink()
            continue
        data = file.read_bytes() if file.exists() else b""
        at = change["at"]
        file.write_bytes(data[:at] + base64.b64decode(change["put"]) + data[at + change["cut"] :])
    return path


def opened(case: Case, folder: Path) -> None:
    """Open and verify what ``case`` says, made below ``folder``."""
    path, key = made(case, folder), case.key
    if case.kind == "bundle":
        sdk.load(path, public_key=key)
        sdk.verify(path, public_key=key)
    elif case.kind == "release":
        bundle = Bundle.open(CONFORMANCE / BUNDLE)
        encoder = sdk.load(CONFORMANCE / BUNDLE)
        encoder.swap_adapter(read_adapter(path, manifest=bundle.manifest, public_key=key).tensors)
    elif case.kind == "step":
        LocalStep.open(path)
    elif case.kind == "tokenizer":
        open_tokenizer("sentencepiece", path.read_bytes(), 64, {"layout": "plain"})
    elif case.kind == "delta":
        shutil.copytree(CONFORMANCE / MADE_FROM.get(case.place, "search/index"), folder / "index")
        apply_delta(path, folder / "index", public_key=key)
    else:
        open_index(path, public_key=key).close()
        verify_index(path)


def main() -> None:
    """Write every case anew, with the error that Python ends with."""
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for number, given in enumerate(_cases()):
            case = replace(given, changes=[_shortest(given.place, one) for one in given.changes])
            place = Path(folder) / str(number)
            place.mkdir()
            try:
                opened(case, place)
            except PocketQueryError as error:
                cases.append(vars(case) | {"error": type(error).__name__})
            else:
                raise AssertionError(f"{case.name} was not refused")
    text = json.dumps(cases, separators=(",", ":"), sort_keys=True)
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(cases), "cases")


def _alike(left: bytes, right: bytes) -> int:
    """How many bytes they begin with alike."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(left), len(right)))


def _shortest(place: str, change: dict[str, Any]) -> dict[str, Any]:
    """``change`` without what it leaves as it is."""
    file = CONFORMANCE / place / change["file"] if change["file"] else CONFORMANCE / place
    if change.get("absent") or change["cut"] < 1 << 40 or not file.exists():
        return change
    old, new = file.read_bytes(), base64.b64decode(change["put"])
    begin = _alike(old, new)
    end = _alike(old[begin:][::-1], new[begin:][::-1])
    return _put(change["file"], new[begin : len(new) - end], begin, len(old) - begin - end)


def _cases() -> Iterator[Case]:
    yield from _bundles()
    yield from _zips()
    for name, data in REFUSED.items():
        yield Case(f"tokenizer: {name}", "tokenizer", MODEL, [_put("", data)], None, "")
    yield from _steps()
    yield from _releases()
    yield from _indexes()
    yield from _deltas()


def _put(file: str, data: bytes, at: int = 0, cut: int = 1 << 40) -> dict[str, Any]:
    return {"file": file, "at": at, "cut": cut, "put": base64.b64encode(data).decode()}


def _flip(file: str, data: bytes, at: int) -> dict[str, Any]:
    return _put(file, bytes([data[at] ^ 0x10]), at, 1)


def _refit(
    place: str, files: dict[str, bytes], edit: Callable[[Any], None] | None = None
) -> list[Any]:
    """Changes to ``files`` with the manifest's hashes made to fit, and unsigned."""
    manifest = json.loads((CONFORMANCE / place / "manifest.json").read_bytes())
    manifest["signature_key_id"] = None
    for name, data in files.items():
        manifest["files"][name] = {"sha256": sha256_bytes(data), "bytes": len(data)}
    if edit is not None:
        edit(manifest)
    changes = [_put(name, data) for name, data in files.items()]
    return [*changes, _put("manifest.json", json.dumps(manifest).encode())]


def _set(path: str, value: Any) -> Callable[[Any], None]:
    """Sets (or, with ``...``, removes) the field at a dotted path."""

    def edit(found: Any) -> None:
        *way, last = path.split("/")
        for name in way:
            found = found[name]
        if value is ...:
            del found[last]
        else:
            found[last] = value

    return edit


def _bundles() -> Iterator[Case]:
    def case(name: str, changes: list[Any], key: str | None = None) -> Case:
        return Case(name, "bundle", BUNDLE, changes, key, "")

    read = {path.name: path.read_bytes() for path in (CONFORMANCE / BUNDLE).iterdir()}
    expected = json.loads((CONFORMANCE / "encoder" / "expected.json").read_bytes())
    own, other = expected["key"], expected["other_key"]
    for name in (
        "manifest.json",
        "encoder.onnx",
        "tokenizer.json",
        "golden.json",
        "adapter.safetensors",
    ):
        yield case(f"without {name}", [{"file": name, "absent": True}])
        yield case(f"{name} cut in half", [_put(name, read[name][: len(read[name]) // 2])])
    for name in ("encoder.onnx", "tokenizer.json", "golden.json", "adapter.safetensors"):
        yield case(f"a bit of {name}", [_flip(name, read[name], len(read[name]) // 2)])
        yield case(f"{name} appended to", [_put(name, b"\0", len(read[name]), 0)])
    yield case("signed by another", [], other)
    yield case("without its signature", [{"file": "signature", "absent": True}])
    yield case("without its signature, with the key", [{"file": "signature", "absent": True}], own)
    yield case("a bit of the signature", [_flip("signature", read["signature"], 7)], own)
    yield case("a changed manifest under its signature", _refit(BUNDLE, {}, _set("name", "x")), own)
    for name, value in (
        ("format", "pocketquery-other"), ("format_version", 2), ("format_version", "1"),
        ("format_version", True), ("format_version", 1.0), ("name", ""), ("name", 3),
        ("space/id", ...), ("space/dimension", 0), ("space/dimension", 17),
        ("space/dimension", 1e3),
        ("max_length", -1), ("max_length", 10**30), ("prompts", []), ("prompts/query", None),
        ("tokenizer/kind", "bpe"), ("tokenizer/file", "../tokenizer.json"), ("files", {}),
        ("files/encoder.onnx", ...), ("files/encoder.onnx/bytes", -1),
        ("files/encoder.onnx/sha256", "0"),
        ("files/..", {"sha256": "0" * 64, "bytes": 1}), ("default_prompt_name", "unknown"),
        ("encoder_version", "v" * 2000), ("name", "a\ud800"),
    ):  # fmt: skip
        shown = "absent" if value is ... else json.dumps(value)[:40]
        yield case(f"manifest: {name} {shown}", _refit(BUNDLE, {}, _set(name, value)))
    text = read["manifest.json"].decode()
    for name, broken in (
        ("a key twice", text.replace("{", '{"name": "a", ', 1)),
        ("no JSON", text[:-3]),
        ("NaN", text.replace('"format_version": 1', '"format_version": NaN')),
        ("not an object", "[]"),
        ("deep", "[" * 3000),
        ("UTF-16", ""),
        ("nothing", ""),
    ):
        data = text.encode("utf-16") if name == "UTF-16" else broken.encode()
        yield case(f"manifest: {name}", [_put("manifest.json", data)])
    golden = json.loads(read["golden.json"])
    golden["texts"][0]["ids"][1] += 1
    yield case("other ids", _refit(BUNDLE, {"golden.json": json.dumps(golden).encode()}))
    golden = json.loads(read["golden.json"])
    golden["texts"][0]["vector"] = [-x for x in golden["texts"][0]["vector"]]
    yield case("other vectors", _refit(BUNDLE, {"golden.json": json.dumps(golden).encode()}))
    yield case("no golden text", _refit(BUNDLE, {"golden.json": b'{"texts": []}'}))
    for name in ("tokenizer.json", "golden.json", "adapter.safetensors", "encoder.onnx"):
        yield case(f"{name} of nothing, hashes fit", _refit(BUNDLE, {name: b""}))
        yield case(f"{name} of noise, hashes fit", _refit(BUNDLE, {name: bytes(range(256))}))
    words = json.loads(read["tokenizer.json"])
    words["model"]["continuing_subword_prefix"] = "#" * 17
    yield case(
        "a prefix of 17 characters", _refit(BUNDLE, {"tokenizer.json": json.dumps(words).encode()})
    )
    adapter = read["adapter.safetensors"]
    nan = adapter[:-4] + struct.pack("<f", math.nan)  # its tensors are float32
    yield case("an adapter of NaN", _refit(BUNDLE, {"adapter.safetensors": nan}))
    renamed = adapter.replace(b"query.down", b"query.dowm")
    yield case("an adapter of others", _refit(BUNDLE, {"adapter.safetensors": renamed}))


def _steps() -> Iterator[Case]:
    read = (CONFORMANCE / STEP / "train_step.onnx").read_bytes()
    for name, old, new in (
        ("for another encoder", b'"encoder_sha256": "', b'"encoder_sha257": "'),
        ("a newer version", b'"version": 1', b'"version": 2'),
        ("of another format", b"pocketquery-training-step", b"pocketquery-training-steq"),
        ("another objective", b'"index_byol"', b'"inder_byol"'),
        ("views that it has not", b'"views": 2', b'"views": 4'),
        ("another space", b'"space_id": "space-', b'"space_id": "spacE-'),
        ("an input of another name", b"opened_weight", b"opened_weighT"),
    ):
        assert old in read, name
        yield Case(
            f"step: {name}",
            "step",
            STEP,
            _refit(STEP, {"train_step.onnx": read.replace(old, new)}),
            None,
            "",
        )
    yield Case("step: absent", "step", BUNDLE, [], None, "")
    yield Case("step: a bit", "step", STEP, [_flip("train_step.onnx", read, 5000)], None, "")


def _releases() -> Iterator[Case]:
    def case(name: str, change: list[Any], key: str | None = None, place: str = RELEASE) -> Case:
        return Case(f"release: {name}", "release", place, change, key, "")

    read = (CONFORMANCE / RELEASE).read_bytes()
    for at in (0, 9, 40, 120, len(read) // 2, len(read) - 1):
        yield case(f"a bit of byte {at}", [_flip("", read, at)])
    yield case("cut", [_put("", read[:-1])])
    yield case("appended to", [_put("", b"\0", len(read), 0)])
    yield case("nothing", [_put("", b"")])
    yield case("too large", [_put("", bytes(100_001))])
    yield case(
        "a newer version",
        [_put("", read.replace(b'"format_version":"1"', b'"format_version":"2"'))],
    )
    spaced = b" " + read[8:]
    yield case(
        "other bytes", [_put("", (len(spaced) - len(read) + 8).to_bytes(8, "little") + spaced)]
    )
    key, other = _public(KEY), _public(OTHER_KEY)
    yield case("by another key", [], other)
    yield case("unsigned, with a key", [], key, "encoder/unsigned.safetensors")
    yield case("of another space", [], None, "encoder/elsewhere.safetensors")
    yield case("of another encoder", [], None, "encoder/another.safetensors")


def _public(key: bytes) -> str:
    return public_key_of(key).hex()


def _indexes() -> Iterator[Case]:
    def case(name: str, change: list[Any], key: str | None = None) -> Case:
        return Case(f"index: {name}", "index", INDEX, change, key, "")

    read = {path.name: path.read_bytes() for path in (CONFORMANCE / INDEX).iterdir()}
    for name, data in read.items():
        yield case(f"without {name}", [{"file": name, "absent": True}])
        yield case(f"{name} cut", [_put(name, data[: len(data) * 2 // 3])])
    for name in ("documents.sqlite", "vectors-0.u8"):
        for place in (3, 2000, len(read[name]) - 9):
            yield case(f"a bit of {name}, byte {place}", [_flip(name, read[name], place)])
    info = json.loads(read["index.json"])
    for name, value in (
        ("format", "other"), ("format_version", 3), ("format_version", 1), ("format_version", "2"),
        ("space/id", "space-other"), ("space/dimension", 25), ("generation", -1), ("language", ""),
        ("language", "de"), ("language", "auto"),
        ("generation", 99), ("files", {}),
    ):  # fmt: skip
        changed = json.loads(json.dumps(info))
        _set(name, value)(changed)
        yield case(
            f"index.json: {name} {value}", [_put("index.json", json.dumps(changed).encode())]
        )
    yield case("index.json is no JSON", [_put("index.json", b"{")])
    database = read["documents.sqlite"]
    for name, old, new in (
        ("half a character in the metadata", b'"yyyyyy', b'"\\ud800'),
        ("half a character in a name of the metadata", b'"toString"', b'"\\udc00ng"'),
    ):
        assert old in database, name
        refitted = json.loads(json.dumps(info))
        changed_database = database.replace(old, new, 1)
        refitted["files"]["documents.sqlite"]["sha256"] = sha256_bytes(changed_database)
        yield case(
            name,
            [
                _put("documents.sqlite", changed_database),
                _put("index.json", json.dumps(refitted).encode()),
            ],
        )
    yield case("unsigned, with a key", [], _public(KEY))
    yield from _signed_indexes()
    yield from _after_deltas()


def _signed_indexes() -> Iterator[Case]:
    own, other = _public(KEY), _public(OTHER_KEY)

    def case(name: str, change: list[Any], key: str | None = own) -> Case:
        return Case(f"signed index: {name}", "index", SIGNED, change, key, "")

    read = {path.name: path.read_bytes() for path in (CONFORMANCE / SIGNED).iterdir()}
    away: dict[str, Any] = {"file": "signature", "absent": True}
    yield case("by another key", [], other)
    yield case("without its signature", [away])
    yield case("without its signature and without a key", [away], None)
    yield case("a bit of the signature", [_flip("signature", read["signature"], 9)])
    yield case("a signature of 63 bytes", [_put("signature", read["signature"][:-1])])
    yield case("a blank in index.json", [_put("index.json", read["index.json"] + b" ")])
    yield case("no JSON under its signature", [_put("index.json", b"{")])
    writing = read["index.json"].replace(b'"sealed"', b'"writing"')
    yield case("changed on the device", [_put("index.json", writing)])
    for name in ("documents.sqlite", "vectors-0.u8"):
        yield case(f"a bit of {name}", [_flip(name, read[name], len(read[name]) - 5)])


def _after_deltas() -> Iterator[Case]:
    """An index that a delta was applied to, whose rows are the publisher's."""
    applied = json.loads(gzip.decompress((CONFORMANCE / "deltas/applied.json.gz").read_bytes()))
    ways: dict[str, Callable[[Path], None]] = {
        name: partial(mislead, name=name, ids=("d3", "d9")) for name in LOOKUPS
    }
    for name, change in (ways | {"rows in another order": exchange_rows}).items():
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for file, data in applied.items():
                (place / file).write_bytes(base64.b64decode(data))
            change(place)
            reseal(place)
            changes = [_put(path.name, path.read_bytes()) for path in sorted(place.iterdir())]
            yield Case(f"after a delta: {name}", "index", SIGNED, changes, _public(KEY), "")


def _zips() -> Iterator[Case]:
    def case(name: str, data: bytes, key: str | None = None) -> Case:
        return Case(f"zip: {name}", "bundle", ZIP, [_put("", data)], key, "")

    read = (CONFORMANCE / ZIP).read_bytes()
    end = read.rindex(b"PK\5\6")
    first = read.index(b"PK\1\2")
    yield case("nothing", b"")
    yield case("no zip", bytes(range(256)) * 4)
    yield case("cut", read[:-3])
    yield case("cut in half", read[: len(read) // 2])
    yield case("appended to", read + b"x")
    yield case("a byte before it", b"x" + read)
    yield case("by another key", read, _public(OTHER_KEY))
    for name, place, value in (
        ("a bit of a file", 200, b""),
        ("encrypted", first + 8, b"\1\0"),
        ("compressed", first + 10, b"\x08\0"),
        ("another check sum", first + 16, b"\0\0\0\0"),
        ("packed to another size", first + 20, b"\1\0\0\0"),
        ("another size", first + 24, b"\1\0\0\0"),
        ("a file of another's place", first + 42, b"\x40\0\0\0"),
        ("beyond its end", first + 42, b"\xff\xff\xff\x7f"),
        ("of two parts", end + 4, b"\1\0"),
        ("of other files", end + 10, b"\2\0"),
        ("of 64 bits", end + 16, b"\xff\xff\xff\xff"),
        ("a name that leaves the folder", first + 46, b"../"),
    ):
        value = value or bytes([read[place] ^ 1])
        yield case(name, read[:place] + value + read[place + len(value) :])
    named = read.replace(b"golden.json", b"signature__").replace(b"signature__", b"encoder.onn")
    yield case("without a file", named)


def _deltas() -> Iterator[Case]:
    signed, plain = MADE_FROM

    def case(name: str, change: list[Any], key: str | None = None, place: str = plain) -> Case:
        return Case(f"delta: {name}", "delta", place, change, key, "")

    read = (CONFORMANCE / plain).read_bytes()
    yield case("cut", [_put("", read[: len(read) // 2])])
    for at in (3, 60, len(read) // 2, len(read) - 9):
        yield case(f"a bit of byte {at}", [_flip("", read, at)])
    yield case("nothing", [_put("", b"")])
    yield case("by another key", [], _public(OTHER_KEY), signed)
    yield case("unsigned, with a key", [], _public(KEY), plain)
    yield case("made from another index", [], None, "deltas/second.delta")
    unsigned = _repacked(signed, {}, _set("signature_key_id", ...), without="signature")
    yield case("unsigned for a signed index", [_put("", unsigned)], None, signed)
    taken = _repacked(signed, {}, without="signature")
    yield case("without its signature", [_put("", taken)], None, signed)
    edited = _repacked(signed, {}, _set("to/documents", 7))
    yield case(
        "a changed description under its signature", [_put("", edited)], _public(KEY), signed
    )
    parts = _unpacked_parts(plain)
    for name in PARTS:
        yield case(f"without {name}", [_put("", _repacked(plain, {}, without=name))])
        for what, data in (
            ("nothing", b""), ("a byte more", parts[name] + b"\0"),
            ("a byte less", parts[name][:-1]), ("0xff", b"\xff" * len(parts[name])),
        ):  # fmt: skip
            if data != parts[name]:
                yield case(
                    f"{name} of {what}, hashes fit", [_put("", _repacked(plain, {name: data}))]
                )
        packed = zlib.compress(parts[name], 9)
        for what, data in (("cut", packed[:-3]), ("followed", packed + b"\0"), ("no stream", b"x")):
            found = _repacked(plain, {}, packed={name: data})
            yield case(f"{name} {what}, hashes fit", [_put("", found)])
    order = parts["order"]
    twice = order[:8] + order[:8] + order[16:]
    yield case("a run twice", [_put("", _repacked(plain, {"order": twice}))])
    backwards = b"".join(order[i : i + 8] for i in range(len(order) - 8, -1, -8))
    yield case("another order", [_put("", _repacked(plain, {"order": backwards}))])
    documents = parts["documents"]
    at = documents.index(b"new 2 1")
    same = documents[:at] + b"new 2 0" + documents[at + 7 :]
    yield case("an id twice", [_put("", _repacked(plain, {"documents": same}))])
    unsound = documents.replace(b'{"new"', b'["new"', 1)
    yield case("metadata that are none", [_put("", _repacked(plain, {"documents": unsound}))])
    for name, old, new in (
        ("half a character in the metadata", b'{"lang": "fr"}', b'{"l":"\\ud800"}'),
        ("half a character in a name of the metadata", b'{"lang": "fr"}', b'{"\\udc00":"f"}'),
    ):
        assert old in documents, name
        found = documents.replace(old, new, 1)
        yield case(name, [_put("", _repacked(plain, {"documents": found}))])
    scales = bytearray(parts["vectors"])
    scales[24:28] = b"\0\0\x80\x3f"  # 1.0
    yield case("a scale that is none", [_put("", _repacked(plain, {"vectors": bytes(scales)}))])
    scales[24:28] = bytes(4)
    yield case("a scale of 0", [_put("", _repacked(plain, {"vectors": bytes(scales)}))])
    for name, value in (
        ("format", "other"), ("format_version", 3), ("format_version", 1),
        ("space/id", "space-other"),
        ("space/dimension", 25), ("from/contents_sha256", "0"),
        ("from/documents", 3), ("to/contents_sha256", "0" * 64), ("to/documents", -1),
        ("removed", 1 << 40), ("added", 0), ("changed", 0), ("parts", {}),
        ("parts/order/unpacked_bytes", 1 << 31),
    ):  # fmt: skip
        made = _repacked(plain, {}, _set(name, value))
        yield case(f"delta.json: {name} {str(value)[:9]}", [_put("", made)])


def _files_of(place: str) -> dict[str, bytes]:
    storage = ZipStorage(CONFORMANCE / place)
    names = [*PARTS, DELTA_FILE, "signature"]
    return {name: storage.read(name, 1 << 20) for name in names if storage.size(name) is not None}


def _unpacked_parts(place: str) -> dict[str, bytes]:
    files = _files_of(place)
    return {name: zlib.decompress(files[name]) for name in PARTS}


def _repacked(
    place: str,
    parts: dict[str, bytes],
    edit: Callable[[Any], None] | None = None,
    *,
    packed: dict[str, bytes] | None = None,
    without: str = "",
) -> bytes:
    """The delta at ``place`` with other parts and the hashes that fit them."""
    files = _files_of(place)
    description = json.loads(files[DELTA_FILE])
    new = {name: zlib.compress(data, 9) for name, data in parts.items()} | (packed or {})
    for name, data in new.items():
        files[name] = data
        described = description["parts"][name]
        described |= {"sha256": sha256_bytes(data), "bytes": len(data)}
        if name in parts:
            described["unpacked_bytes"] = len(parts[name])
    if edit is not None:
        edit(description)
    if new or edit is not None:
        files[DELTA_FILE] = json.dumps(description, indent=2).encode()
    files.pop(without, None)
    with tempfile.TemporaryDirectory() as folder:
        pack_files(files, Path(folder) / "delta")
        return (Path(folder) / "delta").read_bytes()


if __name__ == "__main__":
    main()
