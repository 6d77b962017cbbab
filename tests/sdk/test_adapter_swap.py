"""Swapping the adapter of a running encoder."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
    SignatureError,
)
from tests.sdk.tiny_bundle import (
    DOWN,
    PRIVATE,
    PUBLIC,
    UP,
    default_adapter,
    reference_vector,
    tiny_files,
    tiny_manifest,
    trained_adapter,
    write_tiny_bundle,
)

TEXTS = ["how do plants make sugar", "the sea", "", "Zürich 1920", "make light"] * 4


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "tiny"
    return write_tiny_bundle(folder, adapter=default_adapter(), signing_key=PRIVATE)


def release(seed: int, **options: Any) -> bytes:
    manifest = tiny_manifest(tiny_files(default_adapter()))
    return pack_adapter(trained_adapter(seed), manifest=manifest, version=f"{seed}", **options)


def test_a_bundle_is_loaded_with_a_release(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "adapter-2.safetensors"
    path.write_bytes(release(2))
    plain = sdk.load(bundle)
    assert (plain.version, sdk.load(bundle, adapter=path).version) == ("1", "2")
    rounded = {n: v.astype(np.float16).astype(np.float32) for n, v in trained_adapter(2).items()}
    expected = reference_vector(plain.tokenize("the sea"), rounded)
    for source in (path, str(path), release(2), rounded):
        encoder = sdk.load(bundle, adapter=source)
        np.testing.assert_allclose(encoder.encode("the sea"), expected, atol=1e-6)
        assert np.abs(encoder.encode("the sea") - plain.encode("the sea")).max() > 0.1


def test_after_a_swap_every_bit_is_that_of_a_fresh_load(bundle: Path) -> None:
    encoder = sdk.load(bundle)
    shipped = encoder.encode(TEXTS)
    for seed in (2, 3, 2):
        encoder.swap_adapter(release(seed))
        fresh = sdk.load(bundle, adapter=release(seed))
        assert np.array_equal(encoder.encode(TEXTS), fresh.encode(TEXTS))
        assert np.array_equal(encoder.encode_query("the sea"), fresh.encode_query("the sea"))
        assert encoder.version == fresh.version == str(seed)
        assert all(np.array_equal(encoder.adapter[n], fresh.adapter[n]) for n in (UP, DOWN))
    encoder.swap_adapter(None)
    assert encoder.version == "1"
    assert np.array_equal(encoder.encode(TEXTS), shipped)


def test_a_bundle_loaded_with_a_release_goes_back_to_its_own(bundle: Path) -> None:
    encoder = sdk.load(bundle, adapter=release(2))
    encoder.swap_adapter(None)
    assert np.array_equal(encoder.encode(TEXTS), sdk.load(bundle).encode(TEXTS))


def test_tensors_of_ones_own_are_a_local_version(bundle: Path) -> None:
    encoder = sdk.load(bundle, adapter=trained_adapter(5))
    assert encoder.version == "1+local"
    found = encoder.adapter
    for name, value in trained_adapter(5).items():
        assert np.array_equal(found[name], value)
        found[name][:] = np.nan  # copies
    assert np.isfinite(encoder.encode(TEXTS)).all()
    assert sdk.load(bundle).adapter.keys() == default_adapter().keys()


def test_the_key_of_the_bundle_counts_for_releases_too(bundle: Path) -> None:
    signed = release(2, signing_key=PRIVATE)
    assert sdk.load(bundle, adapter=signed, public_key=PUBLIC).version == "2"
    with pytest.raises(SignatureError, match="adapter is not signed"):
        sdk.load(bundle, adapter=release(2), public_key=PUBLIC)
    encoder = sdk.load(bundle, public_key=PUBLIC)
    with pytest.raises(SignatureError, match="adapter is not signed"):
        encoder.swap_adapter(release(2))
    encoder.swap_adapter(signed)
    encoder.swap_adapter(trained_adapter(3))  # memory of one's own
    unkeyed = sdk.load(bundle)
    with pytest.raises(SignatureError, match="adapter is not signed"):
        unkeyed.swap_adapter(release(2), public_key=PUBLIC)


@pytest.mark.parametrize(
    ("adapter", "error", "message"),
    [
        ("absent", ArtifactNotFoundError, "found no adapter release there"),
        (release(2)[:-1], CorruptArtifactError, "truncated"),
        ({UP: trained_adapter()[UP]}, CorruptArtifactError, "lacks the tensors adapter.*down"),
        (trained_adapter() | {"adapter.x": np.zeros(3, np.float32)}, CorruptArtifactError, "'ada"),
        (trained_adapter() | {UP: np.zeros((3, 2), np.float32)}, CorruptArtifactError, "shape"),
        (trained_adapter() | {UP: np.zeros((16, 2))}, CorruptArtifactError, "float64"),
        (
            trained_adapter() | {UP: np.full((16, 2), np.nan, np.float32)},
            CorruptArtifactError,
            "NaN",
        ),
        (7, InvalidInputError, "adapter is a int"),
    ],
)
def test_a_refused_adapter_leaves_the_one_that_was(
    bundle: Path, adapter: Any, error: type[PocketQueryError], message: str
) -> None:
    with pytest.raises(error, match=message):
        sdk.load(bundle, adapter=adapter)
    encoder = sdk.load(bundle, adapter=release(4))
    before = encoder.encode(TEXTS)
    with pytest.raises(error, match=message):
        encoder.swap_adapter(adapter)
    assert encoder.version == "4"
    assert np.array_equal(encoder.encode(TEXTS), before)


def test_a_release_with_shapes_of_another_rank_is_refused(bundle: Path) -> None:
    manifest = tiny_manifest(tiny_files(default_adapter()))
    wide = {DOWN: np.zeros((3, 16), np.float32), UP: np.zeros((16, 3), np.float32)}
    data = pack_adapter(wide, manifest=manifest, version="2")
    with pytest.raises(CorruptArtifactError, match=r"has shape \(\d+, \d+\), the encoder takes"):
        sdk.load(bundle, adapter=data)


def test_the_bundle_may_be_gone_when_the_adapter_is_swapped(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "b", adapter=default_adapter())
    encoder = sdk.load(path)
    for file in path.iterdir():
        file.unlink()
    encoder.swap_adapter(release(2))
    assert encoder.version == "2"


def test_threads_that_encode_see_one_adapter_or_the_other_never_a_mix(bundle: Path) -> None:
    encoder = sdk.load(bundle, adapter=release(2))
    whole = [sdk.load(bundle, adapter=release(seed)).encode(TEXTS).tobytes() for seed in (2, 3)]
    stop = threading.Event()
    seen: list[set[int]] = []
    torn: list[str] = []

    def encode() -> None:
        mine: set[int] = set()
        while not stop.is_set():
            found = encoder.encode(TEXTS).tobytes()
            if found not in whole:
                torn.append("a mix")
                return
            mine.add(whole.index(found))
        seen.append(mine)

    threads = [threading.Thread(target=encode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(40):
        encoder.swap_adapter(release(3 - turn % 2))
    stop.set()
    for thread in threads:
        thread.join()
    assert torn == []
    assert set().union(*seen) == {0, 1}


def test_swaps_from_many_threads_leave_one_of_them(bundle: Path) -> None:
    encoder = sdk.load(bundle)
    threads = [
        threading.Thread(target=encoder.swap_adapter, args=(release(seed),)) for seed in range(2, 8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh = sdk.load(bundle, adapter=release(int(encoder.version)))
    assert np.array_equal(encoder.encode(TEXTS), fresh.encode(TEXTS))


def test_the_old_session_is_released(bundle: Path) -> None:
    encoder = sdk.load(bundle)
    sessions = []
    for seed in range(2, 12):
        sessions.append(weakref.ref(encoder._serving.graph._session))
        encoder.swap_adapter(release(seed))
    gc.collect()
    assert [session() for session in sessions] == [None] * 10
