from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, SignatureError
from pocketquery.sdk.index.builder import create_index
from tests.sdk.tiny_bundle import DIMENSION, DOCUMENTS, SPACE_ID, write_tiny_index

pytest.importorskip("cryptography")  # whoever signs needs it

PRIVATE = bytes(range(32))
PUBLIC = public_key_of(PRIVATE)
OTHER = public_key_of(b"\x07" * 32)
NEW = sdk.Document("new", "The new one.", {})
NOT_MADE_OVER = r"not made over this index\.json"
JOURNAL = "documents.sqlite-journal"
VECTOR = np.ones((1, DIMENSION), np.float32)


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    return write_tiny_index(tmp_path / "index", signing_key=PRIVATE)


def test_a_signed_index_opens_with_its_key_and_with_none(signed: Path) -> None:
    for key in (PUBLIC, PUBLIC.hex(), None):
        with sdk.open_index(signed, public_key=key) as index:
            assert len(index) == len(DOCUMENTS)
            assert index.search("sea", mode="lexical")[0].id == "sea"
    report = sdk.verify(signed, public_key=PUBLIC)
    assert (report.signed_by, report.claimed_key_id) == (key_id(PUBLIC), key_id(PUBLIC))
    assert sdk.verify(signed).signed_by is None
    assert sdk.verify(signed).claimed_key_id == key_id(PUBLIC)


def test_an_unsigned_index_is_as_it_was_and_refused_with_a_key(tmp_path: Path) -> None:
    path = write_tiny_index(tmp_path / "index")
    assert not (path / "signature").exists()
    assert b"signature" not in (path / "index.json").read_bytes()
    for opening in (sdk.open_index, sdk.verify):
        with pytest.raises(
            SignatureError, match=f"no signature, expected one by .*{key_id(PUBLIC)}"
        ):
            opening(path, public_key=PUBLIC)


@pytest.mark.parametrize(
    ("file", "change", "key", "error", "message"),
    [
        # It would be played back into the database after that was compared.
        (JOURNAL, lambda data: b"", PUBLIC, CorruptArtifactError, "sqlite-journal is beside"),
        ("signature", lambda data: data, OTHER, SignatureError, NOT_MADE_OVER + " by the key"),
        ("signature", lambda data: None, None, SignatureError, "says it is signed by the key"),
        ("index.json", lambda data: data.replace(b": 16", b": 17"), PUBLIC, SignatureError,
         NOT_MADE_OVER),
    ],
)  # fmt: skip
def test_what_is_not_as_it_was_signed_is_refused(
    signed: Path,
    file: str,
    change: Callable[[bytes], bytes | None],
    key: bytes | None,
    error: type[Exception],
    message: str,
) -> None:
    path = signed / file
    data = change(path.read_bytes() if path.exists() else b"")
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    for opening in (sdk.open_index, sdk.verify):
        with pytest.raises(error, match=message):
            opening(signed, public_key=key)
    if file == JOURNAL:
        sdk.open_index(signed).close()


def test_a_changed_byte_of_any_file_is_refused_before_it_is_used(signed: Path) -> None:
    for file in sorted(signed.iterdir()):
        if file.name in ("index.json", "signature"):
            continue
        data = bytearray(file.read_bytes())
        for at in range(0, len(data), max(1, len(data) // 40)):
            changed = bytearray(data)
            changed[at] ^= 1
            file.write_bytes(changed)
            with pytest.raises(CorruptArtifactError, match=f"{file.name} was changed"):
                sdk.open_index(signed, public_key=PUBLIC)
        file.write_bytes(data)
    sdk.open_index(signed, public_key=PUBLIC).close()


def test_what_is_changed_here_is_no_longer_the_publishers(signed: Path) -> None:
    with sdk.open_index(signed, writable=True) as index:
        index.add([NEW], VECTOR)
        with pytest.raises(SignatureError, match="then changed on this device"):
            sdk.open_index(signed, public_key=PUBLIC)  # not sealed yet
    for opening in (sdk.open_index, sdk.verify):
        with pytest.raises(SignatureError, match="signed and then changed on this device"):
            opening(signed, public_key=PUBLIC)
    with sdk.open_index(signed) as index:
        assert index.get("new") is not None
    assert sdk.verify(signed).claimed_key_id is None


def test_opened_but_not_changed_it_is_the_publishers_yet(signed: Path) -> None:
    before = (signed / "index.json").read_bytes()
    sdk.open_index(signed, writable=True).close()
    assert (signed / "index.json").read_bytes() == before
    sdk.open_index(signed, public_key=PUBLIC).close()


def add_the_new_one(path: Path) -> None:
    with sdk.open_index(path, writable=True) as writer:
        writer.add([NEW], VECTOR)


@pytest.mark.parametrize(
    ("change", "message"),
    [(add_the_new_one, "changed on this device"), (write_tiny_index, "found no signature")],
)
def test_a_change_while_it_is_open_with_a_key_is_not_taken_up(
    signed: Path, change: Callable[[Path], object], message: str
) -> None:
    with sdk.open_index(signed, public_key=PUBLIC) as index:
        change(signed)
        with pytest.raises(SignatureError, match="changed or replaced since its signature"):
            index.search("sea", mode="lexical")
    with pytest.raises(SignatureError, match=message):
        sdk.open_index(signed, public_key=PUBLIC)


def test_a_key_for_an_index_to_be_written_is_refused(signed: Path) -> None:
    with pytest.raises(InvalidInputError, match="is to be written"):
        sdk.open_index(signed, writable=True, public_key=PUBLIC)


def test_a_key_that_is_none_is_refused_before_the_work(tmp_path: Path, signed: Path) -> None:
    with pytest.raises(InvalidInputError, match="neither 64 hexadecimal"):
        create_index(tmp_path / "i", space_id=SPACE_ID, dimension=4, signing_key="absent.pem")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]
    with pytest.raises(InvalidInputError, match="neither 64 hexadecimal"):
        sdk.open_index(signed, public_key="")


def test_a_build_that_goes_on_unsigned_leaves_no_signature(tmp_path: Path, signed: Path) -> None:
    building = tmp_path / ".index.building"
    shutil.copytree(signed, building)  # as a build leaves it that failed as it was published
    builder = create_index(signed, space_id=SPACE_ID, dimension=DIMENSION, resume=True)
    assert len(builder) == len(DOCUMENTS)
    builder.close()
    assert not (signed / "signature").exists()
    assert sdk.verify(signed).claimed_key_id is None
