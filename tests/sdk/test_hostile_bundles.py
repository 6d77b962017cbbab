"""Whatever a bundle holds, opening it gives a result or an error of the package, in bounded memory.

The seeds named here are cases that once escaped, or that stand for one kind of damage each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.writing import file_entries
from pocketquery.sdk.errors import CorruptArtifactError, PocketQueryError
from tests.sdk.hostile_bundles import MOST_BYTES, broken_bundle, broken_release, outcome
from tests.sdk.tiny_bundle import golden_ids, tiny_files, tiny_manifest, trained_adapter

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(120))
def test_a_broken_bundle_is_refused_or_sound(seed: int, tmp_path: Path) -> None:
    path = broken_bundle(seed, tmp_path)
    tracemalloc.start()
    try:
        assert outcome(path)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@given(st.integers(10_000, 1 << 32))
@settings(max_examples=60)
def test_any_broken_bundle(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    assert outcome(broken_bundle(seed, tmp_path_factory.mktemp("hostile")))


RELEASE = pack_adapter(trained_adapter(), manifest=tiny_manifest(tiny_files()), version="2")


@given(st.integers(0, 1 << 32))
@settings(max_examples=300)
def test_any_broken_release(seed: int) -> None:
    assert broken_release(seed, RELEASE) in ("CorruptArtifactError", "UnsupportedVersionError", "")


def with_files(folder: Path, **changes: bytes) -> Path:
    """A bundle with these files instead, hashes that fit them."""
    files = tiny_files() | {name.replace("_", "."): data for name, data in changes.items()}
    folder.mkdir()
    manifest = tiny_manifest(tiny_files()).to_json()
    content = json.loads(manifest)
    content["files"] = {
        name: {"sha256": entry.sha256, "bytes": entry.bytes}
        for name, entry in file_entries(files).items()
    }
    for name, data in (files | {"manifest.json": json.dumps(content).encode()}).items():
        (folder / name).write_bytes(data)
    return folder


def golden(**changes: object) -> bytes:
    entry = {"text": "a", "ids": golden_ids("a"), "vector": [0.25] * 16} | changes
    return json.dumps({"texts": [entry]}).encode()


def tokenizer(**changes: object) -> bytes:
    content = json.loads(tiny_files()["tokenizer.json"])
    content["model"] |= changes
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    "files",
    [
        {"golden_json": golden(vector=[10**400])},  # OverflowError, once
        {"golden_json": golden(vector=[1e308] * 16)},  # a warning of numpy's
        {"golden_json": golden(text="\ud800")},
        {"golden_json": golden(ids=[2**70])},
        {"tokenizer_json": tokenizer(vocab={"[UNK]": 2**70})},  # OverflowError, once
        {"tokenizer_json": tokenizer(vocab={"[UNK]": 10**400})},
        {"tokenizer_json": tokenizer(max_input_chars_per_word=10**9)},
        {"tokenizer_json": tokenizer(max_input_chars_per_word=-1)},
        {"tokenizer_json": b"[" * 100_000},
        {"tokenizer_json": b'{"model": ' * 900 + b"1" + b"}" * 900},
    ],
)
def test_cases_that_were_found(tmp_path: Path, files: dict[str, bytes]) -> None:
    path = with_files(tmp_path / "b", **files)
    with pytest.raises(PocketQueryError):
        sdk.verify(path)


def test_a_release_of_more_digits_than_python_reads_is_refused(tiny_bundle: Path) -> None:
    length = int.from_bytes(RELEASE[:8], "little")
    header = json.loads(RELEASE[8 : 8 + length])
    header["__metadata__"]["format_version"] = "9" * 5000
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + RELEASE[8 + length :]
    with pytest.raises(CorruptArtifactError):
        sdk.load(tiny_bundle, adapter=data)


MODELS = """
import os, signal, sys
from collections import Counter
import onnxruntime  # once, and not in each child
from tests.sdk.hostile_bundles import broken_model
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.graph import Graph
from tests.kills import in_a_fork

REFUSED, SOUND = 1, 0
crashed, seen = [], Counter()


def embedded(model):
    # Whether it is refused or a graph that works; where it crashes, this process is gone.
    signal.alarm(60)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        graph = Graph(model, adapter={}, dimension=16, max_length=24, num_threads=1, source="x")
        graph.embed([2, 5, 3])
    except CorruptArtifactError:
        return REFUSED
    except BaseException as error:
        print(type(error), error, flush=True)
        raise
    return SOUND


for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
    ended = in_a_fork(lambda: embedded(broken_model(seed)))
    if ended is None:
        crashed.append(seed)
    seen[ended] += 1
print(f"refused {seen[REFUSED]}, sound {seen[SOUND]}, crashed {crashed}")
"""


def spoilt_models(first: int, count: int) -> str:
    """Each in a process of its own: what onnxruntime does with damage the hashes let through."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    result = subprocess.run(
        [sys.executable, "-c", MODELS, str(first), str(count)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_spoilt_model_gives_an_error_of_ours() -> None:
    assert spoilt_models(0, 40).endswith("crashed []")


@pytest.mark.very_slow
def test_many_broken_bundles() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.sdk.hostile_bundles", "100000", "1500"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]


@pytest.mark.very_slow
def test_many_spoilt_models() -> None:
    assert spoilt_models(1000, 300).endswith("crashed []")
