"""Bundles as an attacker writes them: a sound one, broken in one of many ways, hashes made to fit.

``broken_bundle`` draws one from a seed. The hashes in the manifest are those of the broken files,
unless it draws otherwise: what lies behind the hashes must hold as well. ``outcome`` opens it on
every way in and says how it ended; anything but a result or an error of the package escapes.

``python -m tests.sdk.hostile_bundles FIRST COUNT`` runs many, each seed printed where one escapes
or takes memory out of all proportion.
"""

from __future__ import annotations

import copy
import io
import json
import random
import shutil
import sys
import tempfile
import traceback
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pocketquery import sdk
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.files import sha256_bytes
from tests.sdk.multilingual_model import train_model
from tests.sdk.tiny_bundle import (
    encoder_onnx,
    golden_ids,
    tiny_files,
    tiny_manifest,
    trained_adapter,
)

MOST_BYTES = 64 << 20  # that opening a broken bundle of some 50 KB may ask for

_NUMBERS = [
    0,
    -1,
    1,
    2,
    3,
    24,
    2**15,
    2**15 + 1,
    2**31,
    2**63,
    2**64,
    10**19,
    10**400,
    1e308,
    -0.0,
    0.5,
]
_TEXTS = ["", "\ud800", "\0", "a" * 2000, "../x", "NaN", "é" * 40, "9" * 5000, "[CLS]", "\u202e"]
_RAW = [
    "NaN",
    "1e999",
    "-Infinity",
    "1" * 5000,
    "[" * 3000,
    '{"a":' * 3000,
    "tru",
    "",
    "01",
    '"\\ud800"',
]

Json = Any
Files = dict[str, bytes]


def sound_files(rng: random.Random) -> tuple[Files, dict[str, Json]]:
    """The files and the manifest of a bundle in which nothing is wrong."""
    files = tiny_files(trained_adapter())
    manifest = json.loads(tiny_manifest(files).to_json())
    if rng.random() < 0.25:
        files["tokenizer.model"] = _sentencepiece()
        manifest["tokenizer"] = {
            "kind": "sentencepiece",
            "file": "tokenizer.model",
            "layout": rng.choice(["plain", "xlm-roberta"]),
        }
    return files, manifest


_MODELS: list[bytes] = []


def _sentencepiece() -> bytes:
    if not _MODELS:
        _MODELS.append(train_model())
    return _MODELS[0]


def broken_bundle(seed: int, folder: Path) -> Path:
    """Write the broken bundle of ``seed`` below ``folder``: a folder or a zip."""
    rng = random.Random(seed)
    files, manifest = sound_files(rng)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice(_WAYS)(rng, files, manifest)
    if rng.random() < 0.9:
        manifest["files"] = _entries(files, manifest.get("files"))
    data = json.dumps(manifest).encode("utf-8")
    if rng.random() < 0.15:
        data = _spoilt_json(rng, manifest)
    files["manifest.json"] = data
    if rng.random() < 0.1:
        files["signature"] = rng.randbytes(rng.choice([0, 63, 64, 65]))
    if rng.random() < 0.3:
        return _zipped(rng, files, folder / f"{seed}.zip")
    path = folder / str(seed)
    path.mkdir()
    for name, content in files.items():
        (path / name).write_bytes(content)
    return path


def outcome(path: Path) -> str:
    """What comes of opening the bundle on every way in: "sound" or the error's class."""
    found = []
    for use in (_load, sdk.verify):
        try:
            use(path)
            found.append("sound")
        except PocketQueryError as error:
            assert str(error)  # noqa: PT017 - both outcomes are right
            found.append(type(error).__name__)
    return " ".join(found)


def _load(path: Path) -> None:
    encoder = sdk.load(path)
    encoder.encode(["how do plants make sugar", "", "Z\u00fcrich [SEP] \u6c34 e\u0301"])
    encoder.encode_query("x" * 300)


def _entries(files: Files, given: Json) -> Json:
    entries = {n: {"sha256": sha256_bytes(d), "bytes": len(d)} for n, d in files.items()}
    if isinstance(given, dict):  # what was broken on purpose stays
        kept = {n: e for n, e in given.items() if n not in files or not isinstance(e, dict)}
        entries |= kept
    return entries


def spoilt_bytes(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    kind = rng.randrange(6)
    if kind == 0:
        return bytes(changed[: rng.randrange(len(changed) + 1)])
    if kind == 1:
        at = rng.randrange(len(changed) + 1)
        return bytes(changed[:at] + rng.randbytes(rng.choice([1, 8, 300])) + changed[at:])
    if kind == 2 and changed:
        at = rng.randrange(len(changed))
        return bytes(changed[:at] + changed[at + rng.choice([1, 2, 50]) :])
    if kind == 3 and changed:
        at = rng.randrange(len(changed))
        changed[at : at + 8] = rng.choice(
            [b"\xff" * 8, bytes(8), b"\xff\xff\xff\xff\xff\xff\xff\x7f"]
        )
        return bytes(changed)
    for _ in range(rng.choice([1, 2, 20])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _spoil_value(rng: random.Random, value: Json) -> Json:
    """One place in ``value``, anywhere, replaced, removed or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        spoilt = dict(value)
        kind = rng.randrange(10)
        if kind == 0:
            del spoilt[key]
        elif kind == 1:
            spoilt[rng.choice(_TEXTS)] = spoilt[key]
        else:
            spoilt[key] = _spoil_value(rng, spoilt[key])
        return spoilt
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        items = list(value)
        kind = rng.randrange(10)
        if kind == 0:
            del items[at]
        elif kind == 1:
            items = items * rng.choice([2, 500])
        else:
            items[at] = _spoil_value(rng, items[at])
        return items
    return rng.choice(
        [
            None, True, False, [], {}, [[]], {"a": 1}, [value], {"": value},
            rng.choice(_NUMBERS), rng.choice(_TEXTS), rng.choice(_NUMBERS), rng.choice(_TEXTS),
            [0] * 3000, value,
        ]
    )  # fmt: skip


def _spoilt_json(rng: random.Random, value: Json) -> bytes:
    text = json.dumps(value)
    kind = rng.randrange(4)
    if kind == 0:
        return spoilt_bytes(rng, text.encode())
    if kind == 1:  # a value that json.dumps would not write
        at = rng.choice([i for i, c in enumerate(text) if c in ":,["] or [0])
        return (text[: at + 1] + rng.choice(_RAW) + text[at + 1 :]).encode("utf-8", "replace")
    if kind == 2:
        return text.encode(rng.choice(["utf-16", "utf-8-sig", "utf-32"]))
    return text.replace("{", '{"name": 1, ', rng.choice([1, 5])).encode()


def _break_manifest(rng: random.Random, files: Files, manifest: dict[str, Json]) -> None:
    changed = _spoil_value(rng, copy.deepcopy(manifest))
    if isinstance(changed, dict):
        manifest.clear()
        manifest.update(changed)


def _break_json_file(name: str) -> Callable[[random.Random, Files, dict[str, Json]], None]:
    def spoil(rng: random.Random, files: Files, manifest: dict[str, Json]) -> None:
        try:
            value = json.loads(files.get(name, b""))
        except (ValueError, RecursionError):
            return
        changed = _spoil_value(rng, value)
        if name == "golden.json" and rng.random() < 0.2:
            changed = {"texts": [{"text": "a", "ids": golden_ids("a"), "vector": changed}]}
        plain = rng.random() < 0.8
        files[name] = json.dumps(changed).encode() if plain else _spoilt_json(rng, changed)

    return spoil


def _break_bytes(rng: random.Random, files: Files, manifest: dict[str, Json]) -> None:
    name = rng.choice([name for name in files if name != "encoder.onnx"] or ["golden.json"])
    files.setdefault(name, b"")
    files[name] = spoilt_bytes(rng, files[name])


def _break_adapter(rng: random.Random, files: Files, manifest: dict[str, Json]) -> None:
    data = files.get("adapter.safetensors", b"")
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        return
    changed = _spoil_value(rng, header)
    text = json.dumps(changed).encode() if rng.random() < 0.8 else _spoilt_json(rng, changed)
    said = len(text) if rng.random() < 0.9 else rng.choice([0, 2**63, 2**64 - 1, len(text) + 1])
    files["adapter.safetensors"] = said.to_bytes(8, "little") + text + data[8 + length :]


def _break_tokenizer(rng: random.Random, files: Files, manifest: dict[str, Json]) -> None:
    name = "tokenizer.model" if "tokenizer.model" in files else "tokenizer.json"
    if name == "tokenizer.json":
        _break_json_file(name)(rng, files, manifest)
    else:
        files[name] = spoilt_bytes(rng, files.get(name, b""))


def _drop_file(rng: random.Random, files: Files, manifest: dict[str, Json]) -> None:
    if files:
        del files[rng.choice(list(files))]


def _swap_files(rng: random.Random, files: Files, manifest: dict[str, Json]) -> None:
    """One file's bytes under another's name."""
    if files:
        files[rng.choice(list(files))] = files[rng.choice(list(files))]


_WAYS: list[Callable[[random.Random, Files, dict[str, Json]], None]] = [
    _break_manifest,
    _break_manifest,
    _break_json_file("golden.json"),
    _break_tokenizer,
    _break_tokenizer,
    _break_adapter,
    _break_bytes,
    _drop_file,
    _swap_files,
]


def _zipped(rng: random.Random, files: Files, path: Path) -> Path:
    buffer = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED] * 5 + [zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    data = buffer.getvalue()
    for _ in range(rng.choice([0, 1, 2])):
        if rng.random() < 0.5:  # where the records are
            at = data.rfind(b"PK\1\2", 0, rng.randrange(len(data) - 600, len(data)))
            at = max(at, 0) + rng.randrange(46)
            data = data[:at] + rng.choice([b"\0", b"\xff", rng.randbytes(1)]) + data[at + 1 :]
        else:
            data = spoilt_bytes(rng, data)
    path.write_bytes(data)
    return path


def broken_model(seed: int) -> bytes:
    """The bytes of ``encoder.onnx``, spoilt; to be opened in a process that may crash."""
    rng = random.Random(seed)
    data = encoder_onnx()
    for _ in range(rng.choice([1, 1, 2, 4])):
        data = spoilt_bytes(rng, data)
    return data


def broken_release(seed: int, release: bytes) -> str:
    """The class of the error that the broken ``release`` of ``seed`` gives; empty where it is whole
    by chance."""
    rng = random.Random(seed)
    files = {"adapter.safetensors": release}
    if rng.random() < 0.5:
        _break_adapter(rng, files, {})
    else:
        files["adapter.safetensors"] = spoilt_bytes(rng, release)
    if files["adapter.safetensors"] == release:
        return ""
    try:
        parse_adapter(files["adapter.safetensors"])
    except PocketQueryError as error:
        return type(error).__name__
    return "sound"


def main(first: int, count: int) -> int:
    """Run ``count`` seeds; 1 where one of them escaped."""
    escaped, outcomes = 0, dict[str, int]()
    for seed in range(first, first + count):
        folder = Path(tempfile.mkdtemp(prefix="hostile-"))
        try:
            path = broken_bundle(seed, folder)
            tracemalloc.start()
            found = outcome(path)
            peak = tracemalloc.get_traced_memory()[1]
            if peak > MOST_BYTES:
                found = f"took {peak} bytes"
                escaped += 1
                print(f"seed {seed} {found}", flush=True)
            outcomes[found] = outcomes.get(found, 0) + 1
        except Exception:
            escaped += 1
            print(f"seed {seed} escaped:\n{traceback.format_exc()}", flush=True)
        finally:
            tracemalloc.stop()
            shutil.rmtree(folder)
    print(json.dumps({"cases": count, "escaped": escaped, "outcomes": outcomes}))
    return int(escaped > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
