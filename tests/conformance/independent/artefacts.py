"""Bundles, safetensors, releases and lineages, by docs/formats."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.independent.ed25519 import is_signed

Json = Any


class Refused(Exception):
    """What docs/formats says must be refused."""


def require(held: bool, what: str) -> None:
    """Go on where ``held``."""
    if not held:
        raise Refused(what)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def key_id(public_key: bytes) -> str:
    return sha256(public_key)[:16]


def canonical(value: Json) -> bytes:
    """Canonical JSON."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def stored_zip(data: bytes) -> dict[str, bytes]:
    """The files of a zip without compression."""
    end = data.rindex(b"PK\5\6")
    count, length, begin = struct.unpack_from("<HII", data, end + 10)
    require(begin + length == end, "a directory elsewhere than the end says")
    files: dict[str, bytes] = {}
    for _ in range(count):
        fields = struct.unpack_from("<4s6H3I5H2I", data, begin)
        method, crc, packed, plain = fields[4], *fields[7:10]
        sizes, at = fields[10:13], fields[16]
        name = data[begin + 46 : begin + 46 + sizes[0]].decode()
        require(fields[0] == b"PK\1\2" and method == 0 and packed == plain, "not stored")
        name_length, extra = struct.unpack_from("<HH", data, at + 26)
        start = at + 30 + name_length + extra
        files[name] = data[start : start + plain]
        require(zlib.crc32(files[name]) == crc, "a check sum")
        begin += 46 + sum(sizes)
    return files


def files_at(path: Path) -> dict[str, bytes]:
    """The files of a folder, or of a zip of it."""
    if path.is_dir():
        return {one.name: one.read_bytes() for one in path.iterdir()}
    return stored_zip(path.read_bytes())


def open_bundle(files: Mapping[str, bytes], public_key: bytes | None = None) -> Json:
    """The manifest, where the bundle is what it says: signature, then manifest, then hashes."""
    data = files["manifest.json"]
    if public_key is not None:
        require(is_signed(data, files["signature"], public_key), "another signature")
    manifest = json.loads(data)
    require(manifest["format"] == "pocketquery-bundle", "another format")
    require(manifest["format_version"] == 1, "a newer version")
    if manifest["signature_key_id"] is not None:
        require(len(files.get("signature", b"")) == 64, "a signature taken away")
    for name, entry in manifest["files"].items():
        require(len(files[name]) == entry["bytes"], f"the size of {name}")
        require(sha256(files[name]) == entry["sha256"], f"the hash of {name}")
    return manifest


def safetensors(data: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Tensors and metadata."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    kinds = {"F16": "<f2", "F32": "<f4", "I8": "i1"}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], kinds[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def written(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> bytes:
    """The one spelling of a safetensors file."""
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    blobs, at = [], 0
    names = {2: "F16", 4: "F32", 1: "I8"}
    for name, values in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
        offsets = [at, at + values.nbytes]
        shape = list(values.shape)
        header[name] = {"dtype": names[values.itemsize], "shape": shape, "data_offsets": offsets}
        blobs.append(values.tobytes())
        at += values.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(blobs)


def read_release(data: bytes, manifest: Json, public_key: bytes | None = None) -> Any:
    """Tensors (float32) and metadata of a release for the bundle of ``manifest``."""
    require(len(data) <= 100_000, "too large")
    tensors, metadata = safetensors(data)

    def without(*names: str) -> bytes:
        return canonical({name: text for name, text in metadata.items() if name not in names})

    if public_key is not None:
        require("signature" in metadata, "not signed")
        signed = without("signature", "content_sha256")
        signature = bytes.fromhex(metadata["signature"])
        require(is_signed(signed, signature, public_key), "another signature")
    require(metadata["format"] == "pocketquery-adapter", "another format")
    require(metadata["format_version"] == "1", "another version")
    require(metadata["content_sha256"] == sha256(without("content_sha256")), "its content")
    require(metadata["tensors_sha256"] == sha256(written(tensors, {})), "its tensors")
    require(written(tensors, metadata) == data, "another spelling")
    require(metadata["space_id"] == manifest["space"]["id"], "another space")
    encoder = manifest["files"]["encoder.onnx"]["sha256"]
    require(metadata["encoder_sha256"] == encoder, "another encoder")
    return {name: half.astype(np.float32) for name, half in tensors.items()}, metadata


def statements_in(data: bytes) -> list[Json]:
    """The statements of a lineage."""
    require(len(data) <= 65_536 and data.endswith(b"\n"), "no lineage")
    found = []
    for line in data[:-1].split(b"\n"):
        one = json.loads(line)
        require(len(line) <= 16_384 and canonical(one) == line, "another spelling")
        require(one["signed"]["format"] == "pocketquery-statement", "another format")
        found.append(one)
    numbers = [one["signed"]["sequence"] for one in found]
    require(numbers == sorted(set(numbers)), "numbers that do not grow")
    return found


def follow(
    statements: list[Json], known: Json | None, public_key: bytes, version: str | None = None
) -> Json:
    """The newest statement, where each may follow the one before; ``version`` is in force where
    no statement is known."""
    keys: list[Json] = [{"key": public_key.hex(), "until": None}]
    if known is None:
        signer = key_id(public_key)
        first = [place for place, one in enumerate(statements) if signer in one["signatures"]]
        require(bool(first), "no statement of this key")
        statements = statements[first[0] :]
    else:
        keys = known["signed"]["keys"]
        last = statements[-1]["signed"]
        require(last["sequence"] >= known["signed"]["sequence"], "replayed")
    for one in statements:
        signed = one["signed"]
        if known is not None and signed["sequence"] <= known["signed"]["sequence"]:
            same = signed["sequence"] < known["signed"]["sequence"] or signed == known["signed"]
            require(same, "two statements of one number")
            continue
        makers = list(_makers(one, keys))
        require(bool(makers), "not signed by who may")
        if known is not None:
            if signed["keys"] != keys:
                require(any(key["until"] is None for key in makers), "a key with an end")
            version = known["signed"]["release"]["version"]
        if version is not None:
            _check_version(signed, version)
        known, keys = one, signed["keys"]
    return known


def _makers(one: Json, keys: Iterable[Json]) -> Iterable[Json]:
    message = canonical(one["signed"])
    for key in keys:
        raw = bytes.fromhex(key["key"])
        signature = one["signatures"].get(key_id(raw))
        may = key["until"] is None or one["signed"]["sequence"] <= key["until"]
        if signature and may and is_signed(message, bytes.fromhex(signature), raw):
            yield key


def _check_version(signed: Json, in_force: str) -> None:
    if order(signed["release"]["version"]) < order(in_force):
        withdrawn = signed["rollback_from"]
        require(withdrawn is not None and order(withdrawn) >= order(in_force), "a rollback")


def order(version: str) -> list[tuple[bool, int, str]]:
    """What versions are compared by."""
    runs = re.findall(r"\d+|\D+", version)
    return [(True, int(run), "") if run.isdecimal() else (False, 0, run) for run in runs]


def target(statement: Json, secret: bytes) -> Json:
    """The release that the device with this secret searches with."""
    signed = statement["signed"]
    rollout = signed["roll_out"]
    if rollout is None:
        return signed["release"]
    drawn = hashlib.sha256(secret + bytes.fromhex(rollout["salt"])).digest()[:8]
    first = int.from_bytes(drawn, "big") * 1_000_000 < rollout["share"] << 64
    return signed["release"] if first else rollout["rest"]
