"""A device that asks for a publisher's key goes on asking, delta after delta."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.errors import (
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
    SignatureError,
)
from pocketquery.sdk.index.index import create_index
from pocketquery.sdk.index.info import DATABASE
from tests.sdk.built_indexes import assert_same_hits, build
from tests.sdk.index_damage import LOOKUPS, execute, mislead, reseal, snapshot
from tests.sdk.small_index import DIMENSION, SPACE, make_documents

pytest.importorskip("cryptography")  # whoever signs needs it

PRIVATE, OTHER_PRIVATE = bytes(range(32)), b"\7" * 32
PUBLIC, OTHER = public_key_of(PRIVATE), public_key_of(OTHER_PRIVATE)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """An index as a device has it, and in the same folder two later versions and their deltas."""
    documents = make_documents(50)
    for number, version in enumerate((documents[5:], documents[:40], documents)):
        build(tmp_path / str(number), version, signing_key=PRIVATE)
    for number in (1, 2):
        places = (tmp_path / str(number - 1), tmp_path / str(number), tmp_path / f"{number}.delta")
        sdk.make_delta(*places, signing_key=PRIVATE)
    return Path(shutil.copytree(tmp_path / "0", tmp_path / "device"))


def test_an_index_keeps_its_publishers_signature(device: Path) -> None:
    for number in (1, 2):
        done = sdk.apply_delta(device.parent / f"{number}.delta", device, public_key=PUBLIC)
        assert (done.signed_by, done.was_there) == (key_id(PUBLIC), False)
        assert_same_hits(device, device.parent / str(number), ["the river number 4"])
        report = sdk.verify(device, public_key=PUBLIC)
        assert report.signed_by == report.claimed_key_id == key_id(PUBLIC)
        with pytest.raises(SignatureError, match=r"not made over this delta\.json"):
            sdk.open_index(device, public_key=OTHER)
    assert sdk.verify(device).claimed_key_id == key_id(PUBLIC)
    again = sdk.apply_delta(device.parent / "2.delta", device, public_key=PUBLIC)
    assert again.was_there


def test_without_a_key_the_signature_goes_along(device: Path) -> None:
    sdk.apply_delta(device.parent / "1.delta", device)
    sdk.open_index(device, public_key=PUBLIC).close()


def test_an_unsigned_delta_of_a_signed_index_is_refused(device: Path, tmp_path: Path) -> None:
    build(tmp_path / "plain", make_documents(10))
    sdk.make_delta(tmp_path / "0", tmp_path / "plain", tmp_path / "plain.delta")
    before = snapshot(device)
    with pytest.raises(SignatureError, match="found no signature"):
        sdk.apply_delta(tmp_path / "plain.delta", device, public_key=PUBLIC)
    with pytest.raises(SignatureError, match="is not signed; expected a signed delta"):
        sdk.apply_delta(tmp_path / "plain.delta", device)
    assert snapshot(device) == before


def test_another_key_is_refused(device: Path, tmp_path: Path) -> None:
    build(tmp_path / "theirs", make_documents(10), signing_key=OTHER_PRIVATE)
    sdk.make_delta(
        tmp_path / "0", tmp_path / "theirs", tmp_path / "delta", signing_key=OTHER_PRIVATE
    )
    before = snapshot(device)
    for key in (PUBLIC, OTHER):  # the delta's, the index's
        with pytest.raises(SignatureError, match="not made over this"):
            sdk.apply_delta(tmp_path / "delta", device, public_key=key)
    assert snapshot(device) == before
    sdk.apply_delta(tmp_path / "delta", device)  # who asks for no key gets what comes
    with pytest.raises(SignatureError):
        sdk.open_index(device, public_key=PUBLIC)


def test_a_signed_index_needs_a_signed_delta(device: Path, tmp_path: Path) -> None:
    for key in (None, OTHER_PRIVATE):
        with pytest.raises(InvalidInputError, match=r"is signed by the key .* expected the same"):
            sdk.make_delta(tmp_path / "0", tmp_path / "1", tmp_path / "no", signing_key=key)
    assert not (tmp_path / "no").exists()


def test_what_was_changed_here_is_no_longer_the_publishers(device: Path) -> None:
    sdk.apply_delta(device.parent / "1.delta", device, public_key=PUBLIC)
    with sdk.open_index(device, writable=True) as index:
        index.add([sdk.Document("new", "x")], np.ones((1, DIMENSION)))
        with pytest.raises(SignatureError, match="then changed on this device"):
            sdk.open_index(device, public_key=PUBLIC)
    for opening in (sdk.open_index, sdk.verify):
        with pytest.raises(SignatureError, match="then changed on this device"):
            opening(device, public_key=PUBLIC)
    sdk.open_index(device).close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE texts SET text = text || '.' WHERE row = 3",
        "UPDATE documents SET metadata = '{}' WHERE row = 3",
        "UPDATE documents SET id = 'x' WHERE row = 3",
        "UPDATE postings SET counts = x'0200' WHERE term = '1903'",
        "UPDATE segments SET lengths = zeroblob(length(lengths))",
        "DELETE FROM postings WHERE term = 'river'",
        "DELETE FROM documents WHERE row = 3",
        "INSERT INTO tombstones VALUES (3)",
        "UPDATE meta SET value = '7' WHERE key = 'generation'",
    ],
)
def test_tampering_is_refused_whatever_the_files_hashes_say(device: Path, sql: str) -> None:
    sdk.apply_delta(device.parent / "1.delta", device, public_key=PUBLIC)
    before = snapshot(device)
    execute(device, sql)
    reseal(device)
    assert snapshot(device) != before
    with pytest.raises(PocketQueryError):
        sdk.open_index(device, public_key=PUBLIC)


@pytest.mark.parametrize("name", LOOKUPS)
def test_what_leads_from_an_id_to_its_document_is_checked(device: Path, name: str) -> None:
    """No row of a table is another than the publisher's, so that the contents' hash is right."""
    sdk.apply_delta(device.parent / "1.delta", device, public_key=PUBLIC)
    with sdk.open_index(device, public_key=PUBLIC) as index:
        assert index.get("doc-8") is not None
    mislead(device, name, ("doc-3", "doc-8"))
    reseal(device)
    for opening in (sdk.open_index, sdk.verify):
        with pytest.raises(CorruptArtifactError, match=r"is damaged: .*sqlite_autoindex_documents"):
            opening(device, public_key=PUBLIC)


def answers(index: sdk.Index) -> list[object]:
    """What an index says, on every way to its documents."""
    ids = [document.id for document in make_documents(50)]
    found: list[object] = [index.get(one) for one in [*ids, "ghost"]]
    found += [len(index), list(index.documents())]
    for text in ("the river number 4", "castle", "painted 1903"):
        found.append(index.search(text, 50, mode="lexical"))
        found.append(index.search(text, 50, mode="lexical", filter={"year": {"$gte": 1905}}))
    return found


def refused_or_right(device: Path, seeds: Iterable[int]) -> int:
    """How many changes of bytes were refused; the others changed no answer."""
    with sdk.open_index(device, public_key=PUBLIC) as index:
        expected = answers(index)
    path = device / DATABASE
    sound, refused = path.read_bytes(), 0
    for seed in seeds:
        random = Random(seed)
        data = bytearray(sound)
        page = 4096 * random.randrange(len(data) // 4096)
        for _ in range(random.choice((1, 1, 2, 4))):
            at = page + random.choice((random.randrange(16), random.randrange(4096)))
            data[at] = random.choice((data[at] ^ 1 << random.randrange(8), random.randrange(256)))
        path.write_bytes(data)
        reseal(device)
        try:
            with sdk.open_index(device, public_key=PUBLIC) as index:
                assert answers(index) == expected, seed
        except PocketQueryError:
            refused += 1
    return refused


def test_changed_bytes_are_refused_or_change_no_answer(device: Path) -> None:
    sdk.apply_delta(device.parent / "1.delta", device, public_key=PUBLIC)
    assert refused_or_right(device, range(30)) > 5


@pytest.mark.slow
def test_many_changed_bytes_are_refused_or_change_no_answer(device: Path) -> None:
    sdk.apply_delta(device.parent / "1.delta", device, public_key=PUBLIC)
    assert refused_or_right(device, range(1000, 3000)) > 500


def test_a_vector_that_was_changed_is_noticed(device: Path) -> None:
    sdk.apply_delta(device.parent / "1.delta", device, public_key=PUBLIC)
    path = device / "vectors-0.u8"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    reseal(device)
    with pytest.raises(CorruptArtifactError, match=r"which delta\.json names"):
        sdk.open_index(device, public_key=PUBLIC)


def test_a_signature_that_was_taken_away_is_noticed(device: Path) -> None:
    sdk.apply_delta(device.parent / "1.delta", device)
    kept = snapshot(device)
    for name in ("signature", "delta.json"):
        (device / name).unlink()
        with pytest.raises(SignatureError):
            sdk.open_index(device, public_key=PUBLIC)
        (device / name).write_bytes(kept[name])
    (device / "signature").unlink()
    with pytest.raises(SignatureError, match="says it is signed"):
        sdk.open_index(device)


def test_an_index_built_in_its_place_has_no_delta(device: Path) -> None:
    sdk.apply_delta(device.parent / "1.delta", device)
    shutil.copytree(device, device.parent / ".device.building")  # of one that was killed
    with create_index(device, space_id=SPACE, dimension=DIMENSION, resume=True):
        pass
    assert {one.name for one in device.iterdir()} == {
        "index.json",
        "documents.sqlite",
        "vectors-0.u8",
    }
